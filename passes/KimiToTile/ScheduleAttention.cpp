//===- ScheduleAttention.cpp - tile kernels of kimi.attention
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/AttentionProblem.h"
#include "passes/KimiToTile/LinearSchedule.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "passes/KimiToTile/TileBuilder.h"
#include <limits>

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEATTENTION
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// Rows of a block and keys of a step. Rows are queries of a head or, for one query, heads that share their keys.
struct AttentionSchedule {
  int64_t rows, keys;
  bool ofHeads = false;
};
constexpr AttentionSchedule kManyQueries = {48, 64}, kOneQuery = {1, 128};
constexpr int64_t kMaxChannels = 1024, kMostHeads = 8;

/// The heads of a block for one query: as many of the `group` that shares keys as divide it, so that each block has
/// keys of one head.
AttentionSchedule oneQuery(std::optional<int64_t> group) {
  for (int64_t heads = kMostHeads; group && heads > 1; --heads) {
    if (*group % heads == 0) {
      return {heads, kManyQueries.keys, /*ofHeads=*/true};
    }
  }
  return kOneQuery;
}

/// `wanted` with as many rows and keys as the tiles of a block have room for, for q and k of `depth` channels, v of
/// `width`. Rows that are heads stay: they divide the group.
AttentionSchedule fitting(AttentionSchedule wanted, int64_t depth, int64_t width) {
  constexpr int64_t kFewestRows = 12, kFewestKeys = 8, kOfRow = 5;                        // statistics of a row
  auto ofRows = [&] { return wanted.rows * (depth + width + 2 * wanted.keys + kOfRow); }; // scores and mask
  auto ofKeys = [&] { return wanted.keys * (2 * depth + width); }; // the product packs a copy of the keys
  while (4 * (ofRows() + ofKeys()) > kTileBytes) {
    bool fewerRows = !wanted.ofHeads && wanted.rows > kFewestRows && ofRows() > ofKeys();
    if (!fewerRows && wanted.keys <= kFewestKeys) {
      break;
    }
    (fewerRows ? wanted.rows : wanted.keys) /= 2;
  }
  return wanted;
}

class AttentionKernel {
public:
  AttentionKernel(HostContext &context, AttentionProblem &problem, AttentionSchedule schedule)
      : context(context), p(problem), writer(context, problem.op), t(writer), b(writer.body()), loc(writer.loc()) {
    depth = cast<RankedTensorType>(p.op.getK().getType()).getDimSize(3);
    width = cast<RankedTensorType>(p.op.getV().getType()).getDimSize(3);
    s = fitting(schedule, depth, width);
  }

  FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard) {
    q = writer.input(p.op.getQ());
    k = writer.input(p.op.getK());
    v = writer.input(p.op.getV());
    mask = p.mask ? writer.input(p.mask) : Value();
    if (!q || !k || !v || (p.mask && !mask)) {
      writer.abandon();
      return failure();
    }
    SmallVector<SymbolicDim> sizes = context.scalars.shape(p.op.getQ());
    SymbolicDim batch = sizes[0], heads = sizes[1], queries = sizes[2];
    SmallVector<SymbolicDim> stored{batch, heads, queries, SymbolicDim(width)};
    if (p.tokensFirst) {
      std::swap(stored[1], stored[2]);
    }
    Value out = writer.result(p.type, stored);
    place();
    buildTiles();
    Value zero = writer.constant(0), step = writer.constant(s.keys);
    Value steps = arith::DivUIOp::create(b, loc, upper, step);
    Value whole = arith::MulIOp::create(b, loc, steps, step);
    buildLoop(b, loc, zero, whole, step, [&](Value at) { keys(at, /*inBounds=*/true); });
    // The loop runs once or not at all.
    buildLoop(b, loc, whole, upper, step, [&](Value at) { keys(at, /*inBounds=*/false); });
    t.map({acc, sum}, acc, [&](ValueRange e) {
      Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[1], t.number(0.0f));
      Value mean = arith::DivFOp::create(b, loc, e[0], e[1]);
      return arith::SelectOp::create(b, loc, none, t.number(0.0f), mean).getResult();
    });
    int64_t headAxis = p.tokensFirst ? 2 : 1, tokenAxis = p.tokensFirst ? 1 : 2;
    SmallVector<Value> offsets(4, zero);
    offsets[0] = batchIndex;
    offsets[headAxis] = head;
    offsets[tokenAxis] = first;
    t.store(acc, out, offsets, {s.ofHeads ? headAxis : tokenAxis, 3});
    if (s.ofHeads) {
      return KernelWriter::Variant{writer.finish(stem), guard, SymbolicDim(1),
                                   batch * SymbolicDim::floorDiv(heads, s.rows)};
    }
    return KernelWriter::Variant{writer.finish(stem), guard, SymbolicDim::ceilDiv(queries, s.rows), batch * heads};
  }

  KernelWriter &getWriter() { return writer; }

