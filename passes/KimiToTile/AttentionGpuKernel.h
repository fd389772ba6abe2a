//===- AttentionGpuKernel.h - tile kernels of an attention for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ATTENTIONGPUKERNEL_H
#define KIMI_PASSES_KIMITOTILE_ATTENTIONGPUKERNEL_H

#include "passes/KimiToTile/AttentionProblem.h"
#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {

/// What the rows of a block are: queries of one head, or, for one query, the heads that share a key head.
enum class AttentionRows { queries, heads };

/// What a kernel computes of an attention of one query: all of it, or its share of the keys, or the whole from the
/// shares.
enum class AttentionPart { whole, share, combine };

/// Shares of the keys: partial results, on the host.
struct AttentionShares {
  mlir::Value acc, top, sum; // [B, H, shares, Dv], [B, H, shares, 1] twice: f32, not divided yet, maxima as scores
  SymbolicDim count = SymbolicDim(1); // how many
  SymbolicDim keys = SymbolicDim(0);  // of a share
};

/// Writes one variant: an online softmax in fp32, with powers of two, over blocks of keys (Dao 2023, algorithm 1).
class AttentionGpuKernel {
public:
  /// `shares` (may be null) are those that the attention may be split into: operands of all variants but that which
  /// computes them. With `fresh` the state is known to hold no rows yet.
  AttentionGpuKernel(HostContext &context, AttentionProblem &problem, const AttentionTile &tile, AttentionRows rows,
                     AttentionPart part = AttentionPart::whole, const AttentionShares *shares = nullptr,
                     bool fresh = false);
  mlir::FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard);
  KernelWriter &getWriter() { return writer; }

private:
  /// Keys and values that lie together: rows [0, count) of a buffer are keys base, base + 1, ..
  struct Segment {
    mlir::Value keys, values, count, base;
    mlir::Value from, to; // the rows that are looked at
    int64_t step;         // keys of a step
    bool pipelined;       // false: a few keys, loaded as they are used
  };

  bool importArguments();
  void place();
  void buildTiles();
  llvm::SmallVector<Segment> segments();
  void run(const Segment &segment);
  /// Tiles of a step; segments with equal steps share them.
  struct StepTiles {
    int64_t keys;
    bool pipelined;
    mlir::Value key, value, score, weights, mask; // weights: the scores as they are multiplied with values
  };

  const StepTiles &stepTiles(const Segment &segment);
  void loadKeys(const Segment &segment, const StepTiles &tiles, mlir::Value at);
  void step(const Segment &segment, const StepTiles &tiles, mlir::Value at);
  void maskScores(const Segment &segment, const StepTiles &tiles, mlir::Value at);
  /// The axis of the mask that the rows of a block run along, and whether it differs between them.
  std::pair<int64_t, bool> maskRows();
  void append();
  void finish();

  // One query of a few heads, keys and values in registers (AttentionRegisters.cpp).
  /// The online softmax of one head. Each slot, a group of neighbouring lanes, has one of its own, [slots, 1] and
  /// [slots, width], over every slots-th key: the loop needs no exchange between slots. `all` are those of the head.
  struct HeadTiles {
    mlir::Value query, top, sum, acc, newTop, factor, shift;
    mlir::Value allTop, allSum, allAcc;
  };
  void runInRegisters();
  llvm::SmallVector<HeadTiles> headTiles();
  void beginWithOwnToken(llvm::ArrayRef<HeadTiles> heads);
  void stepInRegisters(const Segment &segment, const HeadTiles &tiles, int64_t row, mlir::Value at);
  void mergeSlots(const HeadTiles &tiles);
  /// The scores' scale, cap and mask. score: [rows, 1], of keys from `key` on, for head `row` of the block.
  void maskKeys(mlir::Value score, int64_t row, mlir::Value key, mlir::Value maskTile);
  void nextMaximum(const HeadTiles &tiles);
  /// What scores of products become before the softmax, but for the mask.
  mlir::Value scaled(mlir::Value product);
  mlir::Value firstRowsOf(mlir::Value buffer, mlir::Value count);
  mlir::Value ownHeads(mlir::Value buffer, int64_t headAxis, int64_t channels, mlir::Value token = {});
  mlir::Value power(mlir::Value value, mlir::Value minus);
  void takeMaximum();
  void combine();
  void storeShare();

  mlir::Value sub(mlir::Value a, mlir::Value c) { return mlir::arith::SubFOp::create(b, loc, a, c); }
  mlir::Value mul(mlir::Value a, mlir::Value c) { return mlir::arith::MulFOp::create(b, loc, a, c); }
  mlir::Value add(mlir::Value a, mlir::Value c) { return mlir::arith::AddFOp::create(b, loc, a, c); }
  mlir::Value addIndex(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::AddIOp>(loc, a, c); }
  mlir::Value subIndex(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::SubIOp>(loc, a, c); }
  mlir::Value mulIndex(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::MulIOp>(loc, a, c); }
  mlir::Value divide(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::DivUIOp>(loc, a, c); }
  mlir::Value remainder(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::RemUIOp>(loc, a, c); }
  mlir::Value divideUp(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::CeilDivUIOp>(loc, a, c); }
  mlir::Value less(mlir::Value a, mlir::Value c) {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::slt, a, c);
  }
  mlir::Value minusInfinity();

  HostContext &context;
  AttentionProblem &p;
  AttentionTile s;
  AttentionRows rows;
  AttentionPart part;
  const AttentionShares *shares;
  bool fresh;
  KernelWriter writer;
  TileBuilder t;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type operand;   // the element type that is multiplied
  int64_t depth, width; // channels, rounded up to what a matrix instruction takes
  bool plain;           // scores are products times a positive scale, and nothing else
  float rate;           // what an exponent of the softmax is multiplied with to be one of 2
  mlir::Value q, k, v, mask, out, keyState, valueState, past;
  mlir::Value accShares, topShares, sumShares, share, shareKeys;
  mlir::Value first, batchIndex, head, keyHead, group, tokens, total; // total: keys of all segments
  mlir::Value query, acc, top, sum, newTop, factor, partial, shift;
  llvm::SmallVector<std::unique_ptr<StepTiles>> allTiles;
  llvm::SmallVector<mlir::Value> keyTiles, valueTiles, scoreTiles; // of a step in registers, [slots, ..] each
  mlir::Value products, maskTile;
  mlir::Value ownKey, ownValue, ownScore, ownMask; // of this step's token
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ATTENTIONGPUKERNEL_H
