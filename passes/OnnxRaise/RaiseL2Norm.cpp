//===- RaiseL2Norm.cpp - --onnx-raise-l2-norm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEL2NORM
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// True where `value` is the sum of squares of `x` along its last axis, which stays with extent 1.
bool isSumOfSquares(const Raiser &raiser, Value value, Value x) {
  if (NodeOp sum = raiser.node(value, "ReduceSumSquare")) {
    return isOverLastAxis(raiser, sum, /*keepsDim=*/true) && raiser.strip(sum.getInput(0)) == x;
  }
  NodeOp sum = raiser.node(value, "ReduceSum");
  return sum && isOverLastAxis(raiser, sum, /*keepsDim=*/true) && squaredOf(raiser, sum.getInput(0)) == x;
}

/// eps where `value` is sqrt(sum(x^2) + eps) of `x`, else nullopt.
std::optional<double> matchLength(const Raiser &raiser, Value value, Value x) {
  if (NodeOp length = raiser.node(value, "ReduceL2")) {
    bool isIt = isOverLastAxis(raiser, length, /*keepsDim=*/true) && raiser.strip(length.getInput(0)) == x;
    return isIt ? std::optional(0.0) : std::nullopt;
  }
  NodeOp root = raiser.node(value, "Sqrt");
  if (!root) {
    return std::nullopt;
  }
  NodeOp add = raiser.node(root.getInput(0), "Add");
  auto withEps = add ? raiser.withScalar(add) : std::nullopt;
  if (withEps && isSumOfSquares(raiser, withEps->first, x)) {
    return withEps->second;
  }
  return isSumOfSquares(raiser, root.getInput(0), x) ? std::optional(0.0) : std::nullopt;
}

LogicalResult build(Raiser &raiser, NodeOp root, Value x, double eps) {
  Value input = isSingleOrNarrow(raiser, x) ? raiser.ranked(x) : Value();
  if (!input || !sameType(raiser, x, root.getResult(0)) || !(eps >= 0.0)) {
    return raiser.rewriter.notifyMatchFailure(root, "x has no known rank, elements of 64 bits, or a negative eps");
  }
  Value y = L2NormOp::create(raiser.rewriter, root.getLoc(), input.getType(), input,
                             raiser.rewriter.getF32FloatAttr(static_cast<float>(eps)));
  raiser.replace(root.getResult(0), y);
  return success();
}

LogicalResult raiseOperator(Raiser &raiser, NodeOp node) {
  Value x = node.getInput(0);
  int64_t axis = node.getInt("axis", -1);
  if (!x || node.getInt("p", 2) != 2 || (axis != -1 && axis != raiser.rank(x) - 1)) {
    return raiser.rewriter.notifyMatchFailure(node, "no division by the Euclidean length along the last axis");
  }
  return build(raiser, node, raiser.strip(x), 0.0);
}

LogicalResult raiseQuotient(Raiser &raiser, NodeOp div) {
  Value x = raiser.strip(div.getInput(0));
  if (std::optional<double> eps = x ? matchLength(raiser, div.getInput(1), x) : std::nullopt) {
    return build(raiser, div, x, *eps);
  }
  return raiser.rewriter.notifyMatchFailure(div, "the divisor is not sqrt(sum(x^2) + eps)");
}

LogicalResult raiseProduct(Raiser &raiser, NodeOp mul) {
  for (unsigned side : {0u, 1u}) {
    Value x = raiser.strip(mul.getInput(1 - side)), inverse;
    if (NodeOp reciprocal = raiser.node(mul.getInput(side), "Reciprocal")) {
      inverse = reciprocal.getInput(0);
    } else if (NodeOp div = raiser.node(mul.getInput(side), "Div"); div && raiser.scalar(div.getInput(0)) == 1.0) {
      inverse = div.getInput(1);
    }
    if (std::optional<double> eps = inverse && x ? matchLength(raiser, inverse, x) : std::nullopt) {
      return build(raiser, mul, x, *eps);
    }
  }
  return raiser.rewriter.notifyMatchFailure(mul, "no factor is 1 / sqrt(sum(x^2) + eps)");
}

struct OnnxRaiseL2NormPass : kimi::impl::OnnxRaiseL2NormBase<OnnxRaiseL2NormPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      if (node.is("LpNormalization")) {
        return raiseOperator(raiser, node);
      }
      return node.is("Div") ? raiseQuotient(raiser, node) : node.is("Mul") ? raiseProduct(raiser, node) : failure();
    });
    raiser.finish();
  }
};

} // namespace
