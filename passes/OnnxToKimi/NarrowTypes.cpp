//===- NarrowTypes.cpp - elements of 8-bit floating point and of fewer than 8 bits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/NarrowTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
/// A float with a sign and a fraction: (-1)^s 2^(e - bias) (1 + f / 2^fraction), or 2^(1 - bias) f / 2^fraction for e =
/// 0.
struct Format {
  int fraction, bias;
  /// Bits without the sign: the greatest number; what a number beyond it becomes where nothing saturates; NaN.
  int greatest, beyond, nan;
  /// Minus zero is NaN, and the only one.
  bool unsignedZero = false;
  /// Bits from `infinity` on are infinite or NaN.
  int infinity = 256;
  int signBit = 7;
};
} // namespace

static std::optional<Format> formatOf(Type type) {
  if (isa<Float8E4M3FNType>(type)) {
    return Format{3, 7, 0x7E, 0x7F, 0x7F};
  }
  if (isa<Float8E4M3FNUZType>(type)) {
    return Format{3, 8, 0x7F, 0x80, 0x80, true};
  }
  if (isa<Float8E5M2Type>(type)) {
    return Format{2, 15, 0x7B, 0x7C, 0x7E, false, 0x7C};
  }
  if (isa<Float8E5M2FNUZType>(type)) {
    return Format{2, 16, 0x7F, 0x80, 0x80, true};
  }
  if (isa<Float4E2M1FNType>(type)) {
    return Format{1, 1, 0x7, 0x7, 0x8, false, 256, 3}; // It has no NaN: ONNX makes one minus zero.
  }
  return std::nullopt;
}

bool kimi::onnx::isNarrow(Type type) {
  auto integer = dyn_cast_or_null<IntegerType>(type);
  auto floating = dyn_cast_or_null<FloatType>(type);
  return (integer && integer.getWidth() > 1 && integer.getWidth() < 8) || (floating && floating.getWidth() < 16);
}

bool kimi::onnx::isUnsignedStorage(Type type) {
  return type && (type.isUnsignedInteger() || (isNarrow(type) && isa<FloatType>(type)));
}

bool kimi::onnx::isNarrowFloat(Type type) { return type && (formatOf(type) || isa<Float8E8M0FNUType>(type)); }

namespace {
/// Arithmetic on scalars of i32 and f32, written as it is in a formula.
struct Scalars {
  OpBuilder &b;
  Location loc;

