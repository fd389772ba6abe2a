//===- RaiseRouter.cpp - --onnx-raise-router
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/GroupMask.h"
#include "passes/OnnxRaise/Passes.h"
#include <limits>

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEROUTER
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// A router being gathered, backwards from its TopK and forwards from what is gathered there.
struct Router {
  Value logits, bias, scores, weights;
  RouterScores kind = RouterScores::sigmoid;
  int64_t top = 0;
  GroupMask groups;
  std::optional<double> normalise;
  double scale = 1.0;
};

/// Takes `choice` = sigmoid(logits) or softmax(logits), perhaps plus a bias for each expert.
bool takeScores(const Raiser &raiser, Value choice, Router &router) {
  choice = raiser.strip(choice);
  if (NodeOp add = raiser.node(choice, "Add"); add && !router.bias) {
    for (unsigned side : {0u, 1u}) {
      const auto *dims = raiser.shape(add.getInput(side));
      const auto *out = raiser.shape(choice);
      bool isBias =
          dims && out && dims->size() == 1 && dims->front() == out->back() && raiser.isWeight(add.getInput(side));
      if (isBias) {
        router.bias = raiser.strip(add.getInput(side));
        return takeScores(raiser, add.getInput(1 - side), router);
      }
    }
    return false;
  }
  router.scores = choice;
  router.logits = sigmoidInput(raiser, choice);
  if (router.logits) {
    return true;
  }
  NodeOp softmax = raiser.node(choice, "Softmax");
  int64_t axis = softmax ? softmax.getInt("axis", -1) : 0, rank = raiser.rank(choice);
  router.kind = RouterScores::softmax;
  router.logits = softmax ? raiser.strip(softmax.getInput(0)) : Value();
  return softmax && (axis == -1 || axis == rank - 1);
}

bool isLastAxis(const Raiser &raiser, NodeOp node, int64_t fallback) {
  int64_t axis = node.getInt("axis", fallback);
  return axis == -1 || axis == raiser.rank(node.getInput(0)) - 1;
}

/// The scores of the chosen experts: gathered at the indices of `topk`, or its values where nothing but scores chose.
Value chosenScores(const Raiser &raiser, NodeOp topk, const Router &router) {
  for (Operation *user : topk.getResult(1).getUsers()) {
    auto gather = dyn_cast<NodeOp>(user);
    if (gather && gather.is("GatherElements") && gather.getInput(1) == topk.getResult(1) &&
        raiser.strip(gather.getInput(0)) == router.scores && isLastAxis(raiser, gather, 0)) {
      return gather.getResult(0);
    }
  }
  bool isPlain = !router.bias && !router.groups.topk;
  return isPlain && !topk.getResult(0).use_empty() ? topk.getResult(0) : Value();
}

/// eps where `value` is sum(weights) + eps over the chosen experts.
std::optional<double> sumOf(const Raiser &raiser, Value value, Value weights) {
  double eps = 0.0;
  if (NodeOp add = raiser.node(value, "Add")) {
    auto withEps = raiser.withScalar(add);
    if (!withEps) {
      return std::nullopt;
    }
    value = withEps->first;
    eps = withEps->second;
  }
  NodeOp sum = raiser.node(value, "ReduceSum");
  bool isIt = sum && isOverLastAxis(raiser, sum, /*keepsDim=*/true) && raiser.strip(sum.getInput(0)) == weights;
  return isIt ? std::optional(eps) : std::nullopt;
}

/// Follows the weights forwards: through the division by their sum, and through a constant factor.
void takeScaling(const Raiser &raiser, Router &router) {
  for (Operation *user : router.weights.getUsers()) {
    auto div = dyn_cast<NodeOp>(user);
    if (div && div.is("Div") && div.getInput(0) == router.weights && div.getInput(1)) {
      if (std::optional<double> eps = sumOf(raiser, div.getInput(1), router.weights)) {
        router.normalise = eps;
        router.weights = div.getResult(0);
        break;
      }
    }
  }
  NodeOp mul = raiser.onlyUser(router.weights);
  auto scaled = mul && mul.is("Mul") ? raiser.withScalar(mul) : std::nullopt;
  if (scaled && scaled->first == router.weights && raiser.sameShape(mul.getResult(0), router.weights)) {
    router.scale = scaled->second;
    router.weights = mul.getResult(0);
  }
}

/// `value`: [N, k] as the shape of `like`: [.., k].
Value backTo(Raiser &raiser, Location loc, Value value, Value like, Value logits) {
  int64_t rank = raiser.rank(like);
  if (rank == 2) {
    return value;
  }
  SmallVector<NamedAttribute> range = {raiser.intAttr("start", 0), raiser.intAttr("end", rank - 1)};
  Value leading = raiser.create(loc, "Shape", logits, range);
  Value columns = raiser.constant(loc, {*raiser.shape(like)->back().getConstant()});
  Value shape = raiser.create(loc, "Concat", {leading, columns}, raiser.intAttr("axis", 0));
  return raiser.create(loc, "Reshape", {value, shape});
}

