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
