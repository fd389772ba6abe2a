//===- MoeProblem.h - a mixture of experts, and the order its launches work in
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_MOEPROBLEM_H
#define KIMI_PASSES_KIMITOTILE_MOEPROBLEM_H

#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// A kimi.moe: every (token, slot) is a pair, number `token * slots + slot`, that an expert computes.
struct MoeProblem {
  /// Operands become matrices that a kernel can read; copied where they are not.
  MoeProblem(HostContext &context, MoeOp op);

  MoeOp op;
  mlir::Value x, indices, weights;           // [tokens, channels], [tokens, slots] twice
  SymbolicDim tokens, slots, pairs;          // pairs: tokens * slots
  int64_t experts, channels, inner, outputs; // E, D, F, D' of kimi.moe
  mlir::Type element;                        // of x, of what is between the products, of an expert's output
  bool packed;                               // the matrices are MXFP4
  std::string stem;                          // of the kernels' names
};

/// Why there are no block programs for `op`; empty where there are.
std::string whyNotMoe(MoeOp op);

/// The pairs sorted by expert, as rows of the products. Rows come in tiles of `tileRows`, all of one expert; what an
/// expert's last tile has more than pairs is pair 0, whose outputs there nobody reads.
struct ExpertRows {
  static constexpr int64_t kFew = 16, kMany = 64; // rows of a tile
  SymbolicDim isFew;                              // 1 or 0: tiles have kFew rows
  SymbolicDim tileRows, tiles, rows;              // tiles and rows: as many as there may be; rows = tiles * tileRows
  mlir::Value pairOf;                             // i32 [rows]: the pair of a row
  mlir::Value expertOf;                           // i32 [tiles]; -1: none
  mlir::Value rowOf;                              // i32 [pairs]
};

/// Makes the three launches that sort: one counts the pairs of each expert in each chunk of tokens, one sums the
/// counts, and one gives pairs their rows. An index outside [0, experts) is the nearest expert.
mlir::FailureOr<ExpertRows> sortByExpert(HostContext &context, const MoeProblem &problem);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_MOEPROBLEM_H
