//===- RowMix.cpp - softmax-weighted sums of rows of several tensors, within a kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/RowMix.h"
#include "dialects/Tile/Layout.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Kimi/Reference.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

/// On the CPU: rows of one task, so that starting it is worth while. Its tiles stay within tile-to-vector's
/// stack-limit.
static std::optional<RowTile> chooseCpuTile(const RowShape &shape) {
  constexpr int64_t taskElements = 4096, mostRows = 64, stackBytes = 500 * 1024;
  RowTile tile{std::clamp<int64_t>(taskElements / shape.channels, 1, mostRows), shape.channels};
  int64_t bytes = (shape.held * shape.heldBytes + (shape.wide + 1) * 4) * tile.rows * tile.columns;
  return bytes <= stackBytes ? std::optional(tile) : std::nullopt;
}

std::optional<RowTile> kimi::chooseRowTile(const std::optional<GpuArch> &arch, const RowShape &shape) {
  if (!arch) {
    return chooseCpuTile(shape);
  }
  constexpr int64_t lanes = 32, mostWarps = 32, leastWarps = 4, warpGroup = 4, fewElements = 16, mostElements = 32;
  constexpr int64_t otherRegisters = 32, mostBlocks = 8, reserved = 1024;
  // As much as is aligned in every row, but no more than gives each lane something to do.
  int64_t vector = 1;
  while (vector * shape.elementBytes < 16 && shape.channels % (2 * vector) == 0 && lanes * vector < shape.channels) {
    vector *= 2;
  }
  int64_t pieces = llvm::divideCeil(shape.channels, lanes * vector);
  RowTile tile{1, 0};
  tile.vector = vector;
  tile.columnWarps = std::min<int64_t>(llvm::divideCeil(pieces, std::max<int64_t>(fewElements / vector, 1)), mostWarps);
  int64_t piecesPerThread = llvm::divideCeil(pieces, tile.columnWarps);
  if (piecesPerThread * vector > mostElements) {
    return std::nullopt;
  }
  tile.columnWarps = llvm::divideCeil(pieces, piecesPerThread);
  tile.columns = lanes * vector * piecesPerThread * tile.columnWarps;
  tile.rows = std::max<int64_t>(leastWarps / tile.columnWarps, 1);
  tile.threads = lanes * tile.columnWarps * tile.rows;
  // Registers: sources that are held, rows of fp32, addresses and the rest.
  auto registers = [&](int64_t held) {
    return held * llvm::divideCeil(tile.perThread() * shape.heldBytes, 4) + shape.wide * tile.perThread() +
           otherRegisters;
  };
  auto blocks = [&](int64_t held) { // warps come in groups of four, registers of a warp in units of 256
    int64_t warps = GpuArch::registersPerSm / llvm::alignTo(registers(held) * lanes, 256) / warpGroup * warpGroup;
    return std::min(warps * lanes / tile.threads, mostBlocks);
  };
  tile.blocksPerSm = blocks(shape.held);
  if (tile.blocksPerSm >= 1 && registers(shape.held) < GpuArch::registersPerThread) {
    return tile;
  }
  int64_t bytes = shape.held * shape.heldBytes * tile.rows * tile.columns + 2 * reserved;
  if (bytes > arch->sharedPerBlock || blocks(0) < 1) {
    return std::nullopt;
  }
  tile.heldInShared = true;
  tile.blocksPerSm = std::clamp<int64_t>(arch->sharedPerSm / (bytes + reserved), 1, blocks(0));
  return tile;
}

RowMix::RowMix(KernelWriter &writer, const RowTile &tile, int64_t channels, float eps)
    : writer(writer), tile(tile), channels(channels), eps(eps), t(writer), b(writer.body()), loc(writer.loc()) {
  if (tile.threads > 0) {
    writer.setThreads(tile.threads, tile.blocksPerSm);
  }
  zero = writer.constant(0);
  Value block = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
  firstRow = tile.rows == 1 ? block : arith::MulIOp::create(b, loc, block, writer.constant(tile.rows)).getResult();
}

Value RowMix::mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
Value RowMix::add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
Value RowMix::power(Value x, Value y) {
  return math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, x, y).getResult());
}
Value RowMix::wide(Value x) { return castFloat(b, loc, x, b.getF32Type()); }

/// A warp's lanes lie along a row, and so do the warps that share it.
Value RowMix::rowTile(Type type) {
  Value rows = t.fragment(tile.rows, tile.columns, type);
  if (tile.threads > 0) {
    int64_t period = 32 * tile.vector, all = period * tile.columnWarps;
    rows.getDefiningOp<tile::AllocOp>().setLayoutAttr(
        tile::makeLayout(b.getContext(), {{tile.vector, 1, 1}, {tile.columns / all, all, 1}}, {{32, tile.vector, 1}},
                         {{tile.columnWarps, period, 1}, {tile.rows, 1, 0}}));
  }
  return rows;
}

static Type elementOf(Value buffer) { return cast<MemRefType>(buffer.getType()).getElementType(); }

