//===- OpsLayout.cpp - padding, triangles, blocks of space
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// How many elements are put before (first half) and after every axis.
static FailureOr<Shape> padsOf(InferContext &c) {
  int64_t rank = c.in(0).rank();
  Shape given;
  if (std::optional<SmallVector<int64_t>> attr = c.node.getInts("pads")) {
    given.assign(attr->begin(), attr->end());
  } else {
    FailureOr<Shape> input = c.content(1, "pads");
    if (failed(input)) {
      return failure();
    }
    given = *input;
  }
  SmallVector<int64_t> axes;
  if (c.has(3)) {
    FailureOr<SmallVector<int64_t>> input = c.constants(3, "axes");
    if (failed(input)) {
      return failure();
    }
    axes = *input;
  } else {
    for (int64_t axis = 0; axis < rank; ++axis) {
      axes.push_back(axis);
    }
  }
  if (given.size() != 2 * axes.size()) {
    return c.fail("pads has " + Twine(given.size()) + " elements for " + Twine(axes.size()) + " axes");
  }
  Shape pads(2 * rank, SymbolicDim(0));
  for (auto [i, axis] : llvm::enumerate(axes)) {
    FailureOr<int64_t> counted = c.axis(axis, rank);
    if (failed(counted)) {
      return failure();
    }
    pads[*counted] = given[i];
    pads[*counted + rank] = given[i + axes.size()];
  }
  return pads;
}

static LogicalResult inferPad(InferContext &c) {
  FailureOr<Shape> pads = padsOf(c);
  if (failed(pads)) {
    return failure();
  }
  StringRef mode = c.node.getString("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    return c.fail("mode '" + mode + "' is not known; accepted are constant, edge, reflect and wrap");
  }
  Shape shape = c.shape(0);
  size_t rank = shape.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    shape[axis] = shape[axis] + (*pads)[axis] + (*pads)[axis + rank];
  }
  c.setOut(ValueInfo(c.in(0).elementType, shape));
  return success();
}

static LogicalResult buildPad(BuildContext &c) {
  Tensor x = c.input(0);
  Shape pads = *padsOf(c);
  StringRef mode = c.node.getString("mode", "constant");
  bool constant = mode == "constant";
  Value source = c.value(x);
  SmallVector<Value> starts, extents;
  for (auto [axis, dim] : llvm::enumerate(x.shape)) {
    starts.push_back(c.index(pads[axis]));
    extents.push_back(c.index(dim));
  }
  SmallVector<Tensor> inputs;
  if (constant && c.has(2)) {
    Tensor fill = c.input(2);
    inputs.push_back(c.reshape(fill, Shape()));
  } else if (constant) {
    inputs.push_back(c.full(Shape(), x.type, c.node.getFloat("value", 0.0)));
  }
  Shape padded;
  for (auto [axis, dim] : llvm::enumerate(x.shape)) {
    if (!pads[axis].is(0) || !pads[axis + x.shape.size()].is(0)) {
      padded.push_back(dim);
    }
  }
  Value some = c.unlessEmpty(padded);
  c.give(c.mapIndexed(
      inputs, *c.result().shape, x.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
        Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
        Value inside = integerConstant(b, loc, b.getI1Type(), 1);
        auto floorMod = [&](Value value, Value by) -> Value {
          Value safe = arith::MaxSIOp::create(b, loc, by, one);
          Value rest = arith::RemSIOp::create(b, loc, value, safe);
          Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, rest, zero);
          return arith::SelectOp::create(b, loc, negative, arith::AddIOp::create(b, loc, rest, safe), rest);
        };
        SmallVector<Value> from;
        for (auto [axis, extent] : llvm::enumerate(extents)) {
          if (pads[axis].is(0) && pads[axis + extents.size()].is(0)) {
            from.push_back(at[axis]);
            continue;
          }
          Value position = arith::SubIOp::create(b, loc, at[axis], starts[axis]);
          Value last = arith::SubIOp::create(b, loc, extent, one);
          if (constant) {
            Value low = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, position, zero);
            Value high = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, position, extent);
            inside = arith::AndIOp::create(b, loc, inside, arith::AndIOp::create(b, loc, low, high));
          } else if (mode == "wrap") {
            position = floorMod(position, extent);
          } else if (mode == "reflect") {
            // Back and forth with a period of 2 (n - 1), the ends not repeated.
            Value period = arith::AddIOp::create(b, loc, last, last);
            Value phase = floorMod(position, period);
            position = arith::MinSIOp::create(b, loc, phase, arith::SubIOp::create(b, loc, period, phase));
          }
          position = arith::MinSIOp::create(b, loc, position, last);
          from.push_back(arith::MaxSIOp::create(b, loc, position, zero));
        }
        Value element = c.read(b, loc, source, from, some);
        return constant ? arith::SelectOp::create(b, loc, inside, element, e[0]).getResult() : element;
      }));
  return success();
}

