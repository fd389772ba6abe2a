//===- OpsAttention.cpp - Attention and RotaryEmbedding
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/AttentionScores.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
/// The extents of an Attention node: q [B, Hq, T, Dk], k [B, Hkv, S, Dk], v [B, Hkv, S, Dv]; S counts the past.
struct AttentionShape {
  SymbolicDim batch = 0, queryHeads = 0, heads = 0, queries = 0, newKeys = 0, past = 0, keys = 0, size = 0,
              valueSize = 0;
  bool packed = false;
};
} // namespace

static FailureOr<AttentionShape> attentionShape(InferContext &c) {
  AttentionShape s;
  ArrayRef<SymbolicDim> q = c.shape(0), k = c.shape(1), v = c.shape(2);
  if (q.size() != k.size() || q.size() != v.size() || (q.size() != 3 && q.size() != 4)) {
    return c.fail("Q, K and V must all have 3 or all have 4 axes");
  }
  s.packed = q.size() == 3;
  if (s.packed) {
    int64_t queryHeads = c.node.getInt("q_num_heads", 0), heads = c.node.getInt("kv_num_heads", 0);
    if (queryHeads <= 0 || heads <= 0) {
      return c.fail("3-D inputs need q_num_heads and kv_num_heads");
    }
    s.queryHeads = queryHeads;
    s.heads = heads;
    s.queries = q[1];
    s.newKeys = k[1];
    s.size = SymbolicDim::floorDiv(q[2], queryHeads);
    s.valueSize = SymbolicDim::floorDiv(v[2], heads);
  } else {
    s.queryHeads = q[1];
    s.heads = k[1];
    s.queries = q[2];
    s.newKeys = k[2];
    s.size = q[3];
    s.valueSize = v[3];
  }
  s.batch = q[0];
  if (c.has(4) != c.has(5)) {
    return c.fail("past_key and past_value must be given together");
  }
  if (c.has(4)) {
    if (c.in(4).rank() != 4 || c.in(5).rank() != 4) {
      return c.fail("past_key and past_value must have 4 axes");
    }
    if (c.in(4).elementType != c.in(1).elementType || c.in(5).elementType != c.in(2).elementType) {
      return c.fail("past_key and past_value must have the element types of K and V");
    }
    s.past = c.shape(4)[2];
  }
  // What kernels read of K and V follows from Q, and of V from K.
  int64_t tokens = s.packed ? 1 : 2;
  bool fits = succeeded(c.same(k[0], s.batch, "the batches of K and Q")) &&
              succeeded(c.same(v[0], s.batch, "the batches of V and Q")) &&
              succeeded(c.same(v[tokens], k[tokens], "the tokens of V and K"));
  if (s.packed) {
    fits = fits && succeeded(c.same(k[2] * s.queryHeads, q[2] * s.heads, "the channels of a head of K and Q"));
  } else {
    fits = fits && succeeded(c.same(v[1], k[1], "the heads of V and K")) &&
           succeeded(c.same(k[3], q[3], "the channels of K and Q"));
  }
  if (c.has(4)) {
    SymbolicDim key[] = {s.batch, s.heads, s.past, s.size}, value[] = {s.batch, s.heads, s.past, s.valueSize};
    fits = fits && succeeded(c.same(c.shape(4), key, "the extents of past_key and what is due")) &&
           succeeded(c.same(c.shape(5), value, "the extents of past_value and what is due"));
  }
  if (!fits) {
    return failure();
  }
  if (c.has(6) && c.in(6).rank() != 1) {
    return c.fail("nonpad_kv_seqlen must have one axis");
  }
  s.keys = s.past + s.newKeys;
  return s;
}

