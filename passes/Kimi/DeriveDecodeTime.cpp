//===- DeriveDecodeTime.cpp - where time runs in a function from tokens to logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/DeriveDecodeTime.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kimi;

TimeAnalysis::TimeAnalysis(BlockArgument ids, int64_t axis, ArrayRef<Value> steps) : steps(steps.begin(), steps.end()) {
  setTime(ids, axis);
  derived.insert(steps.begin(), steps.end());
}

void TimeAnalysis::addTokenArgument(BlockArgument argument, int64_t axis) { setTime(argument, axis); }

void TimeAnalysis::addKeyArgument(BlockArgument argument, int64_t axis) { marks[argument] = {Kind::Key, axis}; }

LogicalResult TimeAnalysis::obstacle(Operation *op, const Twine &why) const {
  op->emitRemark() << "no decode entry is derived: " << why;
  return failure();
}

LogicalResult TimeAnalysis::run(func::FuncOp func) {
  for (Operation &op : func.getBody().front()) {
    if (isa<func::ReturnOp, RequireOp>(op)) {
      continue;
    }
    if (failed(visit(&op))) {
      return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Extents
//===----------------------------------------------------------------------===//

bool TimeAnalysis::isSteps(OpFoldResult extent) const {
  auto value = extent ? dyn_cast<Value>(extent) : Value();
  if (!value) {
    return false;
  }
  if (steps.contains(value)) {
    return true;
  }
  auto dim = value.getDefiningOp<tensor::DimOp>();
  std::optional<int64_t> axis = dim ? dim.getConstantIndex() : std::nullopt;
  if (!axis) {
    return false;
  }
  Mark mark = markOf(dim.getSource());
  return (mark.kind == Kind::Time && mark.axis == *axis && !isa<BlockArgument>(dim.getSource())
              ? isSteps(extentOf(dim.getSource(), *axis))
              : false) ||
         (isa<BlockArgument>(dim.getSource()) && mark.kind == Kind::Time && mark.axis == *axis);
}

OpFoldResult TimeAnalysis::extentOf(Value tensor, int64_t axis) const {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(axis)) {
    return IntegerAttr::get(IndexType::get(tensor.getContext()), type.getDimSize(axis));
  }
  Operation *op = tensor.getDefiningOp();
  if (auto empty = dyn_cast_or_null<tensor::EmptyOp>(op)) {
    return empty.getMixedSizes()[axis];
  }
  if (auto linalgOp = dyn_cast_or_null<linalg::LinalgOp>(op)) {
    return extentOf(linalgOp.getDpsInits()[cast<OpResult>(tensor).getResultNumber()], axis);
  }
  if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op)) {
    return expand.getMixedOutputShape()[axis];
  }
  if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op)) {
    // Extents of 1 beside one other extent leave that one.
    ReassociationIndices group = collapse.getReassociationIndices()[axis];
    OpFoldResult only;
    for (int64_t inner : group) {
      if (collapse.getSrcType().getDimSize(inner) == 1) {
        continue;
      }
      if (only) {
        return {};
      }
      only = extentOf(collapse.getSrc(), inner);
    }
    return only;
  }
  if (auto slice = dyn_cast_or_null<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    int64_t kept = -1;
    for (auto [inner, size] : llvm::enumerate(slice.getMixedSizes())) {
      kept += !dropped.test(inner);
      if (kept == axis && !dropped.test(inner)) {
        return size;
      }
    }
    return {};
  }
  if (auto cast = dyn_cast_or_null<tensor::CastOp>(op)) {
    return extentOf(cast.getSource(), axis);
  }
  if (auto loops = dyn_cast_or_null<LoopsOp>(op)) {
    size_t next = 0;
    for (Value result : loops.getResults()) {
      auto resultType = cast<RankedTensorType>(result.getType());
      for (int64_t i = 0; i < resultType.getRank(); ++i) {
        if (!resultType.isDynamicDim(i)) {
          continue;
        }
        if (result == tensor && i == axis) {
          return loops.getResultDims()[next];
        }
        ++next;
      }
    }
    return {};
  }
  Mark mark = markOf(tensor);
  if (mark.kind == Kind::Time && mark.axis == axis && !steps.empty()) {
    return *steps.begin();
  }
  return {};
}

