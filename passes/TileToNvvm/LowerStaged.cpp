//===- LowerStaged.cpp - copies between accumulators and global memory, in whole lines
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The accumulators of matrix instructions lie two elements a thread, four threads a row: stored as they lie, a warp
// touches eight rows, a part of a line in each. So a warp passes 16 rows of 128 bytes at a time through shared memory
// of its own and moves them in vectors of 16 bytes, or, where rows start anywhere (an odd number of columns), in
// elements side by side: whole lines either way. No other warp takes part, so no barrier of the block is due.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/SharedPlan.h"
#include <set>

using namespace mlir;
using namespace kimi;

static constexpr int64_t kRows = Strip::rows, kRowBytes = Strip::rowBytes, kLanes = 32;

/// The strips of a warp under `layout`, `width` columns at most each; none where a warp's elements form no such strips.
static SmallVector<Strip> stripsOf(tile::LayoutAttr layout, int64_t width) {
  std::map<std::pair<int64_t, int64_t>, Strip> strips;
  std::map<std::pair<int64_t, int64_t>, std::set<std::pair<int64_t, int64_t>>> elements;
  for (int64_t r = 0; r < layout.registerCount(); ++r) {
    SmallVector<int64_t> offset = layout.registerOffset(r, 2);
    std::pair<int64_t, int64_t> key{offset[0] / kRows, offset[1] / width};
    Strip &strip = strips[key];
    strip.row = key.first * kRows;
    strip.column = key.second * width;
    strip.registers.push_back(r);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      SmallVector<int64_t> at = tile::coordinatesOf(layout.getLanes(), lane, 2);
      std::pair<int64_t, int64_t> place{at[0] + offset[0] - strip.row, at[1] + offset[1] - strip.column};
      if (place.first >= kRows || place.second >= width || !elements[key].insert(place).second) {
        return {};
      }
      strip.columns = std::max(strip.columns, place.second + 1);
    }
  }
  SmallVector<Strip> result;
  for (auto &[key, strip] : strips) {
    if (static_cast<int64_t>(elements[key].size()) != kRows * strip.columns) {
      return {};
    }
    result.push_back(strip);
  }
  return result;
}

/// Two neighbours along the columns in consecutive registers, as matrix instructions leave them.
static bool holdsPairs(tile::LayoutAttr layout) {
  ArrayRef<tile::LayoutMode> modes = layout.getRegisters();
  return !modes.empty() && modes[0].dim == 1 && modes[0].stride == 1 && modes[0].extent == 2;
}

static bool isCopyable(Type element) {
  return isa<FloatType>(element) && (elementBytes(element) == 2 || elementBytes(element) == 4);
}

void BlockLowering::planStaging() {
  auto worthIt = [&](Value tile, Value buffer) {
    auto alloc = tile.getDefiningOp<tile::AllocOp>();
    auto type = cast<MemRefType>(buffer.getType());
    return alloc && alloc.getLayoutAttr() && alloc.getType().getRank() == 2 && holdsPairs(alloc.getLayoutAttr()) &&
           isCopyable(type.getElementType()) && !type.getMemorySpace() &&
           !stripsOf(alloc.getLayoutAttr(), kRowBytes / elementBytes(type.getElementType())).empty();
  };
  auto startsAnywhere = [&](Value buffer) {
    auto type = cast<MemRefType>(buffer.getType());
    SmallVector<int64_t> strides;
    int64_t offset, unit = 16 / elementBytes(type.getElementType());
    return failed(type.getStridesAndOffset(strides, offset)) || llvm::any_of(strides, [&](int64_t stride) {
             return stride != 1 && (ShapedType::isDynamic(stride) || stride % unit != 0);
           });
  };
  bool wanted = false, shifted = false;
  kernel.walk([&](Operation *op) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      wanted |= worthIt(load.getTile(), load.getSource());
    } else if (auto store = dyn_cast<tile::StoreOp>(op); store && worthIt(store.getTile(), store.getDest())) {
      wanted = true;
      shifted |= startsAnywhere(store.getDest());
    }
  });
  if (!wanted) {
    return;
  }
  // As many blocks as before must find room on a multiprocessor, of which each block takes 1 KiB more than it uses.
  constexpr int64_t reserved = 1024, forReductions = 2048;
  auto shared = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kBlocksPerSm);
  int64_t blocks = std::max<int64_t>(shared ? shared.getInt() : 1, 1);
  int64_t offset = llvm::alignTo(tileBytes, 1024);
  auto fits = [&](int64_t rowBytes) {
    int64_t bytes = offset + e.warps() * kRows * rowBytes;
    if (blocks * (bytes + forReductions + reserved) > sharedMemoryLimit(sm) + reserved) {
      return false;
    }
    stagingOffset = offset;
    stagingRowBytes = rowBytes;
    tileBytes = bytes;
    return true;
  };
  if (shifted && fits(Strip::shiftedRowBytes)) {
    return;
  }
  if (shifted) {
    kernel.emitRemark() << "no shared memory is left through which rows that start anywhere could be stored in vectors";
  }
  if (!fits(kRowBytes)) {
    kernel.emitRemark() << "no shared memory is left through which results could be stored in whole lines";
  }
}

