//===- OpsNorm.cpp - softmax and norms
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// Over one axis since opset 13; before, over all axes from `axis` on.
static InferFn inferSoftmax(int64_t defaultAxis) {
  return [defaultAxis](InferContext &c) -> LogicalResult {
    if (failed(c.axis(c.node.getInt("axis", defaultAxis), c.in(0).rank()))) {
      return failure();
    }
    c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
    return success();
  };
}

/// Scales, biases and residuals are broadcast to x.
static void othersBroadcast(InferContext &c) {
  for (unsigned i = 1; i < c.numInputs(); ++i) {
    if (c.has(i)) {
      c.broadcasts(c.shape(i), c.shape(0));
    }
  }
}

static LogicalResult inferNorm(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", -1), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  othersBroadcast(c);
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  Shape statistics = c.shape(0);
  for (size_t i = *axis; i < statistics.size(); ++i) {
    statistics[i] = 1;
  }
  Type single = Float32Type::get(c.node.getContext());
  c.setOut(1, ValueInfo(single, statistics));
  c.setOut(2, ValueInfo(single, statistics));
  return success();
}

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

static BuildFn softmax(bool log) {
  return [log](BuildContext &c) {
    Tensor x = c.input(0);
    Value value = c.value(x);
    int64_t axis = *c.axis(c.node.getInt("axis", -1), x.rank());
    c.give(c.wrap(SoftmaxOp::create(c.b, c.loc, value.getType(), value, axis, log), x.shape, x.type));
    return success();
  };
}

/// Softmax until opset 12: of a matrix whose rows are the axes before `axis`, and whose columns are the others.
static BuildFn flatSoftmax(bool log) {
  return [log](BuildContext &c) {
    Tensor x = c.input(0);
    int64_t axis = *c.axis(c.node.getInt("axis", 1), x.rank());
    ArrayRef<SymbolicDim> shape = x.shape;
    Shape matrix = {elementCount(shape.take_front(axis)), elementCount(shape.drop_front(axis))};
    Value value = c.value(c.reshape(x, matrix));
    Value result = SoftmaxOp::create(c.b, c.loc, value.getType(), value, /*axis=*/1, log);
    c.give(c.reshape(c.wrap(result, matrix, x.type), x.shape));
    return success();
  };
}

Tensor kimi::onnx::meanOf(BuildContext &c, ArrayRef<Tensor> inputs, const Tensor &x, ArrayRef<int64_t> axes,
                          Body body) {
  Type single = c.b.getF32Type();
  Tensor sum = c.reduce(inputs, x.shape, axes, single, c.constant(single, 0), body,
                        [](OpBuilder &b, Location loc, Value total, Value term) -> Value {
                          return arith::AddFOp::create(b, loc, total, term);
                        });
  Shape kept = x.shape;
  SymbolicDim count(1);
  for (int64_t axis : axes) {
    count = count * kept[axis];
    kept[axis] = 1;
  }
  Value elements = arith::UIToFPOp::create(c.b, c.loc, single,
                                           arith::IndexCastUIOp::create(c.b, c.loc, c.b.getI64Type(), c.index(count)));
  Tensor mean = c.map({sum}, sum.shape, single, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
    return arith::DivFOp::create(b, loc, e[0], elements);
  });
  return c.reshape(mean, kept);
}

static Value toSingle(OpBuilder &b, Location loc, Value element) {
  return castElement(b, loc, element, element.getType(), b.getF32Type());
}

