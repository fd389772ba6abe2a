//===- AttentionProblem.h - an attention with its neighbours, for any schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ATTENTIONPROBLEM_H
#define KIMI_PASSES_KIMITOTILE_ATTENTIONPROBLEM_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/KimiToTile/ScheduleMemo.h"
#include <string>

namespace kimi {

/// What an attention kernel reads and writes, on the host. Operands without a layout are copied first.
struct AttentionProblem {
  /// With `fuseAppends` the keys and values may be those of two cache_appends, which the kernel does itself.
  AttentionProblem(HostContext &context, AttentionOp op, bool fuseAppends);

  /// `result` takes the place of the attention (and of a transpose that is its only user); appends that were taken in
  /// are erased.
  void replace(HostContext &context, mlir::Value result);

  /// What `replace` of this problem would erase, and what decides how its launches look.
  static ScheduleGroup group(HostContext &context, AttentionOp op, bool fuseAppends);

  AttentionOp op;
  mlir::Value mask;            // additive; null without one
  mlir::RankedTensorType type; // of the result as it is stored
  bool tokensFirst = false;    // stored as [B, T, H, D]
  mlir::linalg::TransposeOp transpose;
  mlir::Value keys, values;             // rows: all of them, or this step's where the kernel appends
  CacheAppendOp keyAppend, valueAppend; // null where it does not
  SymbolicDim past = SymbolicDim(0);    // rows in the state before this step
  int64_t depth, width;                 // channels of q and k, of v
  bool valuesInKeys = false;            // a value is the first channels of its key (latent attention)
};

/// The transpose of `value` to [B, T, H, D], if that is all that becomes of it; through `casts` of extents.
mlir::linalg::TransposeOp tokensFirstUse(mlir::Value value, llvm::SmallVectorImpl<mlir::Operation *> &casts);

/// "attention_d64_v32_causal_mask".
std::string attentionStem(AttentionOp op);

/// Whether each value of `op` is, in memory, the first channels of its key: attention over latents.
bool areValuesInKeys(AttentionOp op);

/// Why no schedule takes `op`: channels that are not known, element types; empty where one can.
std::string whyNotAttention(AttentionOp op);

/// A boolean mask as what is added to the scores, 0 or -inf; another mask as it is.
mlir::Value additiveMask(HostContext &context, AttentionOp op);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ATTENTIONPROBLEM_H
