//===- Experts.cpp - what raising gathers of a mixture of experts
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Experts.h"
#include "passes/OnnxRaise/Factors.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// The permutation that swaps the last two of `rank` axes; none where there are fewer, or the rank is unknown (-1).
static SmallVector<int64_t> swapOfLast(int64_t rank) {
  SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(std::max<int64_t>(rank, 0)));
  if (rank >= 2) {
    std::swap(swap[rank - 1], swap[rank - 2]);
  }
  return swap;
}

ExpertMatrix onnx::rightSide(const Raiser &raiser, Value value) {
  ExpertMatrix matrix{raiser.strip(value), true};
  NodeOp transpose = raiser.node(value, "Transpose");
  if (!transpose || !transpose.getInput(0)) {
    return matrix;
  }
  int64_t rank = raiser.rank(value);
  SmallVector<int64_t> swap = swapOfLast(rank);
  std::optional<SmallVector<int64_t>> perm = transpose.getInts("perm");
  if ((perm && *perm == swap) || (!perm && rank == 2)) {
    matrix = {raiser.strip(transpose.getInput(0)), false};
  }
  return matrix;
}

Value onnx::oriented(Raiser &raiser, Location loc, const ExpertMatrix &matrix) {
  if (!matrix.transpose) {
    return matrix.weight;
  }
  return raiser.transpose(loc, matrix.weight, swapOfLast(raiser.rank(matrix.weight)));
}

bool onnx::gluOperands(Operation *op, Value &gate, Value &up) {
  if (!isa_and_present<SwigluOp, SituGluOp>(op)) {
    return false;
  }
  gate = op->getOperand(0);
  up = op->getOperand(1);
  return true;
}

bool onnx::sameActivation(Operation *a, Operation *b) {
  auto x = dyn_cast<SituGluOp>(a), y = dyn_cast<SituGluOp>(b);
  if (!x || !y) {
    return isa<SwigluOp>(a) && isa<SwigluOp>(b);
  }
  return x.getBetaAttr() == y.getBetaAttr() && x.getLinearBetaAttr() == y.getLinearBetaAttr();
}

RouterOp onnx::routerOfIndices(const Raiser &raiser, Value value) {
  value = peelViews(raiser, value);
  // Exporters clip indices to those of the experts, which changes none; other bounds would.
  double low = 0.0, high = std::numeric_limits<double>::infinity();
  while (NodeOp clip = raiser.node(value, "Clip")) {
    if (clip.getOnnxAttr("min") || clip.getOnnxAttr("max")) {
      return {};
    }
    for (unsigned index : {1u, 2u}) {
      Value bound = clip.getInput(index);
      std::optional<double> known = bound ? raiser.scalar(bound) : std::nullopt;
      if (bound && !known) {
        return {};
      }
      low = index == 1 && known ? std::max(low, *known) : low;
      high = index == 2 && known ? std::min(high, *known) : high;
    }
    value = peelViews(raiser, clip.getInput(0));
  }
  auto router = value ? value.getDefiningOp<RouterOp>() : RouterOp();
  if (!router || value != router.getIndices()) {
    return {};
  }
  int64_t experts = cast<RankedTensorType>(router.getLogits().getType()).getShape().back();
  bool inBounds = low <= 0.0 && (std::isinf(high) || (experts > 0 && high >= static_cast<double>(experts - 1)));
  return inBounds ? router : RouterOp();
}

RouterOp onnx::routerOfWeights(const Raiser &raiser, Value value) {
  value = peelViews(raiser, value);
  auto router = value ? value.getDefiningOp<RouterOp>() : RouterOp();
  return router && value == router.getWeights() ? router : RouterOp();
}

/// Whether the last axis of `value` runs over the experts that `router` chose: reshapes have not cut its rows
/// elsewhere.
static bool isOfChosen(const Raiser &raiser, Value value, RouterOp router) {
  const auto *dims = value ? raiser.shape(value) : nullptr;
  return dims && !dims->empty() && dims->back().is(static_cast<int64_t>(router.getTop()));
}

//===----------------------------------------------------------------------===//
// All stacked experts, and a mask
//===----------------------------------------------------------------------===//

