//===- RaiseGatedNorm.cpp - --onnx-raise-gated-norm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEGATEDNORM
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// The norm among `values` that nothing but this product reads; null where there is none.
RmsNormOp normAmong(const Raiser &raiser, ArrayRef<Value> values) {
  for (Value value : values) {
    auto norm = value.getDefiningOp<RmsNormOp>();
    if (norm && raiser.onlyUser(norm.getResult())) {
      return norm;
    }
  }
  return {};
}

LogicalResult raise(Raiser &raiser, NodeOp root) {
  Value result = root.getResult(0);
  Factors all = factorsOf(raiser, result, {});
  RmsNormOp norm = normAmong(raiser, all.values);
  if (!norm) {
    return raiser.rewriter.notifyMatchFailure(root, "no factor is an rms norm of this product alone");
  }
  for (Value factor : all.values) {
    Value gate = swishInput(raiser, factor), sigmoid;
    GateKind kind = GateKind::silu;
    if (!gate) {
      gate = sigmoidInput(raiser, factor);
      sigmoid = factor;
    }
    if (!gate) {
      continue;
    }
    Factors product = factorsOf(raiser, result, {gate, norm.getResult()});
    if (!product.take(norm.getResult()) || !product.take(factor) || product.constant != 1.0) {
      continue;
    }
    if (sigmoid && !product.take(gate)) {
      kind = GateKind::sigmoid;
    }
    Value x = norm.getX();
    if (!product.values.empty() || !isSingleOrNarrow(raiser, x) || !sameType(raiser, x, gate) ||
        !sameType(raiser, x, result) || !raiser.ranked(gate)) {
      continue;
    }
    Value y = GatedRmsNormOp::create(raiser.rewriter, root.getLoc(), x.getType(), x, raiser.ranked(gate),
                                     norm.getGamma(), kind, norm.getEps());
    raiser.replace(result, y);
    return success();
  }
  return raiser.rewriter.notifyMatchFailure(root, "the norm is not multiplied by a sigmoid or SiLU of its shape alone");
}

struct OnnxRaiseGatedNormPass : kimi::impl::OnnxRaiseGatedNormBase<OnnxRaiseGatedNormPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) { return node.is("Mul") ? raise(raiser, node) : failure(); });
    raiser.finish();
  }
};

} // namespace
