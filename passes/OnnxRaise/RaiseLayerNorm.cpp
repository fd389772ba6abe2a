//===- RaiseLayerNorm.cpp - --onnx-raise-layer-norm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/NormOperands.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISELAYERNORM
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

LogicalResult build(Raiser &raiser, NodeOp root, Value x, Value gamma, Value beta, double eps) {
  gamma = raiser.strip(gamma);
  beta = raiser.strip(beta);
  if (failed(checkNormOperands(raiser, root, x, gamma, beta))) {
    return failure();
  }
  Value y = LayerNormOp::create(raiser.rewriter, root.getLoc(), raiser.ranked(x).getType(), x, gamma, beta,
                                raiser.rewriter.getF32FloatAttr(eps));
  raiser.replace(root.getResult(0), y);
  return success();
}

LogicalResult raiseOperator(Raiser &raiser, NodeOp node) {
  if (failed(checkNormNode(raiser, node))) {
    return failure();
  }
  return build(raiser, node, node.getInput(0), node.getInput(1), node.getInput(2), node.getFloat("epsilon", 1e-5));
}

/// com.microsoft SkipLayerNormalization(input, skip, gamma, beta, bias): layer_norm(input + skip + bias).
LogicalResult raiseSkip(Raiser &raiser, NodeOp node) {
  Value x = node.getInput(0);
  Value skip = node.getInput(1);
  Value gamma = node.getInput(2);
  if (!x || !skip || !gamma || !raiser.sameShape(x, skip)) {
    return raiser.rewriter.notifyMatchFailure(node, "input and skip have not the same shape");
  }
  for (unsigned index : {1u, 2u}) {
    if (index < node.getNumResults() && !node.getResult(index).use_empty()) {
      return raiser.rewriter.notifyMatchFailure(node, "its mean or deviation output is used");
    }
  }
  Value sum = raiser.create(node.getLoc(), "Add", {x, skip});
  if (Value bias = node.getInput(4)) {
    sum = raiser.create(node.getLoc(), "Add", {sum, bias});
  }
  LogicalResult done = build(raiser, node, sum, gamma, node.getInput(3), node.getFloat("epsilon", 1e-12));
  if (succeeded(done) && node.getNumResults() > 3) {
    raiser.replace(node.getResult(3), sum);
  }
  return done;
}

/// x for `value` = x - mean(x) over the last axis, else null.
Value centredOf(const Raiser &raiser, Value value) {
  NodeOp sub = raiser.node(value, "Sub");
  NodeOp mean = sub ? raiser.node(sub.getInput(1), "ReduceMean") : NodeOp();
  if (!mean || !isMeanOfLastAxis(raiser, mean)) {
    return {};
  }
  Value x = raiser.strip(sub.getInput(0));
  return raiser.strip(mean.getInput(0)) == x ? x : Value();
}

/// The normalised value c / sqrt(mean(c^2) + eps), in either spelling.
struct Normalised {
  Value centred;
  double eps;
};

std::optional<Normalised> matchNormalised(const Raiser &raiser, Value value) {
  Value centred;
  NodeOp root;
  if (NodeOp div = raiser.node(value, "Div")) {
    centred = raiser.strip(div.getInput(0));
    root = raiser.node(div.getInput(1), "Sqrt");
  } else if (NodeOp mul = raiser.node(value, "Mul")) {
    for (unsigned side : {0u, 1u}) {
      if (NodeOp reciprocal = raiser.node(mul.getInput(side), "Reciprocal")) {
        centred = raiser.strip(mul.getInput(1 - side));
        root = raiser.node(reciprocal.getInput(0), "Sqrt");
      }
    }
  }
  NodeOp add = root ? raiser.node(root.getInput(0), "Add") : NodeOp();
  auto withEps = add ? raiser.withScalar(add) : std::nullopt;
  NodeOp variance = withEps ? raiser.node(withEps->first, "ReduceMean") : NodeOp();
  if (!variance || !isMeanOfLastAxis(raiser, variance) || squaredOf(raiser, variance.getInput(0)) != centred) {
    return std::nullopt;
  }
  return Normalised{centred, withEps->second};
}

/// normalised * gamma [+ beta]; `root` is the product, or the sum after it.
LogicalResult raiseSpelledOut(Raiser &raiser, NodeOp mul) {
  for (unsigned side : {0u, 1u}) {
    std::optional<Normalised> normalised =
        mul.getInput(side) ? matchNormalised(raiser, mul.getInput(side)) : std::nullopt;
    Value x = normalised ? centredOf(raiser, normalised->centred) : Value();
    Value gamma = mul.getInput(1 - side);
    if (!x || !gamma) {
      continue;
    }
    NodeOp add = raiser.onlyUser(mul.getResult(0));
    if (add && add.is("Add") && add.getNumOperands() == 2) {
      Value beta = add.getInput(add.getInput(0) == mul.getResult(0) ? 1 : 0);
      if (raiser.isWeight(beta) && isOfLastAxis(raiser, beta, x)) {
        raiser.rewriter.setInsertionPoint(add);
        return build(raiser, add, x, gamma, beta, normalised->eps);
      }
    }
    return build(raiser, mul, x, gamma, Value(), normalised->eps);
  }
  return raiser.rewriter.notifyMatchFailure(mul, "no factor is (x - mean) / sqrt(var + eps)");
}

struct OnnxRaiseLayerNormPass : kimi::impl::OnnxRaiseLayerNormBase<OnnxRaiseLayerNormPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      if (node.is("LayerNormalization")) {
        return raiseOperator(raiser, node);
      }
      if (node.getDomain() == "com.microsoft" && node.getOpType() == "SkipLayerNormalization") {
        return raiseSkip(raiser, node);
      }
      return node.is("Mul") ? raiseSpelledOut(raiser, node) : failure();
    });
    raiser.finish();
  }
};

} // namespace
