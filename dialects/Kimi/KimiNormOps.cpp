//===- KimiNormOps.cpp - verifiers and shapes of norms, softmax, activations
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

/// [N1] x holds floats and has at least `minRank` dims, [N2] the result has x's shape, [N3] and an element type among
/// x's, f32 and `alternative` (null: none).
static LogicalResult verifySameShape(Operation *op, Value xValue, Value resultValue, int64_t minRank,
                                     Type alternative = {}) {
  RankedTensorType x = tensorType(xValue), result = tensorType(resultValue);
  if (x.getRank() < minRank || !isa<FloatType>(x.getElementType())) {
    return op->emitOpError("[N1] x has type ") << x << "; expected floats, of rank " << minRank << " or more";
  }
  if (!compatible(x.getShape(), result.getShape())) {
    return op->emitOpError("[N2] gives shape ") << text(result.getShape()) << " from x of shape " << text(x.getShape());
  }
  if (result.getElementType() != x.getElementType() && result.getElementType() != alternative &&
      !result.getElementType().isF32()) {
    return op->emitOpError("[N3] gives elements of type ")
           << result.getElementType() << " from x of " << x.getElementType();
  }
  return success();
}

/// [N4] `parameter` is [D] of floats, with D the last extent of x. [N5] eps is finite and not negative.
static LogicalResult verifyNorm(Operation *op, Value x, ArrayRef<std::pair<StringRef, Value>> parameters,
                                const APFloat &eps) {
  int64_t extent = tensorType(x).getShape().back();
  for (auto [name, value] : parameters) {
    if (!value) {
      continue;
    }
    RankedTensorType type = tensorType(value);
    if (type.getRank() != 1 || !compatible(type.getDimSize(0), extent) || !isa<FloatType>(type.getElementType())) {
      return op->emitOpError("[N4] ") << name << " has type " << type << "; expected "
                                      << text(ArrayRef<int64_t>(extent)) << " floats, one for each channel of x";
    }
  }
  if (!eps.isFinite() || eps.isNegative()) {
    return op->emitOpError("[N5] has eps ") << eps.convertToDouble() << "; expected a finite number of at least 0";
  }
  return success();
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifySameShape(*this, getX(), getResult(), 1))) {
    return failure();
  }
  return verifyNorm(*this, getX(), {{"gamma", getGamma()}, {"beta", getBeta()}}, getEps());
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifySameShape(*this, getX(), getResult(), 1, tensorType(getGamma()).getElementType()))) {
    return failure();
  }
  return verifyNorm(*this, getX(), {{"gamma", getGamma()}}, getEps());
}

LogicalResult SoftmaxOp::verify() {
  if (failed(verifySameShape(*this, getX(), getResult(), 1))) {
    return failure();
  }
  int64_t axis = getAxis(), rank = tensorType(getX()).getRank();
  if (axis < 0 || axis >= rank) {
    return emitOpError("[N6] runs along axis ") << axis << " of a tensor of rank " << rank;
  }
  return success();
}

LogicalResult GeluOp::verify() { return verifySameShape(*this, getX(), getResult(), 0); }

template <typename Op>
static LogicalResult reifyFromX(Op op, OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, op.getLoc(), op.getResult(), op.getX()));
  return success();
}

LogicalResult LayerNormOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromX(*this, b, dims);
}
LogicalResult RmsNormOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromX(*this, b, dims);
}
LogicalResult SoftmaxOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromX(*this, b, dims);
}
LogicalResult GeluOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromX(*this, b, dims);
}
