//===- AttentionProblem.cpp - an attention with its neighbours, for any schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/AttentionProblem.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/HostViews.h"
#include <limits>

using namespace mlir;
using namespace kimi;

/// The append that makes `tensor`, where nothing but `op` looks at what it gives or at the state's rows.
static CacheAppendOp ownAppend(Value tensor, AttentionOp op) {
  auto append = tensor.getDefiningOp<CacheAppendOp>();
  if (!append || !append.getResult().hasOneUse() || append->getBlock() != op->getBlock()) {
    return nullptr;
  }
  for (Operation *user : append.getState().getUsers()) {
    if (user != append && !isa<StateLengthOp>(user)) {
      return nullptr;
    }
  }
  return append;
}

bool kimi::areValuesInKeys(AttentionOp op) {
  auto slice = op.getV().getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || slice.getSource() != op.getK() || slice.getType().getRank() != 4) {
    return false;
  }
  auto isOne = [](OpFoldResult step) { return isConstantIntValue(step, 1); };
  auto isZero = [](OpFoldResult offset) { return isConstantIntValue(offset, 0); };
  return llvm::all_of(slice.getMixedOffsets(), isZero) && llvm::all_of(slice.getMixedStrides(), isOne);
}

linalg::TransposeOp kimi::tokensFirstUse(Value value, SmallVectorImpl<Operation *> &casts) {
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (auto cast = dyn_cast<tensor::CastOp>(user)) {
      casts.push_back(cast);
      value = cast.getResult();
      continue;
    }
    auto transpose = dyn_cast<linalg::TransposeOp>(user);
    bool swaps =
        transpose && transpose.getInput() == value && transpose.getPermutation() == ArrayRef<int64_t>{0, 2, 1, 3};
    return swaps ? transpose : nullptr;
  }
  return nullptr;
}

namespace {
struct OwnAppends {
  CacheAppendOp keys, values; // both null, or neither
};
} // namespace

/// The appends of this step's keys and values that a kernel of `op` can do itself.
static OwnAppends ownAppends(HostContext &context, AttentionOp op) {
  CacheAppendOp k = ownAppend(op.getK(), op), v = ownAppend(op.getV(), op);
  constexpr int64_t tokenAxis = 2;
  bool fits = k && v && k.getState() != v.getState() &&
              cast<StateType>(k.getState().getType()).getGrows() == tokenAxis &&
              cast<StateType>(v.getState().getType()).getGrows() == tokenAxis &&
              context.scalars.of(k.getPast()) == context.scalars.of(v.getPast()) &&
              context.scalars.shape(k.getRows())[tokenAxis] == context.scalars.shape(v.getRows())[tokenAxis] &&
              context.scalars.shape(k.getRows())[tokenAxis] == context.scalars.shape(op.getQ())[tokenAxis] &&
              succeeded(context.layouts.of(k.getRows())) && succeeded(context.layouts.of(v.getRows()));
  return fits ? OwnAppends{k, v} : OwnAppends();
}

AttentionProblem::AttentionProblem(HostContext &context, AttentionOp op, bool fuseAppends) : op(op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (failed(context.layouts.of(operand.get()))) { // a reshape of memory with gaps
      operand.set(copyBefore(context, op, operand.get()));
    }
  }
  keys = op.getK();
  values = op.getV();
  depth = cast<RankedTensorType>(keys.getType()).getDimSize(3);
  width = cast<RankedTensorType>(values.getType()).getDimSize(3);
  auto [k, v] = fuseAppends ? ownAppends(context, op) : OwnAppends();
  if (k) {
    keyAppend = k;
    valueAppend = v;
    keys = k.getRows();
    values = v.getRows();
    past = context.scalars.of(k.getPast());
  }
  valuesInKeys = areValuesInKeys(op);
  mask = additiveMask(context, op);
  type = cast<RankedTensorType>(op.getType());
  SmallVector<Operation *> casts;
  transpose = tokensFirstUse(op.getResult(), casts);
  if (transpose) {
    type = cast<RankedTensorType>(transpose->getResult(0).getType()).clone(type.getElementType());
    tokensFirst = true;
  }
}

