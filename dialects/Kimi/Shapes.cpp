//===- Shapes.cpp - extents that the verifiers and shape functions share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

bool kimi::compatible(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    if (!compatible(x, y)) {
      return false;
    }
  }
  return true;
}

bool kimi::fitsState(RankedTensorType type, StateType state) {
  RankedTensorType shape = state.getShape();
  if (type.getRank() != shape.getRank()) {
    return false;
  }
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (i != state.getGrows() && !compatible(type.getDimSize(i), shape.getDimSize(i))) {
      return false;
    }
  }
  return true;
}

std::string kimi::text(int64_t extent) { return ShapedType::isDynamic(extent) ? "?" : std::to_string(extent); }

std::string kimi::text(ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (auto [i, extent] : llvm::enumerate(shape)) {
    out += (i ? ", " : "") + text(extent);
  }
  return out + "]";
}

OpFoldResult kimi::resultExtent(OpBuilder &b, Location loc, Value result, int64_t dim, Value source,
                                int64_t sourceDim) {
  int64_t known = tensorType(result).getDimSize(dim);
  if (!ShapedType::isDynamic(known)) {
    return b.getIndexAttr(known);
  }
  return tensor::getMixedSize(b, loc, source, sourceDim);
}

SmallVector<OpFoldResult> kimi::sameShape(OpBuilder &b, Location loc, Value result, Value source) {
  SmallVector<OpFoldResult> dims;
  for (int64_t i = 0, rank = tensorType(result).getRank(); i < rank; ++i) {
    dims.push_back(resultExtent(b, loc, result, i, source, i));
  }
  return dims;
}

void kimi::reifyFromDims(OpBuilder &b, ResultRange results, ValueRange dynamicExtents,
                         ReifiedRankedShapedTypeDims &dims) {
  auto next = dynamicExtents.begin();
  for (Value result : results) {
    SmallVector<OpFoldResult> shape;
    for (int64_t extent : tensorType(result).getShape()) {
      if (ShapedType::isDynamic(extent)) {
        shape.push_back(*next++);
      } else {
        shape.push_back(b.getIndexAttr(extent));
      }
    }
    dims.push_back(std::move(shape));
  }
}

LogicalResult kimi::verifyResultDims(Operation *op, StringRef id, ResultRange results, ValueRange dims) {
  int64_t dynamic = 0;
  for (Value result : results) {
    dynamic += tensorType(result).getNumDynamicDims();
  }
  if (dynamic != static_cast<int64_t>(dims.size())) {
    return op->emitOpError("[") << id << "] dims lists " << dims.size() << " extents, but the results have " << dynamic
                                << " dynamic dims";
  }
  return success();
}

LogicalResult kimi::verifyAttentionMask(Operation *op, Value mask, ArrayRef<int64_t> full, StringRef elementId,
                                        StringRef shapeId) {
  if (!mask) {
    return success();
  }
  RankedTensorType type = tensorType(mask);
  if (!type.getElementType().isInteger(1) && !isa<FloatType>(type.getElementType())) {
    return op->emitOpError(elementId) << " mask has elements of type " << type.getElementType()
                                      << "; expected i1 (true where a key is seen) or a float that is added to the "
                                         "score";
  }
  bool fits = type.getRank() == 4 && compatible(type.getDimSize(3), full[3]);
  for (int64_t i = 0; fits && i < 3; ++i) {
    fits = type.getDimSize(i) == 1 || compatible(type.getDimSize(i), full[i]);
  }
  if (!fits) {
    return op->emitOpError(shapeId) << " mask has shape " << text(type.getShape()) << "; expected " << text(full)
                                    << ", where any but the last extent may be 1";
  }
  return success();
}

RankedTensorType kimi::packedBytes(RankedTensorType type) {
  auto byte = IntegerType::get(type.getContext(), 8);
  if (isa<Float8E8M0FNUType>(type.getElementType())) {
    return type.clone(byte);
  }
  if (!isa<Float4E2M1FNType>(type.getElementType()) || type.getRank() < 1 || type.getShape().back() % 2 != 0) {
    return {};
  }
  auto shape = llvm::to_vector(type.getShape());
  shape.back() /= 2;
  return RankedTensorType::get(shape, byte);
}

LogicalResult kimi::verifyScores(Operation *op, const APFloat &scale, const APFloat &softcap, StringRef id) {
  if (!scale.isFinite() || !softcap.isFinite() || softcap.isNegative()) {
    return op->emitOpError(id) << " has scale " << scale.convertToDouble() << " and softcap "
                               << softcap.convertToDouble()
                               << "; expected finite numbers, and a softcap of at least 0 (0 is none)";
  }
  return success();
}
