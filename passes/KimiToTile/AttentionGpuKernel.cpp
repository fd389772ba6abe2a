//===- AttentionGpuKernel.cpp - tile kernels of an attention for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/AttentionGpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kimi/Reference.h"
#include <limits>

using namespace mlir;
using namespace kimi;

namespace {
constexpr float kLog2E = 1.44269504088896340736f;
/// Channels and keys of a tile are multiples of the k of a matrix instruction.
constexpr int64_t kMatrixDepth = 16;

Type elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }
} // namespace

AttentionGpuKernel::AttentionGpuKernel(HostContext &context, AttentionProblem &problem, const AttentionTile &tile,
                                       AttentionRows rows, AttentionPart part, const AttentionShares *shares,
                                       bool fresh)
    : context(context), p(problem), s(tile), rows(rows), part(part), shares(shares), fresh(fresh),
      writer(context, problem.op), t(writer), b(writer.body()), loc(writer.loc()),
      depth(llvm::alignTo(problem.depth, kMatrixDepth)),
      width(problem.valuesInKeys ? depth : llvm::alignTo(problem.width, kMatrixDepth)) {
  float scale = p.op.getScale().convertToFloat();
  plain = !p.mask && p.op.getSoftcap().convertToFloat() == 0.0f && scale > 0.0f;
  rate = plain ? scale * kLog2E : kLog2E;
  writer.setThreads(s.threads, s.blocksPerSm, s.specialized);
}

Value AttentionGpuKernel::minusInfinity() { return t.number(-std::numeric_limits<float>::infinity()); }

FailureOr<KernelWriter::Variant> AttentionGpuKernel::build(const std::string &stem, const SymbolicDim &guard) {
  if (!importArguments()) {
    writer.abandon();
    return failure();
  }
  SmallVector<SymbolicDim> sizes = context.scalars.shape(p.op.getQ());
  SymbolicDim batch = sizes[0], heads = sizes[1], queries = sizes[2], keyHeads = context.scalars.shape(p.keys)[1];
  place();
  if (s.together > 0 && part != AttentionPart::combine) {
    runInRegisters();
  } else {
    buildTiles();
    if (part == AttentionPart::combine) {
      combine();
    } else {
      for (const Segment &segment : segments()) {
        run(segment);
      }
    }
    part == AttentionPart::share ? storeShare() : finish();
    append();
  }
  if (rows == AttentionRows::heads) {
    SymbolicDim groups = SymbolicDim::ceilDiv(SymbolicDim::floorDiv(heads, keyHeads), s.queries);
    SymbolicDim parts = part == AttentionPart::share ? shares->count * guard : SymbolicDim(1);
    return KernelWriter::Variant{writer.finish(stem), guard, batch * keyHeads * groups, parts};
  }
  // Neighbouring blocks have the same number of keys to see, those with the most come first.
  return KernelWriter::Variant{writer.finish(stem), guard, batch * heads, SymbolicDim::ceilDiv(queries, s.queries)};
}

bool AttentionGpuKernel::importArguments() {
  q = writer.input(p.op.getQ());
  k = writer.input(p.keys);
  v = p.valuesInKeys ? k : writer.input(p.values);
  mask = p.mask ? writer.input(p.mask) : Value();
  if (!q || !k || !v || (p.mask && !mask)) {
    return false;
  }
  operand = elementOf(q);
  for (Value value : {k, v}) {
    operand = elementOf(value) == operand ? operand : Type(b.getF32Type());
  }
  SmallVector<SymbolicDim> sizes = context.scalars.shape(p.op.getQ());
  SymbolicDim batch = sizes[0], heads = sizes[1], queries = sizes[2];
  if (shares && part != AttentionPart::share) {
    accShares = writer.input(shares->acc);
    topShares = writer.input(shares->top);
    sumShares = writer.input(shares->sum);
  }
  if (p.keyAppend) {
    keyState = writer.state(p.keyAppend.getState(), batch);
    valueState = writer.state(p.valueAppend.getState(), batch);
  }
  if (part == AttentionPart::share) {
    // Where the attention is not split there are no shares to hold.
    SymbolicDim count = shares->count - SymbolicDim::eq(shares->count, 1);
    auto extent = [](const SymbolicDim &dim) { return dim.getConstant().value_or(ShapedType::kDynamic); };
    auto result = [&](int64_t channels) {
      auto type = RankedTensorType::get({extent(batch), extent(heads), extent(count), channels}, b.getF32Type());
      return writer.result(type, {batch, heads, count, SymbolicDim(channels)});
    };
    accShares = result(p.width);
    topShares = result(1);
    sumShares = result(1);
  } else {
    SmallVector<SymbolicDim> stored{batch, heads, queries, SymbolicDim(p.width)};
    if (p.tokensFirst) {
      std::swap(stored[1], stored[2]);
    }
    out = writer.result(p.type, stored);
  }
  past = writer.scalar(p.past);
  if (fresh) {
    past = writer.constant(0);
  }
  shareKeys = part == AttentionPart::share ? writer.scalar(shares->keys) : Value();
  return true;
}