void AttentionProblem::replace(HostContext &context, Value result) {
  for (CacheAppendOp append : {keyAppend, valueAppend}) {
    if (append) {
      context.dead.push_back(append);
    }
  }
  if (!transpose) {
    context.replace(op, result);
    return;
  }
  // Erased from the last to the first: the transpose, the casts before it, the attention.
  context.dead.push_back(op);
  SmallVector<Operation *> between;
  for (Operation *cast = transpose.getInput().getDefiningOp(); cast != op; cast = cast->getOperand(0).getDefiningOp()) {
    between.push_back(cast);
  }
  context.dead.append(between.rbegin(), between.rend());
  context.replace(transpose, result);
}

ScheduleGroup AttentionProblem::group(HostContext &context, AttentionOp op, bool fuseAppends) {
  ScheduleGroup group;
  auto [k, v] = fuseAppends ? ownAppends(context, op) : OwnAppends();
  if (k) {
    group.ops = {k, v};
  }
  group.ops.push_back(op);
  SmallVector<Operation *> casts;
  if (linalg::TransposeOp transpose = tokensFirstUse(op.getResult(), casts)) {
    group.ops.append(casts);
    group.ops.push_back(transpose);
  }
  group.facts = areValuesInKeys(op) ? "values in keys" : "";
  return group;
}

std::string kimi::attentionStem(AttentionOp op) {
  auto q = cast<RankedTensorType>(op.getQ().getType()), v = cast<RankedTensorType>(op.getV().getType());
  std::string stem = "attention_d" + std::to_string(q.getDimSize(3));
  if (v.getDimSize(3) != q.getDimSize(3)) {
    stem += "_v" + std::to_string(v.getDimSize(3));
  }
  if (Type element = q.getElementType(); !element.isF32()) {
    stem += element.isBF16() ? "_bf16" : "_f16";
  }
  return stem + (op.getCausal() ? "_causal" : "") + (op.getMask() ? "_mask" : "");
}

std::string kimi::whyNotAttention(AttentionOp op) {
  auto isKnown = [](Type element) { return element.isF32() || element.isBF16() || element.isF16(); };
  for (Value value : {op.getQ(), op.getK(), op.getV()}) {
    auto type = cast<RankedTensorType>(value.getType());
    if (!isKnown(type.getElementType())) {
      return "there is no kernel for operands that are not f32, bf16 or f16";
    }
    if (type.isDynamicDim(3)) {
      return "the number of channels is not known";
    }
    if (type.getDimSize(3) == 0) {
      return "heads of 0 channels do not fit a block";
    }
  }
  if (!isKnown(cast<RankedTensorType>(op.getType()).getElementType())) {
    return "there is no kernel for results that are not f32, bf16 or f16";
  }
  if (op.getMask()) {
    Type element = cast<RankedTensorType>(op.getMask().getType()).getElementType();
    if (!isKnown(element) && !element.isInteger(1)) {
      return "there is no kernel for masks that are neither boolean nor f32, bf16 or f16";
    }
  }
  return {};
}

Value kimi::additiveMask(HostContext &context, AttentionOp op) {
  Value mask = op.getMask();
  if (!mask || !cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1)) {
    return mask;
  }
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto type = RankedTensorType::get(cast<RankedTensorType>(mask.getType()).getShape(), b.getF32Type());
  SmallVector<Value> dynamic;
  for (auto [axis, size] : llvm::enumerate(context.scalars.shape(mask))) {
    if (type.isDynamicDim(axis)) {
      dynamic.push_back(context.scalars.materialize(b, loc, size));
    }
  }
  Value empty = tensor::EmptyOp::create(b, loc, type, dynamic);
  AffineMap identity = b.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      b, loc, TypeRange(type), ValueRange(mask), ValueRange(empty), ArrayRef<AffineMap>{identity, identity}, iterators,
      [](OpBuilder &nested, Location at, ValueRange args) {
        Value zero = arith::ConstantOp::create(nested, at, nested.getF32FloatAttr(0.0f));
        Value hidden =
            arith::ConstantOp::create(nested, at, nested.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
        linalg::YieldOp::create(nested, at, arith::SelectOp::create(nested, at, args[0], zero, hidden).getResult());
      });
  return generic.getResult(0);
}
