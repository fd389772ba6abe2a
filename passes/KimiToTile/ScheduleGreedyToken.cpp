//===- ScheduleGreedyToken.cpp - tile kernels of kimi.greedy_token
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two launches: each block of the first finds the maximum of some columns of a row and where it stands, each block of
// the second the best of a row's blocks. Positions are fp32, which is exact up to 2^24 columns, so that both are
// reductions of one kind.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEGREEDYTOKEN
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Reduces one row of `columns` values to its maximum and minus the place of it, in tiles [1, 1]; `place` gives minus
/// the place of an element, or -inf where it is not the maximum.
std::pair<Value, Value> reduceRow(TileBuilder &t, Value values, Value places, int64_t columns,
                                  llvm::function_ref<Value(ValueRange)> place) {
  Value maximum = t.fragment(1, 1), best = t.fragment(1, 1), found = t.fragment(1, columns);
  t.reduce(tile::ReduceKind::max, values, maximum);
  SmallVector<Value> inputs{values, maximum};
  if (places) {
    inputs.push_back(places);
  }
  t.map(inputs, found, place);
  t.reduce(tile::ReduceKind::max, found, best);
  return {maximum, best};
}

struct KimiScheduleGreedyToken : kimi::impl::KimiScheduleGreedyTokenBase<KimiScheduleGreedyToken> {
  using KimiScheduleGreedyTokenBase::KimiScheduleGreedyTokenBase;

  void runOnOperation() override {
    if (columns < 1) {
      getOperation().emitError() << "kimi-schedule-greedy-token: columns is " << columns.getValue()
                                 << "; expected at least 1";
      return signalPassFailure();
    }
    auto one = [&](HostContext &context, GreedyTokenOp op) { return schedule(context, op); };
    if (failed(scheduleEach<GreedyTokenOp>(
            getOperation(), [](GreedyTokenOp) { return std::string(); }, one, numScheduled))) {
      signalPassFailure();
    }
  }

  LogicalResult schedule(HostContext &context, GreedyTokenOp op) {
    Value logits = asMatrix(context, op, op.getLogits());
    SymbolicDim rows = context.scalars.shape(logits)[0];
    int64_t vocabulary = cast<RankedTensorType>(logits.getType()).getShape().back();
    FailureOr<DispatchOp> partial = emitPartial(context, op, logits, rows);
    if (failed(partial)) {
      return failure();
    }
    FailureOr<DispatchOp> last = emitLast(context, op, *partial, rows, vocabulary);
    if (failed(last)) {
      return failure();
    }
    OpBuilder b(op);
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.push_back(1);
    SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getResult());
    sizes.push_back(SymbolicDim(1));
    Value tokens = fromMatrix(context, b, op.getLoc(), (*last)->getResult(0),
                              RankedTensorType::get(shape, type.getElementType()), sizes);
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

  /// Block (j, r): the maximum of columns [j * width, (j + 1) * width) of row r, and minus its place: [M, blocks] each.
  FailureOr<DispatchOp> emitPartial(HostContext &context, GreedyTokenOp op, Value logits, const SymbolicDim &rows) {
    KernelWriter writer(context, op);
    TileBuilder t(writer);
    OpBuilder &b = writer.body();
    Location loc = writer.loc();
    Value x = writer.input(logits);
    if (!x) {
      writer.abandon();
      return failure();
    }
    int64_t vocabulary = cast<MemRefType>(x.getType()).getDimSize(1);
    int64_t blocks = llvm::divideCeil(vocabulary, columns.getValue());
    auto type = RankedTensorType::get({rows.getConstant().value_or(ShapedType::kDynamic), blocks}, b.getF32Type());
    Value maxima = writer.result(type, {rows, SymbolicDim(blocks)});
    Value places = writer.result(type, {rows, SymbolicDim(blocks)});
    Value block = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
    Value row = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1));
    Value first = arith::MulIOp::create(b, loc, block, writer.constant(columns));
    Value values = t.fragment(1, columns);
    t.load(values, x, {row, first}, {0, 1}, kMinusInfinity);
    auto [maximum, best] = reduceRow(t, values, Value(), columns, [&](ValueRange e) {
      Value column = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(1));
      Value index = arith::AddIOp::create(b, loc, first, column);
      return emitMinusIndexOfMaximum(b, loc, e[0], e[1], index);
    });
    t.store(maximum, maxima, {row, block}, {0, 1});
    t.store(best, places, {row, block}, {0, 1});
    std::string stem = "greedy_" + std::to_string(vocabulary);
    KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), SymbolicDim(blocks), rows};
    return writer.dispatch(variant);
  }

  /// Block r: the token of row r: [M, 1].
  FailureOr<DispatchOp> emitLast(HostContext &context, GreedyTokenOp op, DispatchOp partial, const SymbolicDim &rows,
                                 int64_t vocabulary) {
    KernelWriter writer(context, op);
    TileBuilder t(writer);
    OpBuilder &b = writer.body();
    Location loc = writer.loc();
    Value maxima = writer.input(partial->getResult(0)), places = writer.input(partial->getResult(1));
    if (!maxima || !places) {
      writer.abandon();
      return failure();
    }
    Type element = cast<RankedTensorType>(op.getType()).getElementType();
    // A power of two, whose reduction is a tree, and at least a warp.
    int64_t width = std::max<int64_t>(llvm::PowerOf2Ceil(cast<MemRefType>(maxima.getType()).getDimSize(1)), 32);
    auto type = RankedTensorType::get({rows.getConstant().value_or(ShapedType::kDynamic), 1}, element);
    Value tokens = writer.result(type, {rows, SymbolicDim(1)});
    Value row = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0)), zero = writer.constant(0);
    Value blockMaxima = t.fragment(1, width), blockPlaces = t.fragment(1, width);
    t.load(blockMaxima, maxima, {row, zero}, {0, 1}, kMinusInfinity);
    t.load(blockPlaces, places, {row, zero}, {0, 1}, kMinusInfinity);
    auto [maximum, best] = reduceRow(t, blockMaxima, blockPlaces, width, [&](ValueRange e) {
      Value equal = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[0], e[1]);
      return arith::SelectOp::create(b, loc, equal, e[2], t.number(kMinusInfinity)).getResult();
    });
    Value token = t.alloc(1, 1, tile::SpaceKind::fragment, element);
    t.map({maximum, best}, token, [&](ValueRange e) { return emitToken(b, loc, e[0], e[1], element); });
    t.store(token, tokens, {row, zero}, {0, 1});
    KernelWriter::Variant variant{writer.finish("greedy_last"), SymbolicDim(1), rows};
    return writer.dispatch(variant);
  }
};
} // namespace
