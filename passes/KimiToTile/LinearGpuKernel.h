//===- LinearGpuKernel.h - tile kernels of a fused_linear for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_LINEARGPUKERNEL_H
#define KIMI_PASSES_KIMITOTILE_LINEARGPUKERNEL_H

#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/GreedyKernels.h"
#include "passes/KimiToTile/LinearProblem.h"
#include "passes/KimiToTile/RowStatistics.h"

namespace kimi {

/// A fused_linear with its weight as rows [N, K'] and its norm folded:
///
///   layer: y = epilogue(r_m (x_m . w'_n - mean_m c_n) + d_n),   w'_n,k = gamma_k w_k,n,  c_n = sum_k w'_n,k,
///   rms:   y = epilogue(r_m (x_m . w'_n)),                      d_n = sum_k beta_k w_k,n
///
/// with r = rsqrt(var + eps) (layer) or rsqrt(mean(x^2) + eps) (rms). So rows of x are multiplied as they come and the
/// norm needs no pass of its own; w', c and d are computed when weights are loaded.
struct FoldedLinear : LinearProblem {
  FoldedLinear(HostContext &context, FusedLinearOp op);

  mlir::Value rows;        // [N, K'] of the weight's type
  mlir::Value sums;        // c: [1, N] f32; layer only
  mlir::Value shifts;      // d: [1, N] f32; null without beta
  mlir::Type operand;      // the element type that is multiplied
  bool tf32;               // fp32 factors may be rounded to 10 bits of mantissa
  bool copyable;           // rows of x start at multiples of 16 bytes
  mlir::Value scale, mean; // r and mean: [M, 1] f32, of a launch of their own; null where no variant wants them

  // The greedy_token of all rows of y, whose parts are the tiles of y in the variant that is taken; null: none.
  GreedyTokenOp greedy;
  SymbolicDim parts;     // tiles of columns
  int64_t mostParts = 0; // in any variant
};

/// Writes the launch that takes the statistics of the rows of x, and puts them into `problem`. Where `taken` is 0, grid
/// and results are empty.
mlir::LogicalResult buildStatistics(HostContext &context, FoldedLinear &problem, const SymbolicDim &taken);

/// What a kernel computes: all of y, or the partial sums of a split product, or y from them.
enum class LinearPart { whole, partial, sum };

/// Writes one variant. The arguments are those of every variant: x, the weight, sums, shifts, extras, (partial sums,)
/// y.
class LinearGpuKernel {
public:
  /// `workspaces`: the partial sums of all split variants; a `sum` adds up those of number `own`.
  LinearGpuKernel(HostContext &context, const GpuArch &arch, FoldedLinear &problem, const LinearTile &tile,
                  LinearPart part, llvm::ArrayRef<mlir::Value> workspaces = {}, unsigned own = 0);
  /// `guard`: when it is taken. Where it does not hold, the grid and the result of a `partial` are empty.
  mlir::FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard);
  KernelWriter &getWriter() { return writer; }

private:
  bool importArguments();
  bool isNarrow() const { return p.operand.getIntOrFloatBitWidth() < 32; }
  bool loadsEarly() const;
  mlir::Value rowUnits();
  void buildTile(mlir::Value index);
  void place(mlir::Value index);
  void buildPipelined();
  void buildDirect();
  bool buildDirectInRegisters();
  void buildSum();
  /// What the epilogue reads: a value for each column (of weights, mostly), and the rest. Tiles of `extraTiles` that
  /// are null after that are loaded behind the product.
  void loadColumns();
  void loadRows();
  void finish();
  void buildGreedyPart();
  mlir::Value column();

  mlir::Value times(mlir::Value index, int64_t factor) {
    return mlir::arith::MulIOp::create(b, loc, index, writer.constant(factor));
  }
  mlir::Value blockId(uint64_t dim) { return tile::BlockIdOp::create(b, loc, b.getIndexType(), dim); }

  const GpuArch &arch;
  FoldedLinear &p;
  LinearTile s;
  LinearPart part;
  llvm::SmallVector<mlir::Value> workspaces;
  unsigned own;
  KernelWriter writer;
  TileBuilder t;
  mlir::OpBuilder &b;
  mlir::Location loc;
  std::optional<RowStatistics> statistics; // where they are taken on the way
  mlir::Value x, w, sums, shifts, scale, mean, y, maxima, places;
  llvm::SmallVector<mlir::Value> extras, partials;
  mlir::Value firstRow, firstColumn, columnTile, splitIndex, acc;
  mlir::Value scaleTile, meanTile, sumsTile, shiftsTile;
  llvm::SmallVector<mlir::Value> extraTiles;
  bool hasColumns = false, hasRows = false; // loaded
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_LINEARGPUKERNEL_H
