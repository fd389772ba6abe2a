//===- ElementwiseGpuKernel.h - an elementwise op as a block program for a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ELEMENTWISEGPUKERNEL_H
#define KIMI_PASSES_KIMITOTILE_ELEMENTWISEGPUKERNEL_H

#include "dialects/Tile/Layout.h"
#include "passes/KimiToTile/ElementwiseSpace.h"

namespace kimi {

/// What a block computes of an elementwise op, and how it lies among its threads.
struct ElementwiseTile {
  llvm::SmallVector<int64_t> shape; // along the dims of the space
  int64_t threads = 0;
  int64_t vector = 1; // elements beside each other in a thread
  int64_t blocksPerSm = 1;

  /// The tile for an op whose widest result has `resultBytes` an element, and `results` of them.
  static ElementwiseTile choose(const ElementwiseSpace &space, int64_t resultBytes, int64_t results);
  /// Lanes and then warps lie along the last dims, so that a warp's accesses are beside each other; what is left over
  /// for a thread lies along the first ones, where operands that do not move along them are read once.
  tile::LayoutAttr layout(mlir::MLIRContext *context) const;
};

/// Makes a launch of `op`, whose points are `space`; failure, with an error, where that is not possible.
mlir::LogicalResult scheduleElementwise(HostContext &context, mlir::linalg::GenericOp op, ElementwiseSpace &space);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ELEMENTWISEGPUKERNEL_H