static LogicalResult inferAttention(InferContext &c) {
  if (c.numInputs() < 3 || !c.has(0) || !c.has(1) || !c.has(2)) {
    return c.fail("Q, K and V are required");
  }
  FailureOr<AttentionShape> s = attentionShape(c);
  if (failed(s)) {
    return failure();
  }
  Type element = c.in(0).elementType;
  if (s->packed) {
    c.setOut(ValueInfo(element, {s->batch, s->queries, s->queryHeads * s->valueSize}));
  } else {
    c.setOut(ValueInfo(element, {s->batch, s->queryHeads, s->queries, s->valueSize}));
  }
  if (c.has(3) && c.in(3).rank() > 0) {
    c.broadcasts(ArrayRef(c.shape(3)).drop_back(), {s->batch, s->queryHeads, s->queries});
  }
  c.setOut(1, ValueInfo(c.in(1).elementType, {s->batch, s->heads, s->keys, s->size}));
  c.setOut(2, ValueInfo(c.in(2).elementType, {s->batch, s->heads, s->keys, s->valueSize}));
  c.setOut(3, ValueInfo(element, {s->batch, s->queryHeads, s->queries, s->keys}));
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// [B, T, H*D] as [B, H, T, D].
static Tensor splitHeads(BuildContext &c, const Tensor &x, const SymbolicDim &heads, const SymbolicDim &size) {
  return c.transpose(c.reshape(x, {x.shape[0], x.shape[1], heads, size}), {0, 2, 1, 3});
}

namespace {
/// Which keys a query sees, besides what kimi.attention's `causal` says.
struct Mask {
  std::optional<Tensor> given;   // attn_mask with 4 axes
  std::optional<Tensor> lengths; // nonpad_kv_seqlen
  bool causal = false;
};
} // namespace

/// The node's mask, causal rule and key lengths as one mask [B|1, Hq|1, T|1, S]: of truth values, or f32 to be added.
static Tensor combineMask(BuildContext &c, const AttentionShape &s, const Mask &mask) {
  bool additive = mask.given && mask.given->isFloat();
  Type single = c.b.getF32Type(), truth = c.b.getI1Type();
  Shape shape = {1, 1, 1, s.keys};
  if (mask.given) {
    ArrayRef<SymbolicDim> given = mask.given->shape;
    SymbolicDim full[] = {s.batch, s.queryHeads, s.queries};
    for (size_t axis = 0; axis < 3; ++axis) {
      shape[axis] = given[axis].is(1) ? SymbolicDim(1) : full[axis];
    }
  }
  if (mask.causal) {
    shape[2] = s.queries;
  }
  if (mask.lengths) {
    shape[0] = s.batch;
  }
  SmallVector<Tensor> inputs;
  // A mask may cover fewer keys than there are; the rest are not seen.
  Value covered, source, some;
  bool partial = mask.given && !mask.given->shape[3].is(1) && mask.given->shape[3] != s.keys &&
                 !(mask.given->shape[3].isConstant() && s.keys.isConstant() &&
                   *mask.given->shape[3].getConstant() >= *s.keys.getConstant());
  SmallVector<Value> lasts;
  if (partial) {
    source = c.value(*mask.given);
    some = c.unlessEmpty(mask.given->shape[3]);
    covered = c.index(mask.given->shape[3]);
    for (size_t axis = 0; axis < 3; ++axis) {
      lasts.push_back(c.index(mask.given->shape[axis] - SymbolicDim(1)));
    }
  } else if (mask.given) {
    inputs.push_back(*mask.given);
  }
  size_t lengthAt = inputs.size();
  if (mask.lengths) {
    inputs.push_back(c.reshape(*mask.lengths, {s.batch, 1, 1, 1}));
  }
  Value past = c.index(s.past), queries = c.index(s.queries);
  return c.mapIndexed(
      inputs, shape, additive ? single : truth, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
        Value seen = integerConstant(b, loc, truth, 1);
        auto require = [&](Value condition) { seen = arith::AndIOp::create(b, loc, seen, condition); };
        auto less = [&](Value x, Value y, bool orEqual) -> Value {
          return arith::CmpIOp::create(b, loc, orEqual ? arith::CmpIPredicate::sle : arith::CmpIPredicate::slt, x, y);
        };
        Value length =
            mask.lengths ? arith::IndexCastOp::create(b, loc, b.getIndexType(), e[lengthAt]).getResult() : Value();
        if (length) {
          require(less(at[3], length, false));
        }
        if (mask.causal) {
          Value offset = length ? arith::SubIOp::create(b, loc, length, queries).getResult() : past;
          require(less(at[3], arith::AddIOp::create(b, loc, at[2], offset), true));
        }
        Value given;
        if (partial) {
          SmallVector<Value> from;
          for (size_t axis = 0; axis < 3; ++axis) {
            from.push_back(arith::MinSIOp::create(b, loc, at[axis], lasts[axis]));
          }
          Value one = arith::ConstantIndexOp::create(b, loc, 1);
          Value zero = arith::ConstantIndexOp::create(b, loc, 0);
          Value last = arith::SubIOp::create(b, loc, covered, one);
          from.push_back(arith::MaxSIOp::create(b, loc, arith::MinSIOp::create(b, loc, at[3], last), zero));
          given = c.read(b, loc, source, from, some);
          require(less(at[3], covered, false));
        } else if (mask.given) {
          given = e[0];
        }
        if (!additive) {
          return given ? arith::AndIOp::create(b, loc, seen, given).getResult() : seen;
        }
        Value never = scalarConstant(b, loc, single, -std::numeric_limits<double>::infinity());
        return arith::SelectOp::create(b, loc, seen, castElement(b, loc, given, given.getType(), single), never)
            .getResult();
      });
}

