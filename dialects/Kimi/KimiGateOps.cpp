//===- KimiGateOps.cpp - verifiers and shapes of gates and norms of heads
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

/// [G1] `name` = the first operand holds floats and has at least `minRank` dims, [G2] the result has its shape, [G3]
/// and its element type or f32.
static LogicalResult verifyResult(Operation *op, StringRef name, int64_t minRank) {
  RankedTensorType x = tensorType(op->getOperand(0)), result = tensorType(op->getResult(0));
  if (x.getRank() < minRank || !isa<FloatType>(x.getElementType())) {
    return op->emitOpError("[G1] ") << name << " has type " << x << "; expected floats, of rank " << minRank
                                    << " or more";
  }
  if (!compatible(x.getShape(), result.getShape())) {
    return op->emitOpError("[G2] gives shape ")
           << text(result.getShape()) << " from " << name << " of shape " << text(x.getShape());
  }
  if (result.getElementType() != x.getElementType() && !result.getElementType().isF32()) {
    return op->emitOpError("[G3] gives elements of type ")
           << result.getElementType() << " from " << name << " of " << x.getElementType();
  }
  return success();
}

/// [G4] `other` has the shape and the element type of the first operand.
static LogicalResult verifyTwin(Operation *op, StringRef name, Value other) {
  RankedTensorType x = tensorType(op->getOperand(0)), type = tensorType(other);
  if (!compatible(x.getShape(), type.getShape()) || x.getElementType() != type.getElementType()) {
    return op->emitOpError("[G4] ") << name << " has type " << type << "; expected that of the first operand, " << x;
  }
  return success();
}

/// [G6] eps is finite and not negative.
static LogicalResult verifyEps(Operation *op, const APFloat &eps) {
  if (!eps.isFinite() || eps.isNegative()) {
    return op->emitOpError("[G6] has eps ") << eps.convertToDouble() << "; expected a finite number of at least 0";
  }
  return success();
}

LogicalResult SwigluOp::verify() {
  if (failed(verifyResult(*this, "gate", 0))) {
    return failure();
  }
  return verifyTwin(*this, "up", getUp());
}

LogicalResult SituGluOp::verify() {
  if (failed(verifyResult(*this, "gate", 0)) || failed(verifyTwin(*this, "up", getUp()))) {
    return failure();
  }
  for (auto [name, bound] : {std::pair("beta", std::optional(getBeta())), {"linear_beta", getLinearBeta()}}) {
    if (bound && (!bound->isFinite() || bound->isNegative() || bound->isZero())) {
      return emitOpError("[G7] has ") << name << " " << bound->convertToDouble()
                                      << "; expected a finite number above 0";
    }
  }
  return success();
}

LogicalResult L2NormOp::verify() {
  if (failed(verifyResult(*this, "x", 1))) {
    return failure();
  }
  return verifyEps(*this, getEps());
}

LogicalResult KdaGateOp::verify() {
  if (failed(verifyResult(*this, "z", 1))) {
    return failure();
  }
  RankedTensorType z = tensorType(getZ()), rate = tensorType(getRate()), bias = tensorType(getDtBias());
  int64_t rank = bias.getRank();
  if (rank < 1 || rank > 2 || rank > z.getRank() ||
      !compatible(bias.getShape(), z.getShape().take_back(std::min(rank, z.getRank()))) ||
      !isa<FloatType>(bias.getElementType())) {
    return emitOpError("[G8] dt_bias has type ")
           << bias << "; expected [heads, channels] or [heads] of floats, the last extents of z, " << z;
  }
  if (rate.getRank() != 1 || !compatible(rate.getDimSize(0), bias.getDimSize(0)) ||
      !isa<FloatType>(rate.getElementType())) {
    return emitOpError("[G9] rate has type ")
           << rate << "; expected " << text(bias.getShape().take_front(1)) << " floats, one for each head";
  }
  if (getBound() && (!getBound()->isFinite() || !getBound()->isNegative() || getBound()->isZero())) {
    return emitOpError("[G10] has bound ") << getBound()->convertToDouble() << "; expected a finite number below 0";
  }
  return success();
}

LogicalResult GatedRmsNormOp::verify() {
  if (failed(verifyResult(*this, "x", 1)) || failed(verifyTwin(*this, "gate", getGate()))) {
    return failure();
  }
  RankedTensorType x = tensorType(getX()), gamma = tensorType(getGamma());
  if (gamma.getRank() != 1 || !compatible(gamma.getDimSize(0), x.getShape().back()) ||
      !isa<FloatType>(gamma.getElementType())) {
    return emitOpError("[G5] gamma has type ")
           << gamma << "; expected " << text(x.getShape().take_back(1)) << " floats, one for each channel of x";
  }
  return verifyEps(*this, getEps());
}

template <typename Op>
static LogicalResult reifyFromFirst(Op op, OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, op.getLoc(), op.getResult(), op->getOperand(0)));
  return success();
}

LogicalResult SwigluOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromFirst(*this, b, dims);
}
LogicalResult SituGluOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromFirst(*this, b, dims);
}
LogicalResult L2NormOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromFirst(*this, b, dims);
}
LogicalResult KdaGateOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromFirst(*this, b, dims);
}
LogicalResult GatedRmsNormOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  return reifyFromFirst(*this, b, dims);
}
