//===- DeltaRulePrepare.cpp - what a chunk of a delta rule needs before its state
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One block a chunk and head. Threads hold whole columns of what is not multiplied: sums over the rows and the
// triangular system need no exchange. Rows past the last token read as zeros: no decay, nothing written.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/KimiToTile/DeltaRuleGpuKernel.h"
#include "passes/KimiToTile/GateRange.h"

using namespace mlir;
using namespace kimi;

/// A log-decay below this forgets everything in fp32; sums of larger ones keep their differences.
static constexpr float kLeastLogDecay = -100.0f;

/// The largest block of rows (up to a matrix instruction's) whose decays from its middle row are factors that neither
/// overflow nor vanish: products of two stay below 2^126. 1 where gates are not bounded.
static int64_t blockWithin(Type operand, double least) {
  constexpr double mostExponent = 43.0; // e^86 = 2^124
  constexpr int64_t mostRows = 16;
  int64_t block = 1;
  // A block of 2 n rows has exponents of up to n gates.
  while (!operand.isF16() && block < mostRows && static_cast<double>(block) * -least <= mostExponent) {
    block *= 2;
  }
  return block;
}

void DeltaRuleGpuKernel::prepare() {
  keyRows = t.shared(s.chunk, depth, operand);
  queryRows = t.shared(s.chunk, depth, operand);
  loadRows(keyRows, k, first, zero);
  loadRows(queryRows, q, first, zero);
  loadGates();
  scaleRows();
  pairTile = t.fragment(s.chunk, s.chunk);
  product = t.fragment(s.chunk, s.chunk);
  matrix = erases ? t.fragment(s.chunk, s.chunk) : Value();
  rowFactors = decay ? t.shared(s.chunk, depth, operand) : Value();
  columnFactors = decay ? t.shared(s.chunk, depth, operand) : Value();
  // i = j: no decay.
  t.fill(pairTile, 0.0f);
  t.multiplyTransposed(pairTile, queryRows, keyRows);
  t.map({pairTile}, pairTile, [&](ValueRange e) {
    auto predicate = decay ? arith::CmpIPredicate::eq : arith::CmpIPredicate::ule;
    return select(compare(predicate, position(1), position(0)), e[0], t.number(0.0f));
  });
  if (erases) {
    t.fill(matrix, 0.0f);
  }
  if (decay) {
    anchor = t.fragment(s.chunk, depth);
    int64_t leastBlock = blockWithin(operand, rangeOfElements(op.getDecay()).least);
    for (int64_t half = s.chunk / 2; half >= leastBlock; half /= 2) {
      addLevel(half);
    }
    if (leastBlock > 1) {
      addBlocks(leastBlock);
    }
  } else if (erases) {
    t.multiplyTransposed(matrix, eraseRows, keyRows); // below the diagonal, which is all that solve reads
  }
  t.map({pairTile}, pairTile, [&](ValueRange e) { return mul(e[0], t.number(scale)); });
  t.store(pairTile, pairs, {batchIndex, head, first, zero}, {2, 3});
  solveRows();
  storeKeys();
}

/// sums: G; stores e^(G_C), how the state has decayed at the end of the chunk.
void DeltaRuleGpuKernel::loadGates() {
  if (!decay) {
    return;
  }
  Value gate = t.fragment(s.chunk, depth), end = t.fragment(1, depth);
  sums = t.fragment(s.chunk, depth);
  auto bounded = [&](ValueRange e) { return maximum(e[0], t.number(kLeastLogDecay)); };
  if (cast<MemRefType>(decay.getType()).getRank() == 3) {
    Value one = t.fragment(s.chunk, 1);
    loadRows(one, decay, first, zero);
    t.map({one}, gate, bounded);
  } else {
    loadRows(gate, decay, first, zero);
    t.map({gate}, gate, bounded);
  }
  t.scan(gate, sums);
  t.reduce(tile::ReduceKind::add, gate, end, /*accumulate=*/false, /*axis=*/0);
  t.map({end}, end, [&](ValueRange e) { return exponential(e[0]); });
  t.store(end, ends, {batchIndex, head, divide(first, writer.constant(s.chunk)), zero}, {2, 3});
}

/// eraseRows: b k, or k where b is one number a token: rows of what comes of them are multiplied with it instead.
void DeltaRuleGpuKernel::scaleRows() {
  eraseRows = keyRows;
  Value gates = beta ? beta : erase;
  if (!gates) {
    return;
  }
  bool whole = cast<MemRefType>(gates.getType()).getRank() == 4;
  Value factor = t.fragment(s.chunk, whole ? depth : 1);
  loadRows(factor, gates, first, zero);
  if (!whole) {
    eraseFactor = factor;
    return;
  }
  eraseRows = t.shared(s.chunk, depth, operand);
  t.map({keyRows, factor}, eraseRows, [&](ValueRange e) { return narrowed(mul(widened(e[0]), e[1])); });
}

/// rows times the erase gates that eraseRows lacks.
void DeltaRuleGpuKernel::erased(Value rows) {
  if (eraseFactor) {
    t.map({rows, eraseFactor}, rows, [&](ValueRange e) { return mul(e[0], e[1]); });
  }
}

