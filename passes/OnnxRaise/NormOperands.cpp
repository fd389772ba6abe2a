//===- NormOperands.cpp - what every normalisation that is raised must have
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/NormOperands.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

bool onnx::isOfLastAxis(const Raiser &raiser, Value vector, Value x) {
  const auto *dims = raiser.shape(vector);
  const auto *xDims = raiser.shape(x);
  return dims && xDims && dims->size() == 1 && !xDims->empty() && dims->front() == xDims->back();
}

LogicalResult onnx::checkNormNode(Raiser &raiser, NodeOp node) {
  Value x = node.getInput(0);
  if (!x || !node.getInput(1)) {
    return raiser.rewriter.notifyMatchFailure(node, "input or scale is absent");
  }
  int64_t axis = node.getInt("axis", -1);
  if (axis != -1 && axis != raiser.rank(x) - 1) {
    return raiser.rewriter.notifyMatchFailure(node, "normalises over more than the last axis");
  }
  for (Value statistic : node.getResults().drop_front()) {
    if (!statistic.use_empty()) {
      return raiser.rewriter.notifyMatchFailure(node, "its mean or deviation output is used");
    }
  }
  return success();
}

LogicalResult onnx::checkNormOperands(Raiser &raiser, NodeOp root, Value x, Value gamma, Value beta) {
  if (!raiser.ranked(x) || !raiser.ranked(gamma) || (beta && !raiser.ranked(beta))) {
    return raiser.rewriter.notifyMatchFailure(root, "an operand has no known rank");
  }
  if (!isOfLastAxis(raiser, gamma, x) || (beta && !isOfLastAxis(raiser, beta, x))) {
    return raiser.rewriter.notifyMatchFailure(root, "scale or bias is not a vector of the last axis");
  }
  return success();
}
