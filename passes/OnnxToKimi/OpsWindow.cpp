//===- OpsWindow.cpp - AveragePool, MaxPool, LpPool and the global ones
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Window.h"
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
enum class Pool { Average, Max, Lp };
} // namespace

static FailureOr<SmallVector<WindowAxis>> poolWindow(InferContext &c, bool global) {
  if (c.in(0).rank() < 3) {
    return c.fail("its input must have a batch, channels and at least one spatial axis");
  }
  ArrayRef<SymbolicDim> spatial = ArrayRef<SymbolicDim>(c.shape(0)).drop_front(2);
  Shape kernel(spatial);
  if (!global) {
    std::optional<SmallVector<int64_t>> given = c.node.getInts("kernel_shape");
    if (!given || given->size() != spatial.size() || llvm::any_of(*given, [](int64_t k) { return k < 1; })) {
      return c.fail("kernel_shape must give a positive extent for each spatial axis");
    }
    kernel.assign(given->begin(), given->end());
  }
  return readWindow(c, spatial, kernel);
}

static InferFn inferPool(bool global) {
  return [global](InferContext &c) -> LogicalResult {
    auto window = poolWindow(c, global);
    if (failed(window)) {
      return failure();
    }
    Shape shape(ArrayRef<SymbolicDim>(c.shape(0)).take_front(2));
    for (const WindowAxis &axis : *window) {
      shape.push_back(axis.out);
    }
    c.setOut(ValueInfo(c.in(0).elementType, shape));
    c.setOut(1, ValueInfo(IntegerType::get(c.node.getContext(), 64), shape));
    return success();
  };
}

/// The least value of a type: what a maximum over nothing is.
static Value least(BuildContext &c, Type onnxType) {
  Type type = storageType(onnxType);
  if (isa<FloatType>(type)) {
    return c.constant(type, -std::numeric_limits<double>::infinity());
  }
  unsigned width = type.getIntOrFloatBitWidth();
  APInt word = onnxType.isUnsignedInteger() ? APInt::getMinValue(width) : APInt::getSignedMinValue(width);
  return arith::ConstantOp::create(c.b, c.loc, c.b.getIntegerAttr(type, word));
}

static Value greater(OpBuilder &b, Location loc, Type onnxType, Value x, Value y) {
  return isa<FloatType>(x.getType())    ? arith::MaximumFOp::create(b, loc, x, y).getResult()
         : onnxType.isUnsignedInteger() ? arith::MaxUIOp::create(b, loc, x, y).getResult()
                                        : arith::MaxSIOp::create(b, loc, x, y).getResult();
}

/// How many elements of its window an average counts: those of the data, or of the data and its padding.
static Tensor countElements(BuildContext &c, ArrayRef<WindowAxis> window, ArrayRef<SymbolicDim> loops,
                            ArrayRef<int64_t> axes, Type wide) {
  SmallVector<WindowAxis> counted(window);
  if (c.node.getInt("count_include_pad", 0) != 0) {
    for (WindowAxis &axis : counted) {
      axis.in = axis.in + axis.padBegin + axis.padEnd;
      axis.padBegin = 0;
    }
  }
  size_t rank = window.size();
  return c.reduceIndexed(
      {}, loops, axes, wide, c.constant(wide, 0.0),
      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
        Value inside = windowPosition(c, b, loc, counted, at.take_front(rank), at.drop_front(rank)).second;
        return arith::SelectOp::create(b, loc, inside, scalarConstant(b, loc, wide, 1.0),
                                       scalarConstant(b, loc, wide, 0.0));
      },
      [](OpBuilder &b, Location loc, Value total, Value term) -> Value {
        return arith::AddFOp::create(b, loc, total, term);
      });
}

static BuildFn pool(Pool kind, bool global) {
  return [kind, global](BuildContext &c) -> LogicalResult {
    if (kind == Pool::Max && c.wants(1)) {
      return c.fail("its Indices output is not computed");
    }
    Tensor x = c.input(0);
    if (kind != Pool::Max && !x.isFloat()) {
      return c.fail("only floating-point elements are averaged");
    }
    SmallVector<WindowAxis> window = *poolWindow(c, global);
    size_t rank = window.size();
    // Loops over the result, then over the window.
    Shape loops = *c.result().shape, around;
    SmallVector<int64_t> axes, aroundAxes;
    for (const WindowAxis &axis : window) {
      around.push_back(axis.out);
    }
    for (const WindowAxis &axis : window) {
      aroundAxes.push_back(around.size());
      axes.push_back(loops.size());
      loops.push_back(axis.kernel);
      around.push_back(axis.kernel);
    }
    double p = static_cast<double>(c.node.getInt("p", 2));
    Value source = c.value(x), some = c.unlessEmpty(ArrayRef<SymbolicDim>(x.shape).drop_front(2));
    Type wide = accumulatorType(x.type);
    Value start = kind == Pool::Max ? least(c, wide) : c.constant(wide, 0.0);
    Tensor total = c.reduceIndexed(
        {}, loops, axes, wide, start,
        [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
          auto [spatial, inside] = windowPosition(c, b, loc, window, at.slice(2, rank), at.drop_front(2 + rank));
          SmallVector<Value> from{at[0], at[1]};
          llvm::append_range(from, spatial);
          Value element = widenElement(b, loc, c.read(b, loc, source, from, some));
          if (kind == Pool::Lp) {
            Value magnitude = math::AbsFOp::create(b, loc, element);
            element = math::PowFOp::create(b, loc, magnitude, scalarConstant(b, loc, wide, p));
          }
          return arith::SelectOp::create(b, loc, inside, element, start);
        },
        [&](OpBuilder &b, Location loc, Value sum, Value term) -> Value {
          return kind == Pool::Max ? greater(b, loc, wide, sum, term)
                                   : arith::AddFOp::create(b, loc, sum, term).getResult();
        });
    SmallVector<Tensor> inputs{total};
    if (kind == Pool::Average) {
      inputs.push_back(countElements(c, window, around, aroundAxes, wide));
    }
    c.give(c.map(inputs, *c.result().shape, x.type, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
      Value result = e[0];
      if (kind == Pool::Average) {
        result = arith::DivFOp::create(b, loc, result, e[1]);
      } else if (kind == Pool::Lp) {
        result = math::PowFOp::create(b, loc, result, scalarConstant(b, loc, wide, 1.0 / p));
      }
      return castElement(b, loc, result, wide, x.type);
    }));
    return success();
  };
}

void kimi::onnx::registerWindowOps(OpTable &table) {
  table.add("AveragePool", 7, inferPool(false), pool(Pool::Average, false));
  table.add("MaxPool", 1, inferPool(false), pool(Pool::Max, false), "no Indices output");
  table.add("LpPool", 2, inferPool(false), pool(Pool::Lp, false));
  table.add("GlobalAveragePool", 1, inferPool(true), pool(Pool::Average, true));
  table.add("GlobalMaxPool", 1, inferPool(true), pool(Pool::Max, true));
  table.add("GlobalLpPool", 2, inferPool(true), pool(Pool::Lp, true));
}