private:
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  /// The axis of q and of the mask that the rows of a block run along.
  int64_t rowAxis() const { return s.ofHeads ? 1 : 2; }
  /// One query sees every key.
  bool isCausal() { return p.op.getCausal() && !s.ofHeads; }
  Value minusInfinity() { return t.number(-std::numeric_limits<float>::infinity()); }

  /// Which heads and queries this block computes, and how many keys it may see.
  void place() {
    Value heads = writer.extent(q, 1), groups = writer.extent(k, 1);
    Value group = arith::DivUIOp::create(b, loc, heads, groups);
    Value x = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
    Value y = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1));
    if (s.ofHeads) {
      Value size = writer.constant(s.rows), blocks = arith::DivUIOp::create(b, loc, heads, size);
      first = writer.constant(0);
      batchIndex = arith::DivUIOp::create(b, loc, y, blocks);
      head = arith::MulIOp::create(b, loc, arith::RemUIOp::create(b, loc, y, blocks), size);
    } else {
      first = arith::MulIOp::create(b, loc, x, writer.constant(s.rows));
      batchIndex = arith::DivUIOp::create(b, loc, y, heads);
      head = arith::RemUIOp::create(b, loc, y, heads);
    }
    keyHead = arith::DivUIOp::create(b, loc, head, group);
    count = writer.extent(k, 2);
    past = arith::SubIOp::create(b, loc, count, writer.extent(q, 2));
    upper = count;
    if (isCausal()) { // the last query of the block sees the most keys
      Value end = arith::AddIOp::create(b, loc, first, writer.constant(s.rows));
      end = arith::AddIOp::create(b, loc, end, past);
      end = arith::MaxSIOp::create(b, loc, end, writer.constant(0));
      upper = arith::MinSIOp::create(b, loc, upper, end);
    }
  }

  void buildTiles() {
    query = t.shared(s.rows, depth);
    t.load(query, q, {batchIndex, head, first, writer.constant(0)}, {s.ofHeads ? 1 : 2, 3});
    acc = t.fragment(s.rows, width);
    top = t.fragment(s.rows, 1);
    sum = t.fragment(s.rows, 1);
    newTop = t.fragment(s.rows, 1);
    factor = t.fragment(s.rows, 1);
    partial = t.fragment(s.rows, 1);
    score = t.fragment(s.rows, s.keys);
    keyTile = t.shared(s.keys, depth);
    valueTile = t.shared(s.keys, width);
    maskRows = p.mask && cast<RankedTensorType>(p.mask.getType()).getDimSize(rowAxis()) != 1 ? s.rows : 1;
    maskTile = p.mask ? t.shared(maskRows, s.keys) : Value();
    t.fill(acc, 0.0f);
    t.fill(sum, 0.0f);
    t.fill(top, -std::numeric_limits<float>::infinity());
  }

  /// `keys` rows of a cache from row `at`: where they lie when all are there, else a copy with zeros past the end.
  Value rows(Value source, Value copy, Value at, int64_t columns, bool inBounds) {
    Value zero = writer.constant(0);
    if (!inBounds) {
      t.load(copy, source, {batchIndex, keyHead, at, zero}, {2, 3});
      return copy;
    }
    SmallVector<OpFoldResult> offsets{batchIndex, keyHead, at, b.getIndexAttr(0)};
    SmallVector<OpFoldResult> sizes{b.getIndexAttr(1), b.getIndexAttr(1), b.getIndexAttr(s.keys),
                                    b.getIndexAttr(columns)};
    SmallVector<OpFoldResult> steps(4, b.getIndexAttr(1));
    auto type = cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
        {s.keys, columns}, cast<MemRefType>(source.getType()), offsets, sizes, steps));
    return memref::SubViewOp::create(b, loc, type, source, offsets, sizes, steps);
  }

  /// One step of the online softmax.
  void keys(Value at, bool inBounds) {
    t.fill(score, 0.0f);
    Value keyRows = rows(k, keyTile, at, depth, inBounds);
    tile::MmaOp::create(b, loc, score, query, keyRows, /*transpose_b=*/true, /*panels=*/false);
    scores(at, inBounds);
    t.reduce(tile::ReduceKind::max, score, newTop);
    t.map({newTop, top}, newTop,
          [&](ValueRange e) { return arith::MaximumFOp::create(b, loc, e[0], e[1]).getResult(); });
    // A row that has seen no key yet has the maximum -inf; its exponents are taken from 0 so that no NaN appears.
    auto anchor = [&](Value maximum) {
      Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, minusInfinity());
      return arith::SelectOp::create(b, loc, none, t.number(0.0f), maximum).getResult();
    };
    t.map({top, newTop}, factor,
          [&](ValueRange e) { return math::ExpOp::create(b, loc, sub(e[0], anchor(e[1]))).getResult(); });
    t.map({newTop}, top, [&](ValueRange e) { return e[0]; });
    t.map({newTop}, newTop, [&](ValueRange e) { return anchor(e[0]); });
    t.map({score, newTop}, score,
          [&](ValueRange e) { return math::ExpOp::create(b, loc, sub(e[0], e[1])).getResult(); });
    t.reduce(tile::ReduceKind::add, score, partial);
    t.map({sum, factor, partial}, sum, [&](ValueRange e) { return add(mul(e[0], e[1]), e[2]); });
    t.map({acc, factor}, acc, [&](ValueRange e) { return mul(e[0], e[1]); });
    Value valueRows = rows(v, valueTile, at, width, inBounds);
    tile::MmaOp::create(b, loc, acc, score, valueRows, /*transpose_b=*/false, /*panels=*/false);
  }

  /// Products to scores: scale, cap, mask; -inf where the query does not see the key.
  void scores(Value at, bool inBounds) {
    Value scale = t.number(p.op.getScale().convertToFloat());
    float cap = p.op.getSoftcap().convertToFloat();
    Value capValue = t.number(cap);
    SmallVector<Value> inputs{score};
    if (mask) {
      auto type = cast<RankedTensorType>(p.mask.getType());
      Value zero = writer.constant(0);
      SmallVector<Value> offsets{type.getDimSize(0) == 1 ? zero : batchIndex, type.getDimSize(1) == 1 ? zero : head,
                                 maskRows == 1 && type.getDimSize(2) == 1 ? zero : first, at};
      t.load(maskTile, mask, offsets, {rowAxis(), 3});
      inputs.push_back(maskTile);
    }
    Value limit = isCausal() ? arith::AddIOp::create(b, loc, first, past).getResult() : Value();
    t.map(inputs, score, [&](ValueRange e) {
      Value value = mul(e[0], scale);
      if (cap > 0.0f) {
        Value bounded = math::TanhOp::create(b, loc, arith::DivFOp::create(b, loc, value, capValue));
        value = mul(bounded, capValue);
      }
      if (mask) {
        value = add(value, e[1]);
      }
      Value seen;
      Value column = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(1));
      Value key = arith::AddIOp::create(b, loc, at, column);
      if (!inBounds) {
        seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, key, count);
      }
      if (limit) {
        Value row = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(0));
        Value last = arith::AddIOp::create(b, loc, row, limit);
        Value before = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, key, last);
        seen = seen ? arith::AndIOp::create(b, loc, seen, before).getResult() : before;
      }
      return seen ? arith::SelectOp::create(b, loc, seen, value, minusInfinity()).getResult() : value;
    });
  }

  HostContext &context;
  AttentionProblem &p;
  AttentionSchedule s;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  int64_t depth, width, maskRows = 1;
  Value q, k, v, mask;
  Value first, batchIndex, head, keyHead, count, past, upper;
  Value query, acc, top, sum, newTop, factor, partial, score, keyTile, valueTile, maskTile;
};

