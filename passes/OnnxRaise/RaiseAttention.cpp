//===- RaiseAttention.cpp - --onnx-raise-attention
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/MaskAnalysis.h"
#include "passes/OnnxRaise/Passes.h"
#include <cmath>

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEATTENTION
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// One term of the mask, as it was found on the way from the softmax to the scores.
struct MaskTerm {
  Value value;
  bool boolean;
  bool inverted;
};

/// An attention being gathered; `root` gives o.
struct Match {
  NodeOp root;
  Value q, k, v;
  double scale = 1.0;
  double softcap = 0.0;
  bool causal = false;
  SmallVector<MaskTerm> masks;
};

class AttentionRaiser {
public:
  AttentionRaiser(Raiser &raiser, MaskTracer &tracer) : raiser(raiser), tracer(tracer) {}

  unsigned numCausal = 0;
  unsigned numMasked = 0;

  LogicalResult raiseOperator(NodeOp node);
  LogicalResult raiseSpelledOut(NodeOp root);

private:
  LogicalResult fail(NodeOp node, const Twine &why);
  Value skipCasts(Value value) const;
  NodeOp matchSoftmax(Value probabilities) const;
  LogicalResult matchScores(Match &match, Value scores);
  Value takeScale(Value value, double &scale) const;
  Value untransposed(Value value);
  Value unrepeated(Value value, const SymbolicDim &heads) const;
  LogicalResult build(Match &match);
  FailureOr<Value> splitHeads(NodeOp node, Value value, int64_t heads);

  Raiser &raiser;
  MaskTracer &tracer;
};

LogicalResult AttentionRaiser::fail(NodeOp node, const Twine &why) {
  node.emitRemark() << "attention '" << node.getNodeName() << "' stays as it is: " << why;
  return raiser.rewriter.notifyMatchFailure(node, why);
}

/// `value` without casts between float types: the arithmetic of kimi.attention is fp32.
Value AttentionRaiser::skipCasts(Value value) const {
  while (NodeOp cast = raiser.node(value, "Cast")) {
    if (!isa_and_nonnull<FloatType>(raiser.shapes.of(cast.getInput(0)).elementType) ||
        !isa_and_nonnull<FloatType>(raiser.shapes.of(cast.getResult(0)).elementType)) {
      break;
    }
    value = cast.getInput(0);
  }
  return raiser.strip(value);
}

/// The Softmax over the last axis behind `value`, through the guard Where(IsNaN(p), 0, p).
NodeOp AttentionRaiser::matchSoftmax(Value value) const {
  value = skipCasts(value);
  if (NodeOp guard = raiser.node(value, "Where")) {
    NodeOp isNan = raiser.node(guard.getInput(0), "IsNaN");
    if (isNan && raiser.scalar(guard.getInput(1)) == 0.0 &&
        raiser.strip(isNan.getInput(0)) == raiser.strip(guard.getInput(2))) {
      value = skipCasts(guard.getInput(2));
    }
  }
  NodeOp softmax = raiser.node(value, "Softmax");
  if (!softmax || !softmax.getInput(0)) {
    return {};
  }
  int64_t axis = softmax.getInt("axis", -1);
  int64_t rank = raiser.rank(softmax.getInput(0));
  return axis == -1 || axis == rank - 1 ? softmax : NodeOp();
}

/// Takes products and quotients with constants off `value` into `scale`.
Value AttentionRaiser::takeScale(Value value, double &scale) const {
  while (true) {
    value = skipCasts(value);
    NodeOp mul = raiser.node(value, "Mul");
    NodeOp div = raiser.node(value, "Div");
    if (mul) {
      auto scaled = raiser.withScalar(mul);
      if (!scaled) {
        return value;
      }
      scale *= scaled->second;
      value = scaled->first;
    } else if (div) {
      std::optional<double> divisor = raiser.scalar(div.getInput(1));
      if (!divisor || *divisor == 0.0) {
        return value;
      }
      scale /= *divisor;
      value = div.getInput(0);
    } else {
      return value;
    }
  }
}