/// x and W of a product for each expert: MatMul with stacked matrices, or Einsum as "nl,eil->eni".
static bool stackedProduct(const Raiser &raiser, Value value, Value &x, ExpertMatrix &w) {
  value = peelCasts(raiser, value);
  if (NodeOp matmul = raiser.node(value, "MatMul")) {
    x = raiser.strip(matmul.getInput(0));
    w = rightSide(raiser, matmul.getInput(1));
    return raiser.rank(w.weight) == 3 && raiser.isWeight(w.weight);
  }
  NodeOp einsum = raiser.node(value, "Einsum");
  if (!einsum || einsum.getInputs().size() != 2 || !einsum.getInput(0) || !einsum.getInput(1)) {
    return false;
  }
  std::string equation;
  for (char c : einsum.getString("equation", "")) {
    equation += c == ' ' ? "" : std::string(1, c);
  }
  auto [operands, result] = StringRef(equation).split("->");
  auto [left, right] = operands.split(',');
  // Rows [n, c] or [e, n, c]; matrices [e, f, c] or [e, c, f]; the result [e, n, f].
  bool shaped = result.size() == 3 && right.size() == 3 && (left.size() == 2 || left.size() == 3);
  if (!shaped || right[0] != result[0] || (left.size() == 3 && left[0] != result[0]) ||
      left[left.size() - 2] != result[1]) {
    return false;
  }
  char contracted = left.back(), free = result[2];
  bool isOut = right[1] == free && right[2] == contracted, isIn = right[1] == contracted && right[2] == free;
  x = raiser.strip(einsum.getInput(0));
  w = {raiser.strip(einsum.getInput(1)), isIn};
  return (isOut || isIn) && contracted != free && raiser.isWeight(w.weight);
}

/// The router behind a dense mask [E, N, 1] that holds its weights at its indices and zeros elsewhere.
static RouterOp routerOfMask(const Raiser &raiser, Value value) {
  value = peelCasts(raiser, value);
  const auto *dims = raiser.shape(value);
  NodeOp transpose = raiser.node(peelViews(raiser, value), "Transpose");
  std::optional<SmallVector<int64_t>> perm = transpose ? transpose.getInts("perm") : std::nullopt;
  bool isColumn = dims && dims->size() == 3 && dims->back().is(1);
  if (!isColumn || !transpose || raiser.rank(transpose.getInput(0)) != 2 ||
      (perm && *perm != SmallVector<int64_t>{1, 0})) {
    return {};
  }
  NodeOp scatter = raiser.node(peelViews(raiser, transpose.getInput(0)), "ScatterElements");
  if (!scatter || scatter.getString("reduction", "none") != "none" || raiser.scalar(scatter.getInput(0)) != 0.0) {
    return {};
  }
  int64_t axis = scatter.getInt("axis", 0), rank = raiser.rank(scatter.getResult(0));
  const auto *dense = raiser.shape(scatter.getResult(0));
  RouterOp router = routerOfIndices(raiser, scatter.getInput(1));
  bool isLast = (axis == -1 || axis == rank - 1) && dense && dense->back() == dims->front();
  return isLast && router && isOfChosen(raiser, scatter.getInput(1), router) &&
                 isOfChosen(raiser, scatter.getInput(2), router) &&
                 routerOfWeights(raiser, scatter.getInput(2)) == router
             ? router
             : RouterOp();
}

