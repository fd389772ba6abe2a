//===- LowerSkinny.cpp - tile.mma of few rows: b streams from global memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each element of b is read once, by vectors of 16 bytes, several of them in flight; a thread multiplies what it read
// by the rows of a and keeps its share of the sums. K is split over lanes and warps, whose shares are added at the end.
// Where a kernel has loaded all of its b into registers, the same is done with what is there.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include <numeric>
#include <tuple>

using namespace mlir;
using namespace kimi;

namespace {
/// Vectors of b that a thread has in flight.
constexpr int64_t kVectorsInFlight = 8;
/// Rows of a [K, N] b that a thread takes at a time.
constexpr int64_t kRowsTogether = 4;
} // namespace

/// The id of a thread among those that split K: the digits of lanes and warps that hold copies of the result.
static std::pair<Coord, int64_t> depthShare(BlockEmitter &e, tile::LayoutAttr layout) {
  Coord share;
  int64_t shares = 1;
  for (auto [id, modes] : {std::pair<Value, ArrayRef<tile::LayoutMode>>(e.lane(), layout.getLanes()),
                           std::pair<Value, ArrayRef<tile::LayoutMode>>(e.warp(), layout.getWarps())}) {
    int64_t prefix = 1;
    for (const tile::LayoutMode &mode : modes) {
      if (mode.stride == 0) {
        bool power = (mode.extent & (mode.extent - 1)) == 0;
        share = e.add(share, e.scale(Coord(e.digit(id, prefix, mode.extent), power ? mode.extent - 1 : -1), shares));
        shares *= mode.extent;
      }
      prefix *= mode.extent;
    }
  }
  return {share, shares};
}

void BlockLowering::addShares(tile::MmaOp op, Fragment &acc, tile::LayoutAttr layout, Values &sums) {
  MmaShape shape(op);
  int64_t extents[] = {shape.m, shape.n};
  auto split = [](const tile::LayoutMode &mode) { return mode.stride == 0; };
  reduceLanes(tile::ReduceKind::add, layout.getLanes(), split, sums);
  Reduction reduction{tile::ReduceKind::add, layout, {shape.m, shape.n}, std::move(sums)};
  splitOverWarps(reduction, layout.getWarps(), split);
  reduceWarps(reduction);
  sums = std::move(reduction.sums);
  Values old = readFragment(op, acc, layout, extents);
  for (auto [sum, before] : llvm::zip(sums, old)) {
    sum = e.combine(tile::ReduceKind::add, before, sum);
  }
  writeFragment(op, acc, layout, sums);
}

