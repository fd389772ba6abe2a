//===- Plan.h - an entry of a module, ready to be run many times ------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_PLAN_H
#define KIMI_RUNTIME_PLAN_H

#include "runtime/ScalarCode.h"

#include <string>
#include <vector>

namespace kimi {

/// An argument of a launch. A view has a buffer, a scalar has -1. The argument's words start at `word` of the entry's
/// words: pointer, sizes, strides; or the value.
struct ArgPlan {
  int32_t buffer;
  uint32_t word;
  int32_t offsetSlot; // elements; of a scalar: its value
  uint32_t rank;
  uint32_t firstSlot; // in Plan::slots: `rank` slots of sizes, then of strides
  uint32_t elementSize;
};

struct LaunchPlan {
  uint32_t firstArg, endArg;
  uint32_t firstWord;
  uint8_t dependence; // of anything that the launch is assembled from
};

/// A rule for an extent of an input: fixed, or equal to that of an earlier input's axis.
struct DimRule {
  uint32_t input, axis;
  int64_t extent;                 // -1: see below
  uint32_t otherInput, otherAxis; // the first place of the same symbol
};

/// What can be known about a verified entry before its inputs are. Immutable, shared by sessions; refers to the table.
struct Plan {
  Plan(const fb::Module &module, const fb::Entry &entry);

  std::string place() const; // "entry 'decode'"
  uint32_t inputCount() const { return entry.inputs() ? entry.inputs()->size() : 0; }
  uint32_t outputCount() const { return entry.outputs() ? entry.outputs()->size() : 0; }

  const fb::Module &module;
  const fb::Entry &entry;
  ScalarCode program;
  std::vector<LaunchPlan> launches;
  std::vector<ArgPlan> args;
  std::vector<int32_t> slots;
  std::vector<DimRule> dimRules;
  uint32_t wordCount = 0;
};

} // namespace kimi

#endif // KIMI_RUNTIME_PLAN_H
