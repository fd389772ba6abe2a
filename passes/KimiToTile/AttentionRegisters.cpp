//===- AttentionRegisters.cpp - attention of one query, keys and values in registers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product of one row leaves the matrix units idle, and what counts is the way of a key from memory to its score. So
// keys and values are read where they are multiplied, `together` of each at a time by a thread, all of them in flight.
// A slot, the lanes that share a key, runs an online softmax of its own; slots meet once, at the end. This step's token
// begins it: a maximum is known before the first step.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/AttentionGpuKernel.h"
#include <limits>

using namespace mlir;
using namespace kimi;

static Type elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }

SmallVector<AttentionGpuKernel::HeadTiles> AttentionGpuKernel::headTiles() {
  int64_t slots = s.keys / s.together;
  // Keys and values first: how they lie in memory decides which thread holds what.
  for (int64_t j = 0; j < s.together; ++j) {
    keyTiles.push_back(t.fragment(slots, depth, operand));
  }
  for (int64_t j = 0; j < s.together; ++j) {
    valueTiles.push_back(t.fragment(slots, width, operand));
  }
  for (int64_t j = 0; j < s.together; ++j) {
    scoreTiles.push_back(t.fragment(slots, 1));
  }
  products = t.fragment(slots, depth);
  maskTile = p.mask ? t.fragment(slots, 1) : Value();
  SmallVector<HeadTiles> heads(s.queries);
  Value zero = writer.constant(0);
  for (auto [row, tiles] : llvm::enumerate(heads)) {
    tiles.query = t.fragment(1, depth);
    for (Value *tile : {&tiles.top, &tiles.sum, &tiles.newTop, &tiles.factor, &tiles.shift}) {
      *tile = t.fragment(slots, 1);
    }
    tiles.acc = t.fragment(slots, width);
    tiles.allAcc = t.fragment(1, width);
    for (Value *tile : {&tiles.allTop, &tiles.allSum}) {
      *tile = t.fragment(1, 1);
    }
    Value which = addIndex(first, writer.constant(static_cast<int64_t>(row)));
    t.load(tiles.query, ownHeads(q, 1, p.depth), {zero, which, zero, zero}, {1, 3});
  }
  return heads;
}

void AttentionGpuKernel::runInRegisters() {
  SmallVector<HeadTiles> heads = headTiles();
  Segment held = segments().front();
  beginWithOwnToken(heads);
  int64_t slots = s.keys / s.together;
  buildLoop(b, loc, held.from, held.to, writer.constant(s.keys), [&](Value at) {
    Value zero = writer.constant(0);
    for (const auto &[tiles, source] : {std::pair(&keyTiles, held.keys), std::pair(&valueTiles, held.values)}) {
      for (auto [j, tile] : llvm::enumerate(*tiles)) {
        Value row = addIndex(at, writer.constant(static_cast<int64_t>(j) * slots));
        t.load(tile, source, {batchIndex, keyHead, row, zero}, {2, 3});
      }
    }
    for (auto [row, tiles] : llvm::enumerate(heads)) {
      stepInRegisters(held, tiles, static_cast<int64_t>(row), at);
    }
  });
  Value zero = writer.constant(0);
  int64_t headAxis = p.tokensFirst ? 2 : 1;
  for (auto [row, tiles] : llvm::enumerate(heads)) {
    mergeSlots(tiles);
    Value which = addIndex(first, writer.constant(static_cast<int64_t>(row)));
    if (part == AttentionPart::share) {
      SmallVector<Value> offsets{zero, which, zero, zero};
      t.store(tiles.allAcc, ownHeads(accShares, 1, p.width, share), offsets, {1, 3});
      t.store(tiles.allTop, ownHeads(topShares, 1, 1, share), offsets, {1, 3});
      t.store(tiles.allSum, ownHeads(sumShares, 1, 1, share), offsets, {1, 3});
      continue;
    }
    t.map({tiles.allAcc, tiles.allSum}, tiles.allAcc, [&](ValueRange e) {
      Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[1], t.number(0.0f));
      Value quotient = arith::DivFOp::create(b, loc, e[0], e[1]);
      return arith::SelectOp::create(b, loc, none, t.number(0.0f), quotient).getResult();
    });
    SmallVector<Value> offsets(4, zero);
    offsets[headAxis] = which;
    t.store(tiles.allAcc, ownHeads(out, headAxis, p.width), offsets, {headAxis, 3});
  }
  if (!p.keyAppend) {
    return;
  }
  // The first of the blocks that share these keys appends them.
  Value isFirst = share ? addIndex(first, share) : first;
  isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, isFirst, zero);
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  Value end = addIndex(past, tokens);
  t.store(ownKey, firstRowsOf(keyState, end), {batchIndex, keyHead, past, zero}, {2, 3});
  t.store(ownValue, firstRowsOf(valueState, end), {batchIndex, keyHead, past, zero}, {2, 3});
}

