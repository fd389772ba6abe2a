//===- StateLayout.h - where the states of sequences lie --------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_STATELAYOUT_H
#define KIMI_RUNTIME_STATELAYOUT_H

#include "kimi/kimi.h"
#include "runtime/Device.h"

#include <optional>

namespace kimi {

/// What states are made for.
struct StateSizes {
  int64_t batch = 1, capacity = 0; // sequences, tokens of each
};

/// What `options` ask for, as far as the module allows. Error: KIMI_INVALID_ARGUMENT.
Status chooseSizes(const fb::Module &module, int64_t maxSeq, int64_t batch, StateSizes &out);

/// Bytes of a state made for these sizes; nothing on overflow.
std::optional<int64_t> stateBytes(const fb::State &state, const StateSizes &sizes);

/// Places of all states in one block of memory, and its size. Error: KIMI_OUT_OF_MEMORY where they pass 63 bits.
Status layOutStates(const fb::Module &module, const StateSizes &sizes, std::vector<Extent> &extents, uint64_t &total);

/// What is held of sequences of `length` tokens: the states of fixed size, then, if `growing`, the first `length` rows
/// of those that grow. `host` counts the bytes of a copy without gaps, whatever the capacity; `bytes`: all of it.
std::vector<StateBytes> heldBytes(const fb::Module &module, const StateSizes &sizes, const std::vector<Extent> &extents,
                                  int64_t length, bool growing, uint64_t &bytes);

/// The first state of fixed size, or null.
const fb::State *findFixedState(const fb::Module &module);

} // namespace kimi

#endif // KIMI_RUNTIME_STATELAYOUT_H
