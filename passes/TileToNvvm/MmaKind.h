//===- MmaKind.h - how a product is computed by the threads of a block
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_MMAKIND_H
#define KIMI_PASSES_TILETONVVM_MMAKIND_H

#include "dialects/Tile/TileDialect.h"
#include <string>

namespace kimi {

enum class MmaKind {
  tensorCore, ///< mma.sync.m16n8k16 (bf16, f16) or m16n8k8 (tf32)
  skinny,     ///< few rows, b streamed from global memory: dot products of vectors, K split over lanes and warps
  simt,       ///< fused multiply-adds of fp32 on a block of accumulators a thread
};

/// The most rows of a product that streams b from global memory.
constexpr int64_t kSkinnyRows = 8;

/// How `op` is computed. `obstacle` (may be null) receives why tensor cores are not used although the types would allow
/// it.
MmaKind mmaKind(tile::MmaOp op, std::string *obstacle = nullptr);

/// Whether a memref is a view of a global buffer.
bool isGlobal(mlir::Value memref);
/// Whether it is a fragment (or a view of one).
bool isFragment(mlir::Value memref);

/// The extents of a product.
struct MmaShape {
  int64_t m, n, k;
  explicit MmaShape(tile::MmaOp op);
};

/// The layout of the accumulators of a product on tensor cores: warps over rows and columns so that they read little
/// from shared memory, or over rows first (`rowsOnly`) where the rows of the result are used whole by a warp.
tile::LayoutAttr tensorCoreLayout(tile::MmaOp op, int64_t warps, bool rowsOnly);
/// The layout that the a fragment of such a product must have, given its accumulators'.
tile::LayoutAttr aFragmentLayout(tile::LayoutAttr accumulators, int64_t rows, int64_t depth);
/// The layout of the result of a skinny product.
tile::LayoutAttr skinnyLayout(tile::MmaOp op, int64_t warps);
/// That of b [N, K] of such a product where b is held in registers: every warp has the columns that it sums, each lane
/// vectors along K. Null where K does not spread evenly.
tile::LayoutAttr skinnyOperandLayout(tile::MmaOp op, int64_t warps);

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_MMAKIND_H