/// Where this step's token is no part of the keys that are held (or of this share of them), nothing is known yet.
void AttentionGpuKernel::beginWithOwnToken(ArrayRef<HeadTiles> heads) {
  Value zero = writer.constant(0), includes;
  if (!p.keyAppend) {
    for (const HeadTiles &tiles : heads) {
      t.fill(tiles.top, -std::numeric_limits<float>::infinity());
      t.fill(tiles.sum, 0.0f);
      t.fill(tiles.acc, 0.0f);
    }
    return;
  }
  ownKey = t.fragment(1, depth, elementOf(k));
  ownValue = t.fragment(1, width, elementOf(v));
  ownScore = t.fragment(1, 1);
  Value product = t.fragment(1, depth);
  t.load(ownKey, k, {batchIndex, keyHead, zero, zero}, {2, 3});
  t.load(ownValue, v, {batchIndex, keyHead, zero, zero}, {2, 3});
  ownMask = p.mask ? t.fragment(1, 1) : Value();
  if (share) { // the first share takes this step's token
    includes = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, share, zero);
  }
  auto isHeld = [&] { // by this slot
    Value slot = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(0));
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, slot, writer.constant(0));
    return includes ? arith::AndIOp::create(b, loc, isFirst, includes).getResult() : isFirst;
  };
  auto widened = [&](Value value) { return castFloat(b, loc, value, b.getF32Type()); };
  for (auto [row, tiles] : llvm::enumerate(heads)) {
    t.map({ownKey, tiles.query}, product, [&](ValueRange e) { return mul(widened(e[0]), e[1]); });
    t.reduce(tile::ReduceKind::add, product, ownScore);
    maskKeys(ownScore, static_cast<int64_t>(row), past, ownMask);
    t.map({ownScore}, tiles.top, [&](ValueRange e) -> Value {
      return includes ? arith::SelectOp::create(b, loc, includes, e[0], minusInfinity()).getResult() : e[0];
    });
    // Its weight is 1, or 0 where it is masked.
    t.map({ownScore}, tiles.sum, [&](ValueRange e) {
      Value seen = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, e[0], minusInfinity());
      Value taken = arith::AndIOp::create(b, loc, isHeld(), seen);
      return arith::SelectOp::create(b, loc, taken, t.number(1.0f), t.number(0.0f)).getResult();
    });
    t.map({ownValue, tiles.sum}, tiles.acc, [&](ValueRange e) { return mul(widened(e[0]), e[1]); });
  }
}

void AttentionGpuKernel::maskKeys(Value score, int64_t row, Value key, Value maskTile) {
  if (plain) {
    return;
  }
  if (mask) {
    auto type = cast<RankedTensorType>(p.mask.getType());
    Value zero = writer.constant(0), at = addIndex(addIndex(head, first), writer.constant(row));
    t.load(maskTile, mask,
           {type.getDimSize(0) == 1 ? zero : batchIndex, type.getDimSize(1) == 1 ? zero : at, zero, key}, {3, 1});
  }
  SmallVector<Value> inputs{score};
  if (mask) {
    inputs.push_back(maskTile);
  }
  t.map(inputs, score, [&](ValueRange e) { return mask ? add(scaled(e[0]), e[1]) : scaled(e[0]); });
}

