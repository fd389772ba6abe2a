//===- LowerTensorCore.cpp - tile.mma on mma.sync
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA, "Matrix Fragments for mma.m16n8k16" and "Warp-level matrix load instruction: ldmatrix". A row of an 8x8
// matrix of ldmatrix is 16 bytes: eight bf16 along K, or four fp32, which are the fragments of m16n8k8 in tf32 just as
// well. The swizzle of shared tiles puts the eight rows of a matrix on different banks.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kimi;

namespace {
/// Products of one warp that are unrolled; longer ones become a loop over K.
constexpr int64_t kUnrolledProducts = 256;
/// Products of one warp that are to be under way at a time: of a small tile, several along K, with sums of their own.
constexpr int64_t kProductsUnderWay = 4;

/// The operands of mma.sync for one kernel op.
class WarpOperands {
public:
  WarpOperands(BlockEmitter &e, Type element) : e(e), element(element), size(elementBytes(element)), unit(16 / size) {
    Value lane = e.lane();
    auto bits = [&](int64_t shift, int64_t count) {
      Value shifted = e.b.createOrFold<arith::ShRUIOp>(e.loc, lane, e.i32(shift));
      return Coord(e.b.createOrFold<arith::AndIOp>(e.loc, shifted, e.i32(count - 1)), count - 1);
    };
    low16 = bits(0, 16);
    low8 = bits(0, 8);
    low4 = bits(0, 4);
    bit3 = bits(3, 2);
    bit4 = bits(4, 2);
    group = bits(2, 8);
  }

  /// Values along K that one instruction multiplies.
  int64_t depth() const { return 2 * unit; }

  /// Rows 16, K `depth()`.
  SmallVector<Value> loadA(MemoryBox &a, const Coord &row, const Coord &k) {
    Coord at = e.add(row, low16), along = e.add(k, e.scale(bit4, unit));
    return finish(matrices(a.pointer({at, along}), 4, /*transposed=*/false));
  }

  /// `blocks` (1 or 2) times 8 columns; b is [N, K].
  SmallVector<Value> loadColumns(MemoryBox &b, const Coord &column, const Coord &k, int64_t blocks) {
    Coord at = e.add(column, low8), along = e.add(k, e.scale(bit3, unit));
    if (blocks == 2) {
      at = e.add(column, e.add(low8, e.scale(bit4, 8)));
    }
    return finish(matrices(b.pointer({at, along}), 2 * blocks, /*transposed=*/false));
  }

  /// The same where b is [K, N].
  SmallVector<Value> loadRows(MemoryBox &b, const Coord &column, const Coord &k, int64_t blocks) {
    if (size == 4) { // ldmatrix transposes 16-bit elements only
      SmallVector<Value> values;
      for (int64_t block = 0; block < blocks; ++block) {
        for (int64_t half : {0, 4}) {
          Coord row = e.add(k, low4Thread()), along = e.add(column, group);
          row.fixed += half;
          along.fixed += 8 * block;
          values.push_back(b.loadRaw({row, along}, 1));
        }
      }
      return finish(values);
    }
    Coord row = e.add(k, low16), along = blocks == 2 ? e.add(column, e.scale(bit4, 8)) : column;
    return finish(matrices(b.pointer({row, along}), 2 * blocks, /*transposed=*/true));
  }

  /// Two neighbours of a fragment as one operand register.
  Value pair(Value first, Value second) {
    Value packed = e.pack({first, second});
    return finish(packed)[0];
  }

