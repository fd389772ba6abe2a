//===- RowMix.h - softmax-weighted sums of rows of several tensors, within a kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of the attention residuals' kernels. A block holds whole rows: every source is read once, its score needs
// the whole row, and the row is weighted with it.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ROWMIX_H
#define KIMI_PASSES_KIMITOTILE_ROWMIX_H

#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {

/// How the rows of a block lie in its tiles.
struct RowTile {
  int64_t rows, columns;     // of a tile; columns is at least the number of channels
  int64_t threads = 0;       // of a block on a GPU; 0: for the CPU
  int64_t vector = 1;        // elements beside each other in a thread
  int64_t columnWarps = 1;   // that share a row
  int64_t blocksPerSm = 1;   // that are to share an SM
  bool heldInShared = false; // sources that are held stand in shared memory, not in registers
  int64_t perThread() const { return threads == 0 ? 0 : rows * columns / threads; }
};

/// What a kernel keeps of its rows.
struct RowShape {
  int64_t channels;
  int64_t elementBytes; // of the narrowest tensor of rows
  int64_t held;         // sources that are kept at a time, in their own type
  int64_t heldBytes;    // of an element of those
  int64_t wide;         // rows of fp32 beside them
};

/// The tile for blocks of a GPU, or on the CPU without `arch`; nullopt where a row does not fit a block.
std::optional<RowTile> chooseRowTile(const std::optional<GpuArch> &arch, const RowShape &shape);

/// Builds what a kernel does with its rows. `rows` and `columns` of tiles are those of `tile`.
class RowMix {
public:
  RowMix(KernelWriter &writer, const RowTile &tile, int64_t channels, float eps);

  /// The rows of this block of `buffer` [M, channels], as they are stored, in a tile of their own.
  mlir::Value hold(mlir::Value buffer);
  /// The same in a tile that the next call with this `slot` and element type overwrites.
  mlir::Value load(mlir::Value buffer, unsigned slot = 0);
  /// The vector `buffer` [1, channels] for all rows, in fp32; `slot` as above.
  mlir::Value loadVector(mlir::Value buffer, unsigned slot = 0);
  /// Column `column` of `buffer` [M, n], one number a row.
  mlir::Value loadColumn(mlir::Value buffer, int64_t column);
  void storeColumn(mlir::Value tile, mlir::Value buffer, int64_t column);
  /// Stores rows to `buffer` [M, channels].
  void store(mlir::Value tile, mlir::Value buffer);

  /// A row of a tile times `factor` (null: times itself), summed up.
  struct Sum {
    mlir::Value tile, factor;
  };
  /// One number a row for each of `sums`; on a GPU up to kTogether of them meet at one barrier.
  static constexpr size_t kTogether = 6;
  llvm::SmallVector<mlir::Value> sums(llvm::ArrayRef<Sum> sums);
  /// product * rsqrt(squares / channels + eps), one number a row.
  mlir::Value score(mlir::Value squares, mlir::Value product);
  /// sum_i weights_i * tiles_i in fp32, in a tile that the next call overwrites; a weight is one number a row.
  mlir::Value weightedSum(llvm::ArrayRef<mlir::Value> tiles, llvm::ArrayRef<mlir::Value> weights);

  /// The online softmax: what is mixed so far is `sum` / `total`, of exponentials relative to `maximum`.
  struct State {
    mlir::Value maximum, total, sum;
  };
  /// One source, with its score.
  State begin(mlir::Value tile, mlir::Value score);
  void add(State &state, mlir::Value tile, mlir::Value score);
  /// Stores sum / total to `buffer`.
  void finish(State &state, mlir::Value buffer);

  TileBuilder &builder() { return t; }
  /// A number a row.
  mlir::Value column() { return t.fragment(tile.rows, 1); }
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, mlir::Value y);
  /// exp(x - y).
  mlir::Value power(mlir::Value x, mlir::Value y);
  mlir::Value wide(mlir::Value x);

private:
  mlir::Value rowTile(mlir::Type type);

  KernelWriter &writer;
  RowTile tile;
  int64_t channels;
  float eps;
  TileBuilder t;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Value firstRow, zero;
  llvm::SmallVector<mlir::Value> products; // to be summed up
  mlir::Value mixed;                       // what weightedSum gives
  std::map<std::pair<unsigned, const void *>, mlir::Value> slots;
  llvm::SmallVector<mlir::Value, 2> vectors;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ROWMIX_H
