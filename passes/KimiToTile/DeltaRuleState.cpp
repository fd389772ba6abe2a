//===- DeltaRuleState.cpp - the state of a delta rule, chunk by chunk
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
