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
  if (weight.getType() != getType()) {
    return emitOpError("[R2] has type ") << getType() << ", but weight '" << getWeight() << "' has type "
                                         << weight.getType();
  }
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
