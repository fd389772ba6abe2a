//===- DeltaRuleInputs.h - norms and gates that a delta rule's kernel computes itself
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_DELTARULEINPUTS_H
#define KIMI_PASSES_KIMITOTILE_DELTARULEINPUTS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// An operand of a delta rule as what it is computed from, where the rule is its only reader.
struct DeltaRuleInput {
  /// What is read: the operand itself, what is normalised, or null for a formula (which has operands of its own).
  mlir::Value tensor;
  /// The operand's axis of each dim of `tensor`, or of each loop of `formula`.
  llvm::SmallVector<unsigned> axes;
  /// Of the L2 norm over the last axis that makes `tensor` the operand.
  std::optional<float> eps;
  /// The elementwise op that gives the operand's elements, moved.
  mlir::linalg::GenericOp formula;
  /// The ops that the kernel does the work of, from the one that makes the operand to the norm or the formula.
  llvm::SmallVector<mlir::Operation *> makers;
};

/// The operands of a delta rule for a kernel that takes tokens one by one: each element of them is needed once for
/// every part of the value channels, and to write it to memory first would cost a launch that takes as long as all of
/// the kernel's arithmetic.
struct DeltaRuleInputs {
  /// The operands themselves.
  explicit DeltaRuleInputs(DeltaRuleOp op);
  /// What the operands are computed from, through moves of their elements and conversions of their type: L2 norms for q
  /// and k, formulas for the gates. Operands with other readers, or in memory that no view describes, are as they are.
  static DeltaRuleInputs computed(HostContext &context, DeltaRuleOp op);

  /// The ops whose work the kernel does with these: operand by operand, from the first to the last.
  llvm::SmallVector<mlir::Operation *> makers() const;

  DeltaRuleInput q, k, decay, beta, erase, write; ///< tensors of absent gates are null
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_DELTARULEINPUTS_H
