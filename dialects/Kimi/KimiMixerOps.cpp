//===- KimiMixerOps.cpp - verifiers and shapes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

LogicalResult AttentionOp::verify() { return success(); }
LogicalResult AttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) { return failure(); }
SmallVector<MixerState> AttentionOp::getMixerStates() { return {}; }
int64_t AttentionOp::getTimeAxis(unsigned index) { return index < 3 ? 2 : -1; }
int64_t AttentionOp::getResultTimeAxis() { return 2; }
std::string AttentionOp::getStepwiseObstacle() { return ""; }
FailureOr<Value> AttentionOp::buildStep(OpBuilder &b, ValueRange states, Value past) { return failure(); }
LogicalResult CacheAppendOp::verify() { return success(); }
LogicalResult CacheAppendOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) { return failure(); }
