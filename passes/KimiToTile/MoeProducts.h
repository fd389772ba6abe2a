//===- MoeProducts.h - products of rows with the matrices of their experts
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_MOEPRODUCTS_H
#define KIMI_PASSES_KIMITOTILE_MOEPRODUCTS_H

#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/MoeProblem.h"

namespace kimi {

/// The matrices [E, N, K] of a product, one or two of them, and the scales of packed ones (empty for floats).
struct ExpertMatrices {
  llvm::SmallVector<mlir::Value> matrices, scales;
  int64_t width, depth; // N, K

  ExpertMatrices(llvm::ArrayRef<mlir::Value> matrices, llvm::ArrayRef<mlir::Value> scales);
};

/// The launch of `product` for the rows of `rows`, which are in `rowsOf` [rows, K]: [rows, N] of x's type, of two
/// matrices the activation of both products. Failure, with an error, where an operand cannot be had.
mlir::FailureOr<mlir::Value> buildExpertProduct(HostContext &context, const GpuArch &arch, const MoeProblem &problem,
                                                const ExpertRows &rows, mlir::Value rowsOf,
                                                const ExpertMatrices &product, llvm::StringRef part);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_MOEPRODUCTS_H
