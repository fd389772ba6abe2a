//===- LoopToScan.cpp - a Loop that reads token after token, as a Scan
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/LoopToScan.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// The axis of a Gather of a value from around `body` at the loop's counter; nullopt where it is something else.
static std::optional<int64_t> sliceAxis(const Raiser &raiser, NodeOp gather, Block &body) {
  if (!gather.is("Gather") || gather.getInput(1) != body.getArgument(0) || !gather.getInput(0)) {
    return std::nullopt;
  }
  Value source = gather.getInput(0);
  Operation *owner = source.getDefiningOp();
  bool isInside = owner ? owner->getBlock() == &body : cast<BlockArgument>(source).getOwner() == &body;
  int64_t rank = raiser.rank(source), axis = gather.getInt("axis", 0);
  axis += axis < 0 ? rank : 0;
  return isInside || rank < 1 || axis < 0 || axis >= rank ? std::nullopt : std::optional(axis);
}

std::string kimi::onnx::loopToScan(Raiser &raiser, NodeOp loop, NodeOp &scan) {
  if (loop.getBodies().size() != 1 || loop.getBodies().front().empty() || loop.getInputs().size() < 3) {
    return "it keeps no state";
  }
  Block &body = loop.getBodies().front().front();
  Operation *yield = body.getTerminator();
  size_t states = loop.getInputs().size() - 2;
  if (body.getNumArguments() != states + 2 || yield->getNumOperands() != loop->getNumResults() + 1 ||
      loop->getNumResults() < states) {
    return "its body does not fit its inputs and outputs";
  }
  // It runs as often as it is told to: the condition is true at first and stays so.
  Value condition = loop.getInput(1);
  bool starts = !condition || raiser.scalar(condition) == 1.0;
  Value next = raiser.strip(yield->getOperand(0));
  std::optional<SmallVector<int64_t>> constant;
  if (auto known = next.getDefiningOp<onnx::ConstantOp>()) {
    auto elements = dyn_cast<DenseElementsAttr>(known.getValue());
    if (elements && elements.isSplat() && elements.getElementType().isInteger(1) && elements.getSplatValue<bool>()) {
      constant = SmallVector<int64_t>{1};
    }
  }
  if (!starts || (next != body.getArgument(1) && !constant)) {
    return "when it ends depends on what it computes";
  }
  SmallVector<std::pair<NodeOp, int64_t>> slices;
  for (Operation *user : body.getArgument(0).getUsers()) {
    auto gather = dyn_cast<NodeOp>(user);
    std::optional<int64_t> axis = gather ? sliceAxis(raiser, gather, body) : std::nullopt;
    if (!axis) {
      return "its counter does more than choose a slice of a tensor from around it";
    }
    slices.emplace_back(gather, *axis);
  }
  // The condition goes nowhere but into the next condition, through Identity.
  auto isNextOnly = [&](Value value) {
    return llvm::all_of(value.getUses(),
                        [&](OpOperand &use) { return use.getOwner() == yield && use.getOperandNumber() == 0; });
  };
  for (OpOperand &use : body.getArgument(1).getUses()) {
    auto identity = dyn_cast<NodeOp>(use.getOwner());
    bool passes = identity && identity.is("Identity") && isNextOnly(identity.getResult(0));
    if (!passes && (use.getOwner() != yield || use.getOperandNumber() != 0)) {
      return "its body looks at the condition";
    }
  }
  auto counter = dyn_cast<RankedTensorType>(body.getArgument(0).getType());
  if (slices.empty() || (counter && counter.getRank() != 0)) {
    return "it reads no tensor token by token";
  }
  const ValueInfo *trips = loop.getInput(0) ? &raiser.shapes.of(loop.getInput(0)) : nullptr;
  if (!trips || !trips->content || trips->content->size() != 1) {
    return "how often it runs is not known from shapes";
  }
  SmallVector<Value> inputs(loop.getInputs().drop_front(2));
  SmallVector<int64_t> axes;
  for (auto [gather, axis] : slices) {
    if ((*raiser.shape(gather.getInput(0)))[axis] != trips->content->front()) {
      return "it does not run over the whole of what it reads";
    }
    inputs.push_back(gather.getInput(0));
    axes.push_back(axis);
  }
  IRRewriter &b = raiser.rewriter;
  SmallVector<NamedAttribute> attrs{raiser.intAttr("num_scan_inputs", static_cast<int64_t>(slices.size())),
                                    raiser.intsAttr("scan_input_axes", axes)};
  b.setInsertionPoint(loop);
  scan = NodeOp::create(b, loop.getLoc(), loop->getResultTypes(), b.getStringAttr("Scan"), b.getStringAttr(""),
                        b.getI64IntegerAttr(std::max<int64_t>(loop.getVersion(), 9)), b.getDictionaryAttr(attrs),
                        b.getStrArrayAttr({"body"}), inputs, /*bodiesCount=*/1);
  Region &region = scan.getBodies().front();
  region.takeBody(loop.getBodies().front());
  Block &block = region.front();
  for (auto [gather, axis] : slices) {
    Value slice = block.addArgument(gather.getResult(0).getType(), gather.getLoc());
    b.replaceAllUsesWith(gather.getResult(0), slice);
    b.eraseOp(gather);
  }
  // What carried the condition on has no use but the terminator.
  yield->eraseOperand(0);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      b.eraseOp(&op);
    }
  }
  block.eraseArguments(0, 2);
  raiser.shapes.infer(scan);
  for (auto [from, to] : llvm::zip_equal(loop->getResults(), scan->getResults())) {
    b.replaceAllUsesWith(from, to);
  }
  b.eraseOp(loop);
  return "";
}
