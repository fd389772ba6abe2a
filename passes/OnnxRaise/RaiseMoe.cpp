//===- RaiseMoe.cpp - --onnx-raise-moe
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Experts.h"
#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEMOE
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

/// The packed weight and the scales behind `value` where it is MXFP4 in blocks along the last axis; null values
/// otherwise.
std::pair<Value, Value> packedOf(const Raiser &raiser, Value value) {
  NodeOp node = raiser.node(value, "DequantizeLinear");
  if (!node || !node.getInput(0) || !node.getInput(1) || node.getInput(2)) {
    return {};
  }
  int64_t axis = node.getInt("axis", 1), rank = raiser.rank(node.getInput(0));
  bool isLast = axis == -1 || axis == rank - 1;
  bool isMx = isa_and_present<Float4E2M1FNType>(raiser.shapes.of(node.getInput(0)).elementType) &&
              isa_and_present<Float8E8M0FNUType>(raiser.shapes.of(node.getInput(1)).elementType);
  bool stored = node.getInput(0).getDefiningOp<WeightRefOp>() && node.getInput(1).getDefiningOp<WeightRefOp>();
  bool isIt = isLast && isMx && stored && node.getInt("block_size", 0) == 32;
  return isIt ? std::pair(node.getInput(0), node.getInput(1)) : std::pair<Value, Value>();
}

/// `result`: [N, D'] with the shape of `like`, whose leading extents are those of `rows`.
Value backTo(Raiser &raiser, Location loc, Value result, Value like, Value rows, int64_t channels) {
  if (raiser.sameShape(result, like)) {
    return result;
  }
  const auto *dims = raiser.shape(like);
  const auto *leading = raiser.shape(rows);
  if (!dims || !leading || dims->size() != leading->size() ||
      ArrayRef(*dims).drop_back() != ArrayRef(*leading).drop_back() || !dims->back().is(channels)) {
    return {};
  }
  SmallVector<NamedAttribute> range = {raiser.intAttr("start", 0),
                                       raiser.intAttr("end", static_cast<int64_t>(dims->size()) - 1)};
  Value front = raiser.create(loc, "Shape", rows, range);
  Value shape = raiser.create(loc, "Concat", {front, raiser.constant(loc, {channels})}, raiser.intAttr("axis", 0));
  return raiser.create(loc, "Reshape", {result, shape});
}

LogicalResult build(Raiser &raiser, NodeOp root, Experts &experts) {
  RewriterBase &rewriter = raiser.rewriter;
  Location loc = root.getLoc();
  const auto *dims = raiser.shape(experts.tokens);
  std::optional<SmallVector<int64_t>> w1 = constantShape(raiser, experts.w1), w2 = constantShape(raiser, experts.w2);
  if (!dims || dims->size() < 2 || !w1 || !w2 || w1->size() != 3 || w2->size() != 3 || !dims->back().is((*w1)[2]) ||
      !isSingleOrNarrow(raiser, experts.tokens)) {
    return rewriter.notifyMatchFailure(root, "the tokens or the experts have no known extents");
  }
  Value x = experts.tokens;
  if (dims->size() > 2) {
    x = raiser.create(loc, "Reshape", {x, raiser.constant(loc, {-1, (*w1)[2]})});
  }
  const auto *rows = raiser.shape(x);
  const auto *chosen = raiser.shape(experts.router.getIndices());
  if (!rows || !chosen || rows->front() != chosen->front()) {
    return rewriter.notifyMatchFailure(root, "the router has not one row for each token");
  }
  std::pair<Value, Value> packed[3] = {packedOf(raiser, experts.w1), packedOf(raiser, experts.w3),
                                       packedOf(raiser, experts.w2)};
  bool isPacked = packed[0].first && packed[1].first && packed[2].first;
  Value scales[3];
  if (isPacked) {
    std::tie(experts.w1, scales[0]) = packed[0];
    std::tie(experts.w3, scales[1]) = packed[1];
    std::tie(experts.w2, scales[2]) = packed[2];
  }
  Type element = raiser.shapes.of(x).elementType, wanted = raiser.shapes.of(root.getResult(0)).elementType;
  SmallVector<Value> operands = {raiser.ranked(x), raiser.ranked(experts.w1), raiser.ranked(experts.w3),
                                 raiser.ranked(experts.w2)};
  bool typed = isSingleOrNarrow(raiser, root.getResult(0)) && (wanted == element || wanted.isF32());
  if (llvm::is_contained(operands, Value()) || !typed) {
    return rewriter.notifyMatchFailure(root, "an operand has no known rank, or the sum another element type");
  }
  auto situ = dyn_cast<SituGluOp>(experts.glu);
  auto type = RankedTensorType::get({cast<RankedTensorType>(operands[0].getType()).getDimSize(0), (*w2)[1]}, wanted);
  Value y = MoeOp::create(rewriter, loc, type, operands[0], experts.router.getIndices(), experts.router.getWeights(),
                          operands[1], operands[2], operands[3], scales[0], scales[1], scales[2],
                          situ ? ExpertKind::situ_glu : ExpertKind::swiglu, situ ? situ.getBetaAttr() : FloatAttr(),
                          situ ? situ.getLinearBetaAttr() : FloatAttr());
  raiser.shapes.set(y, ValueInfo(wanted, Shape{rows->front(), SymbolicDim((*w2)[1])}));
  Value back = backTo(raiser, loc, y, root.getResult(0), experts.tokens, (*w2)[1]);
  if (!back) {
    rewriter.eraseOp(y.getDefiningOp());
    return rewriter.notifyMatchFailure(root, "the sum has not the shape of the tokens");
  }
  raiser.replace(root.getResult(0), back);
  return success();
}

struct OnnxRaiseMoePass : kimi::impl::OnnxRaiseMoeBase<OnnxRaiseMoePass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      Experts experts;
      bool found = node.is("ReduceSum") ? succeeded(matchMasked(raiser, node, experts)) ||
                                              succeeded(matchGathered(raiser, node, experts))
                   : node.is("Add")     ? succeeded(matchUnrolled(raiser, node, experts))
                                        : false;
      return found ? build(raiser, node, experts) : failure();
    });
    raiser.finish();
  }
};

} // namespace