/// Which heads and queries this block computes.
void AttentionGpuKernel::place() {
  Value heads = writer.extent(q, 1), keyHeads = writer.extent(k, 1);
  group = divide(heads, keyHeads);
  tokens = writer.extent(q, 2);
  total = addIndex(past, writer.extent(k, 2));
  Value x = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
  Value size = writer.constant(s.queries);
  if (rows == AttentionRows::heads) {
    share =
        part == AttentionPart::share ? Value(tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1))) : Value();
    Value parts = divideUp(group, size);
    Value which = remainder(x, parts), rest = divide(x, parts);
    first = mulIndex(which, size);
    keyHead = remainder(rest, keyHeads);
    batchIndex = divide(rest, keyHeads);
    head = mulIndex(keyHead, group);
    return;
  }
  Value y = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1));
  if (p.op.getCausal()) {
    Value last = subIndex(divideUp(tokens, size), writer.constant(1));
    y = subIndex(last, y);
  }
  first = mulIndex(y, size);
  head = remainder(x, heads);
  batchIndex = divide(x, heads);
  keyHead = divide(head, group);
}

/// The heads of this block's group of `buffer` [B, H, T, D] or [B, T, H, D], for the one query (or for `token`):
/// [1, group, 1, D] or [1, 1, group, D]. Loads and stores are clipped to the group.
Value AttentionGpuKernel::ownHeads(Value buffer, int64_t headAxis, int64_t channels, Value token) {
  SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)), sizes(4, b.getIndexAttr(1)), steps(4, b.getIndexAttr(1));
  offsets[0] = batchIndex;
  if (token) {
    offsets[3 - headAxis] = token;
  }
  offsets[headAxis] = head;
  sizes[headAxis] = getAsOpFoldResult(group);
  sizes[3] = b.getIndexAttr(channels);
  return memref::SubViewOp::create(b, loc, buffer, offsets, sizes, steps);
}

/// Rows [0, count) of a cache [B, H, S, D].
Value AttentionGpuKernel::firstRowsOf(Value buffer, Value count) {
  SmallVector<OpFoldResult> sizes, offsets(4, b.getIndexAttr(0)), steps(4, b.getIndexAttr(1));
  auto type = cast<MemRefType>(buffer.getType());
  for (int64_t axis = 0; axis < 4; ++axis) {
    sizes.push_back(type.isDynamicDim(axis) ? OpFoldResult(writer.extent(buffer, axis))
                                            : OpFoldResult(b.getIndexAttr(type.getDimSize(axis))));
  }
  sizes[2] = count;
  return memref::SubViewOp::create(b, loc, buffer, offsets, sizes, steps);
}

void AttentionGpuKernel::buildTiles() {
  Value zero = writer.constant(0);
  if (part != AttentionPart::combine) {
    query = t.shared(s.queries, depth, operand);
    if (rows == AttentionRows::heads) {
      t.load(query, ownHeads(q, 1, p.depth), {zero, first, zero, zero}, {1, 3});
    } else {
      t.load(query, q, {batchIndex, head, first, zero}, {2, 3});
    }
  }
  acc = t.fragment(s.queries, width);
  for (Value *tile : {&top, &sum, &newTop, &factor, &partial, &shift}) {
    *tile = t.fragment(s.queries, 1);
  }
  t.fill(acc, 0.0f);
  t.fill(sum, 0.0f);
  t.fill(top, -std::numeric_limits<float>::infinity());
}

