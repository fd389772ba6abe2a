//===- OpsSort.cpp - running sums, order
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Elementwise.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// Rows: everything but one axis
//===----------------------------------------------------------------------===//

static SymbolicDim rowCount(ArrayRef<SymbolicDim> shape, int64_t axis) {
  SymbolicDim count(1);
  for (auto [i, dim] : llvm::enumerate(shape)) {
    count = static_cast<int64_t>(i) == axis ? count : count * dim;
  }
  return count;
}

/// The position of row `row` of `buffer` on every axis but `axis`, where it is null.
static SmallVector<Value> rowPosition(OpBuilder &b, Location loc, Value buffer, Value row, int64_t axis) {
  int64_t rank = cast<MemRefType>(buffer.getType()).getRank();
  SmallVector<Value> position(rank);
  for (int64_t i = rank; i-- > 0;) {
    if (i == axis) {
      continue;
    }
    Value extent = memref::DimOp::create(b, loc, buffer, i);
    position[i] = arith::RemUIOp::create(b, loc, row, extent);
    row = arith::DivUIOp::create(b, loc, row, extent);
  }
  return position;
}

static SmallVector<Value> at(ArrayRef<Value> position, int64_t axis, Value index) {
  SmallVector<Value> full(position);
  full[axis] = index;
  return full;
}

static scf::ForOp loop(OpBuilder &b, Location loc, Value end, ValueRange start,
                       function_ref<SmallVector<Value>(OpBuilder &, Location, Value, ValueRange)> body) {
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  return scf::ForOp::create(b, loc, zero, end, one, start,
                            [&](OpBuilder &inner, Location at, Value index, ValueRange carried) {
                              scf::YieldOp::create(inner, at, body(inner, at, index, carried));
                            });
}

//===----------------------------------------------------------------------===//
// CumSum, CumProd
//===----------------------------------------------------------------------===//

static LogicalResult inferCumulative(InferContext &c) {
  FailureOr<SmallVector<int64_t>> axis = c.constants(1, "axis");
  if (failed(axis)) {
    return failure();
  }
  if (axis->size() != 1) {
    return c.fail("axis must be one number");
  }
  if (failed(c.axis(axis->front(), c.in(0).rank()))) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

static LogicalResult buildCumulative(BuildContext &c, bool product) {
  Tensor x = c.input(0);
  int64_t axis = *c.axis(c.constants(1, "axis")->front(), x.rank());
  bool exclusive = c.node.getInt("exclusive", 0) != 0, reverse = c.node.getInt("reverse", 0) != 0;
  Type element = storageType(x.type), sum = accumulatorType(element);
  auto body = [&](OpBuilder &b, Location loc, ValueRange arguments) {
    Value in = arguments[0], out = arguments[1], row = arguments[2];
    SmallVector<Value> position = rowPosition(b, loc, in, row, axis);
    Value extent = memref::DimOp::create(b, loc, in, axis), one = arith::ConstantIndexOp::create(b, loc, 1);
    loop(b, loc, extent, scalarConstant(b, loc, sum, product ? 1 : 0),
         [&](OpBuilder &inner, Location at_, Value step, ValueRange carried) -> SmallVector<Value> {
           Value index = step;
           if (reverse) {
             Value last = arith::SubIOp::create(inner, at_, extent, one);
             index = arith::SubIOp::create(inner, at_, last, step);
           }
           Value item = memref::LoadOp::create(inner, at_, in, at(position, axis, index));
           item = widenElement(inner, at_, item);
           Value total;
           if (isa<FloatType>(sum)) {
             total = product ? arith::MulFOp::create(inner, at_, carried[0], item).getResult()
                             : arith::AddFOp::create(inner, at_, carried[0], item).getResult();
           } else {
             total = product ? arith::MulIOp::create(inner, at_, carried[0], item).getResult()
                             : arith::AddIOp::create(inner, at_, carried[0], item).getResult();
           }
           Value given = exclusive ? carried[0] : total;
           given = isa<FloatType>(sum) ? castElement(inner, at_, given, sum, element) : given;
           memref::StoreOp::create(inner, at_, given, out, at(position, axis, index));
           return {total};
         });
  };
  c.give(c.loops({x}, {c.result()}, {}, rowCount(x.shape, axis), body).front());
  return success();
}

//===----------------------------------------------------------------------===//
// TopK, ArgMax, ArgMin
//===----------------------------------------------------------------------===//

/// a comes strictly before b: greater (or less). NaN comes before every number, as in numpy.
static Value precedes(OpBuilder &b, Location loc, Value x, Value y, Type type, bool largest) {
  if (isa<FloatType>(type)) {
    auto order = largest ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
    Value before = arith::CmpFOp::create(b, loc, order, x, y);
    Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
    Value isNumber = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, y, y);
    return arith::OrIOp::create(b, loc, before, arith::AndIOp::create(b, loc, isNan, isNumber));
  }
  bool isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  auto order = largest ? (isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt)
                       : (isUnsigned ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt);
  return arith::CmpIOp::create(b, loc, order, x, y);
}

