//===- RaiseKdaGate.cpp - --onnx-raise-kda-gate
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"
#include <cmath>

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEKDAGATE
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// A gate being gathered: f(z + bias) times a rate per head, seen with the shape of the result.
struct Gate {
  Value z, bias, rate;
  bool negateRate = false;
  std::optional<double> bound;
  /// Splits the channels of z + bias into heads and channels; null where z has them already.
  NodeOp split;
};

/// `value` without a reshape, which becomes `gate.split`; itself where there is none, or one too many.
Value peelSplit(const Raiser &raiser, Value value, Gate &gate) {
  value = raiser.strip(value);
  NodeOp reshape = value.getDefiningOp<NodeOp>();
  if (!isReshape(reshape) || gate.split) {
    return value;
  }
  gate.split = reshape;
  return raiser.strip(reshape.getInput(0));
}

/// Takes z and the bias of z + bias, a weight.
bool takeSum(const Raiser &raiser, Value value, Gate &gate) {
  value = peelSplit(raiser, value, gate);
  NodeOp add = raiser.node(value, "Add");
  for (unsigned side : {0u, 1u}) {
    if (add && raiser.isWeight(add.getInput(side)) && !raiser.isWeight(add.getInput(1 - side))) {
      gate.bias = raiser.strip(add.getInput(side));
      gate.z = raiser.strip(add.getInput(1 - side));
      return raiser.sameShape(gate.z, value);
    }
  }
  return false;
}

/// x of softplus(x), as one node or as log(exp(x) + 1).
Value plainSoftplusInput(const Raiser &raiser, Value value) {
  if (NodeOp softplus = raiser.node(value, "Softplus")) {
    return raiser.strip(softplus.getInput(0));
  }
  NodeOp log = raiser.node(value, "Log");
  NodeOp add = log ? raiser.node(log.getInput(0), "Add") : NodeOp();
  auto withOne = add ? raiser.withScalar(add) : std::nullopt;
  NodeOp exp = withOne && withOne->second == 1.0 ? raiser.node(withOne->first, "Exp") : NodeOp();
  return exp ? raiser.strip(exp.getInput(0)) : Value();
}

/// The same, also of torch's where(x > threshold, x, softplus(x)).
Value softplusInput(const Raiser &raiser, Value value) {
  if (Value x = plainSoftplusInput(raiser, value)) {
    return x;
  }
  NodeOp where = raiser.node(value, "Where");
  NodeOp greater = where ? raiser.node(where.getInput(0), "Greater") : NodeOp();
  Value x = where ? plainSoftplusInput(raiser, where.getInput(2)) : Value();
  if (!greater || !x || raiser.scalar(greater.getInput(1)).value_or(0.0) < 15.0) {
    return {};
  }
  return raiser.strip(where.getInput(1)) == x && raiser.strip(greater.getInput(0)) == x ? x : Value();
}

/// -rate * softplus(z + bias).
bool matchUnbounded(const Raiser &raiser, Value root, Gate &gate) {
  Factors product = factorsOf(raiser, root, {});
  if (product.values.size() != 2 || std::fabs(product.constant) != 1.0) {
    return false;
  }
  for (unsigned side : {0u, 1u}) {
    Gate trial;
    Value x = softplusInput(raiser, peelSplit(raiser, product.values[side], trial));
    Value rate = product.values[1 - side];
    if (!x || !raiser.isWeight(rate) || !takeSum(raiser, x, trial)) {
      continue;
    }
    // exp(..) is above zero: without a minus sign this is only a part of the gate. Of a folded factor nobody knows.
    if (product.constant > 0.0 && raiser.node(rate, "Exp")) {
      return false;
    }
    trial.rate = rate;
    trial.negateRate = product.constant > 0.0;
    gate = trial;
    return true;
  }
  return false;
}

/// bound * sigmoid(rate * (z + bias)), bound < 0.
bool matchBounded(const Raiser &raiser, Value root, Gate &gate) {
  Factors product = factorsOf(raiser, root, {});
  if (product.values.size() != 1 || !(product.constant < 0.0)) {
    return false;
  }
  gate.bound = product.constant;
  Value argument = sigmoidInput(raiser, peelSplit(raiser, product.values.front(), gate));
  if (!argument) {
    return false;
  }
  Factors inner = factorsOf(raiser, argument, {});
  if (inner.values.size() != 2 || inner.constant != 1.0) {
    return false;
  }
  for (unsigned side : {0u, 1u}) {
    if (raiser.isWeight(inner.values[side])) {
      gate.rate = inner.values[side];
      return takeSum(raiser, inner.values[1 - side], gate);
    }
  }
  return false;
}

