//===- GreedyKernels.h - the steps of an argmax over rows of logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An argmax is two reductions: of each part of a row its maximum and minus the lowest place of it (fp32, exact up to
// 2^24 columns), then the best of a row's parts. The parts come from a launch over the logits (ScheduleGreedyToken.cpp)
// or from the epilogue of the product that computes them (LinearGpuKernel.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_GREEDYKERNELS_H
#define KIMI_PASSES_KIMITOTILE_GREEDYKERNELS_H

#include "passes/KimiToTile/KernelWriter.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {

/// Reduces each row of `values` [rows, columns] f32 to its maximum and minus the lowest place of it, tiles [rows, 1].
/// `place` gives minus the place of an element, or -inf where it is not the maximum, from the element, the maximum and,
/// where `places` is given, its element; it is written to `found` [rows, columns], which may be `values`.
std::pair<mlir::Value, mlir::Value> buildArgmax(TileBuilder &t, mlir::Value values, mlir::Value places,
                                                mlir::Value found,
                                                llvm::function_ref<mlir::Value(mlir::ValueRange)> place);

/// What is known of parts of the rows of logits: maxima and minus their places, both [rows, parts] f32; `mostParts`
/// bounds a dynamic `parts`.
struct GreedyParts {
  mlir::Value maxima, places;
  SymbolicDim rows;
  int64_t mostParts;
};

/// Writes the launch that takes the best of each row's parts, and replaces `op` with the tokens. Failure: a part has no
/// layout.
mlir::LogicalResult buildGreedyLast(HostContext &context, GreedyTokenOp op, const GreedyParts &parts);

/// The one greedy_token that reads all rows of `logits`, as they are or reshaped; null where there is none.
GreedyTokenOp findGreedyToken(mlir::Value logits);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_GREEDYKERNELS_H
