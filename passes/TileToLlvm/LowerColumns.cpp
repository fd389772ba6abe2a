//===- LowerColumns.cpp - tile.scan, tile.pick_rows and tile.solve to vectors
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToLlvm/VectorEmitter.h"

using namespace mlir;
using namespace kimi;

/// Runs `fn(column, width)` for the columns of a tile in vectors, the last of those left over.
static void forColumns(VectorEmitter &e, Value tile, llvm::function_ref<void(Value, unsigned)> fn) {
  int64_t columns = cast<MemRefType>(tile.getType()).getDimSize(1), whole = columns / e.lanes * e.lanes;
  if (whole > 0) {
    e.loop(e.index(0), e.index(whole), e.lanes, [&](Value j) { fn(j, e.lanes); });
  }
  if (columns > whole) {
    fn(e.index(whole), columns - whole);
  }
}

static int64_t rowsOf(Value tile) { return cast<MemRefType>(tile.getType()).getDimSize(0); }

void kimi::lowerScan(VectorEmitter &e, tile::ScanOp op) {
  FlatBuffer in = e.flatten(op.getInput()), out = e.flatten(op.getOut());
  forColumns(e, op.getInput(), [&](Value j, unsigned width) {
    Value zero = e.constant(in.element, 0.0, width);
    e.loop(e.index(0), e.index(rowsOf(op.getInput())), 1, zero, [&](Value i, ValueRange carried) {
      Value next = e.load(in, e.position(in, {i, j}), width);
      Value sum = arith::AddFOp::create(e.b, e.loc, carried[0], next);
      e.store(sum, out, e.position(out, {i, j}));
      return SmallVector<Value>{sum};
    });
  });
}

void kimi::lowerPickRows(VectorEmitter &e, tile::PickRowsOp op) {
  FlatBuffer in = e.flatten(op.getInput()), out = e.flatten(op.getOut());
  int64_t block = op.getBlock();
  forColumns(e, op.getInput(), [&](Value j, unsigned width) {
    e.loop(e.index(0), e.index(rowsOf(op.getInput())), block, [&](Value first) {
      Value row = e.load(in, e.position(in, {e.add(first, e.index(op.getRow())), j}), width);
      e.loop(e.index(0), e.index(block), 1, [&](Value i) { e.store(row, out, e.position(out, {e.add(first, i), j})); });
    });
  });
}

void kimi::lowerSolve(VectorEmitter &e, tile::SolveOp op) {
  FlatBuffer a = e.flatten(op.getA()), x = e.flatten(op.getX());
  e.loop(e.index(1), e.index(rowsOf(op.getX())), 1, [&](Value i) {
    forColumns(e, op.getX(), [&](Value j, unsigned width) {
      Value start = e.load(x, e.position(x, {i, j}), width);
      Value row = e.loop(e.index(0), i, 1, start, [&](Value m, ValueRange carried) {
        Value factor = arith::NegFOp::create(e.b, e.loc, e.load(a, e.position(a, {i, m}), 0));
        Value known = e.load(x, e.position(x, {m, j}), width);
        return SmallVector<Value>{math::FmaOp::create(e.b, e.loc, e.splat(factor, width), known, carried[0])};
      })[0];
      e.store(row, x, e.position(x, {i, j}));
    });
  });
}