LogicalResult onnx::matchMasked(Raiser &raiser, NodeOp root, Experts &experts) {
  NodeOp mul = raiser.node(root.getInput(0), "Mul");
  std::optional<SmallVector<int64_t>> axes = mul ? reducedAxes(raiser, root) : std::nullopt;
  if (!axes || *axes != SmallVector<int64_t>{0} || root.getInt("keepdims", 1) != 0) {
    return failure();
  }
  for (unsigned side : {0u, 1u}) {
    RouterOp router = routerOfMask(raiser, mul.getInput(side));
    Value hidden, gate, up, x1, x3;
    ExpertMatrix w1, w3, w2;
    if (!router || !stackedProduct(raiser, mul.getInput(1 - side), hidden, w2)) {
      continue;
    }
    Operation *glu = peelCasts(raiser, hidden).getDefiningOp();
    if (!gluOperands(glu, gate, up) || !stackedProduct(raiser, gate, x1, w1) || !stackedProduct(raiser, up, x3, w3) ||
        x1 != x3) {
      return raiser.rewriter.notifyMatchFailure(root, "a mask over experts whose activation is no gated unit");
    }
    Location loc = root.getLoc();
    experts = {router,
               peelReshapes(raiser, x1),
               oriented(raiser, loc, w1),
               oriented(raiser, loc, w3),
               oriented(raiser, loc, w2),
               glu};
    return success();
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// Gathered matrices
//===----------------------------------------------------------------------===//

/// The stacked matrices W and x of W[indices] . x, a vector for each index.
static RouterOp gatheredProduct(const Raiser &raiser, Value value, Value &w, Value &x) {
  NodeOp matmul = raiser.node(peelViews(raiser, value), "MatMul");
  NodeOp gather = matmul ? raiser.node(peelCasts(raiser, matmul.getInput(0)), "GatherND") : NodeOp();
  bool isNd = static_cast<bool>(gather);
  if (matmul && !gather) {
    gather = raiser.node(peelCasts(raiser, matmul.getInput(0)), "Gather");
  }
  bool fromFront = gather && (isNd ? gather.getInt("batch_dims", 0) : gather.getInt("axis", 0)) == 0;
  if (!fromFront || raiser.rank(gather.getInput(0)) != 3 || !raiser.isWeight(gather.getInput(0)) ||
      raiser.rank(gather.getResult(0)) != 3) {
    return {};
  }
  w = raiser.strip(gather.getInput(0));
  x = raiser.strip(matmul.getInput(1));
  return routerOfIndices(raiser, gather.getInput(1));
}

/// The rows [.., D] that `value` repeats, each `top` times in a row.
static Value repeatedRows(const Raiser &raiser, Value value, int64_t top) {
  value = peelViews(raiser, value);
  NodeOp expand = raiser.node(value, "Expand");
  if (!expand) {
    return top == 1 ? value : Value();
  }
  const auto *in = raiser.shape(expand.getInput(0));
  const auto *out = raiser.shape(value);
  bool repeats = in && out && in->size() == out->size() && in->size() >= 3 && (*in)[in->size() - 2].is(1) &&
                 (*out)[in->size() - 2].is(top) && in->back() == out->back() &&
                 ArrayRef(*in).drop_back(2) == ArrayRef(*out).drop_back(2);
  return repeats ? peelReshapes(raiser, expand.getInput(0)) : Value();
}

/// Halves of one product: the first and the second part of a Split in two along the last axis.
static Value halvesOf(const Raiser &raiser, Value gate, Value up) {
  gate = peelViews(raiser, gate);
  up = peelViews(raiser, up);
  auto split = gate.getDefiningOp<NodeOp>();
  if (!split || !split.is("Split") || up.getDefiningOp<NodeOp>() != split || split->getNumResults() != 2 ||
      cast<OpResult>(gate).getResultNumber() != 0 || cast<OpResult>(up).getResultNumber() != 1) {
    return {};
  }
  int64_t axis = split.getInt("axis", 0), rank = raiser.rank(split.getInput(0));
  bool isLast = axis == -1 || axis == rank - 1;
  return isLast && raiser.sameShape(split.getResult(0), split.getResult(1)) ? split.getInput(0) : Value();
}

/// Rows [first, first + count) of every matrix of a stack.
static Value rowsOf(Raiser &raiser, Location loc, Value stack, int64_t first, int64_t count) {
  return raiser.create(
      loc, "Slice",
      {stack, raiser.constant(loc, {first}), raiser.constant(loc, {first + count}), raiser.constant(loc, {1})});
}

LogicalResult onnx::matchGathered(Raiser &raiser, NodeOp root, Experts &experts) {
  Value sum = root.getInput(0);
  const auto *dims = sum ? raiser.shape(sum) : nullptr;
  std::optional<SmallVector<int64_t>> axes = dims ? reducedAxes(raiser, root) : std::nullopt;
  NodeOp mul = axes ? raiser.node(peelViews(raiser, sum), "Mul") : NodeOp();
  bool overChosen = axes && axes->size() == 1 && dims->size() >= 3 &&
                    axes->front() == static_cast<int64_t>(dims->size()) - 2 && root.getInt("keepdims", 1) == 0;
  if (!mul || !overChosen) {
    return failure();
  }
  for (unsigned side : {0u, 1u}) {
    RouterOp router = routerOfWeights(raiser, mul.getInput(side));
    Value hidden, gate, up, w1, w3, w2, x1, x3;
    if (!router || gatheredProduct(raiser, mul.getInput(1 - side), w2, hidden) != router) {
      continue;
    }
    int64_t top = router.getTop();
    const auto *column = raiser.shape(mul.getInput(side));
    bool isColumn = column && column->back().is(1) &&
                    (column->size() == 2 || (column->size() > 2 && (*column)[column->size() - 2].is(top)));
    Operation *glu = isColumn ? peelViews(raiser, hidden).getDefiningOp() : nullptr;
    if (!(*dims)[dims->size() - 2].is(top) || !gluOperands(glu, gate, up)) {
      return raiser.rewriter.notifyMatchFailure(root, "gathered experts whose activation is no gated unit");
    }
    Location loc = root.getLoc();
    if (Value both = halvesOf(raiser, gate, up)) {
      Value stack;
      std::optional<SmallVector<int64_t>> extents;
      if (gatheredProduct(raiser, both, stack, x1) == router) {
        extents = constantShape(raiser, stack);
      }
      if (!extents || (*extents)[1] % 2 != 0) {
        return raiser.rewriter.notifyMatchFailure(root,
                                                  "gate and up are no halves of a product with gathered matrices");
      }
      int64_t half = (*extents)[1] / 2;
      w1 = rowsOf(raiser, loc, stack, 0, half);
      w3 = rowsOf(raiser, loc, stack, half, half);
      x3 = x1;
    } else if (gatheredProduct(raiser, gate, w1, x1) != router || gatheredProduct(raiser, up, w3, x3) != router) {
      return raiser.rewriter.notifyMatchFailure(root, "gate and up are no products with gathered matrices");
    }
    Value tokens = repeatedRows(raiser, x1, top);
    if (!tokens || repeatedRows(raiser, x3, top) != tokens) {
      return raiser.rewriter.notifyMatchFailure(root, "the experts do not read the rows of the tokens, repeated");
    }
    experts = {router, tokens, w1, w3, w2, glu};
    return success();
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// One product after another
//===----------------------------------------------------------------------===//

namespace {
/// One expert's term of an unrolled sum.
struct Term {
  RouterOp router;
  int64_t expert = -1;
  Value output;
};
} // namespace

/// The router and the expert whose weight, or 0, `value` holds for each token: sum over the chosen of weights *
/// (indices == expert).
static Term termWeight(const Raiser &raiser, Value value) {
  Term term;
  NodeOp sum = raiser.node(peelViews(raiser, value), "ReduceSum");
  bool isSum = sum && (isOverLastAxis(raiser, sum, true) || isOverLastAxis(raiser, sum, false));
  NodeOp mul = isSum ? raiser.node(sum.getInput(0), "Mul") : NodeOp();
  NodeOp where = isSum ? raiser.node(sum.getInput(0), "Where") : NodeOp();
  auto take = [&](Value weights, Value condition) {
    RouterOp router = routerOfWeights(raiser, weights);
    NodeOp equal = raiser.node(peelCasts(raiser, condition), "Equal");
    auto compared = router && equal ? raiser.withScalar(equal) : std::nullopt;
    if (compared && routerOfIndices(raiser, compared->first) == router && isOfChosen(raiser, weights, router) &&
        isOfChosen(raiser, compared->first, router)) {
      term = {router, static_cast<int64_t>(compared->second), Value()};
    }
  };
  if (where && raiser.scalar(where.getInput(2)) == 0.0) {
    take(where.getInput(1), where.getInput(0));
  }
  for (unsigned side : {0u, 1u}) {
    if (mul && !term.router) {
      take(mul.getInput(side), mul.getInput(1 - side));
    }
  }
  return term;
}

static Term matchTerm(const Raiser &raiser, Value value) {
  NodeOp mul = raiser.node(peelCasts(raiser, value), "Mul");
  for (unsigned side : {0u, 1u}) {
    Term term = mul ? termWeight(raiser, mul.getInput(side)) : Term();
    if (term.router) {
      term.output = mul.getInput(1 - side);
      return term;
    }
  }
  return {};
}

/// The leaves of a tree of Add that are terms of experts; false where one is not.
static bool gatherTerms(const Raiser &raiser, Value value, unsigned depth, SmallVectorImpl<Term> &terms) {
  // A chain of a thousand experts is walked down its long side.
  while (NodeOp add = raiser.node(peelCasts(raiser, value), "Add")) {
    bool isLast = depth > 0 && gatherTerms(raiser, add.getInput(1), depth - 1, terms);
    if (!isLast) {
      return false;
    }
    value = add.getInput(0);
  }
  Term term = matchTerm(raiser, value);
  terms.push_back(term);
  return static_cast<bool>(term.router);
}

LogicalResult onnx::matchUnrolled(Raiser &raiser, NodeOp root, Experts &experts) {
  Term last = matchTerm(raiser, root.getInput(1));
  if (!last.router) {
    return failure();
  }
  // Only the end of the chain is a mixture: with one more expert behind it this is a part of one.
  if (NodeOp next = raiser.onlyUser(root.getResult(0)); next && next.is("Add") &&
                                                        next.getInput(0) == root.getResult(0) &&
                                                        matchTerm(raiser, next.getInput(1)).router == last.router) {
    return failure();
  }
  SmallVector<Term> terms;
  int64_t count = cast<RankedTensorType>(last.router.getLogits().getType()).getDimSize(1);
  if (!gatherTerms(raiser, root.getResult(0), 4, terms) || static_cast<int64_t>(terms.size()) != count) {
    return raiser.rewriter.notifyMatchFailure(root, "the sum is not over every expert, once each");
  }
  llvm::sort(terms, [](const Term &a, const Term &b) { return a.expert < b.expert; });
  SmallVector<Value> w1, w3, w2;
  for (auto [i, term] : llvm::enumerate(terms)) {
    Value gate, up;
    NodeOp down = raiser.node(peelCasts(raiser, term.output), "MatMul");
    Operation *glu = down ? peelCasts(raiser, down.getInput(0)).getDefiningOp() : nullptr;
    if (term.router != last.router || term.expert != static_cast<int64_t>(i) || !gluOperands(glu, gate, up)) {
      return raiser.rewriter.notifyMatchFailure(root, "an expert is missing, or its activation is no gated unit");
    }
    NodeOp first = raiser.node(peelCasts(raiser, gate), "MatMul"), third = raiser.node(peelCasts(raiser, up), "MatMul");
    bool known = first && third && raiser.strip(first.getInput(0)) == raiser.strip(third.getInput(0)) &&
                 (i == 0 || (sameActivation(glu, experts.glu) && raiser.strip(first.getInput(0)) == experts.tokens));
    if (!known) {
      return raiser.rewriter.notifyMatchFailure(root, "the experts differ in what they read or how they activate");
    }
    experts.router = last.router;
    experts.glu = glu;
    experts.tokens = raiser.strip(first.getInput(0));
    for (auto [node, list] : {std::pair(first, &w1), {third, &w3}, {down, &w2}}) {
      ExpertMatrix matrix = rightSide(raiser, node.getInput(1));
      if (raiser.rank(matrix.weight) != 2 || !raiser.isWeight(matrix.weight)) {
        return raiser.rewriter.notifyMatchFailure(root, "an expert's matrix is no weight of rank 2");
      }
      list->push_back(oriented(raiser, root.getLoc(), matrix));
    }
  }
  // Stacked once, when weights are loaded.
  Location loc = root.getLoc();
  for (auto [list, stack] : {std::pair(&w1, &experts.w1), {&w3, &experts.w3}, {&w2, &experts.w2}}) {
    for (Value &matrix : *list) {
      matrix = raiser.create(loc, "Unsqueeze", {matrix, raiser.constant(loc, {0})});
    }
    *stack = raiser.create(loc, "Concat", *list, raiser.intAttr("axis", 0));
  }
  return success();
}