/// The axis, counted from the back from 1, of the heads in a rate that is broadcast to `shape`: 2 with channels, 1
/// without.
std::optional<int64_t> headAxis(const Raiser &raiser, Value rate, ArrayRef<SymbolicDim> shape) {
  std::optional<SmallVector<int64_t>> extents = constantShape(raiser, rate);
  int64_t rank = shape.size();
  if (!extents || extents->empty() || static_cast<int64_t>(extents->size()) > rank) {
    return std::nullopt;
  }
  std::optional<int64_t> found;
  for (int64_t fromBack = 1; fromBack <= static_cast<int64_t>(extents->size()); ++fromBack) {
    int64_t extent = (*extents)[extents->size() - fromBack];
    if (extent == 1) {
      continue;
    }
    if (found || !shape[rank - fromBack].is(extent)) {
      return std::nullopt;
    }
    found = fromBack;
  }
  return found && *found <= 2 ? found : std::nullopt;
}

LogicalResult build(Raiser &raiser, NodeOp root, Gate &gate) {
  RewriterBase &rewriter = raiser.rewriter;
  Location loc = root.getLoc();
  const auto *shape = raiser.shape(root.getResult(0));
  std::optional<int64_t> axis = shape ? headAxis(raiser, gate.rate, *shape) : std::nullopt;
  if (!axis || !isSingleOrNarrow(raiser, root.getResult(0))) {
    return rewriter.notifyMatchFailure(root, "the rate is no vector of the last axis or the one before it");
  }
  SmallVector<int64_t> tail;
  for (const SymbolicDim &dim : ArrayRef(*shape).take_back(*axis)) {
    std::optional<int64_t> known = dim.getConstant();
    if (!known) {
      return rewriter.notifyMatchFailure(root, "the heads or channels have no known extent");
    }
    tail.push_back(*known);
  }
  std::optional<SmallVector<int64_t>> biasShape = constantShape(raiser, gate.bias);
  int64_t count = 1, wanted = 1;
  for (int64_t extent : biasShape ? *biasShape : SmallVector<int64_t>{0}) {
    count *= extent;
  }
  for (int64_t extent : tail) {
    wanted *= extent;
  }
  bool flatBias = gate.split && biasShape && !biasShape->empty() && biasShape->back() == count;
  bool fitting = biasShape && count == wanted && (flatBias || biasShape->back() == tail.back());
  if (!fitting || raiser.shapes.of(gate.z).elementType != raiser.shapes.of(root.getResult(0)).elementType) {
    return rewriter.notifyMatchFailure(root, "the bias has not one value for each head and channel");
  }
  Value z = gate.z;
  if (gate.split) {
    SmallVector<Value> inputs(gate.split.getInputs());
    inputs[0] = z;
    z = raiser.create(loc, gate.split.getOpType(), inputs, gate.split.getAttrs().getValue());
  }
  Value bias = raiser.create(loc, "Reshape", {gate.bias, raiser.constant(loc, tail)});
  Value rate = raiser.create(loc, "Reshape", {gate.rate, raiser.constant(loc, {tail.front()})});
  if (gate.negateRate) {
    rate = raiser.create(loc, "Neg", rate);
  }
  if (!raiser.sameShape(z, root.getResult(0)) || !raiser.ranked(z) || !raiser.ranked(bias) || !raiser.ranked(rate)) {
    return rewriter.notifyMatchFailure(root, "z has not the shape of the result");
  }
  FloatAttr bound = gate.bound ? rewriter.getF32FloatAttr(static_cast<float>(*gate.bound)) : FloatAttr();
  Value y = KdaGateOp::create(rewriter, loc, z.getType(), z, rate, bias, bound);
  raiser.replace(root.getResult(0), y);
  return success();
}

LogicalResult raise(Raiser &raiser, NodeOp root) {
  Gate unbounded, bounded;
  if (matchUnbounded(raiser, root.getResult(0), unbounded)) {
    return build(raiser, root, unbounded);
  }
  if (matchBounded(raiser, root.getResult(0), bounded)) {
    return build(raiser, root, bounded);
  }
  return raiser.rewriter.notifyMatchFailure(root,
                                            "no -rate * softplus(z + bias) and no bound * sigmoid(rate * (z + bias))");
}

struct OnnxRaiseKdaGatePass : kimi::impl::OnnxRaiseKdaGateBase<OnnxRaiseKdaGatePass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode(
        [&](NodeOp node) { return node.is("Mul") || node.is("Neg") ? raise(raiser, node) : failure(); });
    raiser.finish();
  }
};

} // namespace
