//===- OpsConv.cpp - Conv, ConvInteger, ConvTranspose
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Window.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// x: [N, C, in...], w: [M, C/group, kernel...].
static FailureOr<SmallVector<WindowAxis>> convWindow(InferContext &c) {
  int64_t rank = c.in(0).rank(), group = c.node.getInt("group", 1);
  if (rank < 3 || c.in(1).rank() != rank) {
    return c.fail("its input and weight must have a batch, channels and the same spatial axes");
  }
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (group < 1 || x[1] != w[1] * SymbolicDim(group) || !SymbolicDim::divideExactly(w[0], group)) {
    return c.fail("channels " + x[1].str() + " in " + Twine(group) + " groups do not fit a weight of " + w[0].str() +
                  " by " + w[1].str());
  }
  return readWindow(c, ArrayRef<SymbolicDim>(x).drop_front(2), ArrayRef<SymbolicDim>(w).drop_front(2));
}

static LogicalResult inferConv(InferContext &c, Type type) {
  auto window = convWindow(c);
  if (failed(window)) {
    return failure();
  }
  Shape shape{c.shape(0)[0], c.shape(1)[0]};
  for (const WindowAxis &axis : *window) {
    shape.push_back(axis.out);
  }
  c.setOut(ValueInfo(type, shape));
  return success();
}

/// Loops over the result, then over the input channels of a group, then over the kernel; `element` gives a term.
static Tensor sumOver(BuildContext &c, Shape result, const SymbolicDim &channels, ArrayRef<WindowAxis> window,
                      Type wide, IndexedBody element) {
  SmallVector<int64_t> axes{static_cast<int64_t>(result.size())};
  result.push_back(channels);
  for (const WindowAxis &axis : window) {
    axes.push_back(result.size());
    result.push_back(axis.kernel);
  }
  return c.reduceIndexed({}, result, axes, wide, c.constant(storageType(wide), 0.0), element,
                         [&](OpBuilder &b, Location loc, Value total, Value term) -> Value {
                           return isa<FloatType>(wide) ? arith::AddFOp::create(b, loc, total, term).getResult()
                                                       : arith::AddIOp::create(b, loc, total, term).getResult();
                         });
}

static Value multiplyInside(OpBuilder &b, Location loc, Value inside, Value x, Value y) {
  Type type = x.getType();
  Value product = isa<FloatType>(type) ? arith::MulFOp::create(b, loc, x, y).getResult()
                                       : arith::MulIOp::create(b, loc, x, y).getResult();
  return arith::SelectOp::create(b, loc, inside, product, scalarConstant(b, loc, type, 0.0));
}

/// The sum plus the bias of its channel (input 2), as elements of the result.
static void giveWithBias(BuildContext &c, const Tensor &total, bool hasBias) {
  SmallVector<Tensor> inputs{total};
  if (hasBias) {
    Shape spread(total.shape.size(), SymbolicDim(1));
    spread[1] = total.shape[1];
    inputs.push_back(c.reshape(c.input(2), spread));
  }
  Type wide = total.type, type = c.result().elementType;
  c.give(c.map(inputs, total.shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value sum = e.size() > 1 ? arith::AddFOp::create(b, loc, e[0], widenElement(b, loc, e[1])).getResult() : e[0];
    return castElement(b, loc, sum, wide, type);
  }));
}

static LogicalResult buildConv(BuildContext &c) {
  Tensor x = c.input(0), w = c.input(1);
  if (!x.isFloat()) {
    return c.fail("only floating-point elements are supported");
  }
  SmallVector<WindowAxis> window = *convWindow(c);
  size_t rank = window.size();
  Type wide = accumulatorType(x.type);
  Value source = c.value(x), weight = c.value(w), channels = c.index(w.shape[1]);
  Value some = c.unlessEmpty(ArrayRef<SymbolicDim>(x.shape).drop_front(2));
  Value perGroup = c.index(*SymbolicDim::divideExactly(w.shape[0], c.node.getInt("group", 1)));
  auto element = [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
    auto [spatial, inside] = windowPosition(c, b, loc, window, at.slice(2, rank), at.drop_front(3 + rank));
    Value first = arith::MulIOp::create(b, loc, arith::DivUIOp::create(b, loc, at[1], perGroup), channels);
    SmallVector<Value> from{at[0], arith::AddIOp::create(b, loc, first, at[2 + rank])};
    llvm::append_range(from, spatial);
    SmallVector<Value> by{at[1]};
    llvm::append_range(by, at.drop_front(2 + rank));
    return multiplyInside(b, loc, inside, widenElement(b, loc, c.read(b, loc, source, from, some)),
                          widenElement(b, loc, c.read(b, loc, weight, by)));
  };
  giveWithBias(c, sumOver(c, *c.result().shape, w.shape[1], window, wide, element), c.has(2));
  return success();
}

