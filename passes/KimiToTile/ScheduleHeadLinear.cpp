//===- ScheduleHeadLinear.cpp - tile kernels of kimi.head_linear
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/HeadLinearProblem.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEHEADLINEAR
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
constexpr int64_t kManyRows = 16, kMostColumns = 128, kMostChannels = 4096;

RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The columns of a block: the largest part of `all` that divides it, so that every block reads its columns in place.
int64_t columnsOf(int64_t all) {
  int64_t columns = std::min(all, kMostColumns);
  while (all % columns != 0) {
    --columns;
  }
  return columns;
}

struct KimiScheduleHeadLinear : kimi::impl::KimiScheduleHeadLinearBase<KimiScheduleHeadLinear> {
  void runOnOperation() override {
    auto one = [&](HostContext &context, HeadLinearOp op) { return schedule(context, op); };
    if (failed(scheduleEach<HeadLinearOp>(
            getOperation(), [&](HeadLinearOp op) { return whyNot(op); }, one, numScheduled, aloneInGroup))) {
      signalPassFailure();
    }
  }

  static std::string whyNot(HeadLinearOp op) {
    RankedTensorType w = tensorOf(op.getW());
    std::string obstacle = whyNotHeadLinear(op);
    if (!obstacle.empty()) {
      return obstacle;
    }
    if (w.getDimSize(1) > kMostChannels) {
      return "rows of " + std::to_string(w.getDimSize(1)) + " channels do not fit a block";
    }
    return {};
  }

  LogicalResult schedule(HostContext &context, HeadLinearOp op) {
    HeadLinearProblem p(context, op);
    KernelWriter writer(context, op);
    TileBuilder t(writer);
    OpBuilder &b = writer.body();
    Location loc = writer.loc();
    Value x = writer.input(op.getX()), w = writer.input(op.getW());
    if (!x || !w) {
      writer.abandon();
      return failure();
    }
    int64_t channels = p.channels, columns = columnsOf(p.width);
    int64_t rows = std::clamp<int64_t>(p.tokens.getConstant().value_or(kManyRows), 1, kManyRows);
    Value out = p.addResult(writer);
    Value zero = writer.constant(0), heads = writer.extent(x, 1);
    // Blocks of one head beside each other: its matrix is read by neighbours.
    Value column = arith::MulIOp::create(b, loc, id(writer, 0), writer.constant(columns));
    Value row = arith::MulIOp::create(b, loc, id(writer, 1), writer.constant(rows));
    Value head = arith::RemUIOp::create(b, loc, id(writer, 2), heads);
    Value batch = arith::DivUIOp::create(b, loc, id(writer, 2), heads);
    Value xTile = t.shared(rows, channels), sum = t.fragment(rows, columns);
    t.load(xTile, x, {batch, head, row, zero}, {2, 3});
    t.fill(sum, 0.0f);
    SmallVector<OpFoldResult> offsets{head, b.getIndexAttr(0), column}, steps(3, b.getIndexAttr(1));
    SmallVector<OpFoldResult> extents{b.getIndexAttr(1), b.getIndexAttr(channels), b.getIndexAttr(columns)};
    auto type = cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
        {channels, columns}, cast<MemRefType>(w.getType()), offsets, extents, steps));
    t.multiply(sum, xTile, memref::SubViewOp::create(b, loc, type, w, offsets, extents, steps));
    t.store(sum, out, {batch, head, row, column}, {2, 3});
    KernelWriter::Variant variant{writer.finish(headLinearStem(op)), SymbolicDim(1), SymbolicDim(p.width / columns),
                                  SymbolicDim::ceilDiv(p.tokens, rows), p.batch * p.heads};
    context.replace(op, writer.dispatch(variant, 2 * channels).getResult(0));
    return success();
  }

  static Value id(KernelWriter &writer, uint64_t axis) {
    OpBuilder &b = writer.body();
    return tile::BlockIdOp::create(b, writer.loc(), b.getIndexType(), axis);
  }
};
} // namespace
