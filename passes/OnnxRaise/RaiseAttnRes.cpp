//===- RaiseAttnRes.cpp - --onnx-raise-attn-res
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEATTNRES
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// A mix being gathered: sum_i softmax_i(sum_d normalised(stack)_i[d] * vectors[d]) * stack_i.
struct Mix {
  Value stack;
  /// Weights whose product is the score vector: one or two.
  SmallVector<Value> vectors;
  double eps = 0.0;
};

/// eps where `value` is sqrt(mean(x^2) + eps) of `x` along its last axis.
std::optional<double> matchDeviation(const Raiser &raiser, Value value, Value x) {
  NodeOp root = raiser.node(value, "Sqrt");
  NodeOp add = root ? raiser.node(root.getInput(0), "Add") : NodeOp();
  auto withEps = add ? raiser.withScalar(add) : std::nullopt;
  NodeOp mean = withEps ? raiser.node(withEps->first, "ReduceMean") : NodeOp();
  bool isMean = mean && isMeanOfLastAxis(raiser, mean) && squaredOf(raiser, mean.getInput(0)) == x;
  return isMean ? std::optional(withEps->second) : std::nullopt;
}

/// Takes `value` = the normalised stack, perhaps times a vector of weights.
bool takeNormalised(const Raiser &raiser, Value value, Mix &mix) {
  value = raiser.strip(value);
  if (auto norm = value.getDefiningOp<RmsNormOp>()) {
    mix.vectors.push_back(norm.getGamma());
    mix.eps = norm.getEps().convertToDouble();
    return peelCasts(raiser, norm.getX()) == peelCasts(raiser, mix.stack);
  }
  if (NodeOp div = raiser.node(value, "Div")) {
    std::optional<double> eps = matchDeviation(raiser, div.getInput(1), mix.stack);
    mix.eps = eps.value_or(0.0);
    return eps && raiser.strip(div.getInput(0)) == mix.stack;
  }
  NodeOp mul = raiser.node(value, "Mul");
  for (unsigned side : {0u, 1u}) {
    Value factor = mul ? mul.getInput(side) : Value(), other = mul ? mul.getInput(1 - side) : Value();
    if (mul && raiser.isWeight(factor) && isa_and_present<FloatType>(raiser.shapes.of(factor).elementType)) {
      mix.vectors.push_back(raiser.strip(factor));
      return takeNormalised(raiser, other, mix);
    }
    NodeOp reciprocal = mul ? raiser.node(factor, "Reciprocal") : NodeOp();
    std::optional<double> eps = reciprocal ? matchDeviation(raiser, reciprocal.getInput(0), mix.stack) : std::nullopt;
    if (eps && raiser.strip(other) == mix.stack) {
      mix.eps = *eps;
      return true;
    }
  }
  return false;
}

/// Takes `value` = the scores: a product with a matrix of one column, or a sum over the channels.
bool takeScores(const Raiser &raiser, Value value, Mix &mix) {
  if (NodeOp matmul = raiser.node(value, "MatMul")) {
    Value w = matmul.getInput(1);
    const auto *dims = w && raiser.isWeight(w) ? raiser.shape(w) : nullptr;
    if (!dims || dims->size() != 2 || !dims->back().is(1)) {
      return false;
    }
    mix.vectors.push_back(raiser.strip(w));
    return takeNormalised(raiser, matmul.getInput(0), mix);
  }
  NodeOp sum = raiser.node(value, "ReduceSum");
  bool isSum = sum && (isOverLastAxis(raiser, sum, false) || isOverLastAxis(raiser, sum, true));
  return isSum && takeNormalised(raiser, sum.getInput(0), mix);
}

/// Whether `reshape` puts an axis of extent 1 at `axis` of its result.
bool insertsAxis(const Raiser &raiser, NodeOp reshape, int64_t axis, Value like) {
  if (!reshape.is("Unsqueeze")) {
    return raiser.sameShape(reshape.getInput(0), like);
  }
  std::optional<SmallVector<int64_t>> axes = reshape.getInts("axes");
  if (!axes && reshape.getInput(1)) {
    axes = raiser.shapes.of(reshape.getInput(1)).constants();
  }
  int64_t rank = raiser.rank(reshape.getInput(0)) + 1;
  return axes && axes->size() == 1 && (axes->front() < 0 ? axes->front() + rank : axes->front()) == axis;
}

/// The tensors that `stack` puts side by side along `axis`, each of the shape of `like`; empty where it is no such
/// stack.
SmallVector<Value> sourcesOf(const Raiser &raiser, Value stack, int64_t axis, Value like) {
  NodeOp concat = raiser.node(stack, "Concat");
  if (NodeOp cast = concat ? NodeOp() : raiser.node(stack, "Cast")) {
    concat = raiser.node(cast.getInput(0), "Concat");
  }
  int64_t rank = raiser.rank(stack);
  int64_t along = concat ? concat.getInt("axis", 0) : 0;
  if (!concat || (along < 0 ? along + rank : along) != axis) {
    return {};
  }
  SmallVector<Value> sources;
  for (Value input : concat.getInputs()) {
    NodeOp reshape = input ? raiser.strip(input).getDefiningOp<NodeOp>() : NodeOp();
    if (isReshape(reshape) && insertsAxis(raiser, reshape, axis, like)) {
      sources.push_back(raiser.strip(reshape.getInput(0)));
      continue;
    }
    SmallVector<Value> inner = input ? sourcesOf(raiser, input, axis, like) : SmallVector<Value>();
    if (inner.empty()) {
      return {};
    }
    sources.append(inner);
  }
  return sources;
}

