//===- HostViews.h - copies and reshapes between kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_HOSTVIEWS_H
#define KIMI_PASSES_KIMITOTILE_HOSTVIEWS_H

#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// A fresh row-major copy of `tensor`, made before `user`.
mlir::Value copyBefore(HostContext &context, mlir::Operation *user, mlir::Value tensor);

/// `tensor` [..., N] as a matrix of all its rows [M, N], made before `user`; copied where its rows are not evenly
/// spaced.
mlir::Value asMatrix(HostContext &context, mlir::Operation *user, mlir::Value tensor);

/// `matrix` [M, N] as `type`, whose leading extents `sizes` have the product M.
mlir::Value fromMatrix(HostContext &context, mlir::OpBuilder &b, mlir::Location loc, mlir::Value matrix,
                       mlir::RankedTensorType type, llvm::ArrayRef<SymbolicDim> sizes);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_HOSTVIEWS_H
