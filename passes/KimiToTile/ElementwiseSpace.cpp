//===- ElementwiseSpace.cpp - the points of an elementwise op, with as few dims as its operands allow
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/ElementwiseSpace.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static int64_t staticOr(const SymbolicDim &dim) { return dim.getConstant().value_or(ShapedType::kDynamic); }

static OpFoldResult materialized(HostContext &context, OpBuilder &b, Location loc, const SymbolicDim &dim) {
  if (std::optional<int64_t> constant = dim.getConstant()) {
    return b.getIndexAttr(*constant);
  }
  return context.scalars.materialize(b, loc, dim);
}

FailureOr<ElementwiseSpace> ElementwiseSpace::of(HostContext &context, linalg::GenericOp op, std::string &obstacle) {
  ElementwiseSpace space(op);
  AffineMap order = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  for (OpOperand &init : op.getDpsInitsMutable()) {
    if (op.getMatchingIndexingMap(&init) != order || !order.isPermutation()) {
      obstacle = "its results are written in different orders";
      return failure();
    }
  }
  space.extents = context.scalars.shape(op->getResult(0));
  space.placeOf.resize(op.getNumLoops());
  for (unsigned place = 0; place < order.getNumResults(); ++place) {
    space.placeOf[order.getDimPosition(place)] = place;
    if (space.extents[place].is(0)) {
      obstacle = "it has no elements";
      return failure();
    }
  }
  for (OpOperand *operand : op.getDpsInputOperands()) {
    obstacle = space.addOperand(context, *operand);
    if (!obstacle.empty()) {
      return failure();
    }
  }
  space.join();
  if (space.groups.empty()) {
    obstacle = "it has one element";
    return failure();
  }
  return space;
}

/// Notes what `operand` is along each loop; an obstacle, or "".
std::string ElementwiseSpace::addOperand(HostContext &context, OpOperand &operand) {
  std::string name = "operand " + std::to_string(operand.getOperandNumber());
  if (!op.payloadUsesValueFromOperand(&operand) || !isa<RankedTensorType>(operand.get().getType())) {
    return ""; // of no account, or one value for all points
  }
  if (isa_and_nonnull<linalg::FillOp, arith::ConstantOp>(operand.get().getDefiningOp())) {
    return ""; // one value as well: other constants are weights by now
  }
  FailureOr<ViewLayout> layout = context.layouts.of(operand.get());
  if (failed(layout)) {
    return name + " is a reshape of memory with gaps";
  }
  Operand input{operand.getOperandNumber(), operand.get(), {}, {}, 0};
  input.elementBytes = typeOf(operand.get()).getElementTypeBitWidth() / 8;
  input.axes.assign(extents.size(), -1);
  SmallVector<SymbolicDim> along(extents.size(), SymbolicDim(0)), span(along);
  SmallVector<bool> moves(extents.size(), false);
  for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults())) {
    if (auto constant = dyn_cast<AffineConstantExpr>(expr); constant && layout->sizes[axis].is(1)) {
      continue;
    }
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim || input.axes[placeOf[dim.getPosition()]] >= 0) {
      return name + " is not read along its axes";
    }
    int64_t place = placeOf[dim.getPosition()];
    input.axes[place] = axis;
    along[place] = layout->strides[axis];
    span[place] = layout->strides[axis] * layout->sizes[axis]; // an extent may be known in another form than the loop's
    moves[place] = !extents[place].is(1) && !layout->strides[axis].is(0);
  }
  inputs.push_back(input);
  strides.push_back(along);
  spans.push_back(span);
  movesAlong.push_back(moves);
  int64_t last = static_cast<int64_t>(extents.size()) - 1;
  while (last > 0 && extents[last].is(1)) {
    --last;
  }
  bool gaps = last >= 0 && moves[last] && !along[last].is(1);
  return gaps ? name + " has gaps along the innermost axis of the result" : "";
}