struct KimiScheduleAttention : kimi::impl::KimiScheduleAttentionBase<KimiScheduleAttention> {
  void runOnOperation() override {
    auto one = [&](HostContext &context, AttentionOp op) { return schedule(context, op); };
    auto group = [](HostContext &context, AttentionOp op) {
      return AttentionProblem::group(context, op, /*fuseAppends=*/false);
    };
    if (failed(scheduleEach<AttentionOp>(
            getOperation(), [&](AttentionOp op) { return whyNot(op); }, one, numScheduled, group))) {
      signalPassFailure();
    }
  }

  std::string whyNot(AttentionOp op) {
    std::string obstacle = whyNotAttention(op);
    for (Value value : {op.getQ(), op.getV()}) {
      int64_t channels = cast<RankedTensorType>(value.getType()).getDimSize(3);
      if (obstacle.empty() && channels > kMaxChannels) {
        obstacle = "heads of " + std::to_string(channels) + " channels do not fit a block";
      }
    }
    return obstacle;
  }

  LogicalResult schedule(HostContext &context, AttentionOp op) {
    AttentionProblem p(context, op, /*fuseAppends=*/false);
    std::string stem = attentionStem(op);
    SymbolicDim queries = context.scalars.shape(op.getQ())[2];
    std::optional<int64_t> fixed = queries.getConstant();
    SmallVector<KernelWriter::Variant> variants;
    std::unique_ptr<AttentionKernel> kernel;
    auto add = [&](AttentionSchedule schedule, const char *suffix, const SymbolicDim &guard) -> LogicalResult {
      kernel = std::make_unique<AttentionKernel>(context, p, schedule);
      FailureOr<KernelWriter::Variant> variant = kernel->build(stem + suffix, guard);
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
      return success();
    };
    // Over latents all heads read the same wide rows: a block takes several.
    std::optional<int64_t> heads = context.scalars.shape(op.getQ())[1].getConstant();
    std::optional<int64_t> keyHeads = context.scalars.shape(op.getK())[1].getConstant();
    bool grouped = p.valuesInKeys && heads && keyHeads && *keyHeads > 0;
    AttentionSchedule one = oneQuery(grouped ? std::optional(*heads / *keyHeads) : std::nullopt);
    if ((!fixed || *fixed == 1) && failed(add(one, "_t1", SymbolicDim::eq(queries, 1)))) {
      return failure();
    }
    if ((!fixed || *fixed != 1) && failed(add(kManyQueries, "", SymbolicDim(1)))) {
      return failure();
    }
    Value result = kernel->getWriter().dispatch(variants).getResult(0);
    p.replace(context, result);
    return success();
  }
};
} // namespace