  /// acc += a . b of 16x8.
  SmallVector<Value> multiply(ArrayRef<Value> a, ArrayRef<Value> b, ArrayRef<Value> acc) {
    auto f32 = e.b.getF32Type();
    auto type = LLVM::LLVMStructType::getLiteral(e.b.getContext(), SmallVector<Type>(4, f32));
    NVVM::MMATypes kind = size == 4          ? NVVM::MMATypes::tf32
                          : element.isBF16() ? NVVM::MMATypes::bf16
                                             : NVVM::MMATypes::f16;
    std::array<NVVM::MMATypes, 2> kinds{kind, kind};
    std::array<NVVM::MMALayout, 2> layouts{NVVM::MMALayout::row, NVVM::MMALayout::col};
    int64_t shape[] = {16, 8, depth()};
    Value result = NVVM::MmaOp::create(e.b, e.loc, type, a, b, acc, shape, std::nullopt, std::nullopt, kinds, layouts);
    SmallVector<Value> values;
    for (int64_t i = 0; i < 4; ++i) {
      values.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, result, i));
    }
    return values;
  }

private:
  Coord low4Thread() { // the lane's place in its group of four
    return Coord(e.b.createOrFold<arith::AndIOp>(e.loc, e.lane(), e.i32(3)), 3);
  }

  SmallVector<Value> matrices(Value pointer, int64_t count, bool transposed) {
    Type i32 = e.b.getI32Type();
    Type type = LLVM::LLVMStructType::getLiteral(e.b.getContext(), SmallVector<Type>(count, i32));
    auto shape = NVVM::LdStMatrixShapeAttr::get(e.b.getContext(), 8, 8);
    Value result = NVVM::LdMatrixOp::create(e.b, e.loc, type, pointer, static_cast<uint32_t>(count),
                                            transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row, shape,
                                            NVVM::LdStMatrixEltType::B16);
    SmallVector<Value> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, result, i));
    }
    return values;
  }

  /// i32 registers as the type that mma.sync takes; fp32 is rounded to tf32.
  SmallVector<Value> finish(ArrayRef<Value> words) {
    SmallVector<Value> result;
    for (Value word : words) {
      if (element.isF16()) {
        word = LLVM::BitcastOp::create(e.b, e.loc, VectorType::get({2}, element), word);
      } else if (size == 4) {
        Value number = arith::BitcastOp::create(e.b, e.loc, e.b.getF32Type(), word);
        word = NVVM::ConvertFloatToTF32Op::create(e.b, e.loc, e.b.getI32Type(), number, NVVM::FPRoundingMode::RNA,
                                                  NVVM::SaturationMode::NONE, false);
      }
      result.push_back(word);
    }
    return result;
  }

  BlockEmitter &e;
  Type element;
  int64_t size, unit;
  Coord low16, low8, low4, bit3, bit4, group;
};
} // namespace