/// Moves what the threads hold under `layout` to `memory`, or from there; false where it is to be done directly.
bool BlockLowering::moveStaged(MemoryBox &memory, tile::LayoutAttr layout, llvm::MutableArrayRef<Value> values,
                               bool store) {
  int64_t size = elementBytes(memory.element()), width = kRowBytes / size;
  if (stagingOffset < 0 || memory.isShared() || memory.shape().size() != 2 || memory.contiguousDim() != 1 ||
      !isCopyable(memory.element()) || !holdsPairs(layout)) {
    return false;
  }
  SmallVector<Strip> strips = stripsOf(layout, width);
  if (strips.empty()) {
    return false;
  }
  if (store && memory.vectorElements() * size <= 4 && stagingRowBytes >= Strip::shiftedRowBytes) {
    storeShifted(memory, layout, strips, values);
    return true;
  }
  int64_t warps = e.warps();
  auto tile = std::make_unique<SharedTile>();
  auto space = tile::SpaceKindAttr::get(builder.getContext(), tile::SpaceKind::shared);
  tile->type = MemRefType::get({warps * kRows, width}, memory.element(), MemRefLayoutAttrInterface(), space);
  tile->layout = SharedLayout::of(tile->type);
  tile->offset = stagingOffset;
  tile->bytes = tile->layout.bytes();
  tile->pointer = sharedPointer(tile->offset);
  SmallVector<OpFoldResult> zeros(2, builder.getIndexAttr(0));
  MemoryBox own(e, *tile, zeros, {0, 1}, tile->type.getShape(), /*checked=*/false);
  scratchTiles.push_back(std::move(tile));
  // Where this warp's rows start in it, and its part of the fragment.
  Coord firstRow = e.scale(Coord(e.warp(), llvm::NextPowerOf2(warps - 1) - 1), kRows);
  SmallVector<Coord> part(e.place(layout, 2).warpBase);
  tile::LayoutAttr lanes =
      tile::makeLayout(builder.getContext(), layout.getRegisters(), layout.getLanes(), {{warps, 0, 0}});
  SmallVector<Coord> lane(e.place(lanes, 2).base);
  int64_t vector = std::min(memory.vectorElements(), kRowBytes / 8 / size);
  vector = std::min(vector, part[1].alignment(vector));
  auto sync = [&] { NVVM::SyncWarpOp::create(builder, e.loc, e.i32(-1)); };

  for (const Strip &strip : strips) {
    // A thread's vectors of the strip: neighbours side by side.
    int64_t piece = std::gcd(vector, strip.columns), perRow = strip.columns / piece, count = kRows * perRow;
    SmallVector<std::pair<SmallVector<Coord>, SmallVector<Coord>>> places; // in the strip's rows, in memory
    SmallVector<Value> conditions;
    for (int64_t i = 0; i < count; i += kLanes) {
      Value index = e.lane(), condition;
      if (i + kLanes > count) { // lanes that have no part in it stay within the strip
        condition = e.less(index, e.i32(count - i));
        index = arith::SelectOp::create(builder, e.loc, condition, index, e.i32(0));
      }
      Coord row, column;
      if (perRow % kLanes == 0) {
        row = Coord(i / perRow);
        column = e.add(e.scale(Coord(index, kLanes - 1), piece), Coord(i % perRow * piece));
      } else if (kLanes % perRow == 0) {
        row = e.add(Coord(e.div(index, perRow), kLanes / perRow - 1), Coord(i / perRow));
        column = e.scale(Coord(e.rem(index, perRow), perRow - 1), piece);
      } else {
        index = e.add(index, e.i32(i));
        row = Coord(e.div(index, perRow), -1);
        column = e.scale(Coord(e.rem(index, perRow), -1), piece);
      }
      SmallVector<Coord> inMemory{e.add(e.add(part[0], Coord(strip.row)), row),
                                  e.add(e.add(part[1], Coord(strip.column)), column)};
      places.push_back({{e.add(firstRow, row), column}, inMemory});
      conditions.push_back(condition);
    }
    auto registerPlace = [&](int64_t r) {
      SmallVector<int64_t> offset = layout.registerOffset(r, 2);
      return SmallVector<Coord>{e.add(firstRow, e.add(lane[0], Coord(offset[0] - strip.row))),
                                e.add(lane[1], Coord(offset[1] - strip.column))};
    };
    SmallVector<Value> moved;
    if (store) {
      sync(); // the strip before has been read
      for (size_t i = 0; i + 1 < strip.registers.size(); i += 2) {
        int64_t r = strip.registers[i];
        own.store(registerPlace(r), values.slice(r, 2));
      }
      sync();
      for (auto &[inside, outside] : places) {
        moved.push_back(own.loadRaw(inside, piece));
      }
      for (auto [place, raw, condition] : llvm::zip(places, moved, conditions)) {
        memory.storeRaw(place.second, raw, piece, condition);
      }
      continue;
    }
    for (auto &[inside, outside] : places) {
      moved.push_back(memory.loadRaw(outside, piece));
    }
    sync();
    for (auto [place, raw, condition] : llvm::zip(places, moved, conditions)) {
      own.storeRaw(place.first, raw, piece, condition);
    }
    sync();
    for (size_t i = 0; i + 1 < strip.registers.size(); i += 2) {
      int64_t r = strip.registers[i];
      llvm::copy(own.load(registerPlace(r), 2), values.begin() + r);
    }
  }
  return true;
}
