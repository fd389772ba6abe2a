//===- KimiDepthOps.cpp - verifiers and shapes of mixers along depth
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

LogicalResult AttnResOp::verify() {
  if (getSources().empty()) {
    return emitOpError("[X1] has no source");
  }
  RankedTensorType first = tensorType(getSources().front());
  if (first.getRank() < 1 || !isa<FloatType>(first.getElementType())) {
    return emitOpError("[X1] mixes ") << first << "; expected sources [..., channels] of floats";
  }
  for (auto [i, source] : llvm::enumerate(getSources())) {
    RankedTensorType type = tensorType(source);
    if (!compatible(type.getShape(), first.getShape()) || type.getElementType() != first.getElementType()) {
      return emitOpError("[X2] source ") << i << " has type " << type << ", but the first has " << first;
    }
  }
  RankedTensorType score = tensorType(getScore()), result = tensorType(getResult());
  if (score.getRank() != 1 || !compatible(score.getDimSize(0), first.getShape().back()) ||
      !isa<FloatType>(score.getElementType())) {
    return emitOpError("[X3] score has type ")
           << score << "; expected " << text(first.getShape().take_back(1)) << " floats, one for each channel";
  }
  if (!compatible(result.getShape(), first.getShape())) {
    return emitOpError("[X4] gives shape ")
           << text(result.getShape()) << " from sources of shape " << text(first.getShape());
  }
  if (result.getElementType() != first.getElementType() && !result.getElementType().isF32()) {
    return emitOpError("[X5] gives elements of type ")
           << result.getElementType() << " from sources of " << first.getElementType();
  }
  if (!getEps().isFinite() || getEps().isNegative()) {
    return emitOpError("[X6] has eps ") << getEps().convertToDouble() << "; expected a finite number of at least 0";
  }
  return success();
}

LogicalResult AttnResOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, getLoc(), getResult(), getSources().front()));
  return success();
}
