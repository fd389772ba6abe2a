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
// Where 16-bit numbers are multiplied, the system is solved for its inverse alone, and U and W are products of it.
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
  valueRows = isNarrow() ? t.shared(s.chunk, width, operand) : Value();
  loadRows(keyRows, k, first, zero);
  loadRows(queryRows, q, first, zero);
  if (valueRows) {
    loadRows(valueRows, v, first, zero);
  }
  loadGates();
  pairTile = t.fragment(s.chunk, s.chunk);
  product = t.fragment(s.chunk, s.chunk);
  matrix = erases ? t.fragment(s.chunk, s.chunk) : Value();
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
  blockRows = decay ? blockWithin(operand, rangeOfElements(op.getDecay()).least) : 1;
  if (blockRows > 1) {
    keyRows = held(keyRows);
  }
  scaleRows();
  if (decay) {
    anchor = t.fragment(s.chunk, depth);
    rowFactors = t.shared(s.chunk, depth, operand);
    columnFactors = t.shared(s.chunk, depth, operand);
    // The next level above the blocks shares their factors.
    for (int64_t half = s.chunk / 2; half > blockRows || (half == 1 && blockRows == 1); half /= 2) {
      addLevel(half);
    }
    if (blockRows > 1) {
      addBlocks(blockRows);
    }
  } else if (erases) {
    t.multiplyTransposed(matrix, eraseRows, keyRows); // below the diagonal, which is all that solve reads
  }
  if (!up) {
    storeKeys();
    storeQueries();
  }
  t.map({pairTile}, pairTile, [&](ValueRange e) { return mul(e[0], t.number(scale)); });
  t.store(pairTile, pairs, {batchIndex, head, first, zero}, {2, 3});
  solveRows();
}

/// `rows` as each thread keeps its own: they are scaled again and again.
Value DeltaRuleGpuKernel::held(Value rows) {
  if (!isNarrow()) {
    return rows;
  }
  Value own = t.fragment(s.chunk, depth);
  t.map({rows}, own, [&](ValueRange e) { return widened(e[0]); });
  return own;
}

/// sums: G, for power(); stores e^(G_C), how the state has decayed at the end of the chunk.
void DeltaRuleGpuKernel::loadGates() {
  if (!decay) {
    return;
  }
  Value gate = t.fragment(s.chunk, depth), end = t.fragment(1, depth);
  sums = t.fragment(s.chunk, depth);
  bool bounded = rangeOfElements(op.getDecay()).least >= kLeastLogDecay;
  auto scaled = [&](ValueRange e) {
    Value g = bounded ? e[0] : maximum(e[0], t.number(kLeastLogDecay));
    return isNarrow() ? mul(g, t.number(kLog2e)) : g;
  };
  if (cast<MemRefType>(decay.getType()).getRank() == 3) {
    Value one = t.fragment(s.chunk, 1);
    loadRows(one, decay, first, zero);
    t.map({one}, gate, scaled);
  } else {
    loadRows(gate, decay, first, zero);
    t.map({gate}, gate, scaled);
  }
  t.scan(gate, sums);
  t.reduce(tile::ReduceKind::add, gate, end, /*accumulate=*/false, /*axis=*/0);
  t.map({end}, end, [&](ValueRange e) { return power(e[0]); });
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
  eraseRows = blockRows > 1 && isNarrow() ? t.fragment(s.chunk, depth) : t.shared(s.chunk, depth, operand);
  assign(eraseRows, {keyRows, factor}, [&](ValueRange e) { return mul(widened(e[0]), e[1]); });
}

/// rows times the erase gates that eraseRows lacks.
void DeltaRuleGpuKernel::erased(Value rows) {
  if (eraseFactor) {
    t.map({rows, eraseFactor}, rows, [&](ValueRange e) { return mul(e[0], e[1]); });
  }
}

/// Whether the row of a map's element is in the later half of its block of 2 `half` rows.
Value DeltaRuleGpuKernel::isLater(int64_t half) {
  Value within = remainder(position(0), writer.constant(2 * half));
  return compare(arith::CmpIPredicate::uge, within, writer.constant(half));
}

/// sum += rows . columns^T, where `counts` says of the rows and columns of a map's element that they do.
void DeltaRuleGpuKernel::addProduct(Value sum, Value rows, Value columns, llvm::function_ref<Value()> counts) {
  t.fill(product, 0.0f);
  t.multiplyTransposed(product, rows, columns);
  t.map({sum, product}, sum, [&](ValueRange e) { return add(e[0], select(counts(), e[1], t.number(0.0f))); });
}

/// Whether row and column of a map's element lie in one block of so many.
Value DeltaRuleGpuKernel::together(int64_t block) {
  Value size = writer.constant(block);
  return compare(arith::CmpIPredicate::eq, divide(position(0), size), divide(position(1), size));
}

