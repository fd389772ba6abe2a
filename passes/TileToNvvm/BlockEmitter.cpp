//===- BlockEmitter.cpp - arithmetic and addresses of one thread
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/BlockEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/IndexFacts.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

static int64_t lowestBit(int64_t bits) { return bits & -bits; }

int64_t Coord::alignment(int64_t limit) const {
  int64_t align = limit;
  while (align > 1 && (fixed % align != 0 || (dynamic && (bits & (align - 1)) != 0))) {
    align /= 2;
  }
  return align;
}

BlockEmitter::BlockEmitter(OpBuilder &b, Block &start, int64_t threads)
    : b(b), loc(UnknownLoc::get(b.getContext())), threads(threads), start(start) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&start);
  threadId = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  laneId = arith::AndIOp::create(b, loc, threadId, i32(31));
  warpId = threads == 32 ? i32(0) : arith::ShRUIOp::create(b, loc, threadId, i32(5)).getResult();
  anchor = arith::ConstantIntOp::create(b, loc, b.getI32Type(), 0);
}

void BlockEmitter::finish() { anchor->erase(); }

void BlockEmitter::atStart(llvm::function_ref<void()> fn) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(anchor);
  fn();
}

Value BlockEmitter::i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value); }
Value BlockEmitter::i64(int64_t value) { return arith::ConstantIntOp::create(b, loc, b.getI64Type(), value); }
Value BlockEmitter::boolean(bool value) { return arith::ConstantIntOp::create(b, loc, b.getI1Type(), value); }
Value BlockEmitter::f32(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
}
Value BlockEmitter::add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(loc, x, y); }
Value BlockEmitter::sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(loc, x, y); }
Value BlockEmitter::mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(loc, x, y); }

Value BlockEmitter::div(Value x, int64_t y) {
  Value divisor = x.getType().isInteger(32) ? i32(y) : i64(y);
  return y == 1 ? x : b.createOrFold<arith::DivUIOp>(loc, x, divisor);
}

Value BlockEmitter::rem(Value x, int64_t y) {
  Value divisor = x.getType().isInteger(32) ? i32(y) : i64(y);
  return b.createOrFold<arith::RemUIOp>(loc, x, divisor);
}

Value BlockEmitter::less(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, x, y);
}

Value BlockEmitter::both(Value x, Value y) { return !x ? y : !y ? x : b.createOrFold<arith::AndIOp>(loc, x, y); }

Value BlockEmitter::toI64(Value value) {
  if (value.getType().isIndex()) {
    return b.createOrFold<arith::IndexCastOp>(loc, b.getI64Type(), value);
  }
  return value.getType().isInteger(64) ? value : b.createOrFold<arith::ExtSIOp>(loc, b.getI64Type(), value);
}

Value BlockEmitter::toI32(Value value) {
  if (value.getType().isIndex()) {
    value = toI64(value);
  }
  return value.getType().isInteger(32) ? value : b.createOrFold<arith::TruncIOp>(loc, b.getI32Type(), value);
}

Value BlockEmitter::toIndex(Value value) {
  return value.getType().isIndex() ? value : b.createOrFold<arith::IndexCastOp>(loc, b.getIndexType(), value);
}

Coord BlockEmitter::add(const Coord &x, const Coord &y) {
  Coord sum(x.fixed + y.fixed);
  if (!x.dynamic || !y.dynamic) {
    sum.dynamic = x.dynamic ? x.dynamic : y.dynamic;
    sum.bits = x.dynamic ? x.bits : y.bits;
    return sum;
  }
  sum.dynamic = add(x.dynamic, y.dynamic);
  // Without common bits nothing carries; else the bits below the lowest of either stay clear.
  sum.bits = (x.bits & y.bits) == 0 ? x.bits | y.bits : -lowestBit(x.bits | y.bits);
  return sum;
}

Coord BlockEmitter::scale(const Coord &x, int64_t factor) {
  Coord result(x.fixed * factor);
  if (x.dynamic && factor != 0) {
    result.dynamic = mul(x.dynamic, i32(factor));
    bool power = factor > 0 && llvm::isPowerOf2_64(factor);
    result.bits = power ? x.bits * factor : -lowestBit(x.bits) * lowestBit(factor);
  }
  return result;
}

Value BlockEmitter::value(const Coord &x) {
  if (!x.dynamic) {
    return i32(x.fixed);
  }
  return x.fixed == 0 ? x.dynamic : add(x.dynamic, i32(x.fixed));
}

Coord BlockEmitter::coord(OpFoldResult index) {
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    return Coord(*constant);
  }
  auto dynamic = cast<Value>(index);
  return Coord(toI32(dynamic), -knownAlignment(dynamic));
}

Value BlockEmitter::digit(Value id, int64_t prefix, int64_t extent) {
  if (llvm::isPowerOf2_64(prefix) && llvm::isPowerOf2_64(extent)) {
    Value shifted = prefix == 1 ? id : b.createOrFold<arith::ShRUIOp>(loc, id, i32(llvm::Log2_64(prefix)));
    return b.createOrFold<arith::AndIOp>(loc, shifted, i32(extent - 1));
  }
  return rem(div(id, prefix), extent);
}

