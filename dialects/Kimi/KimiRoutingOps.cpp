//===- KimiRoutingOps.cpp - verifiers and shapes of routers and experts
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

/// Elements that share a scale in MXFP4.
static constexpr int64_t kBlock = 32;

static bool isMatrix(RankedTensorType type) { return type.getRank() == 2; }

//===----------------------------------------------------------------------===//
// kimi.router
//===----------------------------------------------------------------------===//

LogicalResult RouterOp::verify() {
  RankedTensorType logits = tensorType(getLogits());
  if (!isMatrix(logits) || logits.isDynamicDim(1) || !isa<FloatType>(logits.getElementType())) {
    return emitOpError("[Q1] reads ") << logits
                                      << "; expected logits [tokens, experts] of floats, with a fixed number "
                                         "of experts";
  }
  int64_t experts = logits.getDimSize(1), top = getTop(), groups = getGroups(), kept = getKeepGroups();
  if (getBias()) {
    RankedTensorType bias = tensorType(getBias());
    if (bias.getRank() != 1 || !compatible(bias.getDimSize(0), experts) || !isa<FloatType>(bias.getElementType())) {
      return emitOpError("[Q2] bias has type ") << bias << "; expected [" << experts << "] floats, one for each expert";
    }
  }
  if (top < 1 || top > experts) {
    return emitOpError("[Q3] chooses ") << top << " of " << experts << " experts";
  }
  if (groups < 1 || experts % groups != 0 || kept < 1 || kept > groups) {
    return emitOpError("[Q4] keeps ") << kept << " of " << groups << " groups of " << experts
                                      << " experts; expected groups of one size, and to keep 1 to " << groups;
  }
  if (getGroupTop() < 1 || getGroupTop() > 2 ||
      (groups > 1 && static_cast<int64_t>(getGroupTop()) > experts / groups)) {
    return emitOpError("[Q5] values a group of ")
           << experts / groups << " experts by its best " << getGroupTop() << "; expected 1 or 2";
  }
  if (!getMasked().isFinite() && kept * (experts / groups) < top) {
    return emitOpError("[Q6] chooses ") << top << " experts from groups that hold " << kept * (experts / groups);
  }
  if ((getNormalise() && (!getNormalise()->isFinite() || getNormalise()->isNegative())) || !getScale().isFinite()) {
    return emitOpError("[Q7] normalise and scale are finite numbers, normalise at least 0");
  }
  SmallVector<int64_t> expected = {logits.getDimSize(0), top};
  RankedTensorType indices = tensorType(getIndices()), weights = tensorType(getWeights());
  bool isInteger = indices.getElementType().isSignlessInteger(64) || indices.getElementType().isSignlessInteger(32);
  if (!compatible(indices.getShape(), expected) || !isInteger) {
    return emitOpError("[Q8] gives indices ") << indices << "; expected " << text(expected) << " of i64 or i32";
  }
  if (!compatible(weights.getShape(), expected) || !weights.getElementType().isF32()) {
    return emitOpError("[Q9] gives weights ") << weights << "; expected " << text(expected) << " of f32";
  }
  return success();
}

LogicalResult RouterOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  for (Value result : {getIndices(), getWeights()}) {
    OpFoldResult tokens = resultExtent(b, getLoc(), result, 0, getLogits(), 0);
    dims.push_back({tokens, b.getIndexAttr(getTop())});
  }
  return success();
}

//===----------------------------------------------------------------------===//
// kimi.moe
//===----------------------------------------------------------------------===//

