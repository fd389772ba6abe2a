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

/// [id] unless `score` is a vector of floats, one for each channel of `rows`.
static LogicalResult verifyScore(Operation *op, StringRef id, RankedTensorType score, RankedTensorType rows) {
  if (score.getRank() != 1 || !compatible(score.getDimSize(0), rows.getShape().back()) ||
      !isa<FloatType>(score.getElementType())) {
    return op->emitOpError("[") << id << "] score has type " << score << "; expected "
                                << text(rows.getShape().take_back(1)) << " floats, one for each channel";
  }
  return success();
}

/// [id] unless `statistics` are two f32 numbers for each row of `rows`.
static LogicalResult verifyStatistics(Operation *op, StringRef id, RankedTensorType statistics, RankedTensorType rows) {
  SmallVector<int64_t> shape(rows.getShape());
  shape.back() = 2;
  if (!compatible(statistics.getShape(), shape) || !statistics.getElementType().isF32()) {
    return op->emitOpError("[") << id << "] statistics have type " << statistics << "; expected " << text(shape)
                                << " of f32, the maximum and the sum of each row";
  }
  return success();
}

/// [X4] and [X5]: what is mixed of `rows`.
static LogicalResult verifyMixed(Operation *op, RankedTensorType result, RankedTensorType rows) {
  if (!compatible(result.getShape(), rows.getShape())) {
    return op->emitOpError("[X4] gives shape ")
           << text(result.getShape()) << " from sources of shape " << text(rows.getShape());
  }
  if (result.getElementType() != rows.getElementType() && !result.getElementType().isF32()) {
    return op->emitOpError("[X5] gives elements of type ")
           << result.getElementType() << " from sources of " << rows.getElementType();
  }
  return success();
}

static LogicalResult verifyEps(Operation *op, const APFloat &eps) {
  if (!eps.isFinite() || eps.isNegative()) {
    return op->emitOpError("[X6] has eps ") << eps.convertToDouble() << "; expected a finite number of at least 0";
  }
  return success();
}

static bool isRows(RankedTensorType type) { return type.getRank() >= 1 && isa<FloatType>(type.getElementType()); }

LogicalResult AttnResOp::verify() {
  if (getSources().empty()) {
    return emitOpError("[X1] has no source");
  }
  RankedTensorType first = tensorType(getSources().front());
  if (!isRows(first)) {
    return emitOpError("[X1] mixes ") << first << "; expected sources [..., channels] of floats";
  }
  for (auto [i, source] : llvm::enumerate(getSources())) {
    RankedTensorType type = tensorType(source);
    if (!compatible(type.getShape(), first.getShape()) || type.getElementType() != first.getElementType()) {
      return emitOpError("[X2] source ") << i << " has type " << type << ", but the first has " << first;
    }
  }
  if (failed(verifyScore(*this, "X3", tensorType(getScore()), first)) ||
      failed(verifyMixed(*this, tensorType(getResult()), first))) {
    return failure();
  }
  return verifyEps(*this, getEps());
}

LogicalResult AttnResOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, getLoc(), getResult(), getSources().front()));
  return success();
}

LogicalResult AttnResBankOp::verify() {
  if (getSources().empty() || getScores().empty()) {
    return emitOpError("[X7] has ") << getSources().size() << " sources and " << getScores().size()
                                    << " scores; expected at least one of each";
  }
  RankedTensorType first = tensorType(getSources().front());
  if (!isRows(first)) {
    return emitOpError("[X7] mixes ") << first << "; expected sources [..., channels] of floats";
  }
  for (auto [i, source] : llvm::enumerate(getSources())) {
    RankedTensorType type = tensorType(source);
    if (!compatible(type.getShape(), first.getShape()) || type.getElementType() != first.getElementType()) {
      return emitOpError("[X7] source ") << i << " has type " << type << ", but the first has " << first;
    }
  }
  if (getStatistics().size() != getScores().size()) {
    return emitOpError("[X12] gives statistics and sums for ")
           << getStatistics().size() << " scores, but has " << getScores().size();
  }
  for (auto [score, statistics, sum] : llvm::zip_equal(getScores(), getStatistics(), getSums())) {
    if (failed(verifyScore(*this, "X8", tensorType(score), first)) ||
        failed(verifyStatistics(*this, "X9", tensorType(statistics), first))) {
      return failure();
    }
    RankedTensorType type = tensorType(sum);
    if (!compatible(type.getShape(), first.getShape())) {
      return emitOpError("[X10] gives a sum of shape ")
             << text(type.getShape()) << " from sources of shape " << text(first.getShape());
    }
    if (type.getElementType() != first.getElementType() && !type.getElementType().isF32()) {
      return emitOpError("[X11] gives sums of elements of type ")
             << type.getElementType() << " from sources of " << first.getElementType();
    }
  }
  return verifyEps(*this, getEps());
}

LogicalResult AttnResBankOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  for (Value statistics : getStatistics()) {
    dims.push_back(sameShape(b, getLoc(), statistics, getSources().front()));
    dims.back().back() = b.getIndexAttr(2);
  }
  for (Value sum : getSums()) {
    dims.push_back(sameShape(b, getLoc(), sum, getSources().front()));
  }
  return success();
}

LogicalResult AttnResMergeOp::verify() {
  RankedTensorType rows = tensorType(getP()), sum = tensorType(getSum());
  if (!isRows(rows)) {
    return emitOpError("[X13] mixes ") << rows << "; expected rows [..., channels] of floats";
  }
  if (failed(verifyScore(*this, "X14", tensorType(getScore()), rows)) ||
      failed(verifyStatistics(*this, "X15", tensorType(getStatistics()), rows))) {
    return failure();
  }
  if (!compatible(sum.getShape(), rows.getShape()) ||
      (!sum.getElementType().isF32() && sum.getElementType() != rows.getElementType())) {
    return emitOpError("[X16] has a sum of type ") << sum << " for rows of " << rows;
  }
  if (failed(verifyMixed(*this, tensorType(getResult()), rows))) {
    return failure();
  }
  return verifyEps(*this, getEps());
}

LogicalResult AttnResMergeOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, getLoc(), getResult(), getP()));
  return success();
}