SmallVector<int64_t> TimeAnalysis::stepAxes(Value tensor) const {
  SmallVector<int64_t> axes;
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  for (int64_t axis = 0; type && axis < type.getRank(); ++axis) {
    if (type.isDynamicDim(axis) && isSteps(extentOf(tensor, axis))) {
      axes.push_back(axis);
    }
  }
  return axes;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult TimeAnalysis::visit(Operation *op) {
  if (auto mixer = dyn_cast<MixerOpInterface>(op)) {
    return visitMixer(mixer);
  }
  if (llvm::any_of(op->getOperands(), [&](Value operand) { return markOf(operand).kind == Kind::Key; })) {
    return visitKeys(op);
  }
  if (auto structured = dyn_cast<linalg::LinalgOp>(op)) {
    return visitStructured(structured);
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    return visitExpand(expand);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    return visitCollapse(collapse);
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    return visitSlice(slice);
  }
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    return visitConcat(concat);
  }
  if (isa<LayerNormOp, RmsNormOp, LinearOp, L2NormOp>(op)) {
    return visitRowwise(op, 1);
  }
  if (auto linear = dyn_cast<HeadLinearOp>(op)) {
    constexpr int64_t headAxis = 1;
    Mark mark = markOf(linear.getX());
    if (mark.kind == Kind::Time && mark.axis == headAxis) {
      return obstacle(op, "each token has a matrix of its own");
    }
    return visitRowwise(op, 1);
  }
  if (isa<GeluOp, tensor::CastOp, EmbeddingOp>(op)) {
    return visitRowwise(op, 0);
  }
  if (isa<SwigluOp, SituGluOp>(op)) {
    return visitTogether(op, 0);
  }
  if (auto gate = dyn_cast<KdaGateOp>(op)) {
    return visitRowwise(op, cast<RankedTensorType>(gate.getDtBias().getType()).getRank());
  }
  if (isa<GatedRmsNormOp, AttnResOp, RouterOp, MoeOp>(op)) {
    return visitTogether(op, 1);
  }
  if (auto softmax = dyn_cast<SoftmaxOp>(op)) {
    auto type = cast<RankedTensorType>(softmax.getX().getType());
    return visitRowwise(op, type.getRank() - static_cast<int64_t>(softmax.getAxis()));
  }
  if (isa<tensor::DimOp, tensor::EmptyOp>(op)) {
    if (auto dim = dyn_cast<tensor::DimOp>(op); dim && isSteps(dim.getResult())) {
      steps.insert(dim.getResult());
      derived.insert(dim.getResult());
    }
    return success();
  }
  // Whatever else there is must not see the tokens.
  for (Value operand : op->getOperands()) {
    if (markOf(operand).kind != Kind::Free) {
      return obstacle(op, "'" + op->getName().getStringRef() + "' may mix tokens");
    }
  }
  bool onDerived = llvm::any_of(op->getOperands(), [&](Value operand) { return derived.contains(operand); });
  for (Value result : op->getResults()) {
    if (onDerived && result.getType().isIntOrIndex()) {
      derived.insert(result);
    } else if (onDerived && isa<TensorType>(result.getType())) {
      return obstacle(op, "'" + op->getName().getStringRef() + "' computes with the number of tokens");
    }
  }
  return success();
}

LogicalResult TimeAnalysis::visitMixer(MixerOpInterface mixer) {
  Operation *op = mixer.getOperation();
  bool seesTokens = llvm::any_of(op->getOperands(), [&](Value operand) { return markOf(operand).kind != Kind::Free; });
  if (!seesTokens) {
    return success();
  }
  std::string why = mixer.getStepwiseObstacle();
  if (!why.empty()) {
    return obstacle(op, why);
  }
  for (OpOperand &operand : op->getOpOperands()) {
    Mark mark = markOf(operand.get());
    int64_t axis = mixer.getTimeAxis(operand.getOperandNumber());
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (axis < 0 && mark.kind == Kind::Key && type && mark.axis == type.getRank() - 1) {
      continue; // one entry a key, whatever the step
    }
    if (axis < 0 && (mark.kind != Kind::Free || !stepAxes(operand.get()).empty())) {
      return obstacle(op,
                      "operand " + Twine(operand.getOperandNumber()) +
                          " depends on the tokens but is no sequence of the mixer (a mask over this sequence only)");
    }
    if (axis >= 0 && (mark.kind != Kind::Time || mark.axis != axis)) {
      return obstacle(op, "operand " + Twine(operand.getOperandNumber()) + " does not run along the tokens on axis " +
                              Twine(axis));
    }
  }
  mixers.push_back(mixer);
  setTime(op->getResult(0), mixer.getResultTimeAxis());
  return success();
}