static LogicalResult inferTopK(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", -1), c.in(0).rank());
  FailureOr<Shape> k = failed(axis) ? FailureOr<Shape>() : c.content(1, "k");
  if (failed(axis) || failed(k) || k->size() != 1) {
    return failure();
  }
  Shape shape = c.shape(0);
  shape[*axis] = k->front();
  c.setOut(0, ValueInfo(c.in(0).elementType, shape));
  c.setOut(1, ValueInfo(IntegerType::get(c.node.getContext(), 64), shape));
  return success();
}

/// Selection, one place after another: the first element in order that comes after the one placed before it. Order is
/// by value, then by index, so ties are given lowest index first.
static LogicalResult buildTopK(BuildContext &c) {
  Tensor x = c.input(0);
  int64_t axis = *c.axis(c.node.getInt("axis", -1), x.rank());
  bool largest = c.node.getInt("largest", 1) != 0;
  Type type = x.type, element = storageType(type);
  auto body = [&](OpBuilder &b, Location loc, ValueRange arguments) {
    Value in = arguments[0], values = arguments[1], indices = arguments[2], row = arguments[3];
    SmallVector<Value> position = rowPosition(b, loc, in, row, axis);
    Value extent = memref::DimOp::create(b, loc, in, axis), count = memref::DimOp::create(b, loc, values, axis);
    Value none = arith::ConstantIndexOp::create(b, loc, -1), zero = scalarConstant(b, loc, element, 0);
    auto scan = [&](OpBuilder &inner, Location at_, Value, ValueRange placed) -> SmallVector<Value> {
      auto equal = [&](OpBuilder &bb, Value l, Value r) -> Value {
        return arith::CmpIOp::create(bb, at_, arith::CmpIPredicate::eq, l, r);
      };
      Value isFirst = equal(inner, placed[1], none);
      scf::ForOp best = loop(
          inner, at_, extent, {zero, none},
          [&](OpBuilder &bb, Location l, Value index, ValueRange found) -> SmallVector<Value> {
            Value item = memref::LoadOp::create(bb, l, in, at(position, axis, index));
            // Not placed yet: it comes after the last one placed.
            Value later = precedes(bb, l, placed[0], item, type, largest);
            Value sooner = precedes(bb, l, item, placed[0], type, largest);
            Value beyond = arith::CmpIOp::create(bb, l, arith::CmpIPredicate::sgt, index, placed[1]);
            Value notSooner = arith::SelectOp::create(bb, l, sooner, integerConstant(bb, l, bb.getI1Type(), 0), beyond);
            Value open = arith::OrIOp::create(bb, l, isFirst, arith::OrIOp::create(bb, l, later, notSooner));
            Value better =
                arith::OrIOp::create(bb, l, equal(bb, found[1], none), precedes(bb, l, item, found[0], type, largest));
            Value take = arith::AndIOp::create(bb, l, open, better);
            return {arith::SelectOp::create(bb, l, take, item, found[0]),
                    arith::SelectOp::create(bb, l, take, index, found[1])};
          });
      return {best.getResult(0), best.getResult(1)};
    };
    loop(b, loc, count, {zero, none},
         [&](OpBuilder &inner, Location at_, Value place, ValueRange placed) -> SmallVector<Value> {
           SmallVector<Value> next = scan(inner, at_, place, placed);
           memref::StoreOp::create(inner, at_, next[0], values, at(position, axis, place));
           Value index = arith::IndexCastOp::create(inner, at_, inner.getI64Type(), next[1]);
           memref::StoreOp::create(inner, at_, index, indices, at(position, axis, place));
           return next;
         });
  };
  SmallVector<Tensor> results = c.loops({x}, {c.result(0), c.result(1)}, {}, rowCount(x.shape, axis), body);
  c.give(0, results[0]);
  c.give(1, results[1]);
  return success();
}