/// As takeMaximum: exponents of a slot that has seen no key are taken from 0, so that no NaN appears.
void AttentionGpuKernel::nextMaximum(const HeadTiles &tiles) {
  t.map({tiles.newTop}, tiles.shift, [&](ValueRange e) {
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[0], minusInfinity());
    Value anchor = arith::SelectOp::create(b, loc, none, t.number(0.0f), e[0]);
    return arith::NegFOp::create(b, loc, mul(anchor, t.number(rate))).getResult();
  });
  t.map({tiles.top, tiles.shift}, tiles.factor, [&](ValueRange e) { return power(e[0], e[1]); });
}

void AttentionGpuKernel::stepInRegisters(const Segment &segment, const HeadTiles &tiles, int64_t row, Value at) {
  int64_t slots = s.keys / s.together, together = s.together;
  auto widened = [&](Value value) { return castFloat(b, loc, value, b.getF32Type()); };
  for (int64_t j = 0; j < together; ++j) {
    Value from = addIndex(at, writer.constant(j * slots));
    t.map({keyTiles[j], tiles.query}, products, [&](ValueRange e) { return mul(widened(e[0]), e[1]); });
    t.reduce(tile::ReduceKind::add, products, scoreTiles[j]);
    maskKeys(scoreTiles[j], row, addIndex(segment.base, from), maskTile);
    t.map({scoreTiles[j]}, scoreTiles[j], [&](ValueRange e) {
      Value slot = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(0));
      Value visible = less(addIndex(from, slot), segment.to);
      return arith::SelectOp::create(b, loc, visible, e[0], minusInfinity()).getResult();
    });
  }
  SmallVector<Value> inputs(scoreTiles);
  inputs.push_back(tiles.top);
  t.map(inputs, tiles.newTop, [&](ValueRange e) {
    Value most = e.back();
    for (Value value : e.drop_back()) {
      most = arith::MaximumFOp::create(b, loc, most, value);
    }
    return most;
  });
  nextMaximum(tiles);
  t.map({tiles.newTop}, tiles.top, [&](ValueRange e) { return e[0]; });
  for (Value score : scoreTiles) {
    t.map({score, tiles.shift}, score, [&](ValueRange e) { return power(e[0], e[1]); });
  }
  inputs.assign({tiles.sum, tiles.factor});
  llvm::append_range(inputs, scoreTiles);
  t.map(inputs, tiles.sum, [&](ValueRange e) {
    Value sum = mul(e[0], e[1]);
    for (Value weight : e.drop_front(2)) {
      sum = add(sum, weight);
    }
    return sum;
  });
  inputs.assign({tiles.acc, tiles.factor});
  llvm::append_range(inputs, scoreTiles);
  llvm::append_range(inputs, valueTiles);
  t.map(inputs, tiles.acc, [&](ValueRange e) {
    Value sum = mul(e[0], e[1]);
    for (int64_t j = 0; j < together; ++j) {
      sum = add(sum, mul(e[2 + j], widened(e[2 + together + j])));
    }
    return sum;
  });
}

void AttentionGpuKernel::mergeSlots(const HeadTiles &tiles) {
  t.reduce(tile::ReduceKind::max, tiles.top, tiles.allTop, /*accumulate=*/false, /*axis=*/0);
  t.map({tiles.allTop}, tiles.newTop, [&](ValueRange e) { return e[0]; });
  nextMaximum(tiles);
  auto weigh = [&](Value tile, Value all) {
    t.map({tile, tiles.factor}, tile, [&](ValueRange e) { return mul(e[0], e[1]); });
    t.reduce(tile::ReduceKind::add, tile, all, /*accumulate=*/false, /*axis=*/0);
  };
  weigh(tiles.sum, tiles.allSum);
  weigh(tiles.acc, tiles.allAcc);
}
