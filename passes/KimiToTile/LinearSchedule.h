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
  int64_t rows;    // TM: rows of x and y
  int64_t columns; // TN: columns of y, a multiple of the panel
};

/// Many rows, a few, one. Rows are a multiple of the 6 or 12 that the register block of the product holds.
constexpr LinearSchedule kManyRows = {48, 128}, kFewRows = {4, 64}, kOneRow = {1, 64};
/// Bytes of the rows of x that a block holds at a time. With the tiles beside them they stay within the stack of a
/// task.
constexpr int64_t kRowBytes = 192 * 1024;

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_LINEARSCHEDULE_H