static LogicalResult inferArg(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  Shape shape = c.shape(0);
  if (c.node.getInt("keepdims", 1) != 0) {
    shape[*axis] = 1;
  } else {
    shape.erase(shape.begin() + *axis);
  }
  c.setOut(ValueInfo(IntegerType::get(c.node.getContext(), 64), shape));
  return success();
}

/// The index of the greatest (or least) element along `axis`, the first or last of equal ones; extent 1 along it.
static Tensor indexOfExtreme(BuildContext &c, const Tensor &x, int64_t axis, bool largest, bool last) {
  Type type = x.type, element = storageType(type);
  Shape kept = x.shape;
  kept[axis] = 1;
  auto body = [&](OpBuilder &b, Location loc, ValueRange arguments) {
    Value in = arguments[0], out = arguments[1], row = arguments[2];
    SmallVector<Value> position = rowPosition(b, loc, in, row, axis);
    Value extent = memref::DimOp::create(b, loc, in, axis), zero = arith::ConstantIndexOp::create(b, loc, 0);
    scf::ForOp best =
        loop(b, loc, extent, {scalarConstant(b, loc, element, 0), zero},
             [&](OpBuilder &inner, Location l, Value index, ValueRange found) -> SmallVector<Value> {
               Value item = memref::LoadOp::create(inner, l, in, at(position, axis, index));
               Value better = precedes(inner, l, item, found[0], type, largest);
               if (last) {
                 Value worse = precedes(inner, l, found[0], item, type, largest);
                 better = arith::XOrIOp::create(inner, l, worse, integerConstant(inner, l, inner.getI1Type(), 1));
               }
               Value first = arith::CmpIOp::create(inner, l, arith::CmpIPredicate::eq, index, zero);
               Value take = arith::OrIOp::create(inner, l, first, better);
               return {arith::SelectOp::create(inner, l, take, item, found[0]),
                       arith::SelectOp::create(inner, l, take, index, found[1])};
             });
    Value index = arith::IndexCastOp::create(b, loc, b.getI64Type(), best.getResult(1));
    memref::StoreOp::create(b, loc, index, out, at(position, axis, zero));
  };
  ValueInfo info(c.b.getI64Type(), kept);
  return c.loops({x}, {info}, {}, rowCount(x.shape, axis), body).front();
}

static BuildFn argExtreme(bool largest) {
  return [largest](BuildContext &c) {
    Tensor x = c.input(0);
    int64_t axis = *c.axis(c.node.getInt("axis", 0), x.rank());
    bool last = c.node.getInt("select_last_index", 0) != 0;
    c.give(c.reshape(indexOfExtreme(c, x, axis, largest, last), *c.result().shape));
    return success();
  };
}

static LogicalResult inferHardmax(InferContext &c) {
  if (failed(c.axis(c.node.getInt("axis", -1), c.in(0).rank()))) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

/// 1 at the first of the greatest elements along the axis, 0 elsewhere.
static LogicalResult buildHardmax(BuildContext &c) {
  Tensor x = c.input(0);
  int64_t axis = *c.axis(c.node.getInt("axis", -1), x.rank());
  Tensor greatest = indexOfExtreme(c, x, axis, /*largest=*/true, /*last=*/false);
  Type element = storageType(x.type);
  c.give(c.mapIndexed({greatest}, x.shape, x.type,
                      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) -> Value {
                        Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), e[0]);
                        Value is = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, at[axis], index);
                        return arith::SelectOp::create(b, loc, is, scalarConstant(b, loc, element, 1),
                                                       scalarConstant(b, loc, element, 0));
                      }));
  return success();
}

void kimi::onnx::registerSortOps(OpTable &table) {
  table.add(
      "CumSum", 11, inferCumulative, [](BuildContext &c) { return buildCumulative(c, false); },
      "axis must be constant");
  table.add(
      "CumProd", 26, inferCumulative, [](BuildContext &c) { return buildCumulative(c, true); },
      "axis must be constant");
  table.add("Hardmax", 13, inferHardmax, buildHardmax);
  table.add("TopK", 10, inferTopK, buildTopK, "k must be known on the host");
  table.add("ArgMax", 1, inferArg, argExtreme(true));
  table.add("ArgMin", 1, inferArg, argExtreme(false));
}