static LogicalResult buildAttention(BuildContext &c) {
  AttentionShape s = *attentionShape(c);
  int64_t scoreMode = c.node.getInt("qk_matmul_output_mode", 0);
  if (scoreMode < 0 || scoreMode > 3) {
    return c.fail("qk_matmul_output_mode is not 0, 1, 2 or 3");
  }
  if (c.node.getInt("left_window_size", -1) >= 0 || c.node.getInt("right_window_size", -1) >= 0) {
    return c.fail("sliding windows are not supported");
  }
  Tensor q = c.input(0), k = c.input(1), v = c.input(2);
  if (s.packed) {
    q = splitHeads(c, q, s.queryHeads, s.size);
    k = splitHeads(c, k, s.heads, s.size);
    v = splitHeads(c, v, s.heads, s.valueSize);
  }
  if (c.has(4)) {
    k = c.concat({c.input(4), k}, 2);
    v = c.concat({c.input(5), v}, 2);
  }
  if (c.wants(1)) {
    c.give(1, k);
  }
  if (c.wants(2)) {
    c.give(2, v);
  }
  std::optional<int64_t> size = s.size.getConstant();
  double scale = c.node.getFloat("scale", size && *size > 0 ? 1.0 / std::sqrt(static_cast<double>(*size)) : 0.0);
  if (!c.node.getOnnxAttr("scale") && !size) {
    return c.fail("the head size must be constant where scale is not given");
  }
  // ONNX counts positions from the past, kimi.attention from the last key: the same where each key is a query's.
  bool isCausal = c.node.getInt("is_causal", 0) != 0;
  bool direct = isCausal && s.newKeys == s.queries && !c.has(6);
  Mask mask;
  mask.causal = isCausal && !direct;
  if (c.has(3)) {
    Tensor given = c.input(3);
    if (given.rank() > 4) {
      return c.fail("attn_mask has more than 4 axes");
    }
    Shape four(4 - given.rank(), SymbolicDim(1));
    four.append(given.shape.begin(), given.shape.end());
    mask.given = c.reshape(given, four);
  }
  if (c.has(6)) {
    mask.lengths = c.input(6);
  }
  double softcap = c.node.getFloat("softcap", 0.0);
  if (c.wants(3)) {
    Mask whole = mask;
    whole.causal = isCausal;
    std::optional<Tensor> seen;
    if (whole.given || whole.lengths || whole.causal) {
      seen = combineMask(c, s, whole);
    }
    c.give(3, attentionScores(c, q, k, seen, scale, softcap, static_cast<ScoreMode>(scoreMode)));
  }
  Value maskValue;
  if (mask.given || mask.lengths || mask.causal) {
    const Tensor *given = mask.given ? &*mask.given : nullptr;
    auto fits = [](const SymbolicDim &dim, const SymbolicDim &full) { return dim.is(1) || dim == full; };
    bool plain = given && !mask.lengths && !mask.causal && (given->type.isF32() || given->type.isInteger(1)) &&
                 given->shape[3] == s.keys && fits(given->shape[0], s.batch) && fits(given->shape[1], s.queryHeads) &&
                 fits(given->shape[2], s.queries);
    maskValue = c.value(plain ? *given : combineMask(c, s, mask));
  }
  Shape shape = {s.batch, s.queryHeads, s.queries, s.valueSize};
  auto type = tensorType(shape, storageType(q.type));
  Value result = AttentionOp::create(
      c.b, c.loc, type, c.value(q), c.value(k), c.value(v), maskValue, direct ? c.b.getUnitAttr() : UnitAttr(),
      c.b.getF32FloatAttr(static_cast<float>(scale)), c.b.getF32FloatAttr(static_cast<float>(softcap)));
  Tensor out = c.wrap(result, shape, q.type);
  if (s.packed) {
    out = c.reshape(c.transpose(out, {0, 2, 1, 3}), {s.batch, s.queries, s.queryHeads * s.valueSize});
  }
  c.give(out);
  return success();
}

//===----------------------------------------------------------------------===//
// RotaryEmbedding
//===----------------------------------------------------------------------===//

