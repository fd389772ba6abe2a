//===- GreedyKernels.cpp - the steps of an argmax over rows of logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/GreedyKernels.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/HostViews.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace kimi;

std::pair<Value, Value> kimi::buildArgmax(TileBuilder &t, Value values, Value places, Value found,
                                          llvm::function_ref<Value(ValueRange)> place) {
  int64_t rows = cast<MemRefType>(values.getType()).getDimSize(0);
  Value maximum = t.fragment(rows, 1), best = t.fragment(rows, 1);
  t.reduce(tile::ReduceKind::max, values, maximum);
  SmallVector<Value> inputs{values, maximum};
  if (places) {
    inputs.push_back(places);
  }
  t.map(inputs, found, place);
  t.reduce(tile::ReduceKind::max, found, best);
  return {maximum, best};
}

/// Block r: the token of row r: [M, 1].
static FailureOr<Value> emitLast(HostContext &context, GreedyTokenOp op, const GreedyParts &parts) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  KernelWriter writer(context, op);
  TileBuilder t(writer);
  OpBuilder &b = writer.body();
  Location loc = writer.loc();
  Value maxima = writer.input(parts.maxima), places = writer.input(parts.places);
  if (!maxima || !places) {
    writer.abandon();
    return failure();
  }
  Type element = cast<RankedTensorType>(op.getType()).getElementType();
  // A power of two, whose reduction is a tree, and at least a warp.
  int64_t width = std::max<int64_t>(llvm::PowerOf2Ceil(parts.mostParts), 32);
  auto type = RankedTensorType::get({parts.rows.getConstant().value_or(ShapedType::kDynamic), 1}, element);
  Value tokens = writer.result(type, {parts.rows, SymbolicDim(1)});
  Value row = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0)), zero = writer.constant(0);
  Value partMaxima = t.fragment(1, width), partPlaces = t.fragment(1, width);
  t.load(partMaxima, maxima, {row, zero}, {0, 1}, kMinusInfinity);
  t.load(partPlaces, places, {row, zero}, {0, 1}, kMinusInfinity);
  auto [maximum, best] = buildArgmax(t, partMaxima, partPlaces, t.fragment(1, width), [&](ValueRange e) -> Value {
    Value equal = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[0], e[1]);
    return arith::SelectOp::create(b, loc, equal, e[2], t.number(kMinusInfinity));
  });
  Value token = t.alloc(1, 1, tile::SpaceKind::fragment, element);
  t.map({maximum, best}, token, [&](ValueRange e) { return emitToken(b, loc, e[0], e[1], element); });
  t.store(token, tokens, {row, zero}, {0, 1});
  KernelWriter::Variant variant{writer.finish("greedy_last"), SymbolicDim(1), parts.rows};
  return writer.dispatch(variant).getResult(0);
}

LogicalResult kimi::buildGreedyLast(HostContext &context, GreedyTokenOp op, const GreedyParts &parts) {
  FailureOr<Value> matrix = emitLast(context, op, parts);
  if (failed(matrix)) {
    return failure();
  }
  OpBuilder b(op);
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(1);
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getResult());
  sizes.push_back(SymbolicDim(1));
  Value tokens =
      fromMatrix(context, b, op.getLoc(), *matrix, RankedTensorType::get(shape, type.getElementType()), sizes);
  // The unit axis goes with the one before it, where there is one.
  SmallVector<ReassociationIndices> groups;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    groups.push_back({axis});
  }
  if (!groups.empty()) {
    groups.back().push_back(type.getRank());
  }
  context.replace(op, tensor::CollapseShapeOp::create(b, op.getLoc(), type, tokens, groups).getResult());
  return success();
}

GreedyTokenOp kimi::findGreedyToken(Value logits) {
  int64_t vocabulary = cast<RankedTensorType>(logits.getType()).getShape().back();
  for (Operation *user : logits.getUsers()) {
    if (auto greedy = dyn_cast<GreedyTokenOp>(user)) {
      return greedy;
    }
    // Leading axes may be grouped otherwise as long as the rows are the same.
    if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(user) &&
        cast<RankedTensorType>(user->getResult(0).getType()).getRank() > 0 &&
        cast<RankedTensorType>(user->getResult(0).getType()).getShape().back() == vocabulary) {
      if (GreedyTokenOp greedy = findGreedyToken(user->getResult(0))) {
        return greedy;
      }
    }
  }
  return {};
}