LogicalResult TimeAnalysis::visitKeys(Operation *op) {
  if (isa<tensor::DimOp>(op)) {
    return success();
  }
  keyOps.push_back(op);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    ReassociationIndices group = expand.getReassociationIndices()[markOf(expand.getSrc()).axis];
    for (int64_t axis : group) {
      if (expand.getResultType().getDimSize(axis) == 1) {
        continue;
      }
      if (markOf(expand.getResult()).kind == Kind::Key) {
        return obstacle(op, "the axis of the mask is split");
      }
      marks[expand.getResult()] = {Kind::Key, axis};
    }
    return success();
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    marks[cast.getResult()] = markOf(cast.getSource());
    return success();
  }
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getNumLoops() != generic.getNumParallelLoops() || generic->getNumResults() != 1) {
    return obstacle(op, "'" + op->getName().getStringRef() + "' on a mask");
  }
  std::optional<unsigned> keyLoop;
  for (OpOperand *input : generic.getDpsInputOperands()) {
    Mark mark = markOf(input->get());
    if (mark.kind == Kind::Free && stepAxes(input->get()).empty()) {
      continue;
    }
    AffineExpr read =
        mark.kind == Kind::Key ? generic.getMatchingIndexingMap(input).getResult(mark.axis) : AffineExpr();
    auto loop = dyn_cast_or_null<AffineDimExpr>(read);
    if (!loop || (keyLoop && *keyLoop != loop.getPosition())) {
      return obstacle(op, "a mask is combined with the tokens");
    }
    keyLoop = loop.getPosition();
  }
  OpOperand *init = generic.getDpsInitOperand(0);
  SmallVector<int64_t> axes = stepAxes(init->get());
  AffineMap map = generic.getMatchingIndexingMap(init);
  if (!keyLoop || !init->get().getDefiningOp<tensor::EmptyOp>() || axes.size() != 1 ||
      map.getResult(axes.front()) != getAffineDimExpr(*keyLoop, op->getContext())) {
    return obstacle(op, "a mask that is not one entry a key");
  }
  marks[generic.getResult(0)] = {Kind::Key, axes.front()};
  return visitBody(generic, std::nullopt);
}

LogicalResult TimeAnalysis::visitRowwise(Operation *op, int64_t rowAxis) {
  Mark mark = markOf(op->getOperand(0));
  for (Value operand : op->getOperands().drop_front()) {
    if (markOf(operand).kind != Kind::Free || !stepAxes(operand).empty()) {
      return obstacle(op, "a parameter depends on the tokens");
    }
  }
  Value result = op->getResult(0);
  if (mark.kind == Kind::Time) {
    int64_t rank = cast<RankedTensorType>(op->getOperand(0).getType()).getRank();
    if (rowAxis > 0 && mark.axis == rank - rowAxis) {
      return obstacle(op, "'" + op->getName().getStringRef() + "' works along the token axis");
    }
  }
  if (mark.kind != Kind::Free) {
    marks[result] = mark;
  }
  return success();
}

