//===- Layout.h - layouts of fragments over the threads of a block
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The algebra behind `#tile.layout` (see TileBase.td), and the layouts that the instructions of NVIDIA GPUs prescribe.
// Layouts are linear in their digits: a thread adds its lane's and its warp's coordinates once, and each of its
// registers is a constant away.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_TILE_LAYOUT_H
#define KIMI_DIALECTS_TILE_LAYOUT_H

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <map>
#include <vector>

namespace kimi::tile {
class LayoutAttr;

/// One digit: `extent` values, each `stride` further along `dim`. Stride 0 replicates (dim is 0 then).
struct LayoutMode {
  int64_t extent = 1;
  int64_t stride = 0;
  int64_t dim = 0;

  friend bool operator==(const LayoutMode &a, const LayoutMode &b) {
    return a.extent == b.extent && a.stride == b.stride && a.dim == b.dim;
  }
  friend llvm::hash_code hash_value(const LayoutMode &mode) {
    return llvm::hash_combine(mode.extent, mode.stride, mode.dim);
  }
};

/// How many ids `modes` tell apart.
int64_t extentOf(llvm::ArrayRef<LayoutMode> modes);

/// The coordinates that id `index` stands for, of `rank` dims.
llvm::SmallVector<int64_t> coordinatesOf(llvm::ArrayRef<LayoutMode> modes, int64_t index, unsigned rank);

/// The layout with digits of extent 1 removed and digits that continue each other joined, so that equal orders of
/// elements are equal attributes.
LayoutAttr makeLayout(mlir::MLIRContext *context, llvm::ArrayRef<LayoutMode> registers,
                      llvm::ArrayRef<LayoutMode> lanes, llvm::ArrayRef<LayoutMode> warps);

/// Where a tile lies that has one element for each `group` neighbours along `axis` of a tile under `layout`: a thread
/// holds those of its elements' groups.
LayoutAttr groupedLayout(LayoutAttr layout, int64_t axis, int64_t group);

/// Accumulators of mma.sync.m16n8 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): in each 16x8 block, lane l holds
/// columns 2 (l mod 4) and the next, in rows l div 4 and 8 further. Each of `rowWarps` x `columnWarps` warps owns a
/// contiguous block of the M x N tile; rows must be a multiple of 16 rowWarps, columns of 8 columnWarps.
LayoutAttr mmaAccumulatorLayout(mlir::MLIRContext *context, int64_t rows, int64_t columns, int64_t rowWarps,
                                int64_t columnWarps);

/// Accumulators of wgmma.m64nN: four warps take 16 rows each of every 64, with the columns of mma.m16n8. Each of
/// `rowGroups` x `columnGroups` warpgroups owns a contiguous block; rows must be a multiple of 64 rowGroups, columns of
/// 8 columnGroups.
LayoutAttr wgmmaAccumulatorLayout(mlir::MLIRContext *context, int64_t rows, int64_t columns, int64_t rowGroups,
                                  int64_t columnGroups);

/// A layout for any shape: `vector` elements (or what divides the extent) along dim `fastest` (by default the last) in
/// a thread, then lanes along that dim and the last others, warps along the first ones; what is left over goes to
/// registers, threads too many replicate.
LayoutAttr blockedLayout(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> shape, int64_t warps, int64_t vector,
                         int64_t fastest = -1);

/// The blocked layout with the fewest registers, among those the one with the widest vectors of up to `maxVector`.
LayoutAttr bestBlockedLayout(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> shape, int64_t warps,
                             int64_t maxVector, int64_t fastest = -1);

/// Accumulators of the fp32 product on ordinary units: warps of 4 x 8 lanes, rows of a thread 4 apart. Columns come in
/// fours (read as one vector from rows of b), or with `transposed` b 8 apart. The warps are spread so that a thread's
/// block is as square as possible, or over rows alone with `rowsOnly` (as far as there are rows; the warps left over
/// replicate). Null where the shape leaves no such layout.
LayoutAttr simtAccumulatorLayout(mlir::MLIRContext *context, int64_t rows, int64_t columns, int64_t warps,
                                 bool transposed, bool rowsOnly = false);

/// Threads hold whole columns of a rows x columns tile, two side by side where there are enough; threads too many
/// replicate.
LayoutAttr columnLayout(mlir::MLIRContext *context, int64_t rows, int64_t columns, int64_t warps);

/// Whether threads hold whole columns of a tile of rank 2 under `layout`.
bool holdsColumns(LayoutAttr layout);

/// Which register holds an offset from a thread's first element.
class RegisterTable {
public:
  RegisterTable(LayoutAttr layout, unsigned rank);
  /// The register, or -1 where a thread holds no such element.
  int64_t lookup(llvm::ArrayRef<int64_t> offset) const;

private:
  std::map<std::vector<int64_t>, int64_t> table;
};

} // namespace kimi::tile

#endif // KIMI_DIALECTS_TILE_LAYOUT_H