Value RowMix::hold(Value buffer) {
  Value rows = tile.heldInShared ? t.shared(tile.rows, tile.columns, elementOf(buffer)) : rowTile(elementOf(buffer));
  t.load(rows, buffer, {firstRow, zero}, {0, 1});
  return rows;
}

Value RowMix::load(Value buffer, unsigned slot) {
  Value &rows = slots[{slot, elementOf(buffer).getAsOpaquePointer()}];
  rows = rows ? rows : rowTile(elementOf(buffer));
  t.load(rows, buffer, {firstRow, zero}, {0, 1});
  return rows;
}

Value RowMix::loadVector(Value buffer, unsigned slot) {
  while (vectors.size() <= slot) {
    vectors.push_back(t.fragment(1, tile.columns));
  }
  t.load(vectors[slot], buffer, {zero, zero}, {0, 1});
  return vectors[slot];
}

Value RowMix::loadColumn(Value buffer, int64_t at) {
  Value numbers = column();
  t.load(numbers, buffer, {firstRow, writer.constant(at)}, {0, 1});
  return numbers;
}

void RowMix::storeColumn(Value numbers, Value buffer, int64_t at) {
  t.store(numbers, buffer, {firstRow, writer.constant(at)}, {0, 1});
}

void RowMix::store(Value rows, Value buffer) { t.store(rows, buffer, {firstRow, zero}, {0, 1}); }

SmallVector<Value> RowMix::sums(ArrayRef<Sum> list) {
  SmallVector<Value> results;
  // On the CPU one product after the other: they share a tile that stays in the cache.
  size_t together = tile.threads > 0 ? kTogether : 1;
  for (; !list.empty(); list = list.drop_front(std::min(together, list.size()))) {
    ArrayRef<Sum> some = list.take_front(together);
    while (products.size() < some.size()) {
      products.push_back(rowTile(b.getF32Type()));
    }
    for (auto [sum, product] : llvm::zip(some, products)) {
      if (sum.factor) {
        t.map({sum.tile, sum.factor}, product, [&](ValueRange e) { return mul(wide(e[0]), e[1]); });
      } else {
        t.map({sum.tile}, product, [&](ValueRange e) {
          Value value = wide(e[0]);
          return mul(value, value);
        });
      }
    }
    SmallVector<Value> columns(some.size());
    for (Value &result : columns) {
      result = column();
    }
    for (auto [product, result] : llvm::zip(products, columns)) {
      t.reduce(tile::ReduceKind::add, product, result);
    }
    results.append(columns);
  }
  return results;
}

Value RowMix::score(Value squares, Value product) {
  Value result = column(), width = t.number(1.0f / static_cast<float>(channels)), epsilon = t.number(eps);
  t.map({squares, product}, result, [&](ValueRange e) {
    Value mean = add(mul(e[0], width), epsilon);
    return mul(e[1], math::RsqrtOp::create(b, loc, mean));
  });
  return result;
}

Value RowMix::weightedSum(ArrayRef<Value> tiles, ArrayRef<Value> weights) {
  mixed = mixed ? mixed : rowTile(b.getF32Type());
  SmallVector<Value> inputs(tiles);
  inputs.append(weights.begin(), weights.end());
  t.map(inputs, mixed, [&](ValueRange e) {
    Value sum;
    for (size_t i = 0; i < tiles.size(); ++i) {
      Value term = mul(wide(e[i]), e[tiles.size() + i]);
      sum = sum ? add(sum, term) : term;
    }
    return sum;
  });
  return mixed;
}

RowMix::State RowMix::begin(Value rows, Value score) {
  State state{score, column(), rowTile(b.getF32Type())};
  t.fill(state.total, 1.0f);
  t.map({rows}, state.sum, [&](ValueRange e) { return wide(e[0]); });
  return state;
}

void RowMix::add(State &state, Value rows, Value score) {
  Value maximum = column(), keep = column(), weight = column();
  t.map({state.maximum, score}, maximum,
        [&](ValueRange e) { return arith::MaximumFOp::create(b, loc, e[0], e[1]).getResult(); });
  t.map({state.maximum, maximum}, keep, [&](ValueRange e) { return power(e[0], e[1]); });
  t.map({score, maximum}, weight, [&](ValueRange e) { return power(e[0], e[1]); });
  t.map({state.total, keep, weight}, state.total, [&](ValueRange e) { return add(mul(e[0], e[1]), e[2]); });
  t.map({state.sum, rows, keep, weight}, state.sum,
        [&](ValueRange e) { return add(mul(e[0], e[2]), mul(wide(e[1]), e[3])); });
  state.maximum = maximum;
}

void RowMix::finish(State &state, Value buffer) {
  Value share = column();
  t.map({state.total}, share,
        [&](ValueRange e) { return arith::DivFOp::create(b, loc, t.number(1.0f), e[0]).getResult(); });
  t.map({state.sum, share}, state.sum, [&](ValueRange e) { return mul(e[0], e[1]); });
  store(state.sum, buffer);
}