/// The pairs whose rows lie in different halves of a block of 2 `half` rows.
void DeltaRuleGpuKernel::addLevel(int64_t half) {
  int64_t block = 2 * half;
  t.pickRows(sums, anchor, block, half);
  assign(columnFactors, {keyRows, sums, anchor}, [&](ValueRange e) {
    return select(isLater(half), t.number(0.0f), mul(widened(e[0]), power(sub(e[2], e[1]))));
  });
  auto accumulate = [&](Value rows, Value sum) {
    assign(rowFactors, {rows, sums, anchor}, [&](ValueRange e) {
      return select(isLater(half), mul(widened(e[0]), power(sub(e[1], e[2]))), t.number(0.0f));
    });
    if (block == s.chunk) {
      t.multiplyTransposed(sum, rowFactors, columnFactors);
    } else {
      addProduct(sum, rowFactors, columnFactors, [&] { return together(block); });
    }
  };
  accumulate(queryRows, pairTile);
  if (erases) {
    accumulate(eraseRows, matrix);
  }
}

/// The pairs within blocks of so many rows, whose anchor is the middle row (exponents of either sign), and those of two
/// neighbouring blocks, whose anchor is the middle of the later: its rows are as within their block.
void DeltaRuleGpuKernel::addBlocks(int64_t block) {
  t.pickRows(sums, anchor, block, block / 2);
  up = t.fragment(s.chunk, depth);
  down = t.fragment(s.chunk, depth);
  t.map({sums, anchor}, up, [&](ValueRange e) { return power(sub(e[0], e[1])); });
  t.map({sums, anchor}, down, [&](ValueRange e) { return power(sub(e[1], e[0])); });
  auto raised = [&](ValueRange e) { return mul(widened(e[0]), e[1]); };
  auto toCrossing = [&](Value out) {
    Value later = t.fragment(s.chunk, depth);
    t.pickRows(sums, later, 2 * block, block + block / 2);
    assign(out, {keyRows, down, anchor, later}, [&](ValueRange e) {
      return select(isLater(block), t.number(0.0f), mul(raised(e), power(sub(e[3], e[2]))));
    });
  };
  auto addWithin = [&](Value sum, Value rows) {
    addProduct(sum, rows, columnFactors, [&] {
      Value earlier = compare(arith::CmpIPredicate::ult, position(1), position(0));
      return arith::AndIOp::create(b, loc, together(block), earlier);
    });
  };
  auto addCrossing = [&](Value sum, Value rows, Value columns) {
    addProduct(sum, rows, columns, [&] { return arith::AndIOp::create(b, loc, together(2 * block), isLater(block)); });
  };
  bool crossing = s.chunk > block;
  assign(columnFactors, {keyRows, down}, raised);
  if (isNarrow()) {
    // All factors first, those of the keys before those of the queries: few registers are in use at a time.
    Value crossingFactors = crossing ? t.shared(s.chunk, depth, operand) : Value();
    if (crossing) {
      toCrossing(crossingFactors);
    }
    if (erases) {
      assign(rowFactors, {eraseRows, up}, raised);
    }
    storeKeys();
    queryRows = held(queryRows);
    Value queryFactors = t.shared(s.chunk, depth, operand);
    assign(queryFactors, {queryRows, up}, raised);
    storeQueries();
    for (auto [sum, rows] : {std::pair(matrix, rowFactors), std::pair(pairTile, queryFactors)}) {
      if (sum) {
        addWithin(sum, rows);
      }
      if (sum && crossing) {
        addCrossing(sum, rows, crossingFactors);
      }
    }
    return;
  }
  // One tile of rows and one of columns: fp32 takes much memory.
  auto addAll = [&](llvm::function_ref<void(Value)> addTo) {
    for (auto [sum, rows] : {std::pair(matrix, eraseRows), std::pair(pairTile, queryRows)}) {
      if (sum) {
        assign(rowFactors, {rows, up}, raised);
        addTo(sum);
      }
    }
  };
  addAll([&](Value sum) { addWithin(sum, rowFactors); });
  if (crossing) {
    toCrossing(columnFactors);
    addAll([&](Value sum) { addCrossing(sum, rowFactors, columnFactors); });
  }
  storeKeys();
  storeQueries();
}

/// out = rows e^G factor: as the state at the start of the chunk meets them.
void DeltaRuleGpuKernel::sinceStart(Value rows, Value out, float factor) {
  if (up) {
    assign(out, {rows, up, anchor},
           [&](ValueRange e) { return mul(mul(widened(e[0]), e[1]), mul(power(e[2]), t.number(factor))); });
  } else if (decay) {
    assign(out, {rows, sums}, [&](ValueRange e) { return mul(mul(widened(e[0]), t.number(factor)), power(e[1])); });
  } else {
    assign(out, {rows}, [&](ValueRange e) { return mul(widened(e[0]), t.number(factor)); });
  }
}