LogicalResult TimeAnalysis::visitTogether(Operation *op, int64_t rowAxis) {
  Mark seen;
  for (Value operand : op->getOperands()) {
    Mark mark = markOf(operand);
    if (mark.kind == Kind::Free) {
      if (!stepAxes(operand).empty()) {
        return obstacle(op, "a parameter depends on the tokens");
      }
      continue;
    }
    if (seen.kind != Kind::Free && (seen.kind != mark.kind || seen.axis != mark.axis)) {
      return obstacle(op, "its operands run along the tokens on different axes");
    }
    seen = mark;
    int64_t rank = cast<RankedTensorType>(operand.getType()).getRank();
    if (mark.kind == Kind::Time && rowAxis > 0 && mark.axis == rank - rowAxis) {
      return obstacle(op, "'" + op->getName().getStringRef() + "' works along the token axis");
    }
  }
  if (seen.kind != Kind::Free) {
    for (Value result : op->getResults()) {
      marks[result] = seen;
    }
  }
  return success();
}

LogicalResult TimeAnalysis::visitStructured(linalg::LinalgOp op) {
  std::optional<unsigned> timeLoop;
  bool last = false;
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  auto loopOf = [&](OpOperand &operand, int64_t axis) -> std::optional<unsigned> {
    auto dim = dyn_cast<AffineDimExpr>(op.getMatchingIndexingMap(&operand).getResult(axis));
    return dim ? std::optional<unsigned>(dim.getPosition()) : std::nullopt;
  };
  auto take = [&](OpOperand &operand, int64_t axis) -> LogicalResult {
    std::optional<unsigned> loop = loopOf(operand, axis);
    if (!loop) {
      return obstacle(op, "the token axis is not read row by row");
    }
    if (timeLoop && *timeLoop != *loop) {
      return obstacle(op, "two loops run over the tokens");
    }
    timeLoop = loop;
    return success();
  };
  for (OpOperand *input : op.getDpsInputOperands()) {
    Mark mark = markOf(input->get());
    last |= mark.kind == Kind::Last;
    if (mark.kind == Kind::Time && failed(take(*input, mark.axis))) {
      return failure();
    }
  }
  for (OpOperand &init : op.getDpsInitsMutable()) {
    Mark mark = markOf(init.get());
    SmallVector<int64_t> axes = mark.kind == Kind::Time ? SmallVector<int64_t>{mark.axis} : stepAxes(init.get());
    for (int64_t axis : axes) {
      if (failed(take(init, axis))) {
        return failure();
      }
    }
  }
  if (timeLoop && last) {
    return obstacle(op, "the last token is combined with all tokens");
  }
  if (timeLoop && iterators[*timeLoop] != utils::IteratorType::parallel) {
    return obstacle(op, "a reduction over the tokens");
  }
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (!timeLoop || markOf(input->get()).kind == Kind::Time) {
      continue;
    }
    AffineMap map = op.getMatchingIndexingMap(input);
    for (int64_t axis = 0; axis < map.getNumResults(); ++axis) {
      if (map.getResult(axis).isFunctionOfDim(*timeLoop)) {
        return obstacle(op, "operand " + Twine(input->getOperandNumber()) +
                                " has one entry for each token but does not come from the tokens");
      }
    }
  }
  if (failed(visitBody(op, timeLoop))) {
    return failure();
  }
  for (auto [result, init] : llvm::zip(op->getResults(), op.getDpsInitsMutable())) {
    if (last) {
      marks[result] = {Kind::Last, -1};
    }
    if (!timeLoop) {
      continue;
    }
    AffineMap map = op.getMatchingIndexingMap(&init);
    std::optional<unsigned> axis = map.getResultPosition(getAffineDimExpr(*timeLoop, op.getContext()));
    if (!axis) {
      return obstacle(op, "a result has no token axis");
    }
    setTime(result, *axis);
  }
  return success();
}

