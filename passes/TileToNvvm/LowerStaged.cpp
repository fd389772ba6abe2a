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

/// Rows and bytes of a row that a warp passes through its shared memory at a time, lanes of a warp.
static constexpr int64_t kRows = 16, kRowBytes = 128, kLanes = 32;
/// A row of shifted words: what is left of the strip before stands ahead of it. Neighbouring rows start in other banks.
static constexpr int64_t kLeftBytes = 16, kShiftedRowBytes = kLeftBytes + kRowBytes;

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
  bool wanted = false;
  kernel.walk([&](Operation *op) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      wanted |= worthIt(load.getTile(), load.getSource());
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      wanted |= worthIt(store.getTile(), store.getDest());
    }
  });
  if (!wanted) {
    return;
  }
  // As many blocks as before must find room on a multiprocessor, of which each block takes 1 KiB more than it uses.
  constexpr int64_t reserved = 1024, forReductions = 2048;
  auto shared = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kBlocksPerSm);
  int64_t blocks = std::max<int64_t>(shared ? shared.getInt() : 1, 1);
  int64_t offset = llvm::alignTo(tileBytes, 1024), bytes = offset + e.warps() * kRows * kShiftedRowBytes;
  if (blocks * (bytes + forReductions + reserved) > sharedMemoryLimit(sm) + reserved) {
    kernel.emitRemark() << "no shared memory is left through which results could be stored in whole lines";
    return;
  }
  stagingOffset = offset;
  tileBytes = bytes;
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
  if (store && size == 4 && memory.vectorElements() == 1) {
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

void BlockLowering::storeShifted(MemoryBox &memory, tile::LayoutAttr layout, ArrayRef<Strip> strips,
                                 ArrayRef<Value> values) {
  constexpr int64_t word = 4, perVector = 4, perRow = kRowBytes / (word * perVector), rowsAtOnce = kLanes / perRow;
  Value base = e.pointer(sharedPointer(stagingOffset), e.scale(Coord(e.warp(), -1), kRows * kShiftedRowBytes));
  SmallVector<Coord> part(e.place(layout, 2).warpBase);
  tile::LayoutAttr lanes =
      tile::makeLayout(builder.getContext(), layout.getRegisters(), layout.getLanes(), {{e.warps(), 0, 0}});
  SmallVector<Coord> lane(e.place(lanes, 2).base);
  auto sync = [&] { NVVM::SyncWarpOp::create(builder, e.loc, e.i32(-1)); };
  auto both = [&](Value x, Value y) { return e.both(x, y); };
  auto negated = [&](Value x) -> Value {
    return x ? arith::XOrIOp::create(builder, e.loc, x, e.boolean(true)).getResult() : e.boolean(false);
  };
  auto conditional = [&](Value condition, llvm::function_ref<void()> fn) {
    auto branch = scf::IfOp::create(builder, e.loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    fn();
  };
  // Where row `row` of a strip's rows starts in memory, and how many words it starts past a multiple of 16 bytes.
  auto rowStart = [&](int64_t stripRow, Coord row) {
    Value start = memory.pointer({e.add(e.add(part[0], Coord(stripRow)), row), part[1]});
    Value address = LLVM::PtrToIntOp::create(builder, e.loc, builder.getI64Type(), start);
    Value words = arith::ShRUIOp::create(builder, e.loc, e.toI32(address), e.i32(2));
    return std::pair<Value, Value>(start, arith::AndIOp::create(builder, e.loc, words, e.i32(perVector - 1)));
  };
  auto offsetBy = [&](Value pointer, Value words) -> Value {
    return LLVM::GEPOp::create(builder, e.loc, pointer.getType(), builder.getI32Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{words});
  };
  auto bytesPast = [&](Value pointer, int64_t bytes) { return e.pointer(pointer, Coord(bytes)); };

  Value vectorOfLane = e.rem(e.lane(), perRow);
  // Rows that a lane's vectors stand in are multiples of 4 apart: all start equally many words past 16 bytes.
  static_assert(rowsAtOnce % perVector == 0, "a lane's rows start at different words");
  struct Place {
    Coord row;
    Value outside; // its address, of the first strip
  };
  SmallVector<Place> places;
  Value vectorColumn; // words: the first column of a lane's vectors in the strip, 4 vector - shift
  Value firstInside;  // the address of the first one
  for (auto [index, strip] : llvm::enumerate(strips)) {
    bool isFirst = strip.column == 0, isLast = index + 1 == strips.size() || strips[index + 1].row != strip.row;
    if (isFirst) {
      places.clear();
      for (int64_t i = 0; i < kRows; i += rowsAtOnce) {
        Place place;
        place.row = e.add(Coord(e.div(e.lane(), perRow), rowsAtOnce - 1), Coord(i));
        if (i == 0) {
          Value shift = rowStart(strip.row, place.row).second;
          vectorColumn = e.sub(e.mul(vectorOfLane, e.i32(perVector)), shift);
          Value row = e.pointer(base, e.add(e.scale(place.row, kShiftedRowBytes), Coord(kLeftBytes)));
          firstInside = offsetBy(row, vectorColumn);
        }
        // The rows of a lane differ by constants, where the stride is one.
        place.outside = memory.pointer(
            {e.add(e.add(part[0], Coord(strip.row)), place.row), e.add(part[1], Coord(vectorColumn, -1))});
        places.push_back(place);
      }
    }
    sync(); // the strip before has been read
    if (!isFirst) {
      // Its last words, which may belong to a vector of this one.
      conditional(e.less(e.lane(), e.i32(kRows)), [&] {
        Value row = e.pointer(base, e.scale(Coord(e.lane(), -1), kShiftedRowBytes));
        e.store(e.load(bytesPast(row, kRowBytes), kLeftBytes), row, kLeftBytes);
      });
      sync();
    }
    for (size_t i = 0; i + 1 < strip.registers.size(); i += 2) {
      int64_t r = strip.registers[i];
      SmallVector<int64_t> offset = layout.registerOffset(r, 2);
      Coord row = e.add(lane[0], Coord(offset[0] - strip.row)),
            column = e.add(lane[1], Coord(offset[1] - strip.column));
      Coord at = e.add(e.scale(row, kShiftedRowBytes), e.add(e.scale(column, word), Coord(kLeftBytes)));
      e.store(e.pack(values.slice(r, 2)), e.pointer(base, at), 2 * word);
    }
    sync();
    // Two vectors at a time: accumulators leave no registers for more.
    for (size_t pair = 0; pair < places.size(); pair += 2) {
      SmallVector<Values> words(2);
      for (auto [group, list] : llvm::enumerate(words)) {
        for (int64_t i = 0; i < perVector; ++i) {
          int64_t bytes = (pair + group) * rowsAtOnce * kShiftedRowBytes + i * word;
          list.push_back(e.load(bytesPast(firstInside, bytes), word));
        }
      }
      for (auto [group, list] : llvm::enumerate(words)) {
        const Place &place = places[pair + group];
        Value target = bytesPast(place.outside, strip.column * word);
        auto predicate = [&](int64_t i) {
          Coord column = e.add(e.add(part[1], Coord(vectorColumn, -1)), Coord(strip.column + i));
          return memory.predicate({e.add(e.add(part[0], Coord(strip.row)), place.row), column});
        };
        Value whole = predicate(perVector - 1);
        if (isFirst) {
          whole = both(whole, e.less(e.i32(-1), vectorColumn));
        }
        if (strip.columns != kRowBytes / word) {
          whole = both(whole, e.less(vectorColumn, e.i32(strip.columns - perVector + 1)));
        }
        e.storeIf(whole, e.pack(list), target, perVector * word);
        if (!whole) {
          continue;
        }
        conditional(negated(whole), [&] {
          for (int64_t i = 0; i < perVector; ++i) {
            Value holds = predicate(i);
            if (isFirst) {
              holds = both(holds, e.less(e.i32(-1 - i), vectorColumn));
            }
            if (strip.columns != kRowBytes / word) {
              holds = both(holds, e.less(vectorColumn, e.i32(strip.columns - i)));
            }
            e.storeIf(holds, list[i], bytesPast(target, i * word), word);
          }
        });
      }
    }
    if (!isLast || strip.columns != kRowBytes / word) {
      continue;
    }
    // The words past the last whole vector of each row.
    for (int64_t i = 0; i < kRows; i += kLanes / perVector) {
      Coord row = e.add(Coord(e.div(e.lane(), perVector), kLanes / perVector - 1), Coord(i));
      auto [start, shift] = rowStart(strip.row, row);
      Value item = e.rem(e.lane(), perVector), column = e.sub(item, shift); // from the end of the strip on
      Value inside = e.pointer(base, e.add(e.scale(row, kShiftedRowBytes), Coord(kLeftBytes + kRowBytes)));
      Value last = builder.createOrFold<arith::MinSIOp>(e.loc, column, e.i32(-1));
      Value value = e.load(offsetBy(inside, last), word);
      Coord inMemory = e.add(e.add(part[1], Coord(column, -1)), Coord(strip.column + strip.columns));
      Value holds =
          both(memory.predicate({e.add(e.add(part[0], Coord(strip.row)), row), inMemory}), e.less(column, e.i32(0)));
      e.storeIf(holds, value, bytesPast(offsetBy(start, column), (strip.column + strip.columns) * word), word);
    }
  }
}
