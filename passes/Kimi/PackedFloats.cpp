//===- PackedFloats.cpp - MXFP4 weights, element by element
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/PackedFloats.h"
#include "dialects/Kimi/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

Value kimi::bytesOf(OpBuilder &b, Location loc, Value tensor) {
  RankedTensorType bytes = packedBytes(tensorType(tensor));
  if (!bytes) {
    return {};
  }
  if (auto ref = tensor.getDefiningOp<WeightRefOp>()) {
    return WeightRefOp::create(b, loc, bytes, ref.getWeightAttr());
  }
  DenseElementsAttr elements;
  if (!matchPattern(tensor, m_Constant(&elements))) {
    return {};
  }
  unsigned perByte = tensorType(tensor).getElementTypeBitWidth() == 4 ? 2 : 1;
  SmallVector<int8_t> packed;
  for (auto [i, value] : llvm::enumerate(elements.getValues<APFloat>())) {
    auto code = static_cast<int8_t>(value.bitcastToAPInt().getZExtValue());
    if (i % perByte == 0) {
      packed.push_back(code);
    } else {
      packed.back() = static_cast<int8_t>(packed.back() | code << 4);
    }
  }
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(bytes, ArrayRef<int8_t>(packed)));
}

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

Value StoredMatrix::read(OpBuilder &b, Location loc, ArrayRef<Value> indices, int64_t block) const {
  if (!scales) {
    return castFloat(b, loc, tensor::ExtractOp::create(b, loc, elements, indices), b.getF32Type());
  }
  auto divided = [&](int64_t by) {
    SmallVector<Value> at(indices);
    at.back() = arith::DivUIOp::create(b, loc, at.back(), arith::ConstantIndexOp::create(b, loc, by));
    return at;
  };
  Value code = tensor::ExtractOp::create(b, loc, elements, divided(2));
  Value scale = tensor::ExtractOp::create(b, loc, scales, divided(block));
  return arith::MulFOp::create(b, loc, emitE2M1(b, loc, code, indices.back()), emitE8M0(b, loc, scale));
}

FailureOr<StoredMatrix> kimi::storedMatrix(OpBuilder &b, Location loc, Value matrix, Value scales) {
  if (!scales) {
    return StoredMatrix{matrix, Value()};
  }
  StoredMatrix stored{bytesOf(b, loc, matrix), bytesOf(b, loc, scales)};
  if (!stored.elements || !stored.scales) {
    return failure();
  }
  return stored;
}
