//===- LinearSchedule.h - tile sizes of the linear kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_LINEARSCHEDULE_H
#define KIMI_PASSES_KIMITOTILE_LINEARSCHEDULE_H

#include <cstdint>

namespace kimi {

/// What one block of a linear kernel computes, in elements.
struct LinearSchedule {
  int64_t rows;       // TM: rows of x and y
  int64_t columns;    // TN: columns of a tile of y, a multiple of the panel
  int64_t blockTiles; // tiles of columns that a block walks with its rows
};

/// Many rows, a few, one. Rows are a multiple of the 6 or 12 that the register block of the product holds.
constexpr LinearSchedule kManyRows = {48, 128, 3}, kFewRows = {4, 64, 1}, kOneRow = {1, 64, 1};
/// Up to so many rows in all, a block computes one column tile only.
constexpr int64_t kWideBlockRows = 96;
/// The last rows, if they are not `rows`, are multiplied so many at a time.
constexpr int64_t kEdgeRows = 12;
/// Rows that are normalised at a time: they stay in the first-level cache.
constexpr int64_t kNormRows = 4;
/// Bytes of the rows of x that a block holds at a time: they stay in the second-level cache.
constexpr int64_t kRowBytes = 192 * 1024;
/// Bytes of all tiles of a block. The lowering takes no more than 512 KiB: they lie on the stack of a worker.
constexpr int64_t kTileBytes = 480 * 1024;

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_LINEARSCHEDULE_H