/// Walks from the softmax down: masks first, then the soft cap, then the scale, then q k^T.
LogicalResult AttentionRaiser::matchScores(Match &match, Value scores) {
  for (bool more = true; more;) {
    more = false;
    scores = skipCasts(scores);
    if (NodeOp add = raiser.node(scores, "Add")) {
      for (unsigned side : {0u, 1u}) {
        // The scores are the side that leads to a MatMul.
        double ignored = 1.0;
        Value below = takeScale(add.getInput(side), ignored);
        static constexpr StringLiteral kScores[] = {"MatMul", "Add", "Where", "Mul"};
        auto node = below.getDefiningOp<NodeOp>();
        if (!node || !llvm::is_contained(kScores, node.getOpType()) ||
            (side == 0 && !node.is("MatMul") && raiser.node(takeScale(add.getInput(1), ignored), "MatMul"))) {
          continue;
        }
        match.masks.push_back({add.getInput(1 - side), /*boolean=*/false, /*inverted=*/false});
        scores = add.getInput(side);
        more = true;
        break;
      }
    } else if (NodeOp where = raiser.node(scores, "Where")) {
      for (unsigned side : {1u, 2u}) {
        std::optional<double> masked = raiser.scalar(where.getInput(3 - side));
        if (masked && *masked <= kMasked) {
          match.masks.push_back({where.getInput(0), /*boolean=*/true, /*inverted=*/side == 2});
          scores = where.getInput(side);
          more = true;
          break;
        }
      }
    }
  }
  // c * tanh(s / c)
  double cap = 1.0;
  Value capped = takeScale(scores, cap);
  if (NodeOp tanh = raiser.node(capped, "Tanh")) {
    double inner = 1.0;
    Value inside = takeScale(tanh.getInput(0), inner);
    // tanh(scale * s / cap): the product of both factors is the scale.
    match.softcap = cap;
    match.scale = cap * inner;
    scores = inside;
    if (cap <= 0.0) {
      return fail(match.root, "the scores are soft-capped by a value that is not positive");
    }
  } else {
    scores = takeScale(scores, match.scale);
  }
  NodeOp product = raiser.node(scores, "MatMul");
  if (!product) {
    return fail(match.root, "below the softmax is no matrix product but " +
                                (scores.getDefiningOp<NodeOp>() ? "'" + scores.getDefiningOp<NodeOp>().getOpType() + "'"
                                                                : Twine("a graph input")));
  }
  if (raiser.rank(product.getInput(0)) != 4 || raiser.rank(product.getInput(1)) != 4) {
    return fail(match.root, "queries and keys are not of rank 4 (batch, heads, time, head size)");
  }
  match.q = takeScale(product.getInput(0), match.scale);
  Value keys = takeScale(product.getInput(1), match.scale);
  match.k = untransposed(keys);
  if (!match.k) {
    return fail(match.root, "the shape of the keys is not known");
  }
  match.k = takeScale(match.k, match.scale);
  return success();
}

/// k [B, H, S, D] for k^T [B, H, D, S]: the source of a transpose where it only swaps the last two axes, else a new
/// transpose composed with what is there.
Value AttentionRaiser::untransposed(Value value) {
  Location loc = value.getLoc();
  if (NodeOp transpose = raiser.node(value, "Transpose")) {
    std::optional<SmallVector<int64_t>> perm = transpose.getInts("perm");
    if (perm && perm->size() == 4) {
      SmallVector<int64_t> composed = {(*perm)[0], (*perm)[1], (*perm)[3], (*perm)[2]};
      Value source = raiser.strip(transpose.getInput(0));
      return composed == SmallVector<int64_t>{0, 1, 2, 3} ? source : raiser.transpose(loc, source, composed);
    }
  }
  // Reshape to [B*H, S, D], swap, Reshape to [B, H, D, S].
  NodeOp outer = raiser.node(value, "Reshape");
  NodeOp swap = outer ? raiser.node(outer.getInput(0), "Transpose") : NodeOp();
  NodeOp inner = swap ? raiser.node(swap.getInput(0), "Reshape") : NodeOp();
  if (inner && swap.getInts("perm") == SmallVector<int64_t>{0, 2, 1}) {
    const auto *from = raiser.shape(inner.getInput(0));
    const auto *to = raiser.shape(outer.getResult(0));
    const auto *flat = raiser.shape(inner.getResult(0));
    if (from && to && flat && from->size() == 4 && to->size() == 4 && (*from)[0] == (*to)[0] &&
        (*from)[1] == (*to)[1] && (*from)[2] == (*to)[3] && (*from)[3] == (*to)[2] && (*flat)[1] == (*from)[2] &&
        (*flat)[2] == (*from)[3]) {
      return raiser.strip(inner.getInput(0));
    }
  }
  return raiser.rank(value) == 4 ? raiser.transpose(loc, value, {0, 1, 3, 2}) : Value();
}

