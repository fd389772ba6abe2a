//===- LowerPacked.cpp - tile.dequantize: a thread's bytes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/Layout.h"
#include "lib/Support/PackedNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include <map>

using namespace mlir;
using namespace kimi;

static ArrayRef<int64_t> shapeOf(Value tile) { return cast<MemRefType>(tile.getType()).getShape(); }

/// Bytes of a group with one scale.
static constexpr int64_t kGroupBytes = 16;
/// Bytes that are taken together as a word.
static constexpr int64_t kWordBytes = 4;

/// The eight numbers of a word times `scale` (f32), as bf16. The bits of an E2M1 number, put where a bf16 has its sign,
/// the low bits of its exponent and the first of its mantissa, are a number 2^126 times smaller; two of them are moved
/// by one instruction.
static SmallVector<Value> bf16Numbers(BlockEmitter &e, Value word, Value scale) {
  OpBuilder &b = e.b;
  auto pair = VectorType::get({2}, b.getBF16Type());
  auto both = [&](Value x) -> Value {
    Value vector = LLVM::PoisonOp::create(b, e.loc, pair);
    for (int64_t i = 0; i < 2; ++i) {
      vector = LLVM::InsertElementOp::create(b, e.loc, vector, x, e.i32(i));
    }
    return vector;
  };
  auto number = [&](float value) -> Value {
    return arith::ConstantOp::create(b, e.loc, b.getFloatAttr(b.getBF16Type(), value));
  };
  Value up = both(number(0x1p126f)), none = both(number(-0.0f));
  Value factor = both(arith::TruncFOp::create(b, e.loc, b.getBF16Type(), scale));
  auto moved = [&](int64_t left, int64_t mask) -> Value {
    Value by = e.i32(std::abs(left));
    Value bits = left >= 0 ? arith::ShLIOp::create(b, e.loc, word, by).getResult()
                           : arith::ShRUIOp::create(b, e.loc, word, by).getResult();
    return arith::AndIOp::create(b, e.loc, bits, e.i32(mask));
  };
  SmallVector<Value> numbers(2 * kWordBytes);
  for (int64_t i = 0; i < kWordBytes; ++i) { // halves i and i + 4 of the word
    Value bits = arith::OrIOp::create(b, e.loc, moved(6 - 4 * i, 0x01C001C0), moved(12 - 4 * i, 0x80008000));
    Value values = LLVM::BitcastOp::create(b, e.loc, pair, bits);
    values = LLVM::FMAOp::create(b, e.loc, values, up, none); // a product, which sm_80 has no instruction for
    values = LLVM::FMAOp::create(b, e.loc, values, factor, none);
    for (int64_t half = 0; half < 2; ++half) {
      numbers[i + kWordBytes * half] = LLVM::ExtractElementOp::create(b, e.loc, values, e.i32(half));
    }
  }
  return numbers;
}

LogicalResult BlockLowering::lowerDequantize(tile::DequantizeOp op) {
  FailureOr<TileOperand> codes = operand(op, op.getCodes()), scales = operand(op, op.getScales()),
                         out = operand(op, op.getOut());
  if (failed(codes) || failed(scales) || failed(out)) {
    return failure();
  }
  ArrayRef<int64_t> shape = shapeOf(op.getCodes());
  auto *fragment = std::get_if<Fragment *>(&*codes);
  tile::LayoutAttr layout =
      fragment ? (*fragment)->layout : tile::bestBlockedLayout(builder.getContext(), shape, e.warps(), kGroupBytes, 1);
  tile::LayoutAttr ofScales = tile::groupedLayout(layout, 1, kGroupBytes);
  SmallVector<const MemoryBox *> reads;
  for (TileOperand *in : {&*codes, &*scales}) {
    if (auto *memory = std::get_if<MemoryBox>(in)) {
      reads.push_back(memory);
    }
  }
  access(reads, {});
  Values bytes = readOperand(op, *codes, layout, shape);
  Values factors = readOperand(op, *scales, ofScales, shapeOf(op.getScales()));
  std::map<std::pair<int64_t, int64_t>, Value> factorOf; // by row and group, from where the thread's elements start
  for (auto [r, factor] : llvm::enumerate(factors)) {
    SmallVector<int64_t> at = ofScales.registerOffset(r, 2);
    factorOf[{at[0], at[1]}] = emitE8M0(builder, e.loc, factor);
  }
  Type element = cast<MemRefType>(op.getOut().getType()).getElementType();
  bool words = element.isBF16() && vectorOf(layout, 2, 1, kWordBytes) == kWordBytes;
  Values results;
  for (int64_t r = 0, count = bytes.size(); r < count; r += words ? kWordBytes : 1) {
    SmallVector<int64_t> at = layout.registerOffset(r, 2);
    Value factor = factorOf.at({at[0], at[1] / kGroupBytes});
    if (words) {
      results.append(bf16Numbers(e, e.pack(ArrayRef<Value>(bytes).slice(r, kWordBytes)), factor));
      continue;
    }
    for (bool high : {false, true}) {
      results.push_back(arith::MulFOp::create(builder, e.loc, emitE2M1Half(builder, e.loc, bytes[r], high), factor));
    }
  }
  // Two numbers for each byte.
  auto doubled = [](ArrayRef<tile::LayoutMode> modes) {
    SmallVector<tile::LayoutMode> result(modes);
    for (tile::LayoutMode &mode : result) {
      mode.stride *= mode.dim == 1 ? 2 : 1;
    }
    return result;
  };
  SmallVector<tile::LayoutMode> registers = doubled(layout.getRegisters());
  registers.insert(registers.begin(), {2, 1, 1});
  tile::LayoutAttr ofNumbers =
      tile::makeLayout(builder.getContext(), registers, doubled(layout.getLanes()), doubled(layout.getWarps()));
  if (auto *memory = std::get_if<MemoryBox>(&*out)) {
    access({}, {memory});
  }
  writeOperand(op, *out, ofNumbers, e.convert(results, element));
  return success();
}
