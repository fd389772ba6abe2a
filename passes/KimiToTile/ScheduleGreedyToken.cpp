//===- ScheduleGreedyToken.cpp - tile kernels of kimi.greedy_token
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two launches: each block of the first finds the maximum of some columns of a row and where it stands, each block of
// the second the best of a row's blocks (see GreedyKernels.h).
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/GreedyKernels.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
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
            getOperation(), [](GreedyTokenOp) { return std::string(); }, one, numScheduled, aloneInGroup))) {
      signalPassFailure();
    }
  }

  LogicalResult schedule(HostContext &context, GreedyTokenOp op) {
    Value logits = asMatrix(context, op, op.getLogits());
    SymbolicDim rows = context.scalars.shape(logits)[0];
    FailureOr<DispatchOp> partial = emitPartial(context, op, logits, rows);
    if (failed(partial)) {
      return failure();
    }
    Value maxima = (*partial)->getResult(0), places = (*partial)->getResult(1);
    int64_t blocks = cast<RankedTensorType>(maxima.getType()).getDimSize(1);
    return buildGreedyLast(context, op, {maxima, places, rows, blocks});
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
    auto [maximum, best] = buildArgmax(t, values, Value(), t.fragment(1, columns), [&](ValueRange e) {
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
};
} // namespace