/// The keys before they were repeated for groups of query heads: Reshape(Expand(Unsqueeze(k, 2))).
Value AttentionRaiser::unrepeated(Value value, const SymbolicDim &heads) const {
  NodeOp reshape = raiser.node(value, "Reshape");
  NodeOp expand = reshape ? raiser.node(reshape.getInput(0), "Expand") : NodeOp();
  if (!expand) {
    return value;
  }
  const auto *wide = raiser.shape(expand.getResult(0));
  const auto *narrow = raiser.shape(expand.getInput(0));
  const auto *out = raiser.shape(reshape.getResult(0));
  NodeOp unsqueeze = raiser.node(expand.getInput(0), "Unsqueeze");
  const auto *source = unsqueeze ? raiser.shape(unsqueeze.getInput(0)) : nullptr;
  if (!wide || !narrow || !out || !source || wide->size() != 5 || narrow->size() != 5 || source->size() != 4 ||
      out->size() != 4 || !(*narrow)[2].is(1) || (*out)[1] != (*wide)[1] * (*wide)[2] || (*out)[1] != heads) {
    return value;
  }
  for (unsigned axis : {0u, 1u, 3u, 4u}) {
    unsigned own = axis < 2 ? axis : axis - 1;
    if ((*narrow)[axis] != (*wide)[axis] || (*source)[own] != (*narrow)[axis]) {
      return value;
    }
  }
  return raiser.strip(unsqueeze.getInput(0));
}