LogicalResult BlockLowering::lowerTensorCore(tile::MmaOp op, Fragment &acc, TileOperand &aOperand, MemoryBox &b) {
  MmaShape shape(op);
  Type element = b.element();
  tile::LayoutAttr lanes = tile::mmaAccumulatorLayout(op.getContext(), 16, 8, 1, 1);
  if (acc.layout.getLanes() != lanes.getLanes()) {
    return op.emitOpError("has accumulators in ") << acc.layout << ", which is not the layout of mma.sync";
  }
  llvm::SetVector<int64_t> rowBlocks, columnBlocks;
  for (int64_t r = 0; r < acc.layout.registerCount(); ++r) {
    SmallVector<int64_t> offset = acc.layout.registerOffset(r, 2);
    rowBlocks.insert(offset[0] / 16 * 16);
    columnBlocks.insert(offset[1] / 8 * 8);
  }
  auto *aMemory = std::get_if<MemoryBox>(&aOperand);
  WarpOperands warp(e, element);
  const int64_t depth = warp.depth();
  const ThreadPlace &place = e.place(acc.layout, 2);
  auto at = [](const Coord &base, int64_t offset) {
    Coord coord = base;
    coord.fixed += offset;
    return coord;
  };

  // a in registers: the accumulators of an earlier product, or what is brought to their layout.
  Values aValues;
  tile::LayoutAttr aLayout;
  std::unique_ptr<tile::RegisterTable> aTable;
  if (!aMemory) {
    if (elementBytes(element) == 4) {
      return op.emitOpError("has a in a fragment, which the tf32 road takes from shared memory only");
    }
    aLayout = aFragmentLayout(acc.layout, shape.m, shape.k);
    aValues = readFragment(op, *std::get<Fragment *>(aOperand), aLayout, {shape.m, shape.k});
    aTable = std::make_unique<tile::RegisterTable>(aLayout, 2);
  }
  SmallVector<const MemoryBox *> reads{&b};
  if (aMemory) {
    reads.push_back(aMemory);
  }
  access(reads, {});

  // The columns of a warp in blocks of 8 that follow each other: two of them come with one ldmatrix.
  SmallVector<std::pair<int64_t, int64_t>> columnGroups;
  for (size_t i = 0; i < columnBlocks.size();) {
    bool two = i + 1 < columnBlocks.size() && columnBlocks[i + 1] == columnBlocks[i] + 8;
    columnGroups.emplace_back(columnBlocks[i], two ? 2 : 1);
    i += two ? 2 : 1;
  }
  int64_t steps = shape.k / depth, products = rowBlocks.size() * columnBlocks.size();
  bool unrolled = !aMemory || steps * products <= kUnrolledProducts;
  int64_t chains = unrolled ? std::clamp<int64_t>(kProductsUnderWay / products, 1, steps) : 1;
  SmallVector<Values> others(chains - 1, Values(acc.layout.registerCount(), e.f32(0))); // the sums of other chains
  auto step = [&](const Coord &k, int64_t chain = 0) {
    SmallVector<Values> a;
    for (int64_t row : rowBlocks) {
      if (aMemory) {
        a.push_back(warp.loadA(*aMemory, at(place.warpBase[0], row), k));
        continue;
      }
      Values registers;
      for (auto [down, right] : {std::pair<int64_t, int64_t>(0, 0), {8, 0}, {0, 8}, {8, 8}}) {
        int64_t first = aTable->lookup({row + down, k.fixed + right});
        int64_t second = aTable->lookup({row + down, k.fixed + right + 1});
        registers.push_back(warp.pair(aValues[first], aValues[second]));
      }
      a.push_back(registers);
    }
    for (auto [column, blocks] : columnGroups) {
      Coord from = at(place.warpBase[1], column);
      Values columns = op.getTransposeB() ? warp.loadColumns(b, from, k, blocks) : warp.loadRows(b, from, k, blocks);
      for (int64_t block = 0; block < blocks; ++block) {
        for (auto [i, row] : llvm::enumerate(rowBlocks)) {
          int64_t index[4];
          Values sums;
          for (int64_t v = 0; v < 4; ++v) {
            index[v] = acc.registers->lookup({row + v / 2 * 8, column + 8 * block + v % 2});
            sums.push_back(chain == 0 ? get(acc, index[v]) : others[chain - 1][index[v]]);
          }
          sums = warp.multiply(a[i], ArrayRef<Value>(columns).slice(2 * block, 2), sums);
          for (int64_t v = 0; v < 4; ++v) {
            if (chain == 0) {
              set(acc, index[v], sums[v]);
            } else {
              others[chain - 1][index[v]] = sums[v];
            }
          }
        }
      }
    }
  };
  int64_t inPanel = std::max<int64_t>(1, 128 / (elementBytes(element) * depth));
  if (unrolled || steps % inPanel != 0 || steps == inPanel) {
    for (int64_t i = 0; i < steps; ++i) {
      step(Coord(i * depth), i % chains);
    }
    for (const Values &sums : others) {
      for (auto [index, sum] : llvm::enumerate(sums)) {
        set(acc, index, e.combine(tile::ReduceKind::add, get(acc, index), sum));
      }
    }
    return success();
  }
  e.loop(steps / inPanel, [&](Value i) {
    Coord from = e.scale(Coord(i, -1), inPanel * depth);
    for (int64_t j = 0; j < inPanel; ++j) {
      step(at(from, j * depth));
    }
  });
  return success();
}