/// The pairs whose rows lie in different halves of a block of 2 `half` rows.
void DeltaRuleGpuKernel::addLevel(int64_t half) {
  int64_t block = 2 * half;
  t.pickRows(sums, anchor, block, half);
  auto isLater = [&] {
    Value within = remainder(position(0), writer.constant(block));
    return compare(arith::CmpIPredicate::uge, within, writer.constant(half));
  };
  auto later = [&](ValueRange e) {
    Value factor = exponential(sub(e[1], e[2]));
    return narrowed(select(isLater(), mul(widened(e[0]), factor), t.number(0.0f)));
  };
  t.map({keyRows, sums, anchor}, columnFactors, [&](ValueRange e) {
    Value factor = exponential(sub(e[2], e[1]));
    return narrowed(select(isLater(), t.number(0.0f), mul(widened(e[0]), factor)));
  });
  auto accumulate = [&](Value rows, Value sum) {
    t.map({rows, sums, anchor}, rowFactors, later);
    if (block == s.chunk) {
      t.multiplyTransposed(sum, rowFactors, columnFactors);
      return;
    }
    t.fill(product, 0.0f);
    t.multiplyTransposed(product, rowFactors, columnFactors);
    t.map({sum, product}, sum, [&](ValueRange e) {
      Value size = writer.constant(block);
      Value together = compare(arith::CmpIPredicate::eq, divide(position(0), size), divide(position(1), size));
      return add(e[0], select(together, e[1], t.number(0.0f)));
    });
  };
  accumulate(queryRows, pairTile);
  if (erases) {
    accumulate(eraseRows, matrix);
  }
}

/// The pairs within blocks of so many rows: their anchor is the middle row, exponents of either sign.
void DeltaRuleGpuKernel::addBlocks(int64_t block) {
  t.pickRows(sums, anchor, block, block / 2);
  auto factors = [&](Value rows, Value out, bool ofColumns) {
    t.map({rows, sums, anchor}, out, [&](ValueRange e) {
      return narrowed(mul(widened(e[0]), exponential(ofColumns ? sub(e[2], e[1]) : sub(e[1], e[2]))));
    });
  };
  factors(keyRows, columnFactors, /*ofColumns=*/true);
  auto accumulate = [&](Value rows, Value sum) {
    factors(rows, rowFactors, /*ofColumns=*/false);
    t.fill(product, 0.0f);
    t.multiplyTransposed(product, rowFactors, columnFactors);
    t.map({sum, product}, sum, [&](ValueRange e) {
      Value size = writer.constant(block), row = position(0), column = position(1);
      Value together = compare(arith::CmpIPredicate::eq, divide(row, size), divide(column, size));
      Value earlier = compare(arith::CmpIPredicate::ult, column, row);
      Value counts = arith::AndIOp::create(b, loc, together, earlier);
      return add(e[0], select(counts, e[1], t.number(0.0f)));
    });
  };
  accumulate(queryRows, pairTile);
  if (erases) {
    accumulate(eraseRows, matrix);
  }
}

/// U and W.
void DeltaRuleGpuKernel::solveRows() {
  Value system;
  if (erases) {
    erased(matrix);
    system = t.shared(s.chunk, s.chunk);
    t.map({matrix}, system, [&](ValueRange e) { return e[0]; });
  }
  Value values = t.fragment(s.chunk, width);
  loadRows(values, v, first, zero);
  if (Value gates = beta ? beta : write) {
    bool whole = cast<MemRefType>(gates.getType()).getRank() == 4;
    Value factor = t.fragment(s.chunk, whole ? width : 1);
    loadRows(factor, gates, first, zero);
    t.map({values, factor}, values, [&](ValueRange e) { return mul(e[0], e[1]); });
  }
  if (erases) {
    t.solve(system, values);
  }
  t.store(values, writes, {batchIndex, head, first, zero}, {2, 3});
  if (!erases) {
    return;
  }
  Value rows = t.fragment(s.chunk, depth);
  if (decay) {
    t.map({eraseRows, sums}, rows, [&](ValueRange e) { return mul(widened(e[0]), exponential(e[1])); });
  } else {
    t.map({eraseRows}, rows, [&](ValueRange e) { return widened(e[0]); });
  }
  erased(rows);
  t.solve(system, rows);
  t.store(rows, reads, {batchIndex, head, first, zero}, {2, 3});
}

/// Queries and keys as the state meets them.
void DeltaRuleGpuKernel::storeKeys() {
  Value rows = t.fragment(s.chunk, depth), toEnd = t.fragment(s.chunk, depth);
  if (decay) {
    t.map({queryRows, sums}, rows,
          [&](ValueRange e) { return mul(mul(widened(e[0]), t.number(scale)), exponential(e[1])); });
    t.pickRows(sums, anchor, s.chunk, s.chunk - 1);
    t.map({keyRows, sums, anchor}, toEnd,
          [&](ValueRange e) { return mul(widened(e[0]), exponential(sub(e[2], e[1]))); });
  } else {
    t.map({queryRows}, rows, [&](ValueRange e) { return mul(widened(e[0]), t.number(scale)); });
    t.map({keyRows}, toEnd, [&](ValueRange e) { return widened(e[0]); });
  }
  t.store(rows, queries, {batchIndex, head, first, zero}, {2, 3});
  t.store(toEnd, keys, {batchIndex, head, zero, first}, {3, 2});
}
