//===- PackedNumbers.cpp - the numbers of MXFP4, bit by bit
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/PackedNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kimi;

static Value integer(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(b, loc, value, /*width=*/32);
}

Value kimi::emitE2M1(OpBuilder &b, Location loc, Value byte, Value index) {
  Value word = arith::ExtUIOp::create(b, loc, b.getI32Type(), byte);
  Value one = integer(b, loc, 1), zero = integer(b, loc, 0);
  Value position = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  Value odd = arith::AndIOp::create(b, loc, position, one);
  Value code = arith::ShRUIOp::create(b, loc, word, arith::ShLIOp::create(b, loc, odd, integer(b, loc, 2)));
  // In halves: 0 1 2 3 4 6 8 12, which is m for exponent 0 and (2 + m) << (e - 1) for others.
  Value mantissa = arith::AndIOp::create(b, loc, code, one);
  Value exponent = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, code, one), integer(b, loc, 3));
  Value isSmall = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, exponent, zero);
  Value shift = arith::SubIOp::create(b, loc, arith::MaxUIOp::create(b, loc, exponent, one), one);
  Value large = arith::ShLIOp::create(b, loc, arith::AddIOp::create(b, loc, mantissa, integer(b, loc, 2)), shift);
  Value halves = arith::SelectOp::create(b, loc, isSmall, mantissa, large);
  Value half = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.5f));
  Value size = arith::MulFOp::create(b, loc, arith::SIToFPOp::create(b, loc, b.getF32Type(), halves), half);
  Value sign = arith::AndIOp::create(b, loc, code, integer(b, loc, 8));
  Value isPositive = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, sign, zero);
  return arith::SelectOp::create(b, loc, isPositive, size, arith::NegFOp::create(b, loc, size));
}

Value kimi::emitE2M1Half(OpBuilder &b, Location loc, Value byte, bool high) {
  // Sign, two bits of exponent, one of mantissa: to where f16 has its sign, the low bits of its exponent and the first
  // bit of its mantissa. Exponent 0 is that of subnormal numbers in both.
  Value word = arith::ExtUIOp::create(b, loc, b.getI32Type(), byte);
  auto moved = [&](int64_t mask, int64_t left) -> Value {
    Value bits = arith::AndIOp::create(b, loc, word, integer(b, loc, high ? mask << 4 : mask));
    return arith::ShLIOp::create(b, loc, bits, integer(b, loc, high ? left - 4 : left));
  };
  Value bits = arith::OrIOp::create(b, loc, moved(7, 9), moved(8, 12));
  Value half = arith::BitcastOp::create(b, loc, b.getF16Type(), arith::TruncIOp::create(b, loc, b.getI16Type(), bits));
  Value number = arith::ExtFOp::create(b, loc, b.getF32Type(), half);
  return arith::MulFOp::create(b, loc, number, arith::ConstantOp::create(b, loc, b.getF32FloatAttr(16384.0f)));
}

Value kimi::emitE8M0(OpBuilder &b, Location loc, Value byte) {
  Value code = arith::ExtUIOp::create(b, loc, b.getI32Type(), byte);
  auto equals = [&](int64_t value) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, code, integer(b, loc, value));
  };
  Value bits = arith::ShLIOp::create(b, loc, code, integer(b, loc, 23));
  bits = arith::SelectOp::create(b, loc, equals(0), integer(b, loc, 0x00400000), bits); // 2^-127
  bits = arith::SelectOp::create(b, loc, equals(255), integer(b, loc, 0x7FC00000), bits);
  return arith::BitcastOp::create(b, loc, b.getF32Type(), bits);
}