/// What the body reads beside its arguments.
LogicalResult TimeAnalysis::visitBody(linalg::LinalgOp op, std::optional<unsigned> timeLoop) {
  WalkResult walked = op->getRegion(0).walk([&](Operation *inner) -> WalkResult {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      if (timeLoop && index.getDim() == *timeLoop) {
        positions.push_back(index);
      }
      return WalkResult::advance();
    }
    for (Value operand : inner->getOperands()) {
      if (op->getRegion(0).isAncestor(operand.getParentRegion())) {
        continue;
      }
      if (derived.contains(operand)) {
        return obstacle(op, "an element depends on the number of tokens");
      }
      if (markOf(operand).kind != Kind::Free) {
        return obstacle(op, "a body looks up a tensor that depends on the tokens");
      }
    }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

LogicalResult TimeAnalysis::visitExpand(tensor::ExpandShapeOp op) {
  Mark mark = markOf(op.getSrc());
  if (mark.kind == Kind::Last) {
    marks[op.getResult()] = mark;
  }
  if (mark.kind != Kind::Time) {
    return success();
  }
  ReassociationIndices group = op.getReassociationIndices()[mark.axis];
  if (group.size() == 1) {
    setTime(op.getResult(), group.front());
    return success();
  }
  std::optional<int64_t> found;
  SmallVector<OpFoldResult> sizes = op.getMixedOutputShape();
  for (int64_t axis : group) {
    if (isSteps(sizes[axis])) {
      if (found) {
        return obstacle(op, "two axes are as long as the sequence");
      }
      found = axis;
    }
  }
  if (!found) {
    return obstacle(op, "the token axis is split");
  }
  setTime(op.getResult(), *found);
  return success();
}

LogicalResult TimeAnalysis::visitCollapse(tensor::CollapseShapeOp op) {
  Mark mark = markOf(op.getSrc());
  if (mark.kind == Kind::Time) {
    // Merged with other axes every entry still belongs to one token.
    for (auto [axis, group] : llvm::enumerate(op.getReassociationIndices())) {
      if (llvm::is_contained(group, mark.axis)) {
        mark.axis = axis;
        break;
      }
    }
  }
  if (mark.kind != Kind::Free) {
    marks[op.getResult()] = mark;
  }
  return success();
}

LogicalResult TimeAnalysis::visitSlice(tensor::ExtractSliceOp op) {
  Mark mark = markOf(op.getSource());
  if (mark.kind == Kind::Last) {
    marks[op.getResult()] = mark;
    return success();
  }
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets(), sizes = op.getMixedSizes(), strides = op.getMixedStrides();
  llvm::SmallBitVector dropped = op.getDroppedDims();
  auto keptAxis = [&](int64_t axis) {
    int64_t kept = axis;
    for (int64_t i = 0; i < axis; ++i) {
      kept -= dropped.test(i);
    }
    return kept;
  };
  if (mark.kind == Kind::Time) {
    int64_t axis = mark.axis;
    if (isConstantIntValue(offsets[axis], 0) && isSteps(sizes[axis]) && isConstantIntValue(strides[axis], 1)) {
      setTime(op.getResult(), keptAxis(axis));
      return success();
    }
    auto offset = dyn_cast<Value>(offsets[axis]);
    if (isConstantIntValue(sizes[axis], 1) && offset && derived.contains(offset)) {
      marks[op.getResult()] = {Kind::Last, -1};
      return success();
    }
    return obstacle(op, "a part of the tokens is taken that is not the last one");
  }
  for (auto [axis, size] : llvm::enumerate(sizes)) {
    if (!isSteps(size)) {
      auto offset = dyn_cast<Value>(offsets[axis]);
      if (offset && derived.contains(offset)) {
        return obstacle(op, "a table is read from a row that depends on the number of tokens");
      }
      continue;
    }
    if (!isConstantIntValue(offsets[axis], 0) || !isConstantIntValue(strides[axis], 1) ||
        markOf(op.getResult()).kind == Kind::Time) {
      return obstacle(op, "a table is not read from its first row on, one row a token");
    }
    tableSlices.emplace_back(op, axis);
    setTime(op.getResult(), keptAxis(axis));
  }
  return success();
}

LogicalResult TimeAnalysis::visitConcat(tensor::ConcatOp op) {
  std::optional<Mark> common;
  bool sees = false;
  for (Value input : op.getInputs()) {
    Mark mark = markOf(input);
    sees |= mark.kind != Kind::Free;
    bool differs = common && (common->kind != mark.kind || common->axis != mark.axis);
    if (differs) {
      return obstacle(op, "tensors with and without a token axis are joined");
    }
    common = mark;
  }
  if (!sees) {
    return success();
  }
  if (common->kind == Kind::Time && common->axis == static_cast<int64_t>(op.getDim())) {
    return obstacle(op, "tensors are joined along the token axis");
  }
  marks[op.getResult()] = *common;
  return success();
}
