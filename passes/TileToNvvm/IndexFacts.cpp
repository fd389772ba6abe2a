//===- IndexFacts.cpp - what is known about the index values of a kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/IndexFacts.h"
#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace kimi;

/// How far definitions are followed.
static constexpr int kDepth = 12;

namespace {
/// The loop whose variable a value is.
struct LoopOf {
  Value lower, upper, step;

  explicit LoopOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    Operation *parent = argument ? argument.getOwner()->getParentOp() : nullptr;
    if (auto loop = dyn_cast_or_null<scf::ForOp>(parent); loop && argument == loop.getInductionVar()) {
      lower = loop.getLowerBound();
      upper = loop.getUpperBound();
      step = loop.getStep();
    } else if (auto loop = dyn_cast_or_null<tile::PipelineOp>(parent)) {
      lower = loop.getLower();
      upper = loop.getUpper();
      step = loop.getStep();
    }
  }
};
} // namespace

static int64_t alignmentOf(OpFoldResult index, int depth) {
  constexpr int64_t limit = 1024;
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    return *constant == 0 ? limit : std::min(limit, *constant & -*constant);
  }
  auto value = cast<Value>(index);
  Operation *op = value.getDefiningOp();
  if (depth > kDepth) {
    return 1;
  }
  if (!op) {
    LoopOf loop(value);
    return loop.lower ? std::min(alignmentOf(loop.lower, depth + 1), alignmentOf(loop.step, depth + 1)) : 1;
  }
  auto of = [&](unsigned i) { return alignmentOf(op->getOperand(i), depth + 1); };
  if (isa<arith::MulIOp>(op)) {
    return std::min(limit, of(0) * of(1));
  }
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp, arith::MaxUIOp>(op)) {
    return std::min(of(0), of(1));
  }
  if (isa<arith::SelectOp>(op)) {
    return std::min(of(1), of(2));
  }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp>(op)) {
    return of(0);
  }
  return 1;
}

int64_t kimi::knownAlignment(OpFoldResult index) { return alignmentOf(index, 0); }

static IndexRange rangeOf(OpFoldResult index, int depth) {
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    return {constant, constant};
  }
  if (depth > kDepth) {
    return {};
  }
  auto value = cast<Value>(index);
  Operation *op = value.getDefiningOp();
  if (!op) {
    LoopOf loop(value);
    if (!loop.lower) {
      return {};
    }
    IndexRange lower = rangeOf(loop.lower, depth + 1), upper = rangeOf(loop.upper, depth + 1);
    IndexRange step = rangeOf(loop.step, depth + 1), range;
    range.low = lower.low;
    if (upper.high && lower.low && lower.low == lower.high && step.low && step.low == step.high && *step.low > 0) {
      int64_t span = std::max<int64_t>(*upper.high - 1 - *lower.low, 0);
      range.high = *lower.low + span / *step.low * *step.low;
    }
    return range;
  }
  auto of = [&](unsigned i) { return rangeOf(op->getOperand(i), depth + 1); };
  auto sum = [](std::optional<int64_t> x, std::optional<int64_t> y) -> std::optional<int64_t> {
    return x && y ? std::optional<int64_t>(*x + *y) : std::nullopt;
  };
  if (isa<tile::BlockIdOp, memref::DimOp, tile::ElementIndexOp>(op)) {
    return {0, std::nullopt};
  }
  if (isa<arith::AddIOp>(op)) {
    IndexRange x = of(0), y = of(1);
    return {sum(x.low, y.low), sum(x.high, y.high)};
  }
  if (isa<arith::SubIOp>(op)) {
    IndexRange x = of(0), y = of(1);
    auto minus = [](std::optional<int64_t> v) { return v ? std::optional<int64_t>(-*v) : std::nullopt; };
    return {sum(x.low, minus(y.high)), sum(x.high, minus(y.low))};
  }
  if (isa<arith::MulIOp>(op)) {
    IndexRange x = of(0), y = of(1), range;
    if (x.low && y.low && *x.low >= 0 && *y.low >= 0) {
      range.low = *x.low * *y.low;
      if (x.high && y.high) {
        range.high = *x.high * *y.high;
      }
    }
    return range;
  }
  if (isa<arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp>(op)) {
    IndexRange x = of(0), y = of(1);
    if (!x.low || *x.low < 0 || !y.low || *y.low <= 0) {
      return {};
    }
    if (isa<arith::RemUIOp>(op)) {
      return {0, y.high ? std::optional<int64_t>(*y.high - 1) : x.high};
    }
    int64_t more = isa<arith::CeilDivUIOp>(op) ? *y.low - 1 : 0;
    return {y.high ? *x.low / *y.high : 0, x.high ? std::optional<int64_t>((*x.high + more) / *y.low) : std::nullopt};
  }
  if (isa<arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp, arith::MaxUIOp>(op)) {
    IndexRange x = of(0), y = of(1), range;
    bool isMin = isa<arith::MinSIOp, arith::MinUIOp>(op);
    bool isSigned = isa<arith::MinSIOp, arith::MaxSIOp>(op);
    if (!isSigned && (!x.low || *x.low < 0 || !y.low || *y.low < 0)) {
      return {};
    }
    // One known bound is enough where it wins, both are needed where it may lose.
    auto either = [&](std::optional<int64_t> a, std::optional<int64_t> c) {
      return a && c ? std::optional<int64_t>(isMin ? std::min(*a, *c) : std::max(*a, *c)) : a ? a : c;
    };
    auto bothKnown = [&](std::optional<int64_t> a, std::optional<int64_t> c) {
      return a && c ? either(a, c) : std::nullopt;
    };
    range.low = isMin ? bothKnown(x.low, y.low) : either(x.low, y.low);
    range.high = isMin ? either(x.high, y.high) : bothKnown(x.high, y.high);
    return range;
  }
  if (isa<arith::SelectOp>(op)) {
    IndexRange x = of(1), y = of(2), range;
    if (x.low && y.low) {
      range.low = std::min(*x.low, *y.low);
    }
    if (x.high && y.high) {
      range.high = std::max(*x.high, *y.high);
    }
    return range;
  }
  if (isa<arith::IndexCastOp>(op)) {
    return of(0);
  }
  return {};
}

IndexRange kimi::knownRange(OpFoldResult index) { return rangeOf(index, 0); }
