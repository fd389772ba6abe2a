//===- Layout.cpp - layouts of fragments over the threads of a block
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/Layout.h"
#include "dialects/Tile/TileDialect.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <numeric>
#include <optional>

using namespace mlir;
using namespace kimi::tile;

int64_t kimi::tile::extentOf(ArrayRef<LayoutMode> modes) {
  int64_t product = 1;
  for (const LayoutMode &mode : modes) {
    product *= mode.extent;
  }
  return product;
}

SmallVector<int64_t> kimi::tile::coordinatesOf(ArrayRef<LayoutMode> modes, int64_t index, unsigned rank) {
  SmallVector<int64_t> result(rank, 0);
  for (const LayoutMode &mode : modes) {
    if (mode.stride != 0 && mode.dim < static_cast<int64_t>(rank)) {
      result[mode.dim] += index % mode.extent * mode.stride;
    }
    index /= mode.extent;
  }
  return result;
}

/// Without digits of extent 1, and with digits joined that continue each other.
static SmallVector<LayoutMode> normalize(ArrayRef<LayoutMode> modes, bool keepReplicas) {
  SmallVector<LayoutMode> result;
  for (LayoutMode mode : modes) {
    if (mode.extent == 1 || (mode.stride == 0 && !keepReplicas)) {
      continue;
    }
    mode.dim = mode.stride == 0 ? 0 : mode.dim;
    if (!result.empty()) {
      LayoutMode &last = result.back();
      bool bothReplicate = mode.stride == 0 && last.stride == 0;
      bool continues = last.dim == mode.dim && last.stride != 0 && mode.stride == last.stride * last.extent;
      if (bothReplicate || continues) {
        last.extent *= mode.extent;
        continue;
      }
    }
    result.push_back(mode);
  }
  return result;
}

LayoutAttr kimi::tile::makeLayout(MLIRContext *context, ArrayRef<LayoutMode> registers, ArrayRef<LayoutMode> lanes,
                                  ArrayRef<LayoutMode> warps) {
  return LayoutAttr::get(context, normalize(registers, /*keepReplicas=*/false), normalize(lanes, true),
                         normalize(warps, true));
}

LayoutAttr kimi::tile::mmaAccumulatorLayout(MLIRContext *context, int64_t rows, int64_t columns, int64_t rowWarps,
                                            int64_t columnWarps) {
  int64_t warpRows = rows / rowWarps, warpColumns = columns / columnWarps;
  return makeLayout(context, {{2, 1, 1}, {2, 8, 0}, {warpColumns / 8, 8, 1}, {warpRows / 16, 16, 0}},
                    {{4, 2, 1}, {8, 1, 0}}, {{rowWarps, warpRows, 0}, {columnWarps, warpColumns, 1}});
}

LayoutAttr kimi::tile::wgmmaAccumulatorLayout(MLIRContext *context, int64_t rows, int64_t columns, int64_t rowGroups,
                                              int64_t columnGroups) {
  int64_t groupRows = rows / rowGroups, groupColumns = columns / columnGroups;
  return makeLayout(context, {{2, 1, 1}, {2, 8, 0}, {groupColumns / 8, 8, 1}, {groupRows / 64, 64, 0}},
                    {{4, 2, 1}, {8, 1, 0}}, {{4, 16, 0}, {rowGroups, groupRows, 0}, {columnGroups, groupColumns, 1}});
}

namespace {
/// Hands out the extents of a tile, digit by digit, from the smallest stride up.
struct Digits {
  explicit Digits(ArrayRef<int64_t> shape) : left(shape), stride(shape.size(), 1) {}

  /// The largest digit along `dim` that divides `wanted` and what is left; null where that is 1.
  std::optional<LayoutMode> take(int64_t wanted, int64_t dim) {
    int64_t extent = std::gcd(wanted, left[dim]);
    if (extent == 1) {
      return std::nullopt;
    }
    LayoutMode mode{extent, stride[dim], dim};
    left[dim] /= extent;
    stride[dim] *= extent;
    return mode;
  }

  SmallVector<int64_t> left, stride;
};
} // namespace

LayoutAttr kimi::tile::blockedLayout(MLIRContext *context, ArrayRef<int64_t> shape, int64_t warps, int64_t vector,
                                     int64_t fastest) {
  int64_t rank = shape.size(), lanes = 32;
  Digits digits(shape);
  SmallVector<LayoutMode> registerModes, laneModes, warpModes;
  auto spread = [&](int64_t &threads, int64_t dim, SmallVector<LayoutMode> &modes) {
    if (std::optional<LayoutMode> mode = digits.take(threads, dim)) {
      modes.push_back(*mode);
      threads /= mode->extent;
    }
  };
  SmallVector<int64_t> order; // of dims, the one that neighbours run along first
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    order.insert(dim == fastest ? order.begin() : order.end(), dim);
  }
  if (rank > 0) {
    if (std::optional<LayoutMode> mode = digits.take(vector, order[0])) {
      registerModes.push_back(*mode);
    }
  }
  for (int64_t dim : order) {
    spread(lanes, dim, laneModes);
  }
  for (int64_t dim : llvm::reverse(order)) {
    spread(warps, dim, warpModes);
  }
  laneModes.push_back({lanes, 0, 0});
  warpModes.push_back({warps, 0, 0});
  for (int64_t dim : order) {
    registerModes.push_back({digits.left[dim], digits.stride[dim], dim});
  }
  return makeLayout(context, registerModes, laneModes, warpModes);
}

