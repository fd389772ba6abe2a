//===- HeadLinearProblem.h - a head_linear, for any schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_HEADLINEARPROBLEM_H
#define KIMI_PASSES_KIMITOTILE_HEADLINEARPROBLEM_H

#include "passes/KimiToTile/KernelWriter.h"
#include <string>

namespace kimi {

/// y[b, h] = x[b, h] . w[h], with x [B, H, T, K] and w [H, K, N] as views that kernels can read.
struct HeadLinearProblem {
  /// Operands that no view describes are copied before `op`.
  HeadLinearProblem(HostContext &context, HeadLinearOp op);
  /// The result of a kernel: [B, H, T, N].
  mlir::Value addResult(KernelWriter &writer) const;

  HeadLinearOp op;
  SymbolicDim batch, heads, tokens;
  int64_t channels, width; // K, N
};

/// "head_linear_128x512_bf16".
std::string headLinearStem(HeadLinearOp op);

/// Why no schedule takes `op`: element types, extents that are not known or empty; empty where one can.
std::string whyNotHeadLinear(HeadLinearOp op);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_HEADLINEARPROBLEM_H
