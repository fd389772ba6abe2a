//===- LinearProblem.h - a fused_linear as matrices, for any schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_LINEARPROBLEM_H
#define KIMI_PASSES_KIMITOTILE_LINEARPROBLEM_H

#include "passes/KimiToTile/KernelWriter.h"
#include "passes/KimiToTile/TileBuilder.h"
#include <string>

namespace kimi {

/// An extra of the epilogue as a matrix: [M|1, N|1].
struct LinearExtra {
  mlir::Value matrix;
  bool perRow, perColumn;
};

/// The operands of a fused_linear as matrices, made before the op.
struct LinearProblem {
  LinearProblem(HostContext &context, FusedLinearOp op);

  FusedLinearOp op;
  mlir::Value x;           // [M, K]
  mlir::Value gamma, beta; // [1, K]; null where there is none
  llvm::SmallVector<LinearExtra> extras;
  int64_t k, n;
  SymbolicDim m;

  bool hasNorm() const { return FusedLinearOp(op).getNorm() != NormKind::none; }
};

/// "linear_768x2304_layer_addf_tanh": the extents, the norm, what the epilogue does.
std::string linearStem(FusedLinearOp op);

/// Why no schedule takes `op`: extents that are not known, element types; empty where one can.
std::string whyNotLinear(FusedLinearOp op);

/// acc = epilogue(fn(acc, tiles...), extras...) in fp32, element by element; a rounding at the end is left to the
/// store. `fn` gets the elements of acc and of `tiles`; without it the epilogue gets acc.
void buildEpilogue(TileBuilder &t, FusedLinearOp op, mlir::Value acc, llvm::ArrayRef<mlir::Value> tiles,
                   llvm::function_ref<mlir::Value(mlir::ValueRange)> fn, llvm::ArrayRef<mlir::Value> extras);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_LINEARPROBLEM_H
