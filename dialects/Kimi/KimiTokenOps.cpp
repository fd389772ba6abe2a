//===- KimiTokenOps.cpp - verifiers and shapes of what is done with logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

LogicalResult GreedyTokenOp::verify() {
  RankedTensorType logits = tensorType(getLogits()), result = tensorType(getResult());
  if (logits.getRank() < 1 || !isa<FloatType>(logits.getElementType())) {
    return emitOpError("[T1] reads ") << logits << "; expected logits [..., V] of floats";
  }
  int64_t vocabulary = logits.getShape().back();
  if (ShapedType::isDynamic(vocabulary) || vocabulary < 1 || vocabulary > kMaxVocabulary) {
    return emitOpError("[T2] chooses among ")
           << text(vocabulary) << " tokens; expected a fixed number from 1 to " << kMaxVocabulary;
  }
  bool isInteger = result.getElementType().isInteger(64) || result.getElementType().isInteger(32);
  if (!compatible(result.getShape(), logits.getShape().drop_back()) || !isInteger) {
    return emitOpError("[T3] gives ") << result << "; expected " << text(logits.getShape().drop_back())
                                      << " of i64 or i32";
  }
  return success();
}

LogicalResult GreedyTokenOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(sameShape(b, getLoc(), getResult(), getLogits()));
  return success();
}
