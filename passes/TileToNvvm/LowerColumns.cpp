//===- LowerColumns.cpp - tile.scan, tile.pick_rows and tile.solve: a thread's columns
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread holds whole columns, so rows depend on registers of its own: nothing is exchanged. What solve reads of its
// matrix is the same for all threads, a broadcast of shared memory.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToNvvm/BlockLowering.h"

using namespace mlir;
using namespace kimi;

namespace {
/// The registers of each column, by row.
std::map<int64_t, std::map<int64_t, int64_t>> columnsOf(tile::LayoutAttr layout) {
  std::map<int64_t, std::map<int64_t, int64_t>> columns;
  for (int64_t r = 0; r < layout.registerCount(); ++r) {
    SmallVector<int64_t> offset = layout.registerOffset(r, 2);
    columns[offset[1]][offset[0]] = r;
  }
  return columns;
}

tile::LayoutAttr columnLayoutOf(MLIRContext *context, const TileOperand &operand, ArrayRef<int64_t> shape,
                                int64_t warps) {
  if (auto *fragment = std::get_if<Fragment *>(&operand); fragment && tile::holdsColumns((*fragment)->layout)) {
    return (*fragment)->layout;
  }
  return tile::columnLayout(context, shape[0], shape[1], warps);
}
} // namespace

static ArrayRef<int64_t> shapeOf(Value tile) { return cast<MemRefType>(tile.getType()).getShape(); }

LogicalResult BlockLowering::rewriteColumns(Operation *op, Value input, Value result, ColumnFn fn) {
  FailureOr<TileOperand> in = operand(op, input), out = operand(op, result);
  if (failed(in) || failed(out)) {
    return failure();
  }
  tile::LayoutAttr layout = columnLayoutOf(builder.getContext(), *in, shapeOf(input), e.warps());
  if (auto *memory = std::get_if<MemoryBox>(&*in)) {
    access({memory}, {});
  }
  Values values = readOperand(op, *in, layout, shapeOf(input));
  for (auto &[column, registers] : columnsOf(layout)) {
    Values rows;
    for (auto &[row, r] : registers) {
      rows.push_back(values[r]);
    }
    fn(rows);
    for (auto &[row, r] : registers) {
      values[r] = rows[row];
    }
  }
  if (auto *memory = std::get_if<MemoryBox>(&*out)) {
    access({}, {memory});
  }
  writeOperand(op, *out, layout, values);
  return success();
}

LogicalResult BlockLowering::lowerScan(tile::ScanOp op) {
  return rewriteColumns(op, op.getInput(), op.getOut(), [&](Values &rows) {
    for (size_t i = 1; i < rows.size(); ++i) {
      rows[i] = arith::AddFOp::create(builder, e.loc, rows[i - 1], rows[i]);
    }
  });
}

LogicalResult BlockLowering::lowerPickRows(tile::PickRowsOp op) {
  return rewriteColumns(op, op.getInput(), op.getOut(), [&](Values &rows) {
    Values all = rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = all[i - i % op.getBlock() + op.getRow()];
    }
  });
}

LogicalResult BlockLowering::lowerSolve(tile::SolveOp op) {
  FailureOr<TileOperand> a = operand(op, op.getA()), x = operand(op, op.getX());
  if (failed(a) || failed(x)) {
    return failure();
  }
  tile::LayoutAttr layout = columnLayoutOf(builder.getContext(), *x, shapeOf(op.getX()), e.warps());
  MemoryBox matrix = inMemory(op, *a);
  if (auto *memory = std::get_if<MemoryBox>(&*x)) {
    access({&matrix, memory}, {});
  } else {
    access({&matrix}, {});
  }
  Values values = readOperand(op, *x, layout, shapeOf(op.getX()));
  auto columns = columnsOf(layout);
  int64_t rows = shapeOf(op.getX())[0], vector = std::min<int64_t>(4, matrix.vectorElements());
  auto minusProduct = [&](Value factor, Value known, Value sum) -> Value {
    return math::FmaOp::create(builder, e.loc, factor, known, sum);
  };
  for (int64_t i = 1; i < rows; ++i) {
    // Two sums a column, so that their additions overlap.
    SmallVector<std::array<Value, 2>> sums(columns.size());
    for (int64_t m = 0; m < i; m += vector) {
      Values factors = matrix.load({Coord(i), Coord(m)}, vector);
      for (int64_t k = 0; k < vector && m + k < i; ++k) {
        Value factor = arith::NegFOp::create(builder, e.loc, factors[k]);
        for (auto [sum, column] : llvm::zip(sums, columns)) {
          std::map<int64_t, int64_t> &registers = column.second;
          Value &part = sum[k % 2];
          Value start = part ? part : k % 2 == 0 ? values[registers[i]] : Value();
          part = start ? minusProduct(factor, values[registers[m + k]], start)
                       : arith::MulFOp::create(builder, e.loc, factor, values[registers[m + k]]).getResult();
        }
      }
    }
    for (auto [sum, column] : llvm::zip(sums, columns)) {
      values[column.second[i]] = sum[1] ? arith::AddFOp::create(builder, e.loc, sum[0], sum[1]).getResult() : sum[0];
    }
  }
  if (auto *memory = std::get_if<MemoryBox>(&*x)) {
    access({}, {memory});
  }
  writeOperand(op, *x, layout, values);
  return success();
}
