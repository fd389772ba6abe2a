//===- SharedLayout.h - where the elements of a tile lie in shared memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of R rows (its leading dims together) is cut into panels of 128 bytes a row (64 or 32 where the rows are not a
// multiple); the R rows of a panel follow each other. Within a panel the 16-byte units are permuted:
//
//   byte = row * panelBytes + within;  byte ^= (byte >> 7 & mask) << 4,   mask = panelBytes / 16 - 1
//
// These are the 128, 64 and 32-byte swizzles of tensor maps and of wgmma descriptors (K-major), so that copies by TMA,
// cp.async and ordinary stores, and reads by wgmma, ldmatrix and ordinary loads, all agree on one layout. Eight rows at
// one column lie in eight different 16-byte columns of the banks: ldmatrix and vectors of 16 bytes have no conflicts.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_SHAREDLAYOUT_H
#define KIMI_PASSES_TILETONVVM_SHAREDLAYOUT_H

#include "mlir/IR/BuiltinTypes.h"

namespace kimi {

/// Bytes of an element in memory (index is 8, i1 is 1).
int64_t elementBytes(mlir::Type element);

struct SharedLayout {
  int64_t rows = 1;         ///< product of all extents but the last
  int64_t rowBytes = 0;     ///< of a row of the tile
  int64_t panelBytes = 0;   ///< of a row of a panel; the row's own where it is not cut
  int64_t mask = 0;         ///< of the swizzle: 7, 3, 1, or 0 for none
  int64_t elementBytes = 0; ///< of an element

  static SharedLayout of(mlir::MemRefType tile);

  int64_t bytes() const { return rows * rowBytes; }
  int64_t panels() const { return rowBytes / panelBytes; }
  /// What the tile's address must be a multiple of, so that addresses can be swizzled relative to it.
  int64_t alignment() const { return 128 * (mask + 1); }
  /// The byte, from the tile's start, of the element at byte `column` of `row`.
  int64_t offset(int64_t row, int64_t column) const;
};

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_SHAREDLAYOUT_H