LogicalResult BlockLowering::lowerSkinny(tile::MmaOp op, Fragment &acc, TileOperand &aOperand, MemoryBox &b) {
  MmaShape shape(op);
  MemoryBox a = inMemory(op, aOperand);
  access({&a}, {});
  bool transposed = op.getTransposeB();
  tile::LayoutAttr layout = skinnyLayout(op, e.warps());
  Coord share;
  int64_t shares;
  std::tie(share, shares) = depthShare(e, layout);
  const ThreadPlace &place = e.place(layout, 2);
  Type f32 = builder.getF32Type();
  int64_t depthDim = transposed ? 1 : 0, count = layout.registerCount();

  // A round: `together` values of k of each share, and the columns of the thread.
  int64_t most = 16 / elementBytes(b.element());
  int64_t together = std::gcd(shape.k, transposed ? most : kRowsTogether);
  int64_t vector = 1; // elements of b in a load
  if (b.contiguousDim() >= 0) {
    vector = b.contiguousDim() == depthDim ? std::gcd(together, b.vectorElements())
                                           : vectorOf(layout, 2, 1, b.vectorElements());
  }
  bool alongDepth = b.contiguousDim() == depthDim;
  int64_t aVector = a.contiguousDim() == 1 ? std::gcd(together, a.vectorElements()) : 1;
  tile::RegisterTable table(layout, 2);
  SmallVector<int64_t> columns;
  for (int64_t r = 0; r < count; ++r) {
    SmallVector<int64_t> offset = layout.registerOffset(r, 2);
    if (offset[0] == 0) {
      columns.push_back(offset[1]);
    }
  }

  struct Round {
    Coord depth;
    Value inside; // null: always
    SmallVector<Value> words;
  };
  auto position = [&](const Coord &round, int64_t more) {
    Coord depth = e.add(e.scale(round, shares), share);
    depth = e.scale(depth, together);
    depth.fixed += more * shares * together;
    return depth;
  };
  auto bCoords = [&](const Coord &depth, int64_t k, int64_t column) {
    Coord along = place.base[1], deep = depth;
    along.fixed += column;
    deep.fixed += k;
    return transposed ? SmallVector<Coord>{along, deep} : SmallVector<Coord>{deep, along};
  };
  auto fetch = [&](Round &round) {
    int64_t kStep = alongDepth ? vector : 1;
    for (size_t c = 0; c < columns.size(); c += alongDepth ? 1 : vector) {
      for (int64_t k = 0; k < together; k += kStep) {
        Value at = b.pointer(bCoords(round.depth, k, columns[c]));
        round.words.push_back(
            e.loadIf(round.inside, at, vector * elementBytes(b.element()), /*invariant=*/b.isReadOnly()));
      }
    }
  };
  auto multiply = [&](Round &round, Values &sums) {
    std::map<std::pair<int64_t, int64_t>, Value> bValues; // (column, k)
    size_t next = 0;
    int64_t kStep = alongDepth ? vector : 1;
    for (size_t c = 0; c < columns.size(); c += alongDepth ? 1 : vector) {
      for (int64_t k = 0; k < together; k += kStep) {
        Values part = e.convert(e.unpack(round.words[next++], b.element()), f32);
        for (auto [i, value] : llvm::enumerate(part)) {
          bValues[alongDepth ? std::pair<int64_t, int64_t>(columns[c], k + i)
                             : std::pair<int64_t, int64_t>(columns[c + i], k)] = value;
        }
      }
    }
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t k = 0; k < together; k += aVector) {
        // Past the end of K nothing of a may be read: it could be NaN.
        Coord deep = round.depth;
        deep.fixed += k;
        if (round.inside) {
          Value clamped = LLVM::SelectOp::create(builder, e.loc, round.inside, e.value(deep), e.i32(k));
          deep = Coord(clamped, -aVector);
        }
        Values part = e.convert(a.load({Coord(row), deep}, aVector), f32);
        for (auto [i, value] : llvm::enumerate(part)) {
          if (round.inside) {
            value = LLVM::SelectOp::create(builder, e.loc, round.inside, value, e.f32(0));
          }
          for (int64_t column : columns) {
            Value &sum = sums[table.lookup({row, column})];
            sum = LLVM::FMAOp::create(builder, e.loc, value, bValues[{column, k + static_cast<int64_t>(i)}], sum);
          }
        }
      }
    }
  };

  int64_t loadsOfRound = columns.size() * together / vector;
  int64_t whole = shape.k / (together * shares);
  int64_t unroll = std::max<int64_t>(1, kVectorsInFlight / std::max<int64_t>(1, loadsOfRound));
  unroll = std::min(unroll, std::max<int64_t>(whole, 1));
  Values sums(count, e.f32(0));
  auto rounds = [&](const Coord &from, int64_t rounds, Values &live) {
    SmallVector<Round> batch(rounds);
    for (auto [i, round] : llvm::enumerate(batch)) {
      round.depth = position(from, i);
      fetch(round);
    }
    for (Round &round : batch) {
      multiply(round, live);
    }
  };
  if (int64_t trips = whole / unroll; trips == 1) {
    rounds(Coord(), unroll, sums);
  } else if (trips > 1) {
    sums = e.loop(trips, sums, [&](Value i, ValueRange carried) {
      Values live(carried);
      rounds(e.scale(Coord(i, -1), unroll), unroll, live);
      return live;
    });
  }
  if (whole % unroll != 0) {
    rounds(Coord(whole / unroll * unroll), whole % unroll, sums);
  }
  if (whole * together * shares < shape.k) { // some shares have one round more
    Round last;
    last.depth = position(Coord(whole), 0);
    last.inside = e.less(e.value(last.depth), e.i32(shape.k));
    fetch(last);
    multiply(last, sums);
  }

  addShares(op, acc, layout, sums);
  return success();
}

LogicalResult BlockLowering::lowerSkinny(tile::MmaOp op, Fragment &acc, TileOperand &aOperand, Fragment &b) {
  MmaShape shape(op);
  tile::LayoutAttr layout = skinnyLayout(op, e.warps()), held = skinnyOperandLayout(op, e.warps());
  if (!held) {
    return op.emitOpError("has b in a fragment whose ")
           << shape.k << " values along K do not spread evenly over the lanes; leave it in global memory";
  }
  MemoryBox a = inMemory(op, aOperand);
  Values columns = e.convert(readFragment(op, b, held, {shape.n, shape.k}), builder.getF32Type());
  access({&a}, {});
  tile::RegisterTable table(layout, 2);
  const ThreadPlace &place = e.place(held, 2);
  int64_t together = vectorOf(held, 2, 1, a.contiguousDim() == 1 ? a.vectorElements() : 1);
  Values sums(layout.registerCount(), e.f32(0));
  std::map<std::pair<int64_t, int64_t>, Value> factors; // of a, by row and k
  for (int64_t r = 0; r < held.registerCount(); ++r) {
    SmallVector<int64_t> offset = held.registerOffset(r, 2);
    for (int64_t row = 0; row < shape.m; ++row) {
      Value &factor = factors[{row, offset[1]}];
      if (!factor) { // the first of a vector along K
        Coord deep = place.base[1];
        deep.fixed += offset[1];
        Values part = e.convert(a.load({Coord(row), deep}, together), builder.getF32Type());
        for (auto [i, value] : llvm::enumerate(part)) {
          factors[{row, offset[1] + static_cast<int64_t>(i)}] = value;
        }
      }
      Value &sum = sums[table.lookup({row, offset[0]})];
      sum = LLVM::FMAOp::create(builder, e.loc, factors[{row, offset[1]}], columns[r], sum);
    }
  }
  addShares(op, acc, layout, sums);
  return success();
}
