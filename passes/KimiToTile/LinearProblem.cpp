//===- LinearProblem.cpp - a fused_linear as matrices, for any schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/LinearProblem.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/HostViews.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kimi;

/// Broadcasts `extra`, read through `map` (dims of y to its dims), to the whole of y.
static Value broadcastExtra(HostContext &context, FusedLinearOp op, Value extra, AffineMap map) {
  OpBuilder b(op);
  auto type = cast<RankedTensorType>(op.getType()).clone(cast<RankedTensorType>(extra.getType()).getElementType());
  SmallVector<Value> dynamic;
  for (auto [axis, size] : llvm::enumerate(context.scalars.shape(op.getResult()))) {
    if (type.isDynamicDim(axis)) {
      dynamic.push_back(context.scalars.materialize(b, op.getLoc(), size));
    }
  }
  Value empty = tensor::EmptyOp::create(b, op.getLoc(), type, dynamic);
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      b, op.getLoc(), TypeRange(type), ValueRange(extra), ValueRange(empty),
      ArrayRef<AffineMap>{map, b.getMultiDimIdentityMap(type.getRank())}, iterators,
      [](OpBuilder &nested, Location at, ValueRange args) { linalg::YieldOp::create(nested, at, args[0]); });
  return generic.getResult(0);
}

static LinearExtra asExtra(HostContext &context, FusedLinearOp op, Value extra, AffineMap map) {
  auto type = cast<RankedTensorType>(extra.getType());
  unsigned rank = map.getNumDims();
  if (map.isIdentity()) {
    return {asMatrix(context, op, extra), true, true};
  }
  if (map.getNumResults() == 1 && map.getResult(0) == getAffineDimExpr(rank - 1, op.getContext())) {
    return {asMatrix(context, op, extra), false, true};
  }
  if (type.getRank() == 0) {
    return {asMatrix(context, op, extra), false, false};
  }
  return {asMatrix(context, op, broadcastExtra(context, op, extra, map)), true, true};
}

LinearProblem::LinearProblem(HostContext &context, FusedLinearOp op) : op(op) {
  auto w = cast<RankedTensorType>(op.getW().getType());
  k = w.getDimSize(op.getTranspose() ? 1 : 0);
  n = w.getDimSize(op.getTranspose() ? 0 : 1);
  x = asMatrix(context, op, op.getX());
  m = context.scalars.shape(x)[0];
  gamma = op.getGamma() ? asMatrix(context, op, op.getGamma()) : Value();
  beta = op.getBeta() ? asMatrix(context, op, op.getBeta()) : Value();
  for (auto [extra, map] : llvm::zip(op.getExtras(), op.getExtraMaps().getAsValueRange<AffineMapAttr>())) {
    extras.push_back(asExtra(context, op, extra, map));
  }
}

std::string kimi::linearStem(FusedLinearOp op) {
  auto w = cast<RankedTensorType>(op.getW().getType());
  int64_t k = w.getDimSize(op.getTranspose() ? 1 : 0), n = w.getDimSize(op.getTranspose() ? 0 : 1);
  std::string stem = "linear_" + std::to_string(k) + "x" + std::to_string(n);
  if (Type element = w.getElementType(); !element.isF32()) {
    stem += element.isBF16() ? "_bf16" : "_f16";
  }
  if (op.getNorm() != NormKind::none) {
    stem += "_" + stringifyNormKind(op.getNorm()).str();
  }
  llvm::SmallSetVector<StringRef, 4> names;
  for (Operation &inner : op.getEpilogue().front().without_terminator()) {
    bool isPlain = isa<arith::ConstantOp, arith::ExtFOp, arith::TruncFOp>(inner);
    if (!isPlain && names.size() < 4) {
      names.insert(inner.getName().stripDialect());
    }
  }
  for (StringRef name : names) {
    stem += "_" + name.str();
  }
  return stem;
}

std::string kimi::whyNotLinear(FusedLinearOp op) {
  auto w = cast<RankedTensorType>(op.getW().getType());
  if (!w.hasStaticShape()) {
    return "the weight has a dynamic extent";
  }
  SmallVector<Value> values(op->getOperands());
  values.push_back(op.getResult());
  for (Value value : values) {
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    if (!element.isF32() && !element.isBF16() && !element.isF16()) {
      return "there is no kernel for operands and results that are not f32, bf16 or f16";
    }
  }
  if (w.getNumElements() == 0) {
    return "the weight is empty";
  }
  return {};
}

void kimi::buildEpilogue(TileBuilder &t, FusedLinearOp op, Value acc, ArrayRef<Value> tiles,
                         llvm::function_ref<Value(ValueRange)> fn, ArrayRef<Value> extras) {
  Block &region = op.getEpilogue().front();
  Value last = region.getTerminator()->getOperand(0);
  if (auto round = last.getDefiningOp<arith::TruncFOp>(); round && round.getIn().getType().isF32()) {
    last = round.getIn();
  }
  if (!fn && last == region.getArgument(0)) {
    return;
  }
  // Functions need no more digits than the result keeps.
  bool rounds = !cast<RankedTensorType>(op.getType()).getElementType().isF32();
  SmallVector<Value> inputs{acc};
  inputs.append(tiles.begin(), tiles.end());
  inputs.append(extras.begin(), extras.end());
  t.map(inputs, acc, [&](ValueRange values) {
    OpBuilder &b = t.builder();
    IRMapping mapping;
    size_t own = 1 + tiles.size();
    mapping.map(region.getArgument(0), fn ? fn(values.take_front(own)) : values[0]);
    for (auto [argument, value] : llvm::zip(region.getArguments().drop_front(), values.drop_front(own))) {
      mapping.map(argument, value);
    }
    return castFloat(b, t.location(), t.inlined(region, last, mapping, rounds), b.getF32Type());
  });
}
