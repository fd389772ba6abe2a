//===- MmaKind.cpp - how a product is computed by the threads of a block
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/MmaKind.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "passes/TileToNvvm/SharedLayout.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

static std::optional<tile::SpaceKind> memorySpace(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>()) {
    memref = view.getViewSource();
  }
  auto space = dyn_cast_or_null<tile::SpaceKindAttr>(cast<MemRefType>(memref.getType()).getMemorySpace());
  return space ? std::optional(space.getValue()) : std::nullopt;
}

bool kimi::isGlobal(Value memref) { return !memorySpace(memref); }
bool kimi::isFragment(Value memref) { return memorySpace(memref) == tile::SpaceKind::fragment; }

MmaShape::MmaShape(tile::MmaOp op) {
  auto acc = cast<MemRefType>(op.getAcc().getType());
  m = acc.getDimSize(0);
  n = acc.getDimSize(1);
  k = cast<MemRefType>(op.getA().getType()).getDimSize(1);
}

MmaKind kimi::mmaKind(tile::MmaOp op, std::string *obstacle) {
  MmaShape shape(op);
  Type a = cast<MemRefType>(op.getA().getType()).getElementType();
  Type b = cast<MemRefType>(op.getB().getType()).getElementType();
  bool streams = isGlobal(op.getB()) || (isFragment(op.getB()) && op.getTransposeB());
  if (shape.m <= kSkinnyRows && streams && !op.getPanels()) {
    return MmaKind::skinny;
  }
  bool narrow = a == b && (a.isBF16() || a.isF16()), tf32 = op.getTf32() && a.isF32() && b.isF32();
  if (!narrow && !tf32) {
    return MmaKind::simt;
  }
  auto refuse = [&](const Twine &reason) {
    if (obstacle) {
      *obstacle = reason.str();
    }
    return MmaKind::simt;
  };
  int64_t step = tf32 ? 8 : 16;
  if (shape.m % 16 != 0 || shape.n % 8 != 0 || shape.k % step != 0) {
    return refuse("a product of " + Twine(shape.m) + "x" + Twine(shape.n) + "x" + Twine(shape.k) +
                  " is no multiple of 16x8x" + Twine(step));
  }
  if (op.getPanels()) {
    return refuse("b is in panels");
  }
  if (isGlobal(op.getB()) || isFragment(op.getB()) || isGlobal(op.getA())) {
    return refuse("its operands are not in shared memory");
  }
  return MmaKind::tensorCore;
}

tile::LayoutAttr kimi::tensorCoreLayout(tile::MmaOp op, int64_t warps, bool rowsOnly) {
  MmaShape shape(op);
  int64_t bestRows = 1, bestColumns = 1, bestCost = std::numeric_limits<int64_t>::max();
  for (int64_t rowWarps = 1; rowWarps <= warps; ++rowWarps) {
    if (warps % rowWarps != 0 || shape.m % (16 * rowWarps) != 0) {
      continue;
    }
    for (int64_t columnWarps = 1; columnWarps <= warps / rowWarps; ++columnWarps) {
      if (warps % (rowWarps * columnWarps) != 0 || shape.n % (8 * columnWarps) != 0) {
        continue;
      }
      int64_t warpRows = shape.m / rowWarps, warpColumns = shape.n / columnWarps;
      // Work of a warp first, then what it reads for it; pairs of column blocks come with one ldmatrix.
      int64_t cost = warpRows * warpColumns * 4096 + (warpRows + warpColumns) * 2 + (warpColumns % 16 != 0);
      if (rowsOnly) {
        cost = columnWarps == 1 ? warpRows : std::numeric_limits<int64_t>::max() - 1;
      }
      if (cost < bestCost) {
        bestCost = cost;
        bestRows = rowWarps;
        bestColumns = columnWarps;
      }
    }
  }
  tile::LayoutAttr layout = tile::mmaAccumulatorLayout(op.getContext(), shape.m, shape.n, bestRows, bestColumns);
  SmallVector<tile::LayoutMode> warpModes(layout.getWarps());
  warpModes.push_back({warps / (bestRows * bestColumns), 0, 0});
  return tile::makeLayout(op.getContext(), layout.getRegisters(), layout.getLanes(), warpModes);
}

tile::LayoutAttr kimi::aFragmentLayout(tile::LayoutAttr accumulators, int64_t rows, int64_t depth) {
  // The warps of a row of blocks read the same rows of a, whole.
  SmallVector<tile::LayoutMode> warpModes;
  int64_t rowWarps = 1;
  for (tile::LayoutMode mode : accumulators.getWarps()) {
    bool along = mode.stride != 0 && mode.dim == 0;
    rowWarps *= along ? mode.extent : 1;
    warpModes.push_back(along ? mode : tile::LayoutMode{mode.extent, 0, 0});
  }
  int64_t warpRows = rows / rowWarps;
  return tile::makeLayout(accumulators.getContext(), {{2, 1, 1}, {2, 8, 0}, {depth / 8, 8, 1}, {warpRows / 16, 16, 0}},
                          {{4, 2, 1}, {8, 1, 0}}, warpModes);
}

tile::LayoutAttr kimi::skinnyLayout(tile::MmaOp op, int64_t warps) {
  MmaShape shape(op);
  auto b = cast<MemRefType>(op.getB().getType());
  int64_t vector = 16 / elementBytes(b.getElementType());
  if (op.getTransposeB()) {
    // A warp owns columns, its lanes the vectors of a column: after the reduction every lane has all of them.
    int64_t columnWarps = std::gcd(warps, shape.n);
    return tile::makeLayout(op.getContext(), {{shape.n / columnWarps, 1, 1}, {shape.m, 1, 0}}, {{32, 0, 0}},
                            {{columnWarps, shape.n / columnWarps, 1}, {warps / columnWarps, 0, 0}});
  }
  // Lanes own vectors of columns, the lanes that are left and the warps split the rows of b.
  vector = std::gcd(vector, shape.n);
  int64_t columnLanes = std::gcd<int64_t>(32, shape.n / vector);
  return tile::makeLayout(
      op.getContext(), {{vector, 1, 1}, {shape.n / (vector * columnLanes), vector * columnLanes, 1}, {shape.m, 1, 0}},
      {{columnLanes, vector, 1}, {32 / columnLanes, 0, 0}}, {{warps, 0, 0}});
}

tile::LayoutAttr kimi::skinnyOperandLayout(tile::MmaOp op, int64_t warps) {
  MmaShape shape(op);
  int64_t vector = 16 / elementBytes(cast<MemRefType>(op.getB().getType()).getElementType());
  int64_t columnWarps = std::gcd(warps, shape.n), depthWarps = warps / columnWarps, threads = 32 * depthWarps;
  while (vector > 1 && shape.k % (vector * threads) != 0) {
    vector /= 2;
  }
  if (shape.k % (vector * threads) != 0) {
    return {};
  }
  int64_t columns = shape.n / columnWarps;
  return tile::makeLayout(op.getContext(),
                          {{vector, 1, 1}, {shape.k / (vector * threads), vector * threads, 1}, {columns, 1, 0}},
                          {{32, vector, 1}}, {{columnWarps, columns, 0}, {depthWarps, 32 * vector, 1}});
}