static LogicalResult inferRotary(InferContext &c) {
  int64_t rank = c.in(0).rank();
  if (rank != 4 && (rank != 3 || c.node.getInt("num_heads", 0) <= 0)) {
    return c.fail("its input must have 4 axes, or 3 with num_heads");
  }
  if (c.in(1).rank() != (c.has(3) ? 2 : 3) || c.in(2).rank() != c.in(1).rank()) {
    return c.fail("the caches must have 2 axes with position_ids and 3 without");
  }
  int64_t heads = c.node.getInt("num_heads", 0), rotated = c.node.getInt("rotary_embedding_dim", 0);
  const Shape &x = c.shape(0), &cache = c.shape(1);
  SymbolicDim size = rank == 3 ? SymbolicDim::floorDiv(x[2], heads) : x[3];
  SymbolicDim width = rotated > 0 ? SymbolicDim(rotated) : size;
  if (width.getConstant().value_or(0) % 2 != 0) {
    return c.fail("it rotates " + width.str() + " channels, an odd number");
  }
  SymbolicDim tokens[] = {x[0], x[rank == 3 ? 1 : 2]};
  bool fits =
      succeeded(c.same(c.shape(2), cache, "the extents of sin_cache and cos_cache")) &&
      succeeded(c.atMost(width, size, "the number of rotated channels")) &&
      succeeded(c.atMost(SymbolicDim::floorDiv(width, 2), cache.back(), "half of the number of rotated channels")) &&
      succeeded(c.same(c.has(3) ? ArrayRef(c.shape(3)) : ArrayRef(cache).drop_back(), tokens,
                       "the extents of positions and of batch and tokens"));
  if (!fits || (c.has(3) && failed(c.hasPositions(cache[0], c.shape(3))))) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

/// With half = rotated / 2 and pairs (j, j + half), or (2j, 2j + 1) interleaved: y1 = cos x1 - sin x2,
/// y2 = sin x1 + cos x2; channels past `rotary_embedding_dim` stay.
static LogicalResult buildRotary(BuildContext &c) {
  Tensor x = c.input(0);
  bool packed = x.rank() == 3, interleaved = c.node.getInt("interleaved", 0) != 0;
  // Heads before time or after it: [B, H, T, D] or [B, T, H, D].
  Shape shape = x.shape;
  int64_t time = 2;
  if (packed) {
    int64_t heads = c.node.getInt("num_heads", 0);
    shape = {x.shape[0], x.shape[1], heads, SymbolicDim::floorDiv(x.shape[2], heads)};
    x = c.reshape(x, shape);
    time = 1;
  }
  int64_t rotated = c.node.getInt("rotary_embedding_dim", 0);
  SymbolicDim width = rotated > 0 ? SymbolicDim(rotated) : shape[3];
  Value half = c.index(SymbolicDim::floorDiv(width, 2)), end = c.index(width);
  Value source = c.value(x), cosine = c.value(c.input(1)), sine = c.value(c.input(2));
  SmallVector<Tensor> inputs;
  if (c.has(3)) {
    Tensor positions = c.input(3);
    inputs.push_back(c.reshape(positions, time == 1 ? Shape{positions.shape[0], positions.shape[1], 1, 1}
                                                    : Shape{positions.shape[0], 1, positions.shape[1], 1}));
  }
  Value extent = c.index(c.shape(1)[0]);
  Type wide = accumulatorType(x.type);
  Tensor y = c.mapIndexed(inputs, shape, x.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
    auto number = [&](int64_t n) -> Value { return arith::ConstantIndexOp::create(b, loc, n); };
    auto compare = [&](Value l, Value r) -> Value {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, l, r);
    };
    auto choose = [&](Value condition, Value l, Value r) -> Value {
      return arith::SelectOp::create(b, loc, condition, l, r);
    };
    Value channel = at[3], inside = compare(channel, end), first, pair, other;
    if (interleaved) {
      pair = arith::DivUIOp::create(b, loc, channel, number(2));
      Value parity = arith::RemUIOp::create(b, loc, channel, number(2));
      first = compare(parity, number(1));
      other = choose(first, arith::AddIOp::create(b, loc, channel, number(1)),
                     arith::SubIOp::create(b, loc, channel, number(1)));
    } else {
      first = compare(channel, half);
      pair = choose(first, channel, arith::SubIOp::create(b, loc, channel, half));
      other = choose(first, arith::AddIOp::create(b, loc, channel, half), pair);
    }
    pair = choose(inside, pair, number(0));
    other = choose(inside, other, channel);
    SmallVector<Value> row;
    if (e.empty()) {
      row = {at[0], at[time], pair};
    } else {
      row = {clampPosition(b, loc, e[0], false, extent), pair};
    }
    auto load = [&](Value tensor, ArrayRef<Value> from) {
      Value element = c.read(b, loc, tensor, from);
      return castElement(b, loc, element, element.getType(), wide);
    };
    Value mine = load(source, at), cosValue = load(cosine, row), sinValue = load(sine, row);
    Value theirs = load(source, {at[0], at[1], at[2], other});
    Value along = arith::MulFOp::create(b, loc, mine, cosValue);
    Value across = arith::MulFOp::create(b, loc, theirs, sinValue);
    Value turned =
        choose(first, arith::SubFOp::create(b, loc, along, across), arith::AddFOp::create(b, loc, along, across));
    return castElement(b, loc, choose(inside, turned, mine), wide, x.type);
  });
  c.give(c.reshape(y, *c.result().shape));
  return success();
}

void kimi::onnx::registerAttentionOps(OpTable &table) {
  table.add("Attention", 23, inferAttention, buildAttention, "no sliding window");
  table.add("RotaryEmbedding", 23, inferRotary, buildRotary);
}