LogicalResult AttentionRaiser::build(Match &match) {
  RewriterBase &rewriter = raiser.rewriter;
  NodeOp root = match.root;
  rewriter.setInsertionPoint(root);
  const auto *qDims = raiser.shape(match.q);
  if (!qDims || qDims->size() != 4) {
    return fail(root, "queries are not of rank 4 (batch, heads, time, head size)");
  }
  Value k = unrepeated(match.k, (*qDims)[1]);
  Value v = unrepeated(match.v, (*qDims)[1]);
  const auto *kDims = raiser.shape(k);
  const auto *vDims = raiser.shape(v);
  if (!kDims || !vDims || kDims->size() != 4 || vDims->size() != 4) {
    return fail(root, "keys or values are not of rank 4 (batch, heads, time, head size)");
  }
  if ((*kDims)[1] != (*vDims)[1]) {
    k = match.k;
    v = match.v;
    kDims = raiser.shape(k);
    vDims = raiser.shape(v);
  }
  for (unsigned axis : {0u, 1u}) {
    if ((*kDims)[axis].is(1) && !(*qDims)[axis].is(1) && (axis == 0 || (*vDims)[axis] != (*kDims)[axis])) {
      return fail(root, "keys are broadcast over the batch");
    }
  }
  SmallVector<SymbolicDim> extents = {(*qDims)[0], (*qDims)[1], (*qDims)[2], (*kDims)[2]};
  MaskAnalysis analysis(raiser, tracer, extents);
  for (const MaskTerm &term : match.masks) {
    if (raiser.rank(term.value) < 0 || raiser.rank(term.value) > 4) {
      return fail(root, "a mask has no known rank of at most 4");
    }
    const auto &dims = *raiser.shape(term.value);
    for (auto [dim, extent] : llvm::zip(llvm::reverse(dims), llvm::reverse(extents))) {
      if (dim.isConstant() && extent.isConstant() && !dim.is(1) && dim != extent) {
        return fail(root, "a mask is wider than the scores");
      }
    }
    if (term.boolean) {
      analysis.addVisible(term.value, term.inverted);
    } else {
      analysis.addAdditive(term.value);
    }
  }
  Value q = raiser.ranked(match.q);
  k = raiser.ranked(k);
  v = raiser.ranked(v);
  if (!q || !k || !v) {
    return fail(root, "an operand has no known type");
  }
  Value mask = analysis.build(root.getLoc(), k);
  mask = mask ? raiser.ranked(mask) : Value();
  Type element = cast<RankedTensorType>(q.getType()).getElementType();
  SmallVector<int64_t> sizes = {
      cast<RankedTensorType>(q.getType()).getDimSize(0), cast<RankedTensorType>(q.getType()).getDimSize(1),
      cast<RankedTensorType>(q.getType()).getDimSize(2), cast<RankedTensorType>(v.getType()).getDimSize(3)};
  bool causal = match.causal || analysis.isCausal();
  Value o = AttentionOp::create(rewriter, root.getLoc(), RankedTensorType::get(sizes, element), q, k, v, mask,
                                causal ? rewriter.getUnitAttr() : UnitAttr(), rewriter.getF32FloatAttr(match.scale),
                                rewriter.getF32FloatAttr(match.softcap));
  raiser.shapes.infer(o.getDefiningOp());
  numCausal += causal;
  numMasked += static_cast<bool>(mask);
  Type wanted = raiser.shapes.of(root.getResult(0)).elementType;
  if (wanted && wanted != element) {
    constexpr int64_t kFloat = 1, kHalf = 10, kDouble = 11, kBfloat = 16;
    int64_t to = wanted.isF16() ? kHalf : wanted.isBF16() ? kBfloat : wanted.isF64() ? kDouble : kFloat;
    o = raiser.create(root.getLoc(), "Cast", o, raiser.intAttr("to", to));
  }
  match.q = o; // the result, for callers that reshape it
  return success();
}

LogicalResult AttentionRaiser::raiseSpelledOut(NodeOp root) {
  if (!root.getInput(0) || !root.getInput(1)) {
    return failure();
  }
  NodeOp softmax = matchSoftmax(root.getInput(0));
  if (!softmax) {
    return raiser.rewriter.notifyMatchFailure(root, "the left side is no softmax over the last axis");
  }
  Match match;
  match.root = root;
  match.v = skipCasts(root.getInput(1));
  if (failed(matchScores(match, softmax.getInput(0))) || failed(build(match))) {
    return failure();
  }
  raiser.replace(root.getResult(0), match.q);
  return success();
}

/// [B, T, heads * D] -> [B, heads, T, D].
FailureOr<Value> AttentionRaiser::splitHeads(NodeOp node, Value value, int64_t heads) {
  if (heads <= 0) {
    return fail(node, "inputs of rank 3 need q_num_heads and kv_num_heads");
  }
  Location loc = node.getLoc();
  Value split = raiser.create(loc, "Reshape", {value, raiser.constant(loc, {0, 0, heads, -1})});
  return raiser.transpose(loc, split, {0, 2, 1, 3});
}

