//===- ScalarOps.cpp - conversions of one element
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static Value resizeFloat(OpBuilder &b, Location loc, Value element, FloatType to) {
  auto from = cast<FloatType>(element.getType());
  if (from == to) {
    return element;
  }
  if (from.getWidth() < to.getWidth()) {
    return arith::ExtFOp::create(b, loc, to, element);
  }
  if (from.getWidth() > to.getWidth()) {
    return arith::TruncFOp::create(b, loc, to, element);
  }
  // f16 and bf16, or two 8-bit formats: through f32.
  Value wide = arith::ExtFOp::create(b, loc, b.getF32Type(), element);
  return arith::TruncFOp::create(b, loc, to, wide);
}

/// Rounds toward zero; what does not fit saturates and NaN gives 0, so that no input is undefined behaviour.
static Value floatToInt(OpBuilder &b, Location loc, Value element, IntegerType to, bool isUnsigned) {
  Value wide = widenElement(b, loc, element);
  Type type = wide.getType();
  unsigned width = to.getWidth();
  auto storage = IntegerType::get(b.getContext(), width);
  double low = isUnsigned ? 0.0 : -std::ldexp(1.0, static_cast<int>(width) - 1);
  double high = std::ldexp(1.0, static_cast<int>(isUnsigned ? width : width - 1)); // exclusive
  APInt least = isUnsigned ? APInt::getMinValue(width) : APInt::getSignedMinValue(width);
  APInt most = isUnsigned ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  Value rounded = math::TruncOp::create(b, loc, wide);
  Value tooLow = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, rounded, scalarConstant(b, loc, type, low));
  Value tooHigh = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, rounded, scalarConstant(b, loc, type, high));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, rounded, rounded);
  Value outside = arith::OrIOp::create(b, loc, arith::OrIOp::create(b, loc, tooLow, tooHigh), isNan);
  Value safe = arith::SelectOp::create(b, loc, outside, scalarConstant(b, loc, type, 0.0), rounded);
  Value whole = isUnsigned ? arith::FPToUIOp::create(b, loc, storage, safe).getResult()
                           : arith::FPToSIOp::create(b, loc, storage, safe).getResult();
  Value leastValue = arith::ConstantOp::create(b, loc, b.getIntegerAttr(storage, least));
  Value mostValue = arith::ConstantOp::create(b, loc, b.getIntegerAttr(storage, most));
  whole = arith::SelectOp::create(b, loc, tooLow, leastValue, whole);
  return arith::SelectOp::create(b, loc, tooHigh, mostValue, whole);
}

/// A conversion from or to a type that is narrower than its i8.
static Value castNarrow(OpBuilder &b, Location loc, Value element, Type from, Type to, const CastRules &rules) {
  Type single = b.getF32Type(), byte = b.getI8Type();
  if (isNarrow(from)) {
    if (auto floating = dyn_cast<FloatType>(from)) {
      return castElement(b, loc, decodeNarrow(b, loc, element, floating), single, to, rules);
    }
    Type number = from.isUnsignedInteger() ? IntegerType::get(b.getContext(), 8, IntegerType::Unsigned) : byte;
    return castElement(b, loc, element, number, to, rules);
  }
  if (auto floating = dyn_cast<FloatType>(to)) {
    return encodeNarrow(b, loc, castElement(b, loc, element, from, single), floating, rules);
  }
  auto integer = cast<IntegerType>(to);
  if (isa<FloatType>(from)) {
    element = floatToInt(b, loc, element, b.getI32Type(), /*isUnsigned=*/false);
  }
  return wrapNarrow(b, loc, element, integer);
}

Value kimi::onnx::castElement(OpBuilder &b, Location loc, Value element, Type from, Type to, const CastRules &rules) {
  Type storage = storageType(to);
  if (from == to) {
    return element;
  }
  if (isNarrow(from) || isNarrow(to)) {
    return castNarrow(b, loc, element, from, to, rules);
  }
  auto toFloat = dyn_cast<FloatType>(to);
  if (isa<FloatType>(from)) {
    if (toFloat) {
      return resizeFloat(b, loc, element, toFloat);
    }
    if (to.isInteger(1)) {
      // NaN is true.
      Value zero = scalarConstant(b, loc, element.getType(), 0.0);
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, element, zero);
    }
    return floatToInt(b, loc, element, cast<IntegerType>(to), to.isUnsignedInteger());
  }
  bool fromUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  if (toFloat) {
    auto convert = [&](Type type) -> Value {
      return fromUnsigned ? arith::UIToFPOp::create(b, loc, type, element).getResult()
                          : arith::SIToFPOp::create(b, loc, type, element).getResult();
    };
    return toFloat.getWidth() < 32 ? resizeFloat(b, loc, convert(b.getF32Type()), toFloat) : convert(toFloat);
  }
  if (to.isInteger(1)) {
    Value zero = integerConstant(b, loc, element.getType(), 0);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, element, zero);
  }
  unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = to.getIntOrFloatBitWidth();
  if (fromWidth < toWidth) {
    return fromUnsigned ? arith::ExtUIOp::create(b, loc, storage, element).getResult()
                        : arith::ExtSIOp::create(b, loc, storage, element).getResult();
  }
  return fromWidth > toWidth ? arith::TruncIOp::create(b, loc, storage, element).getResult() : element;
}

Value kimi::onnx::widenElement(OpBuilder &b, Location loc, Value element) {
  auto type = dyn_cast<FloatType>(element.getType());
  return type && type.getWidth() < 32 ? arith::ExtFOp::create(b, loc, b.getF32Type(), element).getResult() : element;
}

Type kimi::onnx::accumulatorType(Type type) {
  auto floating = dyn_cast<FloatType>(type);
  return floating && floating.getWidth() < 32 ? Type(Float32Type::get(type.getContext())) : type;
}

Value kimi::onnx::clampPosition(OpBuilder &b, Location loc, Value value, bool isUnsigned, Value extent) {
  Value position = isUnsigned ? arith::IndexCastUIOp::create(b, loc, b.getIndexType(), value).getResult()
                              : arith::IndexCastOp::create(b, loc, b.getIndexType(), value).getResult();
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  if (!isUnsigned) {
    Value shifted = arith::AddIOp::create(b, loc, position, extent);
    Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, position, zero);
    position = arith::SelectOp::create(b, loc, negative, shifted, position);
  }
  Value last = arith::SubIOp::create(b, loc, extent, one);
  position = arith::MinSIOp::create(b, loc, position, last);
  return arith::MaxSIOp::create(b, loc, position, zero);
}