//===----------------------------------------------------------------------===//
// Trilu
//===----------------------------------------------------------------------===//

static LogicalResult inferTrilu(InferContext &c) {
  if (c.in(0).rank() < 2) {
    return c.fail("its input must have at least 2 axes");
  }
  if (c.has(1) && failed(c.content(1, "k"))) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

static LogicalResult buildTrilu(BuildContext &c) {
  Tensor x = c.input(0);
  bool upper = c.node.getInt("upper", 1) != 0;
  SymbolicDim shift = c.has(1) && c.in(1).content->size() == 1 ? c.in(1).content->front() : SymbolicDim(0);
  Value k = c.index(shift), zero = c.constant(storageType(x.type), 0);
  size_t rank = x.shape.size();
  c.give(c.mapIndexed({x}, x.shape, x.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
    Value diagonal = arith::AddIOp::create(b, loc, at[rank - 2], k);
    auto order = upper ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle;
    Value kept = arith::CmpIOp::create(b, loc, order, at[rank - 1], diagonal);
    return arith::SelectOp::create(b, loc, kept, e[0], zero).getResult();
  }));
  return success();
}

//===----------------------------------------------------------------------===//
// DepthToSpace, SpaceToDepth
//===----------------------------------------------------------------------===//

static LogicalResult inferBlocks(InferContext &c, bool toSpace) {
  int64_t block = c.node.getInt("blocksize", 0);
  constexpr int64_t most = 1 << 20; // its square is an extent
  if (c.in(0).rank() != 4 || block <= 0 || block > most) {
    return c.fail("its input must have 4 axes, and blocksize must be from 1 to " + Twine(most));
  }
  const Shape &x = c.shape(0);
  SymbolicDim area(block * block);
  if (toSpace) {
    c.setOut(ValueInfo(c.in(0).elementType, {x[0], SymbolicDim::floorDiv(x[1], area), x[2] * block, x[3] * block}));
  } else {
    c.setOut(ValueInfo(c.in(0).elementType,
                       {x[0], x[1] * area, SymbolicDim::floorDiv(x[2], block), SymbolicDim::floorDiv(x[3], block)}));
  }
  return success();
}

static LogicalResult buildDepthToSpace(BuildContext &c) {
  Tensor x = c.input(0);
  SymbolicDim block = c.node.getInt("blocksize", 1);
  const Shape &y = *c.result().shape;
  bool columnFirst = c.node.getString("mode", "DCR") == "CRD";
  Tensor split = columnFirst ? c.reshape(x, {x.shape[0], y[1], block, block, x.shape[2], x.shape[3]})
                             : c.reshape(x, {x.shape[0], block, block, y[1], x.shape[2], x.shape[3]});
  Tensor moved = columnFirst ? c.transpose(split, {0, 1, 4, 2, 5, 3}) : c.transpose(split, {0, 3, 4, 1, 5, 2});
  c.give(c.reshape(moved, y));
  return success();
}

static LogicalResult buildSpaceToDepth(BuildContext &c) {
  Tensor x = c.input(0);
  SymbolicDim block = c.node.getInt("blocksize", 1);
  const Shape &y = *c.result().shape;
  Tensor split = c.reshape(x, {x.shape[0], x.shape[1], y[2], block, y[3], block});
  c.give(c.reshape(c.transpose(split, {0, 3, 5, 1, 2, 4}), y));
  return success();
}

void kimi::onnx::registerLayoutOps(OpTable &table) {
  table.add("Pad", 2, inferPad, buildPad, "axes must be constant");
  table.add("Trilu", 14, inferTrilu, buildTrilu);
  table.add("DepthToSpace", 1, [](InferContext &c) { return inferBlocks(c, true); }, buildDepthToSpace);
  table.add("SpaceToDepth", 1, [](InferContext &c) { return inferBlocks(c, false); }, buildSpaceToDepth);
}
