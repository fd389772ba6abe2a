//===- RaiseGlu.cpp - --onnx-raise-glu
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEGLU
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// A gated unit being gathered; without `beta` it is SwiGLU.
struct Glu {
  Value gate, up;
  std::optional<double> beta, linearBeta;
};

/// size where `value` is tanh(x / size) of `x`.
std::optional<double> boundOf(const Raiser &raiser, Value value, Value x) {
  NodeOp tanh = raiser.node(value, "Tanh");
  std::optional<double> slope = tanh ? coefficientOf(raiser, tanh.getInput(0), x) : std::nullopt;
  return slope && *slope > 0.0 ? std::optional(1.0 / *slope) : std::nullopt;
}

/// The x and size of tanh(x / size), whatever x is.
std::optional<std::pair<Value, double>> boundedOf(const Raiser &raiser, Value value) {
  NodeOp tanh = raiser.node(value, "Tanh");
  Value x = tanh ? raiser.strip(tanh.getInput(0)) : Value();
  if (!x) {
    return std::nullopt;
  }
  Factors scaled = factorsOf(raiser, x, {}, 1);
  bool isScaled = scaled.values.size() == 1 && scaled.constant > 0.0;
  return isScaled ? std::pair(scaled.values.front(), 1.0 / scaled.constant) : std::pair(x, 1.0);
}

/// The product as SiLU of `gate` times one other factor.
std::optional<Glu> matchSwiglu(Factors product, Value gate, Value sigmoid) {
  bool isSilu = product.take(sigmoid) && product.take(gate);
  if (!isSilu || product.values.size() != 1 || product.constant != 1.0) {
    return std::nullopt;
  }
  return Glu{gate, product.values.front(), std::nullopt, std::nullopt};
}

/// The product as beta tanh(gate/beta) sigmoid(gate) times up, or times linear_beta tanh(up/linear_beta).
std::optional<Glu> matchSitu(const Raiser &raiser, const Factors &product, Value gate, Value sigmoid) {
  for (Value tanh : product.values) {
    std::optional<double> beta = boundOf(raiser, tanh, gate);
    Factors rest = product;
    if (!beta || !rest.take(sigmoid) || !rest.take(tanh) || rest.values.size() != 1) {
      continue;
    }
    Value up = rest.values.front();
    if (auto bounded = boundedOf(raiser, up); bounded && isClose(product.constant, *beta * bounded->second)) {
      return Glu{gate, bounded->first, beta, bounded->second};
    }
    if (isClose(product.constant, *beta)) {
      return Glu{gate, up, beta, std::nullopt};
    }
  }
  return std::nullopt;
}

LogicalResult build(Raiser &raiser, NodeOp root, const Glu &glu) {
  if (!isSingleOrNarrow(raiser, glu.gate) || !sameType(raiser, glu.gate, glu.up) ||
      !sameType(raiser, glu.gate, root.getResult(0))) {
    return raiser.rewriter.notifyMatchFailure(root, "the gate and what it gates differ in shape or element type");
  }
  Value gate = raiser.ranked(glu.gate), up = raiser.ranked(glu.up);
  if (!gate || !up) {
    return raiser.rewriter.notifyMatchFailure(root, "an operand has no known rank");
  }
  OpBuilder &b = raiser.rewriter;
  Value y;
  if (glu.beta) {
    FloatAttr linear = glu.linearBeta ? b.getF32FloatAttr(*glu.linearBeta) : FloatAttr();
    y = SituGluOp::create(b, root.getLoc(), gate.getType(), gate, up, b.getF32FloatAttr(*glu.beta), linear);
  } else {
    y = SwigluOp::create(b, root.getLoc(), gate.getType(), gate, up);
  }
  raiser.replace(root.getResult(0), y);
  return success();
}

LogicalResult raise(Raiser &raiser, NodeOp root) {
  Value result = root.getResult(0);
  for (Value factor : factorsOf(raiser, result, {}).values) {
    if (Value gate = swishInput(raiser, factor)) {
      Factors product = factorsOf(raiser, result, {factor});
      if (product.take(factor) && product.values.size() == 1 && product.constant == 1.0) {
        return build(raiser, root, {gate, product.values.front(), std::nullopt, std::nullopt});
      }
      continue;
    }
    Value gate = sigmoidInput(raiser, factor);
    if (!gate) {
      continue;
    }
    Factors product = factorsOf(raiser, result, {gate});
    std::optional<Glu> glu = matchSwiglu(product, gate, factor);
    glu = glu ? glu : matchSitu(raiser, product, gate, factor);
    if (glu) {
      return build(raiser, root, *glu);
    }
  }
  return raiser.rewriter.notifyMatchFailure(root, "no product of a SiLU or SiTU with another tensor");
}

struct OnnxRaiseGluPass : kimi::impl::OnnxRaiseGluBase<OnnxRaiseGluPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) { return node.is("Mul") ? raise(raiser, node) : failure(); });
    raiser.finish();
  }
};

} // namespace