SmallVector<AttentionGpuKernel::Segment> AttentionGpuKernel::segments() {
  Value zero = writer.constant(0), count = writer.extent(k, 2);
  Segment held{k, v, count, zero, zero, count, s.keys, /*pipelined=*/true};
  SmallVector<Segment> all;
  if (p.keyAppend) {
    // The rows of this step are read from where they were computed: other blocks may not have appended theirs yet.
    Segment own = held;
    own.base = past;
    if (rows == AttentionRows::heads) { // one token
      own.step = kMatrixDepth;
      own.pipelined = false;
    }
    held.keys = firstRowsOf(keyState, past);
    held.values = firstRowsOf(valueState, past);
    held.count = held.to = past;
    if (fresh) {
      return {own};
    }
    all.push_back(own);
  }
  if (part == AttentionPart::share) {
    held.from = mulIndex(share, shareKeys);
    held.to = arith::MinSIOp::create(b, loc, held.to, addIndex(held.from, shareKeys));
  }
  all.insert(all.begin(), held);
  return all;
}

void AttentionGpuKernel::loadKeys(const Segment &segment, const StepTiles &tiles, Value at) {
  Value zero = writer.constant(0);
  t.load(tiles.key, segment.keys, {batchIndex, keyHead, at, zero}, {2, 3});
  if (!p.valuesInKeys) {
    t.load(tiles.value, segment.values, {batchIndex, keyHead, at, zero}, {2, 3});
  }
}

std::pair<int64_t, bool> AttentionGpuKernel::maskRows() {
  int64_t axis = rows == AttentionRows::heads ? 1 : 2;
  return {axis, cast<RankedTensorType>(p.mask.getType()).getDimSize(axis) != 1};
}

const AttentionGpuKernel::StepTiles &AttentionGpuKernel::stepTiles(const Segment &segment) {
  for (const auto &known : allTiles) {
    if (known->keys == segment.step && known->pipelined == segment.pipelined) {
      return *known;
    }
  }
  auto tiles = std::make_unique<StepTiles>();
  tiles->keys = segment.step;
  tiles->pipelined = segment.pipelined;
  tiles->key = t.shared(segment.step, depth, operand);
  tiles->value = p.valuesInKeys ? tiles->key : t.shared(segment.step, width, operand);
  tiles->score = t.fragment(s.queries, segment.step);
  tiles->weights = operand.isF32() ? tiles->score : t.fragment(s.queries, segment.step, operand);
  tiles->mask = p.mask ? t.fragment(maskRows().second ? s.queries : 1, segment.step) : Value();
  return *allTiles.emplace_back(std::move(tiles));
}

void AttentionGpuKernel::run(const Segment &segment) {
  Value zero = writer.constant(0), upper = segment.to;
  if (p.op.getCausal() && rows == AttentionRows::queries) { // the last query of the block sees the most keys
    Value end = addIndex(first, writer.constant(s.queries));
    end = addIndex(end, subIndex(subIndex(total, tokens), segment.base));
    end = arith::MaxSIOp::create(b, loc, end, zero);
    upper = arith::MinSIOp::create(b, loc, upper, end);
  }
  const StepTiles &tiles = stepTiles(segment);
  if (!segment.pipelined) {
    OpBuilder::InsertionGuard guard(b);
    if (share) { // the first share takes this step's rows
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, share, zero);
      auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
      b.setInsertionPointToStart(&branch.getThenRegion().front());
    }
    loadKeys(segment, tiles, zero);
    step(segment, tiles, zero);
    return;
  }
  SmallVector<Value> buffers{tiles.key};
  if (!p.valuesInKeys) {
    buffers.push_back(tiles.value);
  }
  t.pipeline(
      segment.from, upper, writer.constant(segment.step), buffers, s.stages,
      [&](Value at) { loadKeys(segment, tiles, at); }, [&](Value at) { step(segment, tiles, at); });
}