/// x and w are 8-bit, less their zero points: of all x, of all w or of each output channel.
static LogicalResult buildConvInteger(BuildContext &c) {
  Tensor x = c.input(0), w = c.input(1);
  SmallVector<WindowAxis> window = *convWindow(c);
  size_t rank = window.size();
  Type wide = c.b.getI32Type();
  Value source = c.value(x), weight = c.value(w), channels = c.index(w.shape[1]);
  Value some = c.unlessEmpty(ArrayRef<SymbolicDim>(x.shape).drop_front(2));
  Value perGroup = c.index(*SymbolicDim::divideExactly(w.shape[0], c.node.getInt("group", 1)));
  Value xZero = c.has(2) ? c.value(c.reshape(c.input(2), {})) : Value();
  bool perChannel = c.has(3) && c.input(3).rank() == 1 && !c.input(3).shape[0].is(1);
  Value wZero = !c.has(3) ? Value() : perChannel ? c.value(c.input(3)) : c.value(c.reshape(c.input(3), {}));
  auto element = [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
    auto less = [&](Value value, Type type, Value zero, ArrayRef<Value> where) {
      value = castElement(b, loc, value, type, wide);
      return zero ? arith::SubIOp::create(b, loc, value, castElement(b, loc, c.read(b, loc, zero, where), type, wide))
                        .getResult()
                  : value;
    };
    auto [spatial, inside] = windowPosition(c, b, loc, window, at.slice(2, rank), at.drop_front(3 + rank));
    Value first = arith::MulIOp::create(b, loc, arith::DivUIOp::create(b, loc, at[1], perGroup), channels);
    SmallVector<Value> from{at[0], arith::AddIOp::create(b, loc, first, at[2 + rank])};
    llvm::append_range(from, spatial);
    SmallVector<Value> by{at[1]}, which;
    llvm::append_range(by, at.drop_front(2 + rank));
    if (perChannel) {
      which.push_back(at[1]);
    }
    return multiplyInside(b, loc, inside, less(c.read(b, loc, source, from, some), x.type, xZero, {}),
                          less(c.read(b, loc, weight, by), w.type, wZero, which));
  };
  c.give(sumOver(c, *c.result().shape, w.shape[1], window, wide, element));
  return success();
}

//===----------------------------------------------------------------------===//
// ConvTranspose
//===----------------------------------------------------------------------===//

/// x: [N, C, in...], w: [C, M/group, kernel...]. The window of a transposed convolution is that of the convolution from
/// its result to its input: position i of x reaches i * stride - padBegin + k * dilation of the result.
static FailureOr<SmallVector<WindowAxis>> transposedWindow(InferContext &c) {
  int64_t rank = c.in(0).rank(), group = c.node.getInt("group", 1);
  if (rank < 3 || c.in(1).rank() != rank) {
    return c.fail("its input and weight must have a batch, channels and the same spatial axes");
  }
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (group < 1 || x[1] != w[0] || !SymbolicDim::divideExactly(w[0], group)) {
    return c.fail("channels " + x[1].str() + " in " + Twine(group) + " groups do not fit a weight of " + w[0].str() +
                  " by " + w[1].str());
  }
  size_t axes = rank - 2;
  auto ints = [&](StringRef name, size_t count, int64_t fallback) {
    return c.node.getInts(name).value_or(SmallVector<int64_t>(count, fallback));
  };
  SmallVector<int64_t> strides = ints("strides", axes, 1), dilations = ints("dilations", axes, 1),
                       pads = ints("pads", 2 * axes, 0), extra = ints("output_padding", axes, 0),
                       wanted = ints("output_shape", axes, -1);
  StringRef autoPad = c.node.getString("auto_pad", "NOTSET");
  bool sized = c.node.getInts("output_shape").has_value(), isSame = autoPad.starts_with("SAME_");
  for (ArrayRef<int64_t> list : {ArrayRef<int64_t>(strides), ArrayRef<int64_t>(dilations)}) {
    if (list.size() != axes || llvm::any_of(list, [](int64_t v) { return v < 1 || v > (1 << 30); })) {
      return c.fail("strides and dilations must be positive, one for each spatial axis");
    }
  }
  if (pads.size() != 2 * axes || extra.size() != axes || wanted.size() != axes) {
    return c.fail("pads, output_padding and output_shape must have an entry for each spatial axis");
  }
  SmallVector<WindowAxis> window;
  for (size_t i = 0; i < axes; ++i) {
    WindowAxis axis;
    axis.in = x[2 + i];
    axis.kernel = w[2 + i];
    axis.stride = strides[i];
    axis.dilation = dilations[i];
    SymbolicDim reach = (axis.kernel - SymbolicDim(1)) * SymbolicDim(axis.dilation) + SymbolicDim(1);
    SymbolicDim full = (axis.in - SymbolicDim(1)) * SymbolicDim(axis.stride) + SymbolicDim(extra[i]) + reach;
    if (sized || isSame) {
      axis.out = sized ? SymbolicDim(wanted[i]) : axis.in * SymbolicDim(axis.stride);
      SymbolicDim total = full - axis.out, half = SymbolicDim::floorDiv(total, 2);
      axis.padBegin = autoPad == "SAME_UPPER" ? half : total - half;
    } else {
      axis.padBegin = autoPad == "VALID" ? 0 : pads[i];
      axis.padEnd = autoPad == "VALID" ? 0 : pads[axes + i];
      axis.out = full - axis.padBegin - axis.padEnd;
    }
    window.push_back(axis);
  }
  return window;
}

