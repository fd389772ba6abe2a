//===- OpsReduce.cpp - reductions
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Elementwise.h"
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// The reduced axes, sorted; all of them where none is given, none with noop_with_empty_axes.
static FailureOr<SmallVector<int64_t>> reducedAxes(InferContext &c) {
  int64_t rank = c.in(0).rank();
  auto given = c.axes(1, rank);
  if (failed(given)) {
    return failure();
  }
  SmallVector<int64_t> axes;
  if (*given && !(*given)->empty()) {
    axes = **given;
  } else if (c.node.getInt("noop_with_empty_axes", 0) == 0) {
    for (int64_t axis = 0; axis < rank; ++axis) {
      axes.push_back(axis);
    }
  }
  llvm::sort(axes);
  axes.erase(llvm::unique(axes), axes.end());
  return axes;
}

static Shape reducedShape(ArrayRef<SymbolicDim> from, ArrayRef<int64_t> axes, bool keep) {
  Shape shape;
  for (auto [axis, dim] : llvm::enumerate(from)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis))) {
      shape.push_back(dim);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

using HostCombine = SymbolicDim (*)(const SymbolicDim &, const SymbolicDim &);
static SymbolicDim sum(const SymbolicDim &a, const SymbolicDim &b) { return a + b; }
static SymbolicDim product(const SymbolicDim &a, const SymbolicDim &b) { return a * b; }

static LogicalResult inferReduce(InferContext &c, HostCombine combine) {
  FailureOr<SmallVector<int64_t>> axes = reducedAxes(c);
  if (failed(axes)) {
    return failure();
  }
  const ValueInfo &x = c.in(0);
  ValueInfo info(x.elementType, reducedShape(*x.shape, *axes, c.node.getInt("keepdims", 1) != 0));
  std::optional<SmallVector<int64_t>> in = staticShape(*x.shape);
  if (combine && in && x.content && !x.content->empty()) {
    Shape kept = reducedShape(*x.shape, *axes, true);
    SmallVector<int64_t> extents = *staticShape(kept);
    SmallVector<std::optional<SymbolicDim>> totals(*elementCount(kept).getConstant());
    forEachCoordinate(*in, [&](ArrayRef<int64_t> coordinates) {
      SmallVector<int64_t> to(coordinates);
      for (int64_t axis : *axes) {
        to[axis] = 0;
      }
      const SymbolicDim &element = (*x.content)[flatIndex(coordinates, *in)];
      std::optional<SymbolicDim> &total = totals[flatIndex(to, extents)];
      total = total ? combine(*total, element) : element;
    });
    info.content.emplace();
    for (const std::optional<SymbolicDim> &total : totals) {
      info.content->push_back(*total);
    }
  }
  c.setOut(std::move(info));
  return success();
}

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

namespace {
enum class Kind { Sum, Mean, Prod, Max, Min, L1, L2, LogSum, LogSumExp, SumSquare };
} // namespace

/// The value that changes nothing when it is combined with another.
static Value neutral(BuildContext &c, Kind kind, Type type, Type onnxType) {
  if (kind == Kind::Prod) {
    return c.constant(type, 1);
  }
  if (kind != Kind::Max && kind != Kind::Min) {
    return c.constant(type, 0);
  }
  bool isMax = kind == Kind::Max;
  if (isa<FloatType>(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    return c.constant(type, isMax ? -infinity : infinity);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  bool isUnsigned = onnxType.isUnsignedInteger() || width == 1;
  APInt word = isMax ? (isUnsigned ? APInt::getMinValue(width) : APInt::getSignedMinValue(width))
                     : (isUnsigned ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width));
  return arith::ConstantOp::create(c.b, c.loc, c.b.getIntegerAttr(type, word));
}

static Value combineElements(OpBuilder &b, Location loc, Kind kind, Type onnxType, Value x, Value y) {
  bool isFloat = isa<FloatType>(x.getType()), isUnsigned = onnxType.isUnsignedInteger() || onnxType.isInteger(1);
  switch (kind) {
  case Kind::Prod:
    return isFloat ? arith::MulFOp::create(b, loc, x, y).getResult() : arith::MulIOp::create(b, loc, x, y).getResult();
  case Kind::Max:
    return isFloat      ? arith::MaximumFOp::create(b, loc, x, y).getResult()
           : isUnsigned ? arith::MaxUIOp::create(b, loc, x, y).getResult()
                        : arith::MaxSIOp::create(b, loc, x, y).getResult();
  case Kind::Min:
    return isFloat      ? arith::MinimumFOp::create(b, loc, x, y).getResult()
           : isUnsigned ? arith::MinUIOp::create(b, loc, x, y).getResult()
                        : arith::MinSIOp::create(b, loc, x, y).getResult();
  default:
    return isFloat ? arith::AddFOp::create(b, loc, x, y).getResult() : arith::AddIOp::create(b, loc, x, y).getResult();
  }
}

/// What is combined: the element itself, its square, its magnitude.
static Value prepare(OpBuilder &b, Location loc, Kind kind, Type onnxType, Value x) {
  bool isFloat = isa<FloatType>(x.getType());
  switch (kind) {
  case Kind::L1:
    if (isFloat) {
      return math::AbsFOp::create(b, loc, x);
    }
    return onnxType.isUnsignedInteger() ? x : math::AbsIOp::create(b, loc, x).getResult();
  case Kind::L2:
  case Kind::SumSquare:
    return isFloat ? arith::MulFOp::create(b, loc, x, x).getResult() : arith::MulIOp::create(b, loc, x, x).getResult();
  default:
    return x;
  }
}

static BuildFn reduction(Kind kind) {
  return [kind](BuildContext &c) -> LogicalResult {
    Tensor x = c.input(0);
    Type type = x.type, wide = accumulatorType(type);
    bool real = kind == Kind::L2 || kind == Kind::LogSum || kind == Kind::LogSumExp;
    if (real && !x.isFloat()) {
      wide = c.b.getF64Type();
    }
    SmallVector<int64_t> axes = *reducedAxes(c);
    SmallVector<Tensor> inputs = {x};
    Shape kept = reducedShape(x.shape, axes, true);
    auto run = [&](Kind how, Body body) {
      return c.reduce(inputs, x.shape, axes, wide, neutral(c, how, storageType(wide), wide), body,
                      [&](OpBuilder &b, Location loc, Value total, Value term) {
                        return combineElements(b, loc, how, wide, total, term);
                      });
    };
    auto element = [&](OpBuilder &b, Location loc, Value e) { return castElement(b, loc, e, type, wide); };
    if (kind == Kind::LogSumExp) {
      // log(sum(exp(x - m))) + m with m the largest, so that nothing overflows.
      Tensor most = run(Kind::Max, [&](OpBuilder &b, Location loc, ValueRange e) { return element(b, loc, e[0]); });
      Tensor shift = c.map({most}, most.shape, wide, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
        Value size = math::AbsFOp::create(b, loc, e[0]);
        Value infinity = scalarConstant(b, loc, wide, std::numeric_limits<double>::infinity());
        Value finite = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, size, infinity);
        return arith::SelectOp::create(b, loc, finite, e[0], scalarConstant(b, loc, wide, 0));
      });
      inputs.push_back(c.reshape(shift, kept));
      Tensor sum = run(Kind::Sum, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
        Value off = arith::SubFOp::create(b, loc, element(b, loc, e[0]), e[1]);
        return math::ExpOp::create(b, loc, off);
      });
      Tensor result = c.map({sum, shift}, sum.shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
        Value log = math::LogOp::create(b, loc, e[0]);
        return castElement(b, loc, arith::AddFOp::create(b, loc, log, e[1]), wide, type);
      });
      c.give(c.reshape(result, *c.result().shape));
      return success();
    }
    Tensor total = run(kind, [&](OpBuilder &b, Location loc, ValueRange e) {
      return prepare(b, loc, kind, wide, element(b, loc, e[0]));
    });
    bool finishes = kind == Kind::Mean || kind == Kind::L2 || kind == Kind::LogSum || wide != type;
    if (finishes) {
      SymbolicDim count(1);
      for (int64_t axis : axes) {
        count = count * x.shape[axis];
      }
      // The mean of no integers is of no meaning, but it must not end the program.
      count = isa<FloatType>(wide) ? count : SymbolicDim::max(count, 1);
      Value elements = kind == Kind::Mean ? c.index(count) : Value();
      total = c.map({total}, total.shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
        Value result = e[0];
        if (kind == Kind::Mean) {
          Value whole = arith::IndexCastOp::create(b, loc, b.getI64Type(), elements);
          Value number = castElement(b, loc, whole, b.getI64Type(), wide);
          result = isa<FloatType>(wide)       ? arith::DivFOp::create(b, loc, result, number).getResult()
                   : wide.isUnsignedInteger() ? arith::DivUIOp::create(b, loc, result, number).getResult()
                                              : arith::DivSIOp::create(b, loc, result, number).getResult();
        } else if (kind == Kind::L2) {
          result = math::SqrtOp::create(b, loc, result);
        } else if (kind == Kind::LogSum) {
          result = math::LogOp::create(b, loc, result);
        }
        return castElement(b, loc, result, wide, type);
      });
    }
    c.give(c.reshape(total, *c.result().shape));
    return success();
  };
}

void kimi::onnx::registerReduceOps(OpTable &table) {
  auto add = [&](StringRef name, Kind kind, HostCombine combine = nullptr) {
    table.add(
        name, 1, [combine](InferContext &c) { return inferReduce(c, combine); }, reduction(kind),
        "axes must be constant");
  };
  add("ReduceSum", Kind::Sum, sum);
  add("ReduceProd", Kind::Prod, product);
  add("ReduceMax", Kind::Max, SymbolicDim::max);
  add("ReduceMin", Kind::Min, SymbolicDim::min);
  add("ReduceMean", Kind::Mean);
  add("ReduceL1", Kind::L1);
  add("ReduceL2", Kind::L2);
  add("ReduceLogSum", Kind::LogSum);
  add("ReduceLogSumExp", Kind::LogSumExp);
  add("ReduceSumSquare", Kind::SumSquare);
}