/// One step of the online softmax. Maxima are in units of the scores; exponents are taken as powers of 2.
void AttentionGpuKernel::step(const Segment &segment, const StepTiles &tiles, Value at) {
  Value score = tiles.score;
  t.fill(score, 0.0f);
  t.multiplyTransposed(score, query, tiles.key);
  maskScores(segment, tiles, at);
  t.reduce(tile::ReduceKind::max, score, newTop);
  takeMaximum();
  t.map({newTop}, top, [&](ValueRange e) { return e[0]; });
  t.map({score, shift}, score, [&](ValueRange e) { return power(e[0], e[1]); });
  t.reduce(tile::ReduceKind::add, score, partial);
  t.map({sum, factor, partial}, sum, [&](ValueRange e) { return add(mul(e[0], e[1]), e[2]); });
  t.map({acc, factor}, acc, [&](ValueRange e) { return mul(e[0], e[1]); });
  if (tiles.weights != score) {
    t.map({score}, tiles.weights, [&](ValueRange e) { return castFloat(b, loc, e[0], operand); });
  }
  t.multiply(acc, tiles.weights, tiles.value);
}

Value AttentionGpuKernel::power(Value value, Value minus) {
  // What is below the normal range beside the largest weight, which is 1, does not count.
  return math::Exp2Op::create(b, loc, math::FmaOp::create(b, loc, value, t.number(rate), minus),
                              arith::FastMathFlags::afn);
}

/// newTop = max(top, newTop); shift: what is added to exponents; factor: what sums so far are multiplied with.
void AttentionGpuKernel::takeMaximum() {
  t.map({newTop, top}, newTop, [&](ValueRange e) { return arith::MaximumFOp::create(b, loc, e[0], e[1]).getResult(); });
  // A row that has seen no key yet has the maximum -inf; its exponents are taken from 0 so that no NaN appears.
  t.map({newTop}, shift, [&](ValueRange e) {
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[0], minusInfinity());
    Value anchor = arith::SelectOp::create(b, loc, none, t.number(0.0f), e[0]);
    return arith::NegFOp::create(b, loc, mul(anchor, t.number(rate))).getResult();
  });
  t.map({top, shift}, factor, [&](ValueRange e) { return power(e[0], e[1]); });
}

/// acc, top and sum of all shares, in a fixed order.
void AttentionGpuKernel::combine() {
  Value zero = writer.constant(0), one = writer.constant(1), count = writer.extent(accShares, 2);
  Value otherAcc = t.fragment(s.queries, width), otherSum = t.fragment(s.queries, 1), weight = t.fragment(s.queries, 1);
  buildLoop(b, loc, zero, count, one, [&](Value index) {
    SmallVector<Value> offsets{zero, first, zero, zero};
    t.load(otherAcc, ownHeads(accShares, 1, p.width, index), offsets, {1, 3});
    t.load(otherSum, ownHeads(sumShares, 1, 1, index), offsets, {1, 3});
    t.load(weight, ownHeads(topShares, 1, 1, index), offsets, {1, 3});
    t.map({weight}, newTop, [&](ValueRange e) { return e[0]; });
    takeMaximum();
    t.map({newTop}, top, [&](ValueRange e) { return e[0]; });
    t.map({weight, shift}, weight, [&](ValueRange e) { return power(e[0], e[1]); });
    t.map({sum, factor, otherSum, weight}, sum, [&](ValueRange e) { return add(mul(e[0], e[1]), mul(e[2], e[3])); });
    t.map({acc, factor, otherAcc, weight}, acc, [&](ValueRange e) { return add(mul(e[0], e[1]), mul(e[2], e[3])); });
  });
}

void AttentionGpuKernel::storeShare() {
  Value zero = writer.constant(0);
  SmallVector<Value> offsets{zero, first, zero, zero};
  t.store(acc, ownHeads(accShares, 1, p.width, share), offsets, {1, 3});
  t.store(top, ownHeads(topShares, 1, 1, share), offsets, {1, 3});
  t.store(sum, ownHeads(sumShares, 1, 1, share), offsets, {1, 3});
}

Value AttentionGpuKernel::scaled(Value product) {
  float cap = p.op.getSoftcap().convertToFloat();
  Value value = mul(product, t.number(p.op.getScale().convertToFloat()));
  if (cap > 0.0f) {
    Value bounded = math::TanhOp::create(b, loc, mul(value, t.number(1.0f / cap)));
    value = mul(bounded, t.number(cap));
  }
  return value;
}

