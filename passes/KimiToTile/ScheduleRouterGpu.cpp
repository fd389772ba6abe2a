//===- ScheduleRouterGpu.cpp - tile kernels of kimi.router for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEROUTERGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

static constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
/// A block is a warp, which needs no barrier between the steps of a choice.
static constexpr int64_t kThreads = 32, kBlocksPerSm = 16, kMostExperts = 1024;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {
/// Block n: the experts of token n, one after another. An expert that can be chosen has a place, which says who of
/// equals comes first: the largest. NaN stands before infinity.
class RouterKernel {
public:
  RouterKernel(HostContext &context, RouterOp op)
      : context(context), op(op), experts(typeOf(op.getLogits()).getDimSize(1)),
        width(std::max<int64_t>(llvm::PowerOf2Ceil(experts), kThreads)), writer(context, op), t(writer),
        b(writer.body()), loc(writer.loc()) {}

  LogicalResult run() {
    writer.setThreads(kThreads, kBlocksPerSm);
    Value logits = writer.input(asMatrix(context, op, op.getLogits()));
    Value bias = op.getBias() ? writer.input(asMatrix(context, op, op.getBias())) : Value();
    if (!logits || (op.getBias() && !bias)) {
      writer.abandon();
      return failure();
    }
    SymbolicDim tokens = context.scalars.shape(op.getLogits())[0];
    Value indices = result(op.getIndices(), tokens), weights = result(op.getWeights(), tokens);
    token = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
    zero = writer.constant(0);
    Value scores = scoresOf(logits);
    rank(scores, bias);
    int64_t slots = std::max<int64_t>(llvm::PowerOf2Ceil(op.getTop()), kThreads);
    Value chosen = t.fragment(1, slots), shares = t.fragment(1, slots);
    t.fill(chosen, 0.0f);
    t.fill(shares, 0.0f);
    buildLoop(b, loc, zero, writer.constant(op.getTop()), writer.constant(1),
              [&](Value slot) { choose(scores, slot, chosen, shares); });
    scale(shares);
    Value numbers = t.fragment(1, slots, typeOf(op.getIndices()).getElementType());
    t.map({chosen}, numbers, [&](ValueRange e) -> Value {
      return arith::FPToSIOp::create(b, loc, typeOf(op.getIndices()).getElementType(), e[0]);
    });
    t.store(numbers, indices, {token, zero}, {0, 1});
    t.store(shares, weights, {token, zero}, {0, 1});
    std::string stem = "router_" + std::to_string(experts) + "_" + std::to_string(op.getTop());
    KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), tokens};
    DispatchOp dispatch = writer.dispatch(variant);
    context.replace(op, dispatch.getResults());
    return success();
  }