LogicalResult AttentionRaiser::raiseOperator(NodeOp node) {
  Location loc = node.getLoc();
  Match match;
  match.root = node;
  match.q = node.getInput(0);
  match.k = node.getInput(1);
  match.v = node.getInput(2);
  if (!match.q || !match.k || !match.v) {
    return fail(node, "an input is absent");
  }
  if (node.getInput(6)) {
    return fail(node, "nonpad_kv_seqlen is not supported; export with an attention mask");
  }
  if (node.getInt("left_window_size", -1) >= 0 || node.getInt("right_window_size", -1) >= 0) {
    return fail(node, "a sliding window");
  }
  if (node.getNumResults() > 3 && !node.getResult(3).use_empty()) {
    return fail(node, "its fourth output (the scores) is used");
  }
  bool flat = raiser.rank(match.q) == 3;
  if (flat) {
    int64_t heads = node.getInt("q_num_heads", 0);
    int64_t kvHeads = node.getInt("kv_num_heads", 0);
    FailureOr<Value> q = splitHeads(node, match.q, heads);
    FailureOr<Value> k = splitHeads(node, match.k, kvHeads);
    FailureOr<Value> v = splitHeads(node, match.v, kvHeads);
    if (failed(q) || failed(k) || failed(v)) {
      return failure();
    }
    match.q = *q;
    match.k = *k;
    match.v = *v;
  }
  Value newKeys = match.k;
  if (Value past = node.getInput(4)) {
    match.k = raiser.create(loc, "Concat", {past, match.k}, raiser.intAttr("axis", 2));
  }
  if (Value past = node.getInput(5)) {
    match.v = raiser.create(loc, "Concat", {past, match.v}, raiser.intAttr("axis", 2));
  }
  const auto *qDims = raiser.shape(match.q);
  const auto *kDims = raiser.shape(newKeys);
  if (!qDims || !kDims || qDims->size() != 4 || kDims->size() != 4) {
    return fail(node, "queries or keys are not of rank 4 (batch, heads, time, head size)");
  }
  if (node.getInt("is_causal", 0) != 0) {
    // The operator aligns its triangle at the top left of the new keys; with as many new keys as queries that is the
    // bottom right.
    if ((*qDims)[2] != (*kDims)[2]) {
      return fail(node, "is_causal with other numbers of queries and keys");
    }
    match.causal = true;
  }
  if (Attribute scale = node.getOnnxAttr("scale")) {
    match.scale = node.getFloat("scale", 1.0);
  } else if (std::optional<int64_t> size = qDims->back().getConstant(); size && *size > 0) {
    match.scale = 1.0 / std::sqrt(static_cast<double>(*size));
  } else {
    return fail(node, "no scale, and the head size is not known at compile time");
  }
  match.softcap = node.getFloat("softcap", 0.0);
  if (Value mask = node.getInput(3)) {
    Type element = raiser.shapes.of(mask).elementType;
    const auto *maskDims = raiser.shape(mask);
    const auto *allKeys = raiser.shape(match.k);
    if (!maskDims || maskDims->empty() || !allKeys || maskDims->back() != (*allKeys)[2]) {
      return fail(node, "the mask is not known to cover every key");
    }
    match.masks.push_back({mask, element && element.isInteger(1), /*inverted=*/false});
  }
  if (failed(build(match))) {
    return failure();
  }
  Value o = match.q;
  if (flat) {
    Value merged = raiser.transpose(loc, o, {0, 2, 1, 3});
    o = raiser.create(loc, "Reshape", {merged, raiser.constant(loc, {0, 0, -1})});
  }
  raiser.replace(node.getResult(0), o);
  if (node.getNumResults() > 1) {
    raiser.replace(node.getResult(1), match.k);
  }
  if (node.getNumResults() > 2) {
    raiser.replace(node.getResult(2), match.v);
  }
  return success();
}

struct OnnxRaiseAttentionPass : kimi::impl::OnnxRaiseAttentionBase<OnnxRaiseAttentionPass> {
  using OnnxRaiseAttentionBase::OnnxRaiseAttentionBase;
  void runOnOperation() override {
    Raiser raiser(getOperation());
    MaskTracer tracer(raiser, modelDir);
    AttentionRaiser attention(raiser, tracer);
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      if (node.is("Attention")) {
        return attention.raiseOperator(node);
      }
      return node.is("MatMul") ? attention.raiseSpelledOut(node) : failure();
    });
    numCausal += attention.numCausal;
    numMasked += attention.numMasked;
    raiser.finish();
  }
};

} // namespace
