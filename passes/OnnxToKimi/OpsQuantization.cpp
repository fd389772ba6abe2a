//===- OpsQuantization.cpp - packed weights
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "passes/OnnxToKimi/Quantization.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// The number of elements that share a scale along `axis`; failure where scale and x do not make blocks.
static FailureOr<int64_t> blockOf(InferContext &c, int64_t axis) {
  const Shape &x = c.shape(0), &scale = c.shape(1);
  if (scale.size() != x.size()) {
    return c.fail("its scale must have the rank of x, one for each block along an axis");
  }
  std::optional<int64_t> extent = x[axis].getConstant(), blocks = scale[axis].getConstant();
  int64_t block = c.node.getInt("block_size", 0);
  if (!extent || !blocks || *blocks < 1 || *extent % *blocks != 0 || (block != 0 && block != *extent / *blocks)) {
    return c.fail("x and its scale must have known extents along the axis, x block_size times as many");
  }
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    if (i != axis && x[i] != scale[i]) {
      return c.fail("x and its scale differ in an axis that has no blocks");
    }
  }
  return *extent / *blocks;
}

/// (x - zero) * scale, computed.
static LogicalResult inferPlain(InferContext &c) {
  if (failed(checkScale(c))) {
    return failure();
  }
  Type element = c.in(1).elementType;
  if (int64_t code = c.node.getInt("output_dtype", 0)) {
    element = elementTypeOfCode(c.node.getContext(), code);
  }
  auto type = dyn_cast_or_null<FloatType>(element);
  if (!type || type.getWidth() < 16) {
    return c.fail("its result must be of floating point, of 16 bits or more");
  }
  c.setOut(ValueInfo(type, c.shape(0)));
  return success();
}

static LogicalResult buildPlain(BuildContext &c) {
  Tensor x = c.input(0), scale = spreadScale(c, c.input(1));
  SmallVector<Tensor> inputs = {x, scale};
  if (c.has(2)) {
    inputs.push_back(spreadScale(c, c.input(2)));
  }
  Type type = c.result().elementType, wide = c.b.getF32Type(), word = c.b.getI32Type();
  c.give(c.map(inputs, x.shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value number;
    if (isa<FloatType>(x.type)) { // A zero point is 0.
      number = castElement(b, loc, e[0], x.type, wide);
    } else {
      Value whole = castElement(b, loc, e[0], x.type, word);
      if (e.size() > 2) {
        whole = arith::SubIOp::create(b, loc, whole, castElement(b, loc, e[2], inputs[2].type, word));
      }
      number = castElement(b, loc, whole, word, wide);
    }
    Value step = castElement(b, loc, e[1], scale.type, wide);
    Value value = arith::MulFOp::create(b, loc, number, step);
    return castElement(b, loc, value, wide, type);
  }));
  return success();
}

/// Whether x is an initializer of float4e2m1, which stays packed.
static bool isPackedWeight(InferContext &c) {
  return isa_and_nonnull<Float4E2M1FNType>(c.in(0).elementType) && c.node.getInputs()[0].getDefiningOp<WeightRefOp>();
}

static LogicalResult inferDequantize(InferContext &c) {
  if (!isPackedWeight(c)) {
    if (!isQuantized(c.in(0).elementType)) {
      return c.fail("x must be of integers of 2 to 32 bits, of 8-bit floating point or float4e2m1");
    }
    if (isNarrow(c.in(0).elementType) && c.node.getInputs()[0].getDefiningOp<WeightRefOp>()) {
      return c.fail("a large initializer can be of 8-bit or wider integers, or of float4e2m1");
    }
    return inferPlain(c);
  }
  if (c.has(2)) {
    return c.fail("a zero point is not supported");
  }
  bool isPacked = isa<Float8E8M0FNUType>(c.in(1).elementType);
  if (isPacked && !c.node.getInputs()[1].getDefiningOp<WeightRefOp>()) {
    return c.fail("a scale of type float8e8m0 must be a weight: an initializer of the file");
  }
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 1), c.in(0).rank());
  if (failed(axis) || failed(blockOf(c, *axis))) {
    return failure();
  }
  if (!(c.shape(0).back().getConstant().value_or(1) % 2 == 0)) {
    return c.fail("the last extent of x must be even: rows of it begin at a byte");
  }
  Type element = c.in(1).elementType;
  if (int64_t code = c.node.getInt("output_dtype", 0)) {
    element = elementTypeOfCode(c.node.getContext(), code);
  } else if (isPacked) {
    element = Float32Type::get(c.node.getContext());
  }
  auto type = dyn_cast_or_null<FloatType>(element);
  if (!type || type.getWidth() < 16 || type.isF64()) {
    return c.fail("its result must be float32, float16 or bfloat16");
  }
  c.setOut(ValueInfo(type, c.shape(0)));
  return success();
}

static LogicalResult buildDequantize(BuildContext &c) {
  if (!isPackedWeight(c)) {
    return buildPlain(c);
  }
  int64_t axis = *c.axis(c.node.getInt("axis", 1), c.in(0).rank()), block = *blockOf(c, axis);
  Value x = c.function.materialize(c.node.getInputs()[0], c.loc);
  Value scale = c.function.materialize(c.node.getInputs()[1], c.loc);
  const ValueInfo &info = c.result();
  RankedTensorType type = tensorType(*info.shape, info.elementType);
  c.give(c.wrap(DequantizeOp::create(c.b, c.loc, type, x, scale, axis, block), *info.shape, info.elementType));
  return success();
}

void kimi::onnx::registerQuantizationOps(OpTable &table) {
  table.add("DequantizeLinear", 10, inferDequantize, buildDequantize,
            "of narrow types, only float4e2m1 as a large initializer");
}
