//===- Elementwise.cpp - operators that work on one element at a time
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/Elementwise.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

bool kimi::onnx::isKind(Type type, unsigned kinds) {
  if (isa<FloatType>(type)) {
    return kinds & kFloat;
  }
  if (type.isInteger(1)) {
    return kinds & kBool;
  }
  return isa<IntegerType>(type) && (kinds & kInteger);
}

double kimi::onnx::roundTo(double value, Type type) {
  auto floating = dyn_cast<FloatType>(type);
  if (!floating || floating.isF64()) {
    return value;
  }
  APFloat rounded(value);
  bool lost = false;
  rounded.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  rounded.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return rounded.convertToDouble();
}

/// The operator on one element: a left fold over pairs where it takes any number of inputs.
template <typename T, typename Fn>
static std::optional<T> applyTo(const ElementwiseOp &op, NodeOp node, ArrayRef<T> args, const Fn &fn) {
  if (!op.variadic) {
    return fn(node, args);
  }
  std::optional<T> result = args.front();
  for (const T &next : args.drop_front()) {
    if (!result) {
      return std::nullopt;
    }
    T pair[] = {*result, next};
    result = fn(node, ArrayRef<T>(pair));
  }
  return result;
}

static void inferContent(InferContext &context, const ElementwiseOp &op, ValueInfo &out) {
  std::optional<SmallVector<int64_t>> extents = staticShape(*out.shape);
  SmallVector<SmallVector<int64_t>> inputExtents;
  if (!op.host || !extents) {
    return;
  }
  int64_t count = 1;
  for (int64_t extent : *extents) {
    count *= extent;
    if (count > kMaxHostElements) {
      return;
    }
  }
  for (unsigned i = 0; i < context.numInputs(); ++i) {
    std::optional<SmallVector<int64_t>> in = context.has(i) ? staticShape(context.shape(i)) : std::nullopt;
    if (!in || !context.in(i).content) {
      return;
    }
    inputExtents.push_back(*in);
  }
  Shape content;
  for (int64_t flat = 0; flat < count; ++flat) {
    SmallVector<SymbolicDim> args;
    for (auto [i, in] : llvm::enumerate(inputExtents)) {
      args.push_back((*context.in(i).content)[broadcastIndex(flat, *extents, in)]);
    }
    std::optional<SymbolicDim> element = applyTo<SymbolicDim>(op, context.node, args, op.host);
    if (!element) {
      return;
    }
    content.push_back(*element);
  }
  out.content = std::move(content);
}

static void inferSplat(InferContext &context, const ElementwiseOp &op, ValueInfo &out) {
  SmallVector<double> args;
  for (unsigned i = 0; i < context.numInputs(); ++i) {
    if (!context.has(i) || !context.in(i).splat) {
      return;
    }
    args.push_back(*context.in(i).splat);
  }
  if (args.empty()) {
    return;
  }
  if (op.real && isa<FloatType>(context.in(op.typeInput).elementType)) {
    std::optional<double> value = applyTo<double>(op, context.node, args, op.real);
    out.splat = value ? std::optional<double>(roundTo(*value, out.elementType)) : std::nullopt;
    return;
  }
  if (op.host && isa<IntegerType>(context.in(op.typeInput).elementType)) {
    SmallVector<SymbolicDim> whole;
    for (double arg : args) {
      if (std::abs(arg) >= 9007199254740992.0) {
        return; // Beyond 2^53 a double does not hold the integer.
      }
      whole.push_back(SymbolicDim(static_cast<int64_t>(arg)));
    }
    std::optional<SymbolicDim> value = applyTo<SymbolicDim>(op, context.node, whole, op.host);
    if (value && value->isConstant()) {
      out.splat = static_cast<double>(*value->getConstant());
    }
  }
}

LogicalResult kimi::onnx::inferElementwise(InferContext &context, const ElementwiseOp &op) {
  if (!context.has(op.typeInput)) {
    return context.fail("input " + Twine(op.typeInput) + " is missing");
  }
  Type element = context.in(op.typeInput).elementType;
  if (!isKind(element, op.kinds)) {
    std::string text;
    llvm::raw_string_ostream(text) << element;
    return context.fail("element type " + text + " is not supported");
  }
  Shape shape;
  for (unsigned i = 0; i < context.numInputs(); ++i) {
    if (context.has(i)) {
      context.broadcasts(context.shape(i), shape);
      shape = broadcastShapes(shape, context.shape(i));
    }
  }
  for (unsigned i = 0; i < context.numInputs(); ++i) {
    ArrayRef<SymbolicDim> own = context.has(i) ? ArrayRef(context.shape(i)) : ArrayRef<SymbolicDim>();
    for (auto [dim, full] : llvm::zip(own, ArrayRef(shape).take_back(own.size()))) {
      if (!mayBroadcast(dim, full)) {
        return context.fail("its inputs cannot be broadcast: extents " + Twine(*dim.getConstant()) + " and " +
                            Twine(*full.getConstant()));
      }
    }
  }
  Type result = op.toBool ? Type(IntegerType::get(element.getContext(), 1)) : element;
  ValueInfo info(result, std::move(shape));
  inferContent(context, op, info);
  inferSplat(context, op, info);
  context.setOut(std::move(info));
  return success();
}

Value ScalarContext::constant(Value like, double value) const { return scalarConstant(b, loc, like.getType(), value); }

LogicalResult kimi::onnx::buildElementwise(BuildContext &c, const ElementwiseOp &op) {
  SmallVector<Tensor> inputs;
  SmallVector<Type> types;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    if (!c.has(i)) {
      return c.fail("input " + Twine(i) + " is missing");
    }
    inputs.push_back(c.input(i));
    types.push_back(c.in(i).elementType);
  }
  Type type = c.in(op.typeInput).elementType, resultType = c.result().elementType;
  c.give(c.map(inputs, *c.result().shape, resultType, [&](OpBuilder &b, Location loc, ValueRange elements) {
    SmallVector<Value> args;
    for (Value element : elements) {
      args.push_back(op.exact ? element : widenElement(b, loc, element));
    }
    ScalarContext scalar{b, loc, c.node, type, types};
    Value result = args.front();
    if (op.variadic) {
      for (Value next : ArrayRef<Value>(args).drop_front()) {
        result = op.emit(scalar, {result, next});
      }
      result = op.finish ? op.finish(scalar, result) : result;
    } else {
      result = op.emit(scalar, args);
    }
    return isa<FloatType>(resultType) ? castElement(b, loc, result, result.getType(), resultType) : result;
  }));
  return success();
}

void kimi::onnx::addElementwise(OpTable &table, ElementwiseOp op) {
  auto infer = [op](InferContext &context) { return inferElementwise(context, op); };
  auto build = [op](BuildContext &context) { return buildElementwise(context, op); };
  if (StringRef(op.domain).empty()) {
    table.add(op.name, op.since, infer, build, op.note);
  } else {
    table.addMicrosoft(op.name, infer, build, op.note);
  }
}