LogicalResult build(Raiser &raiser, NodeOp topk, Router &router) {
  RewriterBase &rewriter = raiser.rewriter;
  Location loc = topk.getLoc();
  const auto *dims = raiser.shape(router.logits);
  std::optional<int64_t> experts = dims && !dims->empty() ? dims->back().getConstant() : std::nullopt;
  if (!experts || dims->size() < 2 || !isSingleOrNarrow(raiser, router.logits) || router.top > *experts) {
    return rewriter.notifyMatchFailure(topk, "the logits are no rows of a known number of experts");
  }
  Value logits = router.logits;
  if (dims->size() > 2) {
    logits = raiser.create(loc, "Reshape", {logits, raiser.constant(loc, {-1, *experts})});
  }
  logits = raiser.ranked(logits);
  Value bias = router.bias ? raiser.ranked(router.bias) : Value();
  if (!logits || (router.bias && !bias)) {
    return rewriter.notifyMatchFailure(topk, "an operand has no known rank");
  }
  GroupMask &groups = router.groups;
  bool fits = groups.keep * (*experts / groups.groups) >= router.top || std::isfinite(groups.masked);
  if (*experts % groups.groups != 0 || groups.keep > groups.groups || !fits ||
      groups.groupTop > *experts / groups.groups) {
    return rewriter.notifyMatchFailure(topk, "the groups do not divide the experts, or hold too few of them");
  }
  int64_t tokens = cast<RankedTensorType>(logits.getType()).getDimSize(0);
  auto indexType = RankedTensorType::get({tokens, router.top}, rewriter.getI64Type());
  auto weightType = RankedTensorType::get({tokens, router.top}, rewriter.getF32Type());
  FloatAttr normalise =
      router.normalise ? rewriter.getF32FloatAttr(static_cast<float>(*router.normalise)) : FloatAttr();
  auto op = RouterOp::create(rewriter, loc, TypeRange{indexType, weightType}, logits, bias, router.kind, router.top,
                             groups.groups, groups.keep, groups.groupTop, APFloat(static_cast<float>(groups.masked)),
                             normalise, APFloat(static_cast<float>(router.scale)));
  Shape shape = {(*raiser.shape(logits))[0], SymbolicDim(router.top)};
  raiser.shapes.set(op.getIndices(), ValueInfo(indexType.getElementType(), shape));
  raiser.shapes.set(op.getWeights(), ValueInfo(weightType.getElementType(), shape));
  Value weights = op.getWeights();
  FloatType element = cast<FloatType>(raiser.shapes.of(router.weights).elementType);
  if (!element.isF32()) {
    weights = raiser.create(loc, "Cast", weights, raiser.intAttr("to", element.isBF16() ? 16 : 10));
  }
  raiser.replace(topk.getResult(1), backTo(raiser, loc, op.getIndices(), topk.getResult(1), router.logits));
  raiser.replace(router.weights, backTo(raiser, loc, weights, router.weights, router.logits));
  return success();
}

LogicalResult raise(Raiser &raiser, NodeOp topk) {
  RewriterBase &rewriter = raiser.rewriter;
  std::optional<int64_t> top = constantTop(raiser, topk);
  if (!top || topk->getNumResults() != 2 || topk.getResult(1).use_empty()) {
    return rewriter.notifyMatchFailure(topk, "no choice of a known number of largest values along the last axis");
  }
  Router router;
  router.top = *top;
  Value choice = topk.getInput(0);
  if (std::optional<GroupMask> mask = matchGroupMask(raiser, choice)) {
    router.groups = *mask;
    choice = mask->choice;
  }
  if (!takeScores(raiser, choice, router) || raiser.rank(topk.getInput(0)) != raiser.rank(router.logits)) {
    return rewriter.notifyMatchFailure(topk, "what it chooses by is no sigmoid or softmax, perhaps with a bias");
  }
  router.weights = chosenScores(raiser, topk, router);
  if (!router.weights || !isSingleOrNarrow(raiser, router.weights)) {
    return rewriter.notifyMatchFailure(topk, "the scores are not read at the chosen places");
  }
  takeScaling(raiser, router);
  return build(raiser, topk, router);
}

struct OnnxRaiseRouterPass : kimi::impl::OnnxRaiseRouterBase<OnnxRaiseRouterPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) { return node.is("TopK") ? raise(raiser, node) : failure(); });
    raiser.finish();
  }
};

} // namespace
