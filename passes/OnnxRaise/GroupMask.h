//===- GroupMask.h - the groups of experts that a router keeps
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_GROUPMASK_H
#define KIMI_PASSES_ONNXRAISE_GROUPMASK_H

#include "passes/OnnxRaise/Raiser.h"
#include <limits>

namespace kimi::onnx {

/// Choice scores that are replaced by a constant in all but the best groups of experts.
struct GroupMask {
  mlir::Value choice; // before the mask: [.., experts]
  NodeOp topk;        // that chooses the groups; null: there are none
  int64_t groups = 1, keep = 1, groupTop = 2;
  double masked = -std::numeric_limits<double>::infinity();
};

/// The constant k of a TopK of the largest values along the last axis; nullopt for another.
std::optional<int64_t> constantTop(const Raiser &raiser, NodeOp topk);

/// Matches `value`: [.., experts] = where(kept group, choice, constant) in whatever way the groups are marked:
/// ScatterElements or OneHot of the chosen groups, comparisons, Not, Expand. What the condition gives for a group that
/// was chosen and for one that was not is computed, not guessed.
std::optional<GroupMask> matchGroupMask(const Raiser &raiser, mlir::Value value);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_GROUPMASK_H