LayoutAttr kimi::tile::bestBlockedLayout(MLIRContext *context, ArrayRef<int64_t> shape, int64_t warps,
                                         int64_t maxVector, int64_t fastest) {
  LayoutAttr best;
  for (int64_t vector = maxVector; vector >= 1; vector /= 2) {
    LayoutAttr layout = blockedLayout(context, shape, warps, vector, fastest);
    if (!best || layout.registerCount() < best.registerCount()) {
      best = layout;
    }
  }
  return best;
}

LayoutAttr kimi::tile::columnLayout(MLIRContext *context, int64_t rows, int64_t columns, int64_t warps) {
  int64_t vector = columns % 2 == 0 && columns >= 64 * warps ? 2 : 1;
  int64_t lanes = std::gcd<int64_t>(32, columns / vector), ofWarps = columns / (vector * lanes);
  int64_t used = std::gcd(warps, ofWarps);
  return makeLayout(context, {{vector, 1, 1}, {rows, 1, 0}, {ofWarps / used, vector * lanes * used, 1}},
                    {{lanes, vector, 1}, {32 / lanes, 0, 0}}, {{used, vector * lanes, 1}, {warps / used, 0, 0}});
}

bool kimi::tile::holdsColumns(LayoutAttr layout) {
  auto runsAlongColumn = [](const LayoutMode &mode) { return mode.stride != 0 && mode.dim == 0; };
  return llvm::none_of(layout.getLanes(), runsAlongColumn) && llvm::none_of(layout.getWarps(), runsAlongColumn);
}

LayoutAttr kimi::tile::simtAccumulatorLayout(MLIRContext *context, int64_t rows, int64_t columns, int64_t warps,
                                             bool transposed, bool rowsOnly) {
  // A warp is 4 x 8 lanes, or wider where there are few rows or columns.
  int64_t rowLanes = 4;
  while (rowLanes > 1 && rows % rowLanes != 0) {
    rowLanes /= 2;
  }
  while (rowLanes < 32 && columns % (32 / rowLanes) != 0) {
    rowLanes *= 2;
  }
  int64_t columnLanes = 32 / rowLanes;
  if (rows % rowLanes != 0 || columns % columnLanes != 0) {
    return {};
  }
  int64_t vector = transposed ? 1 : std::gcd<int64_t>(4, columns / columnLanes);
  int64_t threadRows = rows / rowLanes, threadColumns = columns / columnLanes;
  if (rowsOnly) {
    int64_t rowWarps = std::gcd(warps, threadRows), warpRows = rows / rowWarps;
    return makeLayout(
        context,
        {{vector, 1, 1}, {threadColumns / vector, vector * columnLanes, 1}, {warpRows / rowLanes, rowLanes, 0}},
        {{columnLanes, vector, 1}, {rowLanes, 1, 0}}, {{rowWarps, warpRows, 0}, {warps / rowWarps, 0, 0}});
  }
  int64_t bestRowWarps = 0, bestSum = std::numeric_limits<int64_t>::max();
  for (int64_t rowWarps = 1; rowWarps <= warps; ++rowWarps) {
    if (warps % rowWarps != 0 || threadRows % rowWarps != 0 || threadColumns % (vector * (warps / rowWarps)) != 0) {
      continue;
    }
    int64_t sum = threadRows / rowWarps + threadColumns / (warps / rowWarps);
    if (sum < bestSum) {
      bestSum = sum;
      bestRowWarps = rowWarps;
    }
  }
  if (bestRowWarps == 0) {
    return {};
  }
  int64_t columnWarps = warps / bestRowWarps;
  int64_t warpRows = rows / bestRowWarps, warpColumns = columns / columnWarps;
  return makeLayout(context,
                    {{vector, 1, 1},
                     {warpColumns / (vector * columnLanes), vector * columnLanes, 1},
                     {warpRows / rowLanes, rowLanes, 0}},
                    {{columnLanes, vector, 1}, {rowLanes, 1, 0}},
                    {{bestRowWarps, warpRows, 0}, {columnWarps, warpColumns, 1}});
}

RegisterTable::RegisterTable(LayoutAttr layout, unsigned rank) {
  for (int64_t r = 0, e = layout.registerCount(); r < e; ++r) {
    SmallVector<int64_t> offset = layout.registerOffset(r, rank);
    table.try_emplace(std::vector<int64_t>(offset.begin(), offset.end()), r);
  }
}

int64_t RegisterTable::lookup(ArrayRef<int64_t> offset) const {
  auto it = table.find(std::vector<int64_t>(offset.begin(), offset.end()));
  return it == table.end() ? -1 : it->second;
}
