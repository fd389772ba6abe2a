//===- RaiseRmsNorm.cpp - --onnx-raise-rms-norm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/NormOperands.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISERMSNORM
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

LogicalResult build(Raiser &raiser, NodeOp root, Value x, Value gamma, double eps) {
  gamma = raiser.strip(gamma);
  if (failed(checkNormOperands(raiser, root, x, gamma, Value()))) {
    return failure();
  }
  if (raiser.shapes.of(root.getResult(0)).elementType != raiser.shapes.of(x).elementType) {
    return raiser.rewriter.notifyMatchFailure(root, "the result has another element type than the input");
  }
  Value y = RmsNormOp::create(raiser.rewriter, root.getLoc(), raiser.ranked(x).getType(), x, gamma,
                              raiser.rewriter.getF32FloatAttr(eps));
  raiser.replace(root.getResult(0), y);
  return success();
}

LogicalResult raiseOperator(Raiser &raiser, NodeOp node) {
  if (failed(checkNormNode(raiser, node))) {
    return failure();
  }
  return build(raiser, node, node.getInput(0), node.getInput(1), node.getFloat("epsilon", 1e-5));
}

/// eps where `value` is sqrt(mean(x^2) + eps), else nullopt.
std::optional<double> matchRoot(const Raiser &raiser, Value value, Value x) {
  NodeOp root = raiser.node(value, "Sqrt");
  NodeOp add = root ? raiser.node(root.getInput(0), "Add") : NodeOp();
  auto withEps = add ? raiser.withScalar(add) : std::nullopt;
  NodeOp mean = withEps ? raiser.node(withEps->first, "ReduceMean") : NodeOp();
  if (!mean || !isMeanOfLastAxis(raiser, mean) || squaredOf(raiser, mean.getInput(0)) != raiser.strip(x)) {
    return std::nullopt;
  }
  return withEps->second;
}

/// `value` = x / sqrt(mean(x^2) + eps): x and eps.
std::optional<std::pair<Value, double>> matchNormalised(const Raiser &raiser, Value value) {
  if (NodeOp div = raiser.node(value, "Div")) {
    Value x = div.getInput(0);
    if (std::optional<double> eps = matchRoot(raiser, div.getInput(1), x)) {
      return std::make_pair(raiser.strip(x), *eps);
    }
  }
  NodeOp mul = raiser.node(value, "Mul");
  for (unsigned side : {0u, 1u}) {
    NodeOp reciprocal = mul ? raiser.node(mul.getInput(side), "Reciprocal") : NodeOp();
    if (!reciprocal && mul) {
      NodeOp div = raiser.node(mul.getInput(side), "Div");
      reciprocal = div && raiser.scalar(div.getInput(0)) == 1.0 ? div : NodeOp();
    }
    if (!reciprocal) {
      continue;
    }
    Value root = reciprocal.getInput(reciprocal.is("Div") ? 1 : 0);
    Value x = mul.getInput(1 - side);
    if (std::optional<double> eps = matchRoot(raiser, root, x)) {
      return std::make_pair(raiser.strip(x), *eps);
    }
  }
  return std::nullopt;
}

LogicalResult raiseSpelledOut(Raiser &raiser, NodeOp mul) {
  for (unsigned side : {0u, 1u}) {
    Value factor = mul.getInput(side);
    Value gamma = mul.getInput(1 - side);
    if (!factor || !gamma) {
      continue;
    }
    // x of a narrow type is cast to fp32, and the quotient back to its type, before the product with gamma.
    NodeOp back = raiser.node(factor, "Cast");
    auto matched = matchNormalised(raiser, back ? back.getInput(0) : factor);
    if (!matched) {
      continue;
    }
    Value x = matched->first;
    if (NodeOp widened = back ? raiser.node(x, "Cast") : NodeOp()) {
      x = raiser.strip(widened.getInput(0));
    }
    return build(raiser, mul, x, gamma, matched->second);
  }
  return raiser.rewriter.notifyMatchFailure(mul, "no factor is x / sqrt(mean(x^2) + eps)");
}

struct OnnxRaiseRmsNormPass : kimi::impl::OnnxRaiseRmsNormBase<OnnxRaiseRmsNormPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      if (node.is("RMSNormalization") || node.getOpType() == "SimplifiedLayerNormalization") {
        return raiseOperator(raiser, node);
      }
      return node.is("Mul") ? raiseSpelledOut(raiser, node) : failure();
    });
    raiser.finish();
  }
};

} // namespace
