//===- RowNormKernel.h - norms and softmax of rows as a block program for a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ROWNORMKERNEL_H
#define KIMI_PASSES_KIMITOTILE_ROWNORMKERNEL_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/ScheduleMemo.h"

namespace kimi {

/// A norm or a softmax of the last axis: kimi.l2_norm, rms_norm, gated_rms_norm, layer_norm or softmax, with the
/// elementwise ops around it that its kernel does as well.
struct RowNorm {
  mlir::Operation *op;
  mlir::Value x, gate, gamma, beta; // null where the op has none
  mlir::linalg::GenericOp before;   // computes x alone for the op, all of its operands lying like x; null: none
  mlir::linalg::GenericOp after;    // the only use of the result, which is its only operand; null: none

  explicit RowNorm(mlir::Operation *op);
  static bool handles(mlir::Operation *op);

  int64_t channels() const;
  /// Tensors of rows that the kernel reads: the operands of `before`, or x, then the gate.
  llvm::SmallVector<mlir::Value> rows() const;
  /// What the kernel's result is in the host function.
  mlir::Value result() const;
  /// What the launch, which stands in place of the last of them, is made of: all of it is replaced.
  ScheduleGroup group() const;
};

/// What a block does: its rows lie along one or two dims, the last dim is the channels.
struct RowNormTile {
  int64_t rows, columns, threads, vector, blocksPerSm;

  /// The tile for rows of `channels` elements, the narrowest of `bytes`, of `tensors` tensors; nullopt where a row does
  /// not fit a block.
  static std::optional<RowNormTile> choose(const GpuArch &arch, int64_t channels, int64_t bytes, int64_t tensors);
};

/// Extents that are asked of what `norm`'s launch no longer makes are computed from those of the function's arguments.
void retireExtents(HostContext &context, const RowNorm &norm);

/// Makes a launch of `norm` and of what is around it.
mlir::LogicalResult scheduleRowNorm(HostContext &context, const RowNorm &norm, const RowNormTile &tile);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ROWNORMKERNEL_H