/// out = rows e^(G_C - G): as they reach the end of the chunk.
void DeltaRuleGpuKernel::untilEnd(Value rows, Value out) {
  if (!decay) {
    assign(out, {rows}, [&](ValueRange e) { return widened(e[0]); });
    return;
  }
  Value last = t.fragment(s.chunk, depth);
  t.pickRows(sums, last, s.chunk, s.chunk - 1);
  if (up) {
    assign(out, {rows, down, anchor, last},
           [&](ValueRange e) { return mul(mul(widened(e[0]), e[1]), power(sub(e[3], e[2]))); });
  } else {
    assign(out, {rows, sums, last}, [&](ValueRange e) { return mul(widened(e[0]), power(sub(e[2], e[1]))); });
  }
}

/// Keys as they reach the state, and what W is made of.
void DeltaRuleGpuKernel::storeKeys() {
  Value toEnd = t.fragment(s.chunk, depth);
  untilEnd(keyRows, toEnd);
  t.store(toEnd, keys, {batchIndex, head, keyRow(first), zero}, {3, 2});
  if (erases && isNarrow()) {
    readRows = eraseRows;
    if (decay) {
      readRows = t.shared(s.chunk, depth, operand);
      sinceStart(eraseRows, readRows, 1.0f);
    }
  }
}

/// Queries as the state meets them.
void DeltaRuleGpuKernel::storeQueries() {
  Value rows = isNarrow() ? t.shared(s.chunk, depth, operand) : t.fragment(s.chunk, depth);
  sinceStart(queryRows, rows, scale);
  t.store(rows, queries, {batchIndex, head, first, zero}, {2, 3});
}

/// U and W.
void DeltaRuleGpuKernel::solveRows() {
  Value system;
  if (erases) {
    erased(matrix);
    system = t.shared(s.chunk, s.chunk);
    t.map({matrix}, system, [&](ValueRange e) { return e[0]; });
  }
  Value gates = beta ? beta : write;
  bool whole = gates && cast<MemRefType>(gates.getType()).getRank() == 4;
  Value factor;
  if (gates && !(erases && isNarrow() && !whole)) {
    factor = t.fragment(s.chunk, whole ? width : 1);
    loadRows(factor, gates, first, zero);
  }
  auto weighted = [&](Value values) {
    if (factor) {
      assign(values, {values, factor}, [&](ValueRange e) { return mul(widened(e[0]), e[1]); });
    }
    return values;
  };
  if (isNarrow()) {
    Value values = weighted(valueRows);
    if (!erases) {
      t.store(values, writes, {batchIndex, head, first, zero}, {2, 3});
      return;
    }
    Value inverse = t.fragment(s.chunk, s.chunk);
    t.fill(inverse, 0.0f);
    t.map({inverse}, inverse, [&](ValueRange e) {
      return select(compare(arith::CmpIPredicate::eq, position(0), position(1)), t.number(1.0f), e[0]);
    });
    t.solve(system, inverse);
    Value eraseGates = eraseFactor ? beta ? beta : erase : Value();
    Value forValues = inverseTimes(inverse, whole ? Value() : gates);
    Value forKeys = eraseGates == gates ? forValues : inverseTimes(inverse, eraseGates);
    storeProduct(forValues, values, writes);
    storeProduct(forKeys, readRows, reads);
    return;
  }
  Value values = t.fragment(s.chunk, width);
  loadRows(values, v, first, zero);
  weighted(values);
  if (erases) {
    t.solve(system, values);
  }
  t.store(values, writes, {batchIndex, head, first, zero}, {2, 3});
  if (!erases) {
    return;
  }
  Value rows = t.fragment(s.chunk, depth);
  sinceStart(eraseRows, rows, 1.0f);
  erased(rows);
  t.solve(system, rows);
  t.store(rows, reads, {batchIndex, head, first, zero}, {2, 3});
}

/// `inverse` as it is multiplied, its columns times `gates`, one number a token (or null).
Value DeltaRuleGpuKernel::inverseTimes(Value inverse, Value gates) {
  Value tile = t.shared(s.chunk, s.chunk, operand);
  if (!gates) {
    assign(tile, {inverse}, [&](ValueRange e) { return e[0]; });
    return tile;
  }
  Value factor = t.fragment(1, s.chunk);
  loadRows(factor, gates, first, zero);
  assign(tile, {inverse, factor}, [&](ValueRange e) { return mul(e[0], e[1]); });
  return tile;
}

void DeltaRuleGpuKernel::storeProduct(Value left, Value right, Value target) {
  Value sum = t.fragment(s.chunk, cast<MemRefType>(right.getType()).getDimSize(1));
  t.fill(sum, 0.0f);
  t.multiply(sum, left, right);
  t.store(sum, target, {batchIndex, head, first, zero}, {2, 3});
}
