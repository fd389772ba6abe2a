//===- TaskLoop.cpp - the rows that one task of a loop kernel computes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/TaskLoop.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kimi;

TaskLoop::TaskLoop(ArrayRef<SymbolicDim> loopExtents, const SymbolicDim &pointWork, int64_t taskWork)
    : extents(loopExtents.begin(), loopExtents.end()) {
  if (extents.empty()) {
    return;
  }
  SymbolicDim last = extents.back();
  if (taskWork <= 1) { // a point a task
    pieces = last;
    for (size_t i = 0; i + 1 < extents.size(); ++i) {
      units = units * extents[i];
    }
    units = taskCount = units * pieces;
    return;
  }
  SymbolicDim work = SymbolicDim::max(pointWork, 1);
  piece = SymbolicDim::max(SymbolicDim::floorDiv(taskWork, work), 1);
  SymbolicDim fits = last - piece;
  if ((SymbolicDim(0) - fits).isKnownNonNegative()) {
    piece = last; // a row is never more than a task
  } else {
    pieces = SymbolicDim::ceilDiv(last, piece);
  }
  for (size_t i = 0; i + 1 < extents.size(); ++i) {
    units = units * extents[i];
  }
  units = units * pieces;
  SymbolicDim unitWork = SymbolicDim::max(SymbolicDim::min(last, piece) * work, 1);
  unitsPerTask = SymbolicDim::max(SymbolicDim::floorDiv(taskWork, unitWork), 1);
  taskCount = SymbolicDim::ceilDiv(units, unitsPerTask);
}

/// Point `number` of the row-major sequence of all points.
static SmallVector<Value> pointOf(OpBuilder &b, Location loc, Value number, ArrayRef<Value> bounds) {
  SmallVector<Value> point(bounds.size());
  for (size_t axis = bounds.size(); axis-- > 1;) {
    point[axis] = arith::RemUIOp::create(b, loc, number, bounds[axis]);
    number = arith::DivUIOp::create(b, loc, number, bounds[axis]);
  }
  point[0] = number;
  return point;
}

void TaskLoop::build(KernelWriter &writer, ArrayRef<Value> bounds,
                     llvm::function_ref<void(ArrayRef<Value>)> body) const {
  OpBuilder &b = writer.body();
  Location loc = writer.loc();
  if (bounds.empty()) {
    return body({});
  }
  Value zero = writer.constant(0), one = writer.constant(1);
  if (unitsPerTask.is(1) && piece.is(1)) {
    return body(pointOf(b, loc, tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0)), bounds));
  }
  Value perTask = writer.scalar(unitsPerTask);
  Value pieceSize = pieces.is(1) ? Value() : writer.scalar(piece);
  Value count = one, pieceCount;
  if (pieceSize) {
    pieceCount = arith::CeilDivUIOp::create(b, loc, bounds.back(), pieceSize);
    count = pieceCount;
  }
  for (Value bound : bounds.drop_back()) {
    count = arith::MulIOp::create(b, loc, count, bound);
  }
  Value block = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
  Value first = arith::MulIOp::create(b, loc, block, perTask);
  Value end = arith::AddIOp::create(b, loc, first, perTask);
  end = arith::MinUIOp::create(b, loc, end, count);
  buildLoop(b, loc, first, end, one, [&](Value unit) {
    SmallVector<Value> point(bounds.size());
    Value rest = unit, from = zero, to = bounds.back();
    if (pieceSize) {
      Value index = arith::RemUIOp::create(b, loc, rest, pieceCount);
      rest = arith::DivUIOp::create(b, loc, rest, pieceCount);
      from = arith::MulIOp::create(b, loc, index, pieceSize);
      to = arith::MinUIOp::create(b, loc, to, arith::AddIOp::create(b, loc, from, pieceSize));
    }
    for (int64_t axis = static_cast<int64_t>(bounds.size()) - 2; axis >= 0; --axis) {
      if (axis == 0) {
        point[axis] = rest;
        break;
      }
      point[axis] = arith::RemUIOp::create(b, loc, rest, bounds[axis]);
      rest = arith::DivUIOp::create(b, loc, rest, bounds[axis]);
    }
    buildLoop(b, loc, from, to, one, [&](Value last) {
      point.back() = last;
      body(point);
    });
  });
}
