//===- OpsAttention.cpp - Attention and RotaryEmbedding
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"

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
  if (c.has(4)) {
    if (c.in(4).rank() != 4) {
      return c.fail("past_key must have 4 axes");
    }
    s.past = c.shape(4)[2];
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
  c.setOut(1, ValueInfo(c.in(1).elementType, {s->batch, s->heads, s->keys, s->size}));
  c.setOut(2, ValueInfo(c.in(2).elementType, {s->batch, s->heads, s->keys, s->valueSize}));
  c.setOut(3, ValueInfo(element, {s->batch, s->queryHeads, s->queries, s->keys}));
  return success();
}

void kimi::onnx::registerAttentionOps(OpTable &table) { table.add("Attention", 23, inferAttention, nullptr); }
