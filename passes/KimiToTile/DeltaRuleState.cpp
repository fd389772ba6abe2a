//===- DeltaRuleState.cpp - the state of a delta rule, by chunks or by tokens
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One block a head and a part of the value channels, which do not depend on each other. The state stays in registers.
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/DeltaRuleGpuKernel.h"

using namespace mlir;
using namespace kimi;

void DeltaRuleGpuKernel::runChunks() {
  Value memory = t.fragment(depth, s.columns), values = t.fragment(s.chunk, s.columns),
        result = t.fragment(s.chunk, s.columns);
  // The state and what is written to it, as they are multiplied.
  Value factor = t.shared(depth, s.columns, operand), newValues = t.shared(s.chunk, s.columns, operand);
  Value queryTile = t.shared(s.chunk, depth, operand), keyTile = t.shared(depth, s.chunk, operand),
        pairRows = t.shared(s.chunk, s.chunk, operand), writeTile = t.shared(s.chunk, s.columns, operand);
  Value readTile = erases ? t.shared(s.chunk, depth, operand) : Value(), end = decay ? t.shared(depth, 1) : Value();
  if (initial) {
    t.load(memory, initial, {batchIndex, head, zero, firstColumn}, {2, 3});
  } else {
    t.fill(memory, 0.0f);
  }
  SmallVector<Value> buffers{queryTile, keyTile, pairRows, writeTile};
  if (erases) {
    buffers.push_back(readTile);
  }
  if (decay) {
    buffers.push_back(end);
  }
  Value size = writer.constant(s.chunk), upper = writer.extent(queries, 2);
  auto loads = [&](Value at) {
    t.load(queryTile, queries, {batchIndex, head, at, zero}, {2, 3});
    t.load(keyTile, keys, {batchIndex, head, keyRow(at), zero}, {2, 3});
    t.load(pairRows, pairs, {batchIndex, head, at, zero}, {2, 3});
    t.load(writeTile, writes, {batchIndex, head, at, firstColumn}, {2, 3});
    if (erases) {
      t.load(readTile, reads, {batchIndex, head, at, zero}, {2, 3});
    }
    if (decay) {
      t.load(end, ends, {batchIndex, head, divide(at, size), zero}, {3, 2});
    }
  };
  t.pipeline(zero, upper, size, buffers, s.stages, loads, [&](Value at) {
    t.map({memory}, factor, [&](ValueRange e) { return narrowed(e[0]); });
    t.fill(result, 0.0f);
    t.multiply(result, queryTile, factor);
    Value written = writeTile;
    if (erases) {
      t.fill(values, 0.0f);
      t.multiply(values, readTile, factor);
      t.map({writeTile, values}, newValues, [&](ValueRange e) { return narrowed(sub(widened(e[0]), e[1])); });
      written = newValues;
    }
    t.multiply(result, pairRows, written);
    storeResult(result, at);
    if (decay) {
      t.map({memory, end}, memory, [&](ValueRange e) { return mul(e[0], e[1]); });
    }
    t.multiply(memory, keyTile, written);
  });
  if (state) {
    t.store(memory, state, {batchIndex, head, zero, firstColumn}, {2, 3});
  }
}

void DeltaRuleGpuKernel::runTokens() {
  Value memory = t.fragment(depth, s.columns), products = t.fragment(depth, s.columns);
  Value key = t.fragment(depth, 1), query = t.fragment(depth, 1), fade = t.fragment(depth, 1);
  Value sum = t.fragment(1, s.columns), value = t.fragment(1, s.columns);
  if (initial) {
    t.load(memory, initial, {batchIndex, head, zero, firstColumn}, {2, 3});
  } else {
    t.fill(memory, 0.0f);
  }
  auto column = [&](Value tile, Value buffer, Value token) {
    t.load(tile, buffer, {batchIndex, headOf(buffer), token, zero}, {3, 2});
  };
  // A gate of the token: one number, or one a channel of `tile`.
  auto gateOf = [&](Value buffer, Value token, bool ofKeys) -> Value {
    if (cast<MemRefType>(buffer.getType()).getRank() == 3) {
      Value one = t.fragment(1, 1);
      t.load(one, buffer, {batchIndex, headOf(buffer), token}, {1, 2});
      return one;
    }
    Value many = ofKeys ? t.fragment(depth, 1) : t.fragment(1, s.columns);
    if (ofKeys) {
      column(many, buffer, token);
    } else {
      t.load(many, buffer, {batchIndex, headOf(buffer), token, firstColumn}, {2, 3});
    }
    return many;
  };
  buildLoop(b, loc, zero, writer.extent(q, 2), writer.constant(1), [&](Value token) {
    column(key, k, token);
    column(query, q, token);
    t.load(value, v, {batchIndex, headOf(v), token, firstColumn}, {2, 3});
    if (decay) {
      t.map({gateOf(decay, token, true)}, fade, [&](ValueRange e) { return exponential(e[0]); });
      t.map({memory, fade}, memory, [&](ValueRange e) { return mul(e[0], e[1]); });
    }
    if (Value gates = beta ? beta : write) {
      t.map({value, gateOf(gates, token, false)}, value, [&](ValueRange e) { return mul(e[0], e[1]); });
    }
    if (erases) {
      Value gates = gateOf(beta ? beta : erase, token, true);
      t.map({memory, key, gates}, products, [&](ValueRange e) { return mul(e[0], mul(e[1], e[2])); });
      t.reduce(tile::ReduceKind::add, products, sum, /*accumulate=*/false, /*axis=*/0);
      t.map({value, sum}, value, [&](ValueRange e) { return sub(e[0], e[1]); });
    }
    t.map({memory, key, value}, memory, [&](ValueRange e) { return add(e[0], mul(e[1], e[2])); });
    t.map({memory, query}, products, [&](ValueRange e) { return mul(e[0], e[1]); });
    t.reduce(tile::ReduceKind::add, products, sum, /*accumulate=*/false, /*axis=*/0);
    t.map({sum}, sum, [&](ValueRange e) { return mul(e[0], t.number(scale)); });
    storeResult(sum, token);
  });
  if (state) {
    t.store(memory, state, {batchIndex, head, zero, firstColumn}, {2, 3});
  }
}