static LogicalResult inferConvTranspose(InferContext &c) {
  auto window = transposedWindow(c);
  if (failed(window)) {
    return failure();
  }
  Shape shape{c.shape(0)[0], c.shape(1)[1] * SymbolicDim(c.node.getInt("group", 1))};
  for (const WindowAxis &axis : *window) {
    shape.push_back(axis.out);
  }
  c.setOut(ValueInfo(c.in(0).elementType, shape));
  return success();
}

static LogicalResult buildConvTranspose(BuildContext &c) {
  Tensor x = c.input(0), w = c.input(1);
  if (!x.isFloat()) {
    return c.fail("only floating-point elements are supported");
  }
  SmallVector<WindowAxis> window = *transposedWindow(c);
  size_t rank = window.size();
  Type wide = accumulatorType(x.type);
  SymbolicDim perGroup = *SymbolicDim::divideExactly(w.shape[0], c.node.getInt("group", 1));
  Value source = c.value(x), weight = c.value(w), inputs = c.index(perGroup), outputs = c.index(w.shape[1]);
  Value some = c.unlessEmpty(ArrayRef<SymbolicDim>(x.shape).drop_front(2));
  auto element = [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
    Value group = arith::DivUIOp::create(b, loc, at[1], outputs), m = arith::RemUIOp::create(b, loc, at[1], outputs);
    Value channel = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, group, inputs), at[2 + rank]);
    Value inside = integerConstant(b, loc, b.getI1Type(), 1), zero = arith::ConstantIndexOp::create(b, loc, 0);
    SmallVector<Value> from{at[0], channel}, by{channel, m};
    for (auto [i, axis] : llvm::enumerate(window)) {
      // The position of x that reaches this one by this element of the kernel, if there is one.
      Value k = at[3 + rank + i], step = arith::ConstantIndexOp::create(b, loc, axis.stride);
      Value offset = arith::MulIOp::create(b, loc, k, arith::ConstantIndexOp::create(b, loc, axis.dilation));
      Value moved = arith::AddIOp::create(b, loc, at[2 + i], c.index(axis.padBegin));
      moved = arith::SubIOp::create(b, loc, moved, offset);
      Value position = arith::DivSIOp::create(b, loc, moved, step), extent = c.index(axis.in);
      Value back = arith::MulIOp::create(b, loc, position, step);
      Value exact = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, back, moved);
      Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, moved, zero);
      Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, position, extent);
      inside = arith::AndIOp::create(b, loc, inside, arith::AndIOp::create(b, loc, exact, above));
      inside = arith::AndIOp::create(b, loc, inside, below);
      Value last = arith::SubIOp::create(b, loc, extent, c.index(1));
      position = arith::MinSIOp::create(b, loc, position, last);
      from.push_back(arith::MaxSIOp::create(b, loc, position, zero));
      by.push_back(k);
    }
    return multiplyInside(b, loc, inside, widenElement(b, loc, c.read(b, loc, source, from, some)),
                          widenElement(b, loc, c.read(b, loc, weight, by)));
  };
  giveWithBias(c, sumOver(c, *c.result().shape, perGroup, window, wide, element), c.has(2));
  return success();
}

void kimi::onnx::registerConvOps(OpTable &table) {
  table.add("Conv", 1, [](InferContext &c) { return inferConv(c, c.in(0).elementType); }, buildConv);
  table.add(
      "ConvInteger", 10, [](InferContext &c) { return inferConv(c, IntegerType::get(c.node.getContext(), 32)); },
      buildConvInteger);
  table.add("ConvTranspose", 1, inferConvTranspose, buildConvTranspose);
}