  Value whole(int64_t value) { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)); }
  Value real(double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value bitAnd(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value bitOr(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value left(Value x, Value by) { return arith::ShLIOp::create(b, loc, x, by); }
  Value right(Value x, Value by) { return arith::ShRUIOp::create(b, loc, x, by); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value compare(arith::CmpIPredicate how, Value x, Value y) { return arith::CmpIOp::create(b, loc, how, x, y); }
  Value compare(arith::CmpFPredicate how, Value x, Value y) { return arith::CmpFOp::create(b, loc, how, x, y); }
  Value asReal(Value bits) { return arith::BitcastOp::create(b, loc, b.getF32Type(), bits); }
  Value asBits(Value real) { return arith::BitcastOp::create(b, loc, b.getI32Type(), real); }
  Value byte(Value word) { return arith::TruncIOp::create(b, loc, b.getI8Type(), word); }
};
} // namespace

using Whole = arith::CmpIPredicate;
using Real = arith::CmpFPredicate;

//===----------------------------------------------------------------------===//
// To f32
//===----------------------------------------------------------------------===//

/// 2^(bits - 127); 255 is NaN. The least is a subnormal f32.
static Value decodePower(Scalars &s, Value bits) {
  Value least = s.compare(Whole::eq, bits, s.whole(0));
  Value power = s.select(least, s.real(std::ldexp(1.0, -127)), s.asReal(s.left(bits, s.whole(23))));
  return s.select(s.compare(Whole::eq, bits, s.whole(255)), s.real(std::numeric_limits<double>::quiet_NaN()), power);
}

Value kimi::onnx::decodeNarrow(OpBuilder &b, Location loc, Value element, FloatType type) {
  Scalars s{b, loc};
  Value bits = arith::ExtUIOp::create(b, loc, b.getI32Type(), element);
  std::optional<Format> format = formatOf(type);
  if (!format) {
    return decodePower(s, bits);
  }
  const Format &f = *format;
  Value magnitude = s.bitAnd(bits, s.whole((1 << f.signBit) - 1));
  Value sign = s.left(s.bitAnd(bits, s.whole(1 << f.signBit)), s.whole(31 - f.signBit));
  // The same exponent and fraction, in the places and with the bias of f32.
  Value normal = s.add(s.left(magnitude, s.whole(23 - f.fraction)), s.whole(int64_t(127 - f.bias) << 23));
  Value small = arith::MulFOp::create(b, loc, arith::UIToFPOp::create(b, loc, b.getF32Type(), magnitude),
                                      s.real(std::ldexp(1.0, 1 - f.bias - f.fraction)));
  Value isSmall = s.compare(Whole::ult, magnitude, s.whole(1 << f.fraction));
  Value value = s.asReal(s.bitOr(s.asBits(s.select(isSmall, small, s.asReal(normal))), sign));
  Value notANumber = s.real(std::numeric_limits<double>::quiet_NaN());
  if (f.unsignedZero) {
    return s.select(s.compare(Whole::eq, bits, s.whole(f.nan)), notANumber, value);
  }
  if (f.infinity < 256) {
    Value infinite = s.asReal(s.bitOr(s.whole(0x7F800000), sign));
    value = s.select(s.compare(Whole::eq, magnitude, s.whole(f.infinity)), infinite, value);
    return s.select(s.compare(Whole::ugt, magnitude, s.whole(f.infinity)), notANumber, value);
  }
  bool hasNan = f.nan < (1 << f.signBit);
  return hasNan ? s.select(s.compare(Whole::eq, magnitude, s.whole(f.nan)), notANumber, value) : value;
}

//===----------------------------------------------------------------------===//
// From f32
//===----------------------------------------------------------------------===//

/// The power of two for |value|: its exponent, one more where the fraction asks for it; NaN is 255.
static Value encodePower(Scalars &s, Value value, const CastRules &rules) {
  Value bits = s.bitAnd(s.asBits(value), s.whole(0x7FFFFFFF));
  Value exponent = s.right(bits, s.whole(23)), fraction = s.bitAnd(bits, s.whole(0x7FFFFF));
  // Of subnormal numbers, halves of 2^-126 and more lie between 2^-127 and 2^-126; the others are nearest 2^-127.
  Value isSmall = s.compare(Whole::eq, exponent, s.whole(0));
  Value up;
  if (rules.powers == CastRules::Up) {
    up = s.select(isSmall, s.compare(Whole::ugt, fraction, s.whole(0x400000)),
                  s.compare(Whole::ugt, fraction, s.whole(0)));
  } else if (rules.powers == CastRules::Nearest) {
    up = s.select(isSmall, s.compare(Whole::ugt, fraction, s.whole(0x600000)),
                  s.compare(Whole::uge, fraction, s.whole(0x400000)));
  } else {
    up = s.compare(Whole::ugt, s.whole(0), s.whole(0));
  }
  Value code = s.add(exponent, s.select(up, s.whole(1), s.whole(0)));
  Value beyond = s.compare(Whole::ugt, code, s.whole(254));
  code = s.select(beyond, s.whole(rules.saturate ? 254 : 255), code);
  Value isNan = s.compare(Real::UNO, value, value);
  return s.byte(s.select(isNan, s.whole(255), code));
}

Value kimi::onnx::encodeNarrow(OpBuilder &b, Location loc, Value value, FloatType type, const CastRules &rules) {
  Scalars s{b, loc};
  std::optional<Format> format = formatOf(type);
  if (!format) {
    return encodePower(s, value, rules);
  }
  const Format &f = *format;
  Value bits = s.asBits(value), magnitude = s.bitAnd(bits, s.whole(0x7FFFFFFF));
  // The exponent, no less than that of subnormal numbers; in units of the last place there, the number is its code.
  int64_t least = 1 - f.bias;
  Value exponent = arith::MaxSIOp::create(b, loc, s.sub(s.right(magnitude, s.whole(23)), s.whole(127)), s.whole(least));
  Value unit = s.asReal(s.left(s.sub(s.whole(f.fraction + 127), exponent), s.whole(23)));
  Value scaled = arith::MulFOp::create(b, loc, s.asReal(magnitude), unit);
  Value isFinite = s.compare(Whole::ult, magnitude, s.whole(0x7F800000));
  Value rounded = math::RoundEvenOp::create(b, loc, s.select(isFinite, scaled, s.real(0.0)));
  Value units = arith::FPToSIOp::create(b, loc, b.getI32Type(), rounded);
  Value code = s.add(s.left(s.sub(exponent, s.whole(least)), s.whole(f.fraction)), units);
  Value fits = s.bitAnd(isFinite, s.compare(Whole::sle, code, s.whole(f.greatest)));
  code = s.select(fits, code, s.whole(rules.saturate ? f.greatest : f.beyond));
  Value sign = s.bitAnd(s.right(bits, s.whole(31 - f.signBit)), s.whole(1 << f.signBit));
  if (f.unsignedZero) {
    sign = s.select(s.compare(Whole::eq, code, s.whole(0)), s.whole(0), sign);
  }
  code = s.select(s.compare(Real::UNO, value, value), s.whole(f.nan), code);
  return s.byte(s.bitOr(code, sign));
}

//===----------------------------------------------------------------------===//
// Integers, constants
//===----------------------------------------------------------------------===//

Value kimi::onnx::wrapNarrow(OpBuilder &b, Location loc, Value value, IntegerType type) {
  Type byte = b.getI8Type();
  unsigned width = value.getType().getIntOrFloatBitWidth();
  Value low = width > 8   ? arith::TruncIOp::create(b, loc, byte, value).getResult()
              : width < 8 ? arith::ExtUIOp::create(b, loc, byte, value).getResult()
                          : value;
  Value shift = arith::ConstantOp::create(b, loc, b.getIntegerAttr(byte, 8 - type.getWidth()));
  Value high = arith::ShLIOp::create(b, loc, low, shift);
  return type.isUnsigned() ? arith::ShRUIOp::create(b, loc, high, shift).getResult()
                           : arith::ShRSIOp::create(b, loc, high, shift).getResult();
}

DenseElementsAttr kimi::onnx::unpackNarrow(DenseElementsAttr elements) {
  Type type = elements.getElementType();
  auto byte = IntegerType::get(type.getContext(), 8);
  SmallVector<APInt> bytes;
  if (isa<FloatType>(type)) {
    for (const APFloat &element : elements.getValues<APFloat>()) {
      bytes.push_back(element.bitcastToAPInt().zext(8));
    }
  } else {
    for (const APInt &element : elements.getValues<APInt>()) {
      bytes.push_back(type.isUnsignedInteger() ? element.zext(8) : element.sext(8));
    }
  }
  return DenseElementsAttr::get(cast<ShapedType>(elements.getType()).clone(byte), bytes);
}
