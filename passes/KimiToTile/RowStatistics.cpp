//===- RowStatistics.cpp - mean and deviation of the rows of a norm, tile by tile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/RowStatistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Kimi/Reference.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

Value RowStatistics::scratch(int64_t depth, int64_t threads) {
  constexpr int64_t kVector = 8, kMostRegisters = 64;
  // One row is whole in every warp; of more, four lanes share one. So nothing is exchanged between warps.
  int64_t rowLanes = rows == 1 ? 1 : 8, columnLanes = rows == 1 ? 32 : 4, warps = threads / 32;
  Value tile = t.fragment(rows, depth);
  if (warps == 0 || rows % rowLanes != 0 || depth % (columnLanes * kVector) != 0) {
    return tile;
  }
  int64_t rowWarps = std::gcd(warps, rows / rowLanes), threadRows = rows / (rowLanes * rowWarps);
  int64_t period = columnLanes * kVector;
  if (threadRows * depth / columnLanes > kMostRegisters) {
    return tile;
  }
  tile.getDefiningOp<tile::AllocOp>().setLayoutAttr(tile::makeLayout(
      b.getContext(), {{kVector, 1, 1}, {depth / period, period, 1}, {threadRows, rowLanes * rowWarps, 0}},
      {{columnLanes, kVector, 1}, {rowLanes, 1, 0}}, {{rowWarps, rowLanes, 0}, {warps / rowWarps, 0, 0}}));
  return tile;
}

void RowStatistics::begin(Value x, Value firstRow) {
  squares = t.fragment(rows, 1);
  t.fill(squares, 0.0f);
  if (norm == NormKind::layer) {
    anchor = t.fragment(rows, 1);
    total = t.fragment(rows, 1);
    t.load(anchor, x, {firstRow, writer.constant(0)}, {0, 1});
    t.fill(total, 0.0f);
  }
}

void RowStatistics::add(Value a, Value scratch, Value at, int64_t depth) {
  bool ragged = at && k % depth != 0;
  auto square = [&](Value value) { return arith::MulFOp::create(b, loc, value, value).getResult(); };
  if (norm == NormKind::layer) {
    t.map({a, anchor}, scratch, [&](ValueRange v) {
      Value difference = arith::SubFOp::create(b, loc, castFloat(b, loc, v[0], b.getF32Type()), v[1]);
      if (!ragged) {
        return difference;
      }
      Value column = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(1));
      Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, arith::AddIOp::create(b, loc, at, column),
                                           writer.constant(k));
      return arith::SelectOp::create(b, loc, inside, difference, t.number(0.0f)).getResult();
    });
    t.reduce(tile::ReduceKind::add, scratch, total, /*accumulate=*/true);
    t.map({scratch}, scratch, [&](ValueRange v) { return square(v[0]); });
  } else { // zeros past the end add nothing
    t.map({a}, scratch, [&](ValueRange v) { return square(castFloat(b, loc, v[0], b.getF32Type())); });
  }
  t.reduce(tile::ReduceKind::add, scratch, squares, /*accumulate=*/true);
}

void RowStatistics::finish(Value scale, Value mean) {
  Value width = t.number(1.0f / static_cast<float>(k)), epsilon = t.number(eps);
  auto mul = [&](Value x, Value y) { return arith::MulFOp::create(b, loc, x, y).getResult(); };
  auto root = [&](Value variance) {
    return math::RsqrtOp::create(b, loc, arith::AddFOp::create(b, loc, variance, epsilon)).getResult();
  };
  if (norm != NormKind::layer) {
    t.map({squares}, scale, [&](ValueRange v) { return root(mul(v[0], width)); });
    return;
  }
  t.map({total, squares}, scale, [&](ValueRange v) {
    Value offset = mul(v[0], width);
    Value variance = arith::SubFOp::create(b, loc, mul(v[1], width), mul(offset, offset));
    return root(arith::MaximumFOp::create(b, loc, variance, t.number(0.0f)));
  });
  t.map({total, anchor}, mean,
        [&](ValueRange v) { return arith::AddFOp::create(b, loc, mul(v[0], width), v[1]).getResult(); });
}