const ThreadPlace &BlockEmitter::place(tile::LayoutAttr layout, unsigned rank) {
  auto [it, inserted] = places.try_emplace({layout.getAsOpaquePointer(), rank});
  ThreadPlace &place = it->second;
  if (!inserted) {
    return place;
  }
  place.base.resize(rank);
  place.warpBase.resize(rank);
  atStart([&] {
    auto digits = [&](Value id, ArrayRef<tile::LayoutMode> modes, SmallVector<Coord> &base, Value &owner) {
      int64_t prefix = 1;
      for (const tile::LayoutMode &mode : modes) {
        Value number = digit(id, prefix, mode.extent);
        prefix *= mode.extent;
        if (mode.stride != 0) {
          int64_t bits = llvm::isPowerOf2_64(mode.extent) ? mode.extent - 1 : -1;
          base[mode.dim] = add(base[mode.dim], scale(Coord(number, bits), mode.stride));
        } else if (mode.extent > 1) {
          owner = both(owner, b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, number, i32(0)));
        }
      }
    };
    Value warpOwner;
    digits(warpId, layout.getWarps(), place.warpBase, warpOwner);
    digits(laneId, layout.getLanes(), place.base, place.laneOwner);
    place.owner = both(warpOwner, place.laneOwner);
    for (unsigned d = 0; d < rank; ++d) {
      place.base[d] = add(place.warpBase[d], place.base[d]);
    }
  });
  return place;
}

Coord BlockEmitter::sharedOffset(const SharedLayout &layout, Coord row, Coord column) {
  int64_t width = layout.panelBytes;
  if (layout.mask == 0) {
    return add(scale(row, width), column);
  }
  // Fold a constant into the run-time part unless its bits are known to stay apart from it, or do not reach the part
  // of the address that is permuted.
  auto apart = [&](Coord &x, int64_t period) {
    bool disjoint = !x.dynamic || (x.bits & x.fixed) == 0;
    if (!disjoint && x.fixed % period != 0) {
      x = Coord(value(x), -Coord(x).alignment(1024));
    }
  };
  apart(row, layout.alignment() / width);
  apart(column, width);
  auto swizzle = [&](int64_t rowNumber) { return (rowNumber * width >> 7 & layout.mask) << 4; };

  Coord result(row.fixed * width + column.fixed / width * layout.rows * width);
  int64_t fixedWithin = column.fixed % width ^ swizzle(row.fixed % (layout.alignment() / width));
  Value within;
  if (column.dynamic) {
    bool onePanel = column.bits >= 0 && column.bits < width;
    within = onePanel ? column.dynamic : b.createOrFold<arith::AndIOp>(loc, column.dynamic, i32(width - 1));
    if (!onePanel) {
      result.dynamic = mul(div(column.dynamic, width), i32(layout.rows * width));
    }
  }
  if (row.dynamic) {
    Value line = mul(row.dynamic, i32(width));
    result.dynamic = result.dynamic ? add(result.dynamic, line) : line;
    Value units =
        b.createOrFold<arith::AndIOp>(loc, b.createOrFold<arith::ShRUIOp>(loc, line, i32(3)), i32(layout.mask << 4));
    within = within ? b.createOrFold<arith::XOrIOp>(loc, within, units) : units;
  }
  if (!within) {
    result.fixed += fixedWithin;
  } else {
    if (fixedWithin != 0) {
      within = b.createOrFold<arith::XOrIOp>(loc, within, i32(fixedWithin));
    }
    result.dynamic = result.dynamic ? add(result.dynamic, within) : within;
  }
  result.bits = -1;
  return result;
}

Value BlockEmitter::pointer(Value base, const Coord &bytes) {
  Type byte = b.getI8Type(), type = base.getType();
  if (bytes.dynamic) {
    base = LLVM::GEPOp::create(b, loc, type, byte, base, ArrayRef<LLVM::GEPArg>{bytes.dynamic});
  }
  if (bytes.fixed != 0) {
    base = LLVM::GEPOp::create(b, loc, type, byte, base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes.fixed)});
  }
  return base;
}

Value BlockEmitter::combine(tile::ReduceKind kind, Value x, Value y) {
  return kind == tile::ReduceKind::add ? arith::AddFOp::create(b, loc, x, y).getResult()
                                       : LLVM::MaximumOp::create(b, loc, x, y).getResult();
}

Value BlockEmitter::exchange(Value x, int64_t mask) {
  return NVVM::ShflOp::create(b, loc, x.getType(), i32(-1), x, i32(mask), i32(31), NVVM::ShflKind::bfly, UnitAttr());
}

void BlockEmitter::loop(int64_t count, llvm::function_ref<void(Value)> fn) {
  auto loop = scf::ForOp::create(b, loc, i32(0), i32(count), i32(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  fn(loop.getInductionVar());
}

SmallVector<Value> BlockEmitter::loop(int64_t count, ValueRange init,
                                      llvm::function_ref<SmallVector<Value>(Value, ValueRange)> fn) {
  auto loop = scf::ForOp::create(b, loc, i32(0), i32(count), i32(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, loc, fn(loop.getInductionVar(), loop.getRegionIterArgs()));
  return llvm::to_vector(ValueRange(loop.getResults()));
}