/// [M4] to [M6]: the stacked matrices and their scales.
static LogicalResult verifyExperts(MoeOp op) {
  RankedTensorType w1 = tensorType(op.getW1()), w3 = tensorType(op.getW3()), w2 = tensorType(op.getW2());
  int64_t channels = tensorType(op.getX()).getDimSize(1);
  bool fits = w1.hasStaticShape() && w3.hasStaticShape() && w2.hasStaticShape() && w1.getRank() == 3 &&
              w2.getRank() == 3 && w3.getShape() == w1.getShape() && w1.getDimSize(0) > 0 &&
              compatible(w1.getDimSize(2), channels) && w2.getDimSize(0) == w1.getDimSize(0) &&
              w2.getDimSize(2) == w1.getDimSize(1);
  if (!fits) {
    return op.emitOpError("[M4] has expert matrices ")
           << w1 << ", " << w3 << ", " << w2 << "; expected [E, F, " << text(channels) << "] twice and [E, out, F]";
  }
  Type element = w1.getElementType();
  bool packed = isa<Float4E2M1FNType>(element), scaled = static_cast<bool>(op.getS1());
  bool same = w3.getElementType() == element && w2.getElementType() == element;
  if (!same || packed != scaled || !isa<FloatType>(element) || (!packed && element.getIntOrFloatBitWidth() < 16)) {
    return op.emitOpError("[M5] has expert matrices of ")
           << element << ", " << w3.getElementType() << ", " << w2.getElementType() << (scaled ? " with" : " without")
           << " scales; expected one type: f4E2M1FN with scales, or floats of 16 bits or more without";
  }
  if (static_cast<bool>(op.getS3()) != scaled || static_cast<bool>(op.getS2()) != scaled) {
    return op.emitOpError("[M6] has scales for some of its matrices; expected three or none");
  }
  for (auto [w, s] : {std::pair(op.getW1(), op.getS1()), {op.getW3(), op.getS3()}, {op.getW2(), op.getS2()}}) {
    if (!s) {
      continue;
    }
    RankedTensorType matrix = tensorType(w), scale = tensorType(s);
    SmallVector<int64_t> expected(matrix.getShape());
    bool whole = expected.back() % kBlock == 0;
    expected.back() /= kBlock;
    if (!whole || scale.getShape() != ArrayRef<int64_t>(expected) || !isa<Float8E8M0FNUType>(scale.getElementType())) {
      return op.emitOpError("[M6] has scales ") << scale << " for " << matrix << "; expected one f8E8M0FNU for each "
                                                << kBlock << " elements along the last axis";
    }
  }
  return success();
}

LogicalResult MoeOp::verify() {
  RankedTensorType x = tensorType(getX()), indices = tensorType(getIndices()), weights = tensorType(getWeights());
  if (!isMatrix(x) || !isa<FloatType>(x.getElementType())) {
    return emitOpError("[M1] x has type ") << x << "; expected [tokens, channels] of floats";
  }
  if (!isMatrix(indices) || !compatible(indices.getDimSize(0), x.getDimSize(0)) ||
      !indices.getElementType().isSignlessInteger()) {
    return emitOpError("[M2] indices have type ")
           << indices << "; expected [" << text(x.getDimSize(0)) << ", experts of a token] of signless integers";
  }
  if (!compatible(weights.getShape(), indices.getShape()) || !isa<FloatType>(weights.getElementType())) {
    return emitOpError("[M3] weights have type ")
           << weights << "; expected " << text(indices.getShape()) << " floats, one for each index";
  }
  if (failed(verifyExperts(*this))) {
    return failure();
  }
  bool situ = getActivation() == ExpertKind::situ_glu;
  if (situ != getBeta().has_value() || (!situ && getLinearBeta())) {
    return emitOpError("[M7] has activation ")
           << stringifyExpertKind(getActivation())
           << (situ ? " without beta" : " with beta or linear_beta, which belong to situ_glu");
  }
  for (std::optional<APFloat> bound : {getBeta(), getLinearBeta()}) {
    if (bound && (!bound->isFinite() || bound->isNegative() || bound->isZero())) {
      return emitOpError("[M7] has beta or linear_beta ")
             << bound->convertToDouble() << "; expected finite numbers above 0";
    }
  }
  RankedTensorType result = tensorType(getResult());
  SmallVector<int64_t> expected = {x.getDimSize(0), tensorType(getW2()).getDimSize(1)};
  if (!compatible(result.getShape(), expected) ||
      (result.getElementType() != x.getElementType() && !result.getElementType().isF32())) {
    return emitOpError("[M8] gives ") << result << "; expected " << text(expected) << " of " << x.getElementType()
                                      << " or f32";
  }
  return success();
}

LogicalResult MoeOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  OpFoldResult tokens = resultExtent(b, getLoc(), getResult(), 0, getX(), 0);
  dims.push_back({tokens, b.getIndexAttr(tensorType(getW2()).getDimSize(1))});
  return success();
}
