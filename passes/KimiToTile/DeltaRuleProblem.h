//===- DeltaRuleProblem.h - a delta rule and what its kernel does beside it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_DELTARULEPROBLEM_H
#define KIMI_PASSES_KIMITOTILE_DELTARULEPROBLEM_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/KimiToTile/ScheduleMemo.h"

namespace kimi {

/// A kimi.delta_rule with the state that it alone reads and replaces, which its kernel updates in place, and the
/// transpose to [B, T, H, D] that may follow, in whose order the result is written.
struct DeltaRuleProblem {
  /// Copies operands that are reshapes of memory with gaps.
  DeltaRuleProblem(HostContext &context, DeltaRuleOp op);
  explicit DeltaRuleProblem(DeltaRuleOp op) : op(op) { findNeighbours(); }

  bool tokensFirst() const { return transpose != nullptr; }
  /// The result as an argument of the kernel: [B, H, T, Dv], or [B, T, H, Dv] with tokensFirst.
  mlir::Value addResult(HostContext &context, KernelWriter &writer);
  /// `dispatch` gives the result and, where the state is a tensor that is used, the state.
  void replace(HostContext &context, DispatchOp dispatch);

  /// What `replace` of this problem would erase, and what decides how its launches look.
  static ScheduleGroup group(DeltaRuleOp op);

  DeltaRuleOp op;
  StateReadOp read; ///< both null where the states are tensors
  StateWriteOp write;

private:
  void findNeighbours();

  mlir::linalg::TransposeOp transpose;
  llvm::SmallVector<mlir::Operation *> casts; ///< of extents, between the result and its transpose
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_DELTARULEPROBLEM_H
