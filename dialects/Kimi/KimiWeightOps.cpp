//===- KimiWeightOps.cpp - verifiers of weights
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace kimi;

/// Bytes that a tensor of `type` takes in a file: booleans one byte each, 4-bit elements two to a byte. Nullopt where
/// the size does not fit 64 bits.
static std::optional<uint64_t> bytesInFile(RankedTensorType type) {
  unsigned bits = type.getElementTypeBitWidth();
  uint64_t count = 1;
  for (int64_t extent : type.getShape()) {
    std::optional<uint64_t> product = llvm::checkedMulUnsigned<uint64_t>(count, extent);
    if (!product) {
      return std::nullopt;
    }
    count = *product;
  }
  if (bits == 1) {
    return count;
  }
  std::optional<uint64_t> total = llvm::checkedMulUnsigned<uint64_t>(count, bits);
  if (!total) {
    return std::nullopt;
  }
  return *total / 8 + (*total % 8 != 0);
}

LogicalResult WeightOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape() || !type.getElementType().isIntOrFloat()) {
    return emitOpError("[W1] has type ") << type << "; a weight has a static shape and integer or float elements";
  }
  if (auto external = dyn_cast<ExternalAttr>(getSource())) {
    std::optional<uint64_t> bytes = bytesInFile(type);
    if (!bytes || *bytes != external.getLength()) {
      return emitOpError("[W2] takes ") << (bytes ? std::to_string(*bytes) : std::string("more than 2^64"))
                                        << " bytes as " << type << ", but its source holds " << external.getLength();
    }
    return success();
  }
  auto elements = dyn_cast<ElementsAttr>(getSource());
  if (!elements) {
    return emitOpError("[W3] has source ") << getSource() << "; expected #kimi.external<...> or an elements attribute";
  }
  if (elements.getType() != type) {
    return emitOpError("[W4] has type ") << type << ", but its elements have type " << elements.getType();
  }
  return success();
}

LogicalResult WeightRefOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto weight = tables.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight) {
    return emitOpError("[R1] names '") << getWeight() << "', which is no kimi.weight of the module";
  }
  if (weight.getType() != getType() && packedBytes(cast<RankedTensorType>(weight.getType())) != getType()) {
    return emitOpError("[R2] has type ") << getType() << ", but weight '" << getWeight() << "' has type "
                                         << weight.getType();
  }
  return success();
}

LogicalResult DequantizeOp::verify() {
  RankedTensorType x = tensorType(getX()), scale = tensorType(getScale()), result = tensorType(getResult());
  if (!isa<Float4E2M1FNType>(x.getElementType()) || !isa<FloatType>(scale.getElementType())) {
    return emitOpError("[U1] has elements of type ") << x.getElementType() << " and scales of type "
                                                     << scale.getElementType() << "; expected f4E2M1FN and floats";
  }
  int64_t axis = getAxis(), block = getBlock();
  if (axis < 0 || axis >= x.getRank()) {
    return emitOpError("[U2] has blocks along axis ") << axis << " of a tensor of rank " << x.getRank();
  }
  int64_t extent = x.getDimSize(axis);
  if (block < 1 || (!ShapedType::isDynamic(extent) && extent % block != 0)) {
    return emitOpError("[U3] has blocks of ")
           << block << " along an axis of extent " << text(extent) << "; expected a divisor of the extent";
  }
  auto expected = llvm::to_vector(x.getShape());
  expected[axis] = ShapedType::isDynamic(extent) ? extent : extent / block;
  if (!compatible(scale.getShape(), expected)) {
    return emitOpError("[U4] has scales of shape ") << text(scale.getShape()) << "; expected " << text(expected);
  }
  auto element = dyn_cast<FloatType>(result.getElementType());
  if (!compatible(result.getShape(), x.getShape()) || !element || element.getWidth() < 16) {
    return emitOpError("[U5] gives ") << result << "; expected " << text(x.getShape())
                                      << " of floats of 16 bits or more";
  }
  return success();
}

LogicalResult DequantizeOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, getLoc(), getResult(), getX()));
  return success();
}

LogicalResult PackWeightOp::verify() {
  RankedTensorType w = tensorType(getW()), packed = tensorType(getResult());
  if (w.getRank() != 2) {
    return emitOpError("[P1] packs a matrix, but w has rank ") << w.getRank();
  }
  int64_t panel = getPanel();
  if (panel < 1) {
    return emitOpError("[P2] has a panel of ") << panel << " lanes; expected at least 1";
  }
  int64_t k = w.getDimSize(getTranspose() ? 1 : 0), n = w.getDimSize(getTranspose() ? 0 : 1);
  int64_t panels = ShapedType::isDynamic(n) ? n : (n + panel - 1) / panel;
  if (!compatible(packed.getShape(), {panels, k, panel})) {
    return emitOpError("[P3] gives ") << text(packed.getShape())
                                      << "; expected [ceil(N/panel), K, panel] = " << text({panels, k, panel});
  }
  if (packed.getElementType() != w.getElementType()) {
    return emitOpError("[P4] gives elements of type ")
           << packed.getElementType() << " from a matrix of " << w.getElementType() << "; packing does not convert";
  }
  return success();
}