/// Whether every operand, which is at `outer` + 1 where `inner` ends, goes on there.
bool ElementwiseSpace::joins(int64_t outer, int64_t inner) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool both = movesAlong[i][outer] && movesAlong[i][inner];
    bool none = !movesAlong[i][outer] && !movesAlong[i][inner];
    if (!none && !(both && strides[i][outer] == spans[i][inner])) {
      return false;
    }
  }
  return true;
}

void ElementwiseSpace::join() {
  for (int64_t loop = 0; loop < static_cast<int64_t>(extents.size()); ++loop) {
    if (extents[loop].is(1)) {
      continue;
    }
    if (groups.empty() || !joins(groups.back().back(), loop)) {
      groups.emplace_back();
      sizes.push_back(SymbolicDim(1));
    }
    groups.back().push_back(loop);
    sizes.back() = sizes.back() * extents[loop];
  }
  for (auto [input, moves] : llvm::zip_equal(inputs, movesAlong)) {
    for (const Loops &group : groups) {
      input.moves.push_back(moves[group.front()]);
    }
  }
}

void ElementwiseSpace::splitLast(int64_t width) {
  sizes.back() = SymbolicDim::divideExactly(sizes.back(), width).value_or(SymbolicDim::floorDiv(sizes.back(), width));
  sizes.push_back(SymbolicDim(width));
  for (Operand &input : inputs) {
    input.moves.push_back(input.moves.back());
  }
  lastWidth = width;
}

Value ElementwiseSpace::view(HostContext &context, const Operand &operand) const {
  OpBuilder b(op);
  Location loc = op->getLoc();
  Value tensor = operand.tensor;
  Type element = typeOf(tensor).getElementType();
  SmallVector<SymbolicDim> own = context.scalars.shape(tensor);
  // Only the axes it moves along, with the extents that are known.
  SmallVector<OpFoldResult> slice;
  SmallVector<int64_t> kept, shape; // axes, in the tensor's order
  bool asIs = true;
  for (auto [axis, size] : llvm::enumerate(own)) {
    const auto *place = llvm::find(operand.axes, static_cast<int64_t>(axis));
    bool moves =
        place != operand.axes.end() && llvm::any_of(llvm::enumerate(groups), [&](auto group) {
          return operand.moves[group.index()] && llvm::is_contained(group.value(), place - operand.axes.begin());
        });
    // As the tensor has it: written out anew, an extent may read differently, and a join of dims not be seen.
    OpFoldResult whole = ShapedType::isDynamic(staticOr(size)) ? tensor::getMixedSize(b, loc, tensor, axis)
                                                               : OpFoldResult(b.getIndexAttr(staticOr(size)));
    slice.push_back(moves ? whole : OpFoldResult(b.getIndexAttr(1)));
    if (moves) {
      kept.push_back(axis);
      shape.push_back(staticOr(size));
    }
    asIs &= moves && staticOr(size) == typeOf(tensor).getDimSize(axis);
  }
  if (!asIs) {
    SmallVector<OpFoldResult> zeros(own.size(), b.getIndexAttr(0)), ones(own.size(), b.getIndexAttr(1));
    tensor = tensor::ExtractSliceOp::create(b, loc, RankedTensorType::get(shape, element), tensor, zeros, slice, ones);
  }
  if (kept.empty()) { // one element
    return tensor;
  }
  // In the order of the loops.
  SmallVector<int64_t> permutation;
  SmallVector<ReassociationIndices> joined;
  for (auto [index, group] : llvm::enumerate(groups)) {
    if (!operand.moves[index]) {
      continue;
    }
    joined.emplace_back();
    for (int64_t loop : group) {
      joined.back().push_back(permutation.size());
      permutation.push_back(llvm::find(kept, operand.axes[loop]) - kept.begin());
    }
  }
  if (!llvm::is_sorted(permutation)) {
    SmallVector<int64_t> moved;
    SmallVector<Value> dynamic;
    for (int64_t axis : permutation) {
      moved.push_back(shape[axis]);
      if (ShapedType::isDynamic(shape[axis])) {
        dynamic.push_back(context.scalars.materialize(b, loc, own[kept[axis]]));
      }
    }
    Value empty = tensor::EmptyOp::create(b, loc, RankedTensorType::get(moved, element), dynamic);
    tensor = linalg::TransposeOp::create(b, loc, tensor, empty, permutation)->getResult(0);
  }
  if (joined.size() != permutation.size()) {
    tensor = tensor::CollapseShapeOp::create(b, loc, tensor, joined);
  }
  // Dims of extent 1 where it does not move.
  SmallVector<ReassociationIndices> spread(joined.size());
  SmallVector<OpFoldResult> extent;
  SmallVector<int64_t> all;
  size_t next = 0;
  for (auto [dim, moves] : llvm::enumerate(operand.moves)) {
    bool second = lastWidth > 0 && dim + 1 == operand.moves.size(); // the inner half of what was split
    size_t at = moves && !second ? next++ : next - (next > 0);
    spread[std::min(at, spread.size() - 1)].push_back(dim);
    bool isStatic = moves && !ShapedType::isDynamic(resultType(element).getDimSize(dim));
    all.push_back(!moves ? 1 : isStatic ? resultType(element).getDimSize(dim) : ShapedType::kDynamic);
    extent.push_back(isStatic || !moves ? OpFoldResult(b.getIndexAttr(all.back()))
                                        : OpFoldResult(context.scalars.materialize(b, loc, sizes[dim])));
  }
  if (all.size() == joined.size()) {
    return tensor;
  }
  return tensor::ExpandShapeOp::create(b, loc, RankedTensorType::get(all, element), tensor, spread, extent);
}

