//===- RaiseLinear.cpp - --onnx-raise-linear
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Passes.h"
#include "passes/OnnxRaise/Raiser.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISELINEAR
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// A linear layer being gathered: y = x . w + bias.
struct Linear {
  Value x, w, bias;
  bool transpose = false;
  /// The last node of the group; its result is what the layer gives.
  NodeOp last;
};

/// Sees through a transpose of the weight and Identity.
void readWeight(const Raiser &raiser, Linear &linear) {
  linear.w = raiser.strip(linear.w);
  NodeOp transpose = raiser.node(linear.w, "Transpose");
  if (!transpose || !transpose.getInput(0)) {
    return;
  }
  std::optional<SmallVector<int64_t>> perm = transpose.getInts("perm");
  if (!perm || *perm == SmallVector<int64_t>{1, 0}) {
    linear.w = raiser.strip(transpose.getInput(0));
    linear.transpose = !linear.transpose;
  }
}

/// Takes Reshape([..., K] -> [M, K]) before and Reshape([M, N] -> [..., N]) after into the layer. Where K is spread
/// over several axes before (heads and their channels), a Reshape to [..., K] stays.
void readReshapes(Raiser &raiser, Linear &linear) {
  NodeOp before = raiser.node(linear.x, "Reshape");
  NodeOp after = raiser.onlyUser(linear.last.getResult(0));
  if (!before || !after || !after.is("Reshape")) {
    return;
  }
  const auto *flat = raiser.shape(linear.x);
  const auto *in = raiser.shape(before.getInput(0));
  const auto *out = raiser.shape(after.getResult(0));
  const auto *product = raiser.shape(linear.last.getResult(0));
  if (!flat || !in || !out || !product || flat->size() != 2 || out->size() < 2 || in->size() < out->size() ||
      out->back() != product->back()) {
    return;
  }
  size_t leading = out->size() - 1;
  std::optional<int64_t> k = flat->back().getConstant();
  if (!k || ArrayRef(*in).take_front(leading) != ArrayRef(*out).take_front(leading) ||
      !elementCount(ArrayRef(*in).drop_front(leading)).is(*k)) {
    return;
  }
  Value x = raiser.strip(before.getInput(0));
  if (in->size() != out->size()) {
    SmallVector<int64_t> target(leading, 0); // 0 keeps the extent
    target.push_back(*k);
    x = raiser.create(before.getLoc(), "Reshape", {x, raiser.constant(before.getLoc(), target)});
  }
  linear.x = x;
  linear.last = after;
}

/// Takes the Add of a vector after the layer as its bias.
void readBias(const Raiser &raiser, Linear &linear) {
  NodeOp add = raiser.onlyUser(linear.last.getResult(0));
  const auto *dims = raiser.shape(linear.last.getResult(0));
  if (linear.bias || !add || !add.is("Add") || !dims) {
    return;
  }
  Value other = add.getInput(add.getInput(0) == linear.last.getResult(0) ? 1 : 0);
  const auto *biasDims = other ? raiser.shape(other) : nullptr;
  if (biasDims && biasDims->size() == 1 && biasDims->front() == dims->back() && raiser.isWeight(other)) {
    linear.bias = raiser.strip(other);
    linear.last = add;
  }
}

LogicalResult raise(Raiser &raiser, NodeOp node) {
  RewriterBase &rewriter = raiser.rewriter;
  Linear linear;
  linear.x = node.getInput(0);
  linear.w = node.getInput(1);
  linear.last = node;
  if (!linear.x || !linear.w) {
    return rewriter.notifyMatchFailure(node, "an operand is absent");
  }
  if (raiser.rank(linear.w) != 2 || !raiser.isWeight(linear.w)) {
    return rewriter.notifyMatchFailure(node, "the right side is no weight of rank 2");
  }
  if (raiser.rank(linear.x) < 2) {
    return rewriter.notifyMatchFailure(node, "the left side has rank below 2 or none known");
  }
  if (node.is("Gemm")) {
    linear.bias = node.getInput(2);
    if (node.getInt("transA", 0) != 0) {
      return rewriter.notifyMatchFailure(node, "the left side is transposed");
    }
    if (node.getFloat("alpha", 1.0) != 1.0 || (linear.bias && node.getFloat("beta", 1.0) != 1.0)) {
      return rewriter.notifyMatchFailure(node, "alpha or beta is not 1");
    }
    const auto *dims = linear.bias ? raiser.shape(linear.bias) : nullptr;
    const auto *out = raiser.shape(node.getResult(0));
    if (linear.bias && (!dims || !out || dims->size() != 1 || dims->front() != out->back())) {
      return rewriter.notifyMatchFailure(node, "the addend is no vector of the last axis");
    }
    linear.transpose = node.getInt("transB", 0) != 0;
  }
  if (linear.bias) {
    linear.bias = raiser.strip(linear.bias);
  }
  readWeight(raiser, linear);
  readBias(raiser, linear);
  readReshapes(raiser, linear);
  readBias(raiser, linear);
  linear.x = raiser.strip(linear.x);

  RankedTensorType type = raiser.type(linear.last.getResult(0));
  if (!type || !raiser.ranked(linear.x) || !raiser.ranked(linear.w) || (linear.bias && !raiser.ranked(linear.bias))) {
    return rewriter.notifyMatchFailure(node, "an operand or the result has no known rank");
  }
  rewriter.setInsertionPoint(linear.last);
  Value y = LinearOp::create(rewriter, linear.last.getLoc(), type, linear.x, linear.w, linear.bias, linear.transpose);
  raiser.replace(linear.last.getResult(0), y);
  return success();
}

struct OnnxRaiseLinearPass : kimi::impl::OnnxRaiseLinearBase<OnnxRaiseLinearPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      return node.is("Gemm") || node.is("MatMul") ? raise(raiser, node) : failure();
    });
    raiser.finish();
  }
};

} // namespace