/// Products to scores: scale, cap, mask (in all but the plain case); -inf where a query does not see a key. Blocks of
/// keys that every query of the block sees need no comparisons.
void AttentionGpuKernel::maskScores(const Segment &segment, const StepTiles &tiles, Value at) {
  Value score = tiles.score;
  if (!plain) {
    SmallVector<Value> inputs{score};
    if (mask) {
      auto type = cast<RankedTensorType>(p.mask.getType());
      Value zero = writer.constant(0);
      auto [rowAxis, perRow] = maskRows();
      SmallVector<Value> offsets{type.getDimSize(0) == 1 ? zero : batchIndex, type.getDimSize(1) == 1 ? zero : head,
                                 zero, addIndex(segment.base, at)};
      if (perRow) {
        offsets[rowAxis] = rows == AttentionRows::heads ? addIndex(head, first) : first;
      }
      t.load(tiles.mask, mask, offsets, {rowAxis, 3});
      inputs.push_back(tiles.mask);
    }
    t.map(inputs, score, [&](ValueRange e) { return mask ? add(scaled(e[0]), e[1]) : scaled(e[0]); });
  }
  bool causal = p.op.getCausal() && rows == AttentionRows::queries;
  Value end = addIndex(at, writer.constant(segment.step));
  Value hides = less(segment.count, end); // keys past the end
  Value seen;                             // query i of the block sees keys up to seen + i of the segment
  if (causal) {
    seen = subIndex(addIndex(first, subIndex(total, tokens)), segment.base);
    hides = arith::OrIOp::create(b, loc, hides, less(addIndex(seen, writer.constant(1)), end));
  }
  auto branch = scf::IfOp::create(b, loc, hides, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  t.map({score}, score, [&](ValueRange e) {
    Value column = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(1));
    Value key = addIndex(at, column);
    Value visible = less(key, segment.count);
    if (causal) {
      Value row = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(0));
      Value before = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, key, addIndex(seen, row));
      visible = arith::AndIOp::create(b, loc, visible, before);
    }
    return arith::SelectOp::create(b, loc, visible, e[0], minusInfinity()).getResult();
  });
}

void AttentionGpuKernel::finish() {
  t.map({sum}, factor, [&](ValueRange e) {
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[0], t.number(0.0f));
    Value inverse = arith::DivFOp::create(b, loc, t.number(1.0f), e[0]);
    return arith::SelectOp::create(b, loc, none, t.number(0.0f), inverse).getResult();
  });
  t.map({acc, factor}, acc, [&](ValueRange e) { return mul(e[0], e[1]); });
  Value zero = writer.constant(0);
  int64_t headAxis = p.tokensFirst ? 2 : 1, tokenAxis = p.tokensFirst ? 1 : 2;
  SmallVector<Value> offsets(4, zero);
  if (rows == AttentionRows::heads) {
    offsets[headAxis] = first;
    t.store(acc, ownHeads(out, headAxis, p.width), offsets, {headAxis, 3});
    return;
  }
  offsets[0] = batchIndex;
  offsets[headAxis] = head;
  offsets[tokenAxis] = first;
  t.store(acc, out, offsets, {tokenAxis, 3});
}

/// This block's tokens go into the state: by the first of the heads that share a key head.
void AttentionGpuKernel::append() {
  if (!p.keyAppend || part == AttentionPart::combine) {
    return;
  }
  bool oneToken = rows == AttentionRows::heads;
  Value zero = writer.constant(0), end = addIndex(past, tokens);
  Value isFirst = oneToken ? first : remainder(head, group);
  if (share) {
    isFirst = addIndex(isFirst, share);
  }
  isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, isFirst, zero);
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  Value from = oneToken ? zero : first;
  for (auto [source, state, channels] : {std::tuple(k, keyState, p.depth), std::tuple(v, valueState, p.width)}) {
    Value copy = t.fragment(oneToken ? 1 : s.queries, channels, elementOf(source));
    t.load(copy, source, {batchIndex, keyHead, from, zero}, {2, 3});
    t.store(copy, firstRowsOf(state, end), {batchIndex, keyHead, addIndex(past, from), zero}, {2, 3});
  }
}
