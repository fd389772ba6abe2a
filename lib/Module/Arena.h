//===- Arena.h - which buffers of an entry share memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_ARENA_H
#define KIMI_LIB_MODULE_ARENA_H

#include "lib/Support/SymbolicDim.h"
#include <vector>

namespace kimi {

/// A buffer that is alive from launch `first` to launch `last`, both included.
struct ArenaRequest {
  SymbolicDim bytes;
  int first, last;
};

/// Slots of the arena: `slot[i]` is the slot of request i, `bytes` the size of each slot.
struct ArenaPlan {
  std::vector<int> slot;
  std::vector<SymbolicDim> bytes;
};

/// Requests (in the order of `first`) that are never alive together share slots: first fit among slots of the same
/// size, then among slots whose size is known to be enough or that are known to fit into the request (they grow).
ArenaPlan planArena(const std::vector<ArenaRequest> &requests);

} // namespace kimi

#endif // KIMI_LIB_MODULE_ARENA_H