/// The product of the vectors as one of `channels` fp32 elements, computed when weights are loaded.
Value scoreVector(Raiser &raiser, Location loc, const Mix &mix, int64_t channels) {
  Value product;
  for (Value vector : mix.vectors) {
    Value flat = raiser.create(loc, "Reshape", {vector, raiser.constant(loc, {channels})});
    Type element = raiser.shapes.of(flat).elementType;
    if (element && !element.isF32()) {
      flat = raiser.create(loc, "Cast", flat, raiser.intAttr("to", /*float=*/1));
    }
    product = product ? raiser.create(loc, "Mul", {product, flat}) : flat;
  }
  return product;
}

LogicalResult raise(Raiser &raiser, NodeOp root) {
  RewriterBase &rewriter = raiser.rewriter;
  Value result = root.getResult(0), product = root.getInput(0);
  NodeOp mul = product ? raiser.node(product, "Mul") : NodeOp();
  std::optional<SmallVector<int64_t>> axes = mul ? reducedAxes(raiser, root) : std::nullopt;
  int64_t rank = mul ? raiser.rank(product) : -1;
  if (!axes || axes->size() != 1 || rank < 3 || root.getInt("keepdims", 1) != 0 || axes->front() != rank - 2) {
    return rewriter.notifyMatchFailure(root, "no sum of products over the axis before the last");
  }
  int64_t axis = axes->front();
  for (unsigned side : {0u, 1u}) {
    Mix mix;
    mix.stack = raiser.strip(mul.getInput(side));
    NodeOp softmax = raiser.node(peelReshapes(raiser, mul.getInput(1 - side)), "Softmax");
    if (!softmax || raiser.rank(mix.stack) != rank) {
      continue;
    }
    // Along the stack: the last axis, or the one before a last axis of extent 1.
    const auto *scores = raiser.shape(softmax.getInput(0));
    int64_t along = softmax.getInt("axis", -1), last = scores ? static_cast<int64_t>(scores->size()) - 1 : 0;
    along += along < 0 ? last + 1 : 0;
    bool isStack = scores && along == axis && (last == axis || (last == axis + 1 && scores->back().is(1)));
    // Reshapes on the way keep every score with its row.
    const auto *stack = raiser.shape(mix.stack);
    const auto *shares = raiser.shape(mul.getInput(1 - side));
    isStack = isStack && stack && shares && shares->size() == stack->size() && shares->back().is(1) &&
              ArrayRef(*shares).drop_back() == ArrayRef(*stack).drop_back() &&
              ArrayRef(*scores).take_front(rank - 1) == ArrayRef(*stack).drop_back();
    if (!isStack || !takeScores(raiser, peelReshapes(raiser, softmax.getInput(0)), mix) || mix.vectors.empty()) {
      continue;
    }
    SmallVector<Value> sources = sourcesOf(raiser, mix.stack, axis, result);
    const auto *dims = raiser.shape(result);
    std::optional<int64_t> channels = dims ? dims->back().getConstant() : std::nullopt;
    if (sources.empty() || !channels || !isSingleOrNarrow(raiser, sources.front())) {
      continue;
    }
    Type narrow = raiser.shapes.of(sources.front()).elementType;
    // Concat has seen to it that the extents agree, whatever is known of each.
    for (Value &source : sources) {
      const auto *own = raiser.shape(source);
      bool fits = own && own->size() == dims->size() && own->back() == dims->back() &&
                  raiser.shapes.of(source).elementType == narrow;
      source = fits ? raiser.ranked(source) : Value();
    }
    Value score = scoreVector(raiser, root.getLoc(), mix, *channels);
    Type element = raiser.shapes.of(result).elementType;
    bool typed = element && (element.isF32() || element == narrow);
    if (llvm::is_contained(sources, Value()) || !typed || !raiser.ranked(score)) {
      continue;
    }
    RankedTensorType type = raiser.type(result);
    Value y = AttnResOp::create(rewriter, root.getLoc(), type, sources, raiser.ranked(score),
                                rewriter.getF32FloatAttr(static_cast<float>(mix.eps)));
    raiser.replace(result, y);
    return success();
  }
  return rewriter.notifyMatchFailure(root, "no softmax over a stack that scores its normalised rows");
}

struct OnnxRaiseAttnResPass : kimi::impl::OnnxRaiseAttnResBase<OnnxRaiseAttnResPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised +=
        raiser.forEachNode([&](NodeOp node) { return node.is("ReduceSum") ? raise(raiser, node) : failure(); });
    raiser.finish();
  }
};

} // namespace
