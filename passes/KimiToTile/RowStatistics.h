//===- RowStatistics.h - mean and deviation of the rows of a norm, tile by tile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ROWSTATISTICS_H
#define KIMI_PASSES_KIMITOTILE_ROWSTATISTICS_H

#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {

/// Builds, within a kernel, the statistics of `rows` rows of K elements from tiles of them as they come, in one pass
/// and in fp32. Those of a layer norm are taken of x - anchor with the anchor x[m, 0]: a common offset of a row,
/// however large, costs no accuracy, and an outlier as anchor costs a factor of K at most.
class RowStatistics {
public:
  RowStatistics(KernelWriter &writer, NormKind norm, float eps, int64_t k, int64_t rows)
      : writer(writer), t(writer), b(writer.body()), loc(writer.loc()), norm(norm), eps(eps), k(k), rows(rows) {}

  /// Before the first tile; `x`: [M, K], of which rows from `firstRow` on are taken.
  void begin(mlir::Value x, mlir::Value firstRow);
  /// A tile to work in, for tiles of `depth` columns; made outside of loops. With `threads`, those of the block, the
  /// tiles come from shared memory, from where any thread may take any element: as few threads as can be share a row.
  mlir::Value scratch(int64_t depth, int64_t threads = 0);
  /// Adds tile `a`: [rows, depth], columns `at` on of x. Columns past K are left out where K is no multiple of `depth`;
  /// with a null `at` there are none.
  void add(mlir::Value a, mlir::Value scratch, mlir::Value at, int64_t depth);
  /// scale: [rows, 1] = rsqrt(variance + eps), or rsqrt(mean of squares + eps); mean: [rows, 1] for a layer norm.
  void finish(mlir::Value scale, mlir::Value mean);

private:
  KernelWriter &writer;
  TileBuilder t;
  mlir::OpBuilder &b;
  mlir::Location loc;
  NormKind norm;
  float eps;
  int64_t k, rows;
  mlir::Value anchor, total, squares; // per row: x[m, 0], sums of x - anchor and of its squares
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ROWSTATISTICS_H