RankedTensorType ElementwiseSpace::resultType(Type element) const {
  SmallVector<int64_t> shape;
  for (const Loops &group : groups) { // static where all of its loops are, as reshapes want it
    int64_t product = 1;
    for (int64_t loop : group) {
      std::optional<int64_t> extent = extents[loop].getConstant();
      product = extent && !ShapedType::isDynamic(product) ? product * *extent : ShapedType::kDynamic;
    }
    shape.push_back(product);
  }
  if (lastWidth > 0) {
    shape.back() = ShapedType::isDynamic(shape.back()) ? shape.back() : shape.back() / lastWidth;
    shape.push_back(lastWidth);
  }
  return RankedTensorType::get(shape, element);
}

Value ElementwiseSpace::restore(HostContext &context, Value flat, unsigned number) const {
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto type = cast<RankedTensorType>(op->getResult(number).getType());
  if (lastWidth > 0) {
    SmallVector<ReassociationIndices> joined;
    for (size_t dim = 0; dim < groups.size(); ++dim) {
      joined.push_back({static_cast<int64_t>(dim)});
    }
    joined.back().push_back(groups.size());
    flat = tensor::CollapseShapeOp::create(b, loc, flat, joined);
  }
  SmallVector<ReassociationIndices> spread(groups.size());
  SmallVector<OpFoldResult> extent;
  SmallVector<int64_t> shape;
  size_t group = 0;
  for (size_t loop = 0; loop < extents.size(); ++loop) {
    if (group + 1 < groups.size() && groups[group + 1].front() == static_cast<int64_t>(loop)) {
      ++group;
    }
    spread[group].push_back(loop);
    shape.push_back(staticOr(extents[loop]));
    extent.push_back(materialized(context, b, loc, extents[loop]));
  }
  Value result = flat;
  if (groups.size() != extents.size()) {
    result = tensor::ExpandShapeOp::create(b, loc, type.clone(shape), flat, spread, extent);
  }
  return result.getType() == type ? result : tensor::CastOp::create(b, loc, type, result).getResult();
}
