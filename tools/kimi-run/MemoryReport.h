//===- MemoryReport.h - what a model keeps in memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_MEMORYREPORT_H
#define KIMI_TOOLS_KIMIRUN_MEMORYREPORT_H

#include "tools/kimi-run/Model.h"
#include <iosfwd>

namespace kimi::run {

/// States of one kind: those whose names end alike ("0.memory" and "4.memory").
struct StateKind {
  std::string name;
  int64_t count = 0;
  uint64_t fixedBytes = 0;    ///< Of a sequence.
  uint64_t bytesPerToken = 0; ///< Of a token of a sequence.
};

/// The part of a state's name that says what it is: "past_key_values.3.conv_states.0" gives "conv_states".
std::string kindOf(const std::string &state);
/// The kinds of the module's states, in the order of their first ones.
Status stateKinds(const Model &model, std::vector<StateKind> &out);

/// Prints the bytes of states by kind, of weights and of the arena. Without a session nothing runs and no weight is
/// touched: the arena is then what prefill (of --prefill-tokens tokens, or the capacity) and decode (after --context,
/// at most the capacity) would need. With one it is what its runs have needed. `alone`: nothing else was asked for, so
/// that --json holds this.
Status reportMemory(Model &model, const Options &options, bool alone, std::ostream &out);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_MEMORYREPORT_H