private:
  Value result(Value of, const SymbolicDim &tokens) {
    return writer.result(typeOf(of), {tokens, SymbolicDim(static_cast<int64_t>(op.getTop()))});
  }
  Value row() { return t.fragment(1, width); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, loc, condition, x, y); }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value equal(Value x, Value y) { return compare(arith::CmpFPredicate::OEQ, x, y); }
  Value isNan(Value x) { return compare(arith::CmpFPredicate::UNO, x, x); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value column() { return tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(1)); }
  Value isExpert(Value index) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index,
                                 arith::ConstantIndexOp::create(b, loc, experts));
  }
  Value reduced(tile::ReduceKind kind, Value rowOf) {
    Value number = t.fragment(1, 1);
    t.reduce(kind, rowOf, number);
    return number;
  }

  /// The scores of all experts, in fp32.
  Value scoresOf(Value logits) {
    Value raw = t.fragment(1, width, cast<MemRefType>(logits.getType()).getElementType()), scores = row();
    t.load(raw, logits, {token, zero}, {0, 1}, kMinusInfinity);
    auto wide = [&](Value x) { return castFloat(b, loc, x, b.getF32Type()); };
    if (op.getScores() == RouterScores::sigmoid) {
      t.map({raw}, scores, [&](ValueRange e) { return emitSigmoid(b, loc, wide(e[0])); });
      return scores;
    }
    t.map({raw}, scores, [&](ValueRange e) { return wide(e[0]); });
    Value maximum = reduced(tile::ReduceKind::max, scores);
    t.map({scores, maximum}, scores, [&](ValueRange e) -> Value {
      return math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, e[0], e[1]).getResult());
    });
    Value sum = reduced(tile::ReduceKind::add, scores);
    t.map({scores, sum}, scores, [&](ValueRange e) { return arith::DivFOp::create(b, loc, e[0], e[1]).getResult(); });
    return scores;
  }

  /// `keys`, by which experts are chosen, and their `places`.
  void rank(Value scores, Value bias) {
    keys = row();
    places = row();
    Value choice = scores;
    if (bias) {
      Value added = t.fragment(1, width, cast<MemRefType>(bias.getType()).getElementType());
      t.load(added, bias, {zero, zero}, {0, 1});
      choice = row();
      t.map({scores, added}, choice, [&](ValueRange e) { return add(e[0], castFloat(b, loc, e[1], b.getF32Type())); });
    }
    t.map({choice}, keys, [&](ValueRange e) -> Value {
      Value key = select(isNan(e[0]), t.number(std::numeric_limits<float>::infinity()), e[0]);
      return select(isExpert(column()), key, t.number(kMinusInfinity));
    });
    t.map({choice}, places, [&](ValueRange e) -> Value {
      Value index = column();
      Value later = select(isNan(e[0]), writer.constant(0), arith::ConstantIndexOp::create(b, loc, width));
      Value place = arith::AddIOp::create(b, loc, index, later);
      return select(isExpert(index), arith::NegFOp::create(b, loc, asFloat(place)), t.number(kMinusInfinity));
    });
  }

  Value asFloat(Value index) {
    Value word = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
    return arith::SIToFPOp::create(b, loc, b.getF32Type(), word);
  }

  /// The expert of `slot` and its weight, entered in their tiles.
  void choose(Value scores, Value slot, Value chosen, Value shares) {
    Value best = reduced(tile::ReduceKind::max, keys), candidates = row();
    t.map({keys, best, places}, candidates,
          [&](ValueRange e) { return select(equal(e[0], e[1]), e[2], t.number(kMinusInfinity)); });
    Value place = reduced(tile::ReduceKind::max, candidates), own = row();
    t.map({scores, places, place}, own, [&](ValueRange e) { return select(equal(e[1], e[2]), e[0], t.number(0.0f)); });
    Value score = reduced(tile::ReduceKind::add, own);
    t.map({keys, places, place}, keys,
          [&](ValueRange e) { return select(equal(e[1], e[2]), t.number(kMinusInfinity), e[0]); });
    t.map({places, place}, places,
          [&](ValueRange e) { return select(equal(e[0], e[1]), t.number(kMinusInfinity), e[0]); });
    auto isSlot = [&] { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, column(), slot).getResult(); };
    t.map({shares, score}, shares, [&](ValueRange e) { return select(isSlot(), e[1], e[0]); });
    t.map({chosen, place}, chosen, [&](ValueRange e) {
      Value number = arith::NegFOp::create(b, loc, e[1]), period = t.number(static_cast<float>(width));
      Value behind = arith::SubFOp::create(b, loc, number, period);
      Value expert = select(compare(arith::CmpFPredicate::OGE, number, period), behind, number);
      return select(isSlot(), expert, e[0]);
    });
  }

  void scale(Value shares) {
    auto factor = static_cast<float>(op.getScale().convertToDouble());
    if (op.getNormalise()) {
      Value sum = reduced(tile::ReduceKind::add, shares), eps = t.number(op.getNormalise()->convertToFloat());
      t.map({shares, sum}, shares,
            [&](ValueRange e) { return arith::DivFOp::create(b, loc, e[0], add(e[1], eps)).getResult(); });
    }
    if (factor != 1.0f) {
      Value by = t.number(factor);
      t.map({shares}, shares, [&](ValueRange e) { return arith::MulFOp::create(b, loc, e[0], by).getResult(); });
    }
  }

  HostContext &context;
  RouterOp op;
  int64_t experts, width;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  Value token, zero, keys, places;
};

std::string whyNotRouter(RouterOp op) {
  SmallVector<Value> floats{op.getLogits()};
  if (op.getBias()) {
    floats.push_back(op.getBias());
  }
  for (Value value : floats) {
    Type element = typeOf(value).getElementType();
    if (!element.isF32() && !element.isBF16() && !element.isF16()) {
      return "there is no kernel for logits that are not f32, bf16 or f16";
    }
  }
  if (op.getGroups() > 1 && op.getKeepGroups() < op.getGroups()) {
    return "it chooses among groups of experts";
  }
  if (typeOf(op.getLogits()).getDimSize(1) > kMostExperts) {
    return "a warp does not hold more than " + std::to_string(kMostExperts) + " experts";
  }
  return {};
}

struct KimiScheduleRouterGpu : kimi::impl::KimiScheduleRouterGpuBase<KimiScheduleRouterGpu> {
  void runOnOperation() override {
    auto one = [](HostContext &context, RouterOp op) { return RouterKernel(context, op).run(); };
    if (failed(scheduleEach<RouterOp>(getOperation(), whyNotRouter, one, numScheduled, aloneInGroup))) {
      signalPassFailure();
    }
  }
};
} // namespace