/// LayerNormalization and RMSNormalization over the axes from `axis` on.
static BuildFn norm(bool centred) {
  return [centred](BuildContext &c) -> LogicalResult {
    Tensor x = c.input(0), gamma = c.input(1);
    int64_t axis = *c.axis(c.node.getInt("axis", -1), x.rank());
    double eps = c.node.getFloat("epsilon", 1e-5);
    bool statistics = c.wants(1) || c.wants(2);
    ArrayRef<SymbolicDim> tail = ArrayRef<SymbolicDim>(x.shape).drop_front(axis);
    auto isTail = [&](const Tensor &t) { return ArrayRef<SymbolicDim>(t.shape) == tail; };
    bool hasBeta = centred && c.has(2);
    bool direct = x.isFloat() && !x.type.isF64() && isTail(gamma) && (!hasBeta || isTail(c.input(2))) && !statistics;
    if (direct) {
      // Several normalised axes are one after a collapse.
      Shape flat(ArrayRef<SymbolicDim>(x.shape).take_front(axis));
      if (axis == 0) {
        flat.push_back(1); // one row
      }
      flat.push_back(elementCount(tail));
      Value rows = c.value(c.reshape(x, flat)), scale = c.value(c.reshape(gamma, {flat.back()})), beta;
      if (hasBeta) {
        beta = c.value(c.reshape(c.input(2), {flat.back()}));
      }
      FloatAttr epsilon = c.b.getF32FloatAttr(static_cast<float>(eps));
      Value result = centred ? LayerNormOp::create(c.b, c.loc, rows.getType(), rows, scale, beta, epsilon).getResult()
                             : RmsNormOp::create(c.b, c.loc, rows.getType(), rows, scale, epsilon).getResult();
      c.give(c.reshape(c.wrap(result, flat, x.type), x.shape));
      return success();
    }
    SmallVector<int64_t> axes;
    for (int64_t i = axis; i < x.rank(); ++i) {
      axes.push_back(i);
    }
    Type single = c.b.getF32Type();
    Tensor mean = c.full(Shape(x.shape.size(), SymbolicDim(1)), single, 0.0);
    if (centred) {
      mean = meanOf(c, {x}, x, axes, [](OpBuilder &b, Location loc, ValueRange e) { return toSingle(b, loc, e[0]); });
    }
    Tensor variance = meanOf(c, {x, mean}, x, axes, [](OpBuilder &b, Location loc, ValueRange e) -> Value {
      Value off = arith::SubFOp::create(b, loc, toSingle(b, loc, e[0]), e[1]);
      return arith::MulFOp::create(b, loc, off, off);
    });
    Tensor inverse = c.map({variance}, variance.shape, single, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
      Value shifted = arith::AddFOp::create(b, loc, e[0], scalarConstant(b, loc, single, eps));
      Value root = math::SqrtOp::create(b, loc, shifted);
      return arith::DivFOp::create(b, loc, scalarConstant(b, loc, single, 1.0), root);
    });
    SmallVector<Tensor> inputs = {x, mean, inverse, gamma};
    if (hasBeta) {
      inputs.push_back(c.input(2));
    }
    c.give(c.map(inputs, x.shape, x.type, [&](OpBuilder &b, Location loc, ValueRange e) {
      Value off = arith::SubFOp::create(b, loc, toSingle(b, loc, e[0]), e[1]);
      Value normal = arith::MulFOp::create(b, loc, off, e[2]);
      Value result = arith::MulFOp::create(b, loc, normal, toSingle(b, loc, e[3]));
      if (hasBeta) {
        result = arith::AddFOp::create(b, loc, result, toSingle(b, loc, e[4]));
      }
      return castElement(b, loc, result, single, x.type);
    }));
    if (c.wants(1)) {
      c.give(1, mean);
    }
    if (c.wants(2)) {
      c.give(2, inverse);
    }
    return success();
  };
}

//===----------------------------------------------------------------------===//
// com.microsoft norms with a residual
//===----------------------------------------------------------------------===//

static LogicalResult inferSkipNorm(InferContext &c) {
  ValueInfo same(c.in(0).elementType, c.shape(0));
  Shape statistics = c.shape(0);
  if (statistics.empty()) {
    return c.fail("its input must have an axis");
  }
  othersBroadcast(c);
  statistics.back() = 1;
  c.setOut(0, same);
  c.setOut(1, ValueInfo(Float32Type::get(c.node.getContext()), statistics));
  c.setOut(2, ValueInfo(Float32Type::get(c.node.getContext()), statistics));
  c.setOut(3, same);
  return success();
}

/// norm(input + skip [+ bias]); output 3 is the sum. Inputs: input, skip, gamma, then (with `centred`) beta, then bias.
static BuildFn skipNorm(bool centred) {
  return [centred](BuildContext &c) -> LogicalResult {
    if (c.wants(1) || c.wants(2)) {
      return c.fail("its statistics outputs are not computed");
    }
    unsigned biasAt = centred ? 4 : 3;
    SmallVector<Tensor> inputs = {c.input(0), c.input(1)};
    if (c.has(biasAt)) {
      inputs.push_back(c.input(biasAt));
    }
    Tensor sum = c.map(inputs, inputs[0].shape, inputs[0].type, [](OpBuilder &b, Location loc, ValueRange e) {
      Value total = e[0];
      for (Value next : e.drop_front()) {
        total = arith::AddFOp::create(b, loc, total, next);
      }
      return total;
    });
    Value rows = c.value(sum), beta = centred && c.has(3) ? c.value(c.input(3)) : Value();
    FloatAttr eps = c.b.getF32FloatAttr(static_cast<float>(c.node.getFloat("epsilon", 1e-12)));
    Value scale = c.value(c.input(2));
    Value result = centred ? LayerNormOp::create(c.b, c.loc, rows.getType(), rows, scale, beta, eps).getResult()
                           : RmsNormOp::create(c.b, c.loc, rows.getType(), rows, scale, eps).getResult();
    c.give(c.wrap(result, sum.shape, sum.type));
    if (c.wants(3)) {
      c.give(3, sum);
    }
    return success();
  };
}

void kimi::onnx::registerNormOps(OpTable &table) {
  table.add("Softmax", 1, inferSoftmax(1), flatSoftmax(false));
  table.add("LogSoftmax", 1, inferSoftmax(1), flatSoftmax(true));
  table.add("Softmax", 13, inferSoftmax(-1), softmax(false));
  table.add("LogSoftmax", 13, inferSoftmax(-1), softmax(true));
  table.add("LayerNormalization", 17, inferNorm, norm(true));
  table.add("RMSNormalization", 23, inferNorm, norm(false));
  table.addMicrosoft("SimplifiedLayerNormalization", inferNorm, norm(false));
  table.addMicrosoft("SkipLayerNormalization", inferSkipNorm, skipNorm(true), "no statistics outputs");
  table.addMicrosoft("SkipSimplifiedLayerNormalization", inferSkipNorm, skipNorm(false), "no statistics outputs");
}
