//===- LowerShifted.cpp - stores of accumulators to rows that start anywhere --===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of an odd number of columns start at any element, so a warp that stores 16 rows of 128 bytes (LowerStaged.cpp)
// cannot store them as they stand. It reads the vectors that are whole in memory from where they begin in shared
// memory instead, up to 30 bytes ahead of the strip; what a strip leaves over goes ahead of the next one. Elements of
// two bytes may begin within a word: two words give one then. An access covers whole sectors of 32 bytes of few lines,
// since both are what stores are paid by; only the ends of a row are stored element by element.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/BlockLowering.h"

using namespace mlir;
using namespace kimi;

static constexpr int64_t kLanes = 32, kSectorBytes = 32, kVectorBytes = 16, kWordBytes = 4;

namespace {
/// How a warp stores the strips of a fragment, one after the other.
class ShiftedStore {
public:
  /// `inside`: all of the fragment that the warp holds is within the memory.
  ShiftedStore(BlockEmitter &e, MemoryBox &memory, tile::LayoutAttr layout, Value shared, bool inside)
      : e(e), builder(e.b), memory(memory), layout(layout), inside(inside), size(elementBytes(memory.element())),
        part(e.place(layout, 2).warpBase),
        base(e.pointer(shared, e.scale(Coord(e.warp(), -1), Strip::rows * Strip::shiftedRowBytes))) {
    tile::LayoutAttr lanes =
        tile::makeLayout(builder.getContext(), layout.getRegisters(), layout.getLanes(), {{e.warps(), 0, 0}});
    lane = e.place(lanes, 2).base;
    vectorOfLane = e.rem(e.lane(), lanesOfRow);
  }

  void store(const Strip &strip, bool isFirst, bool isLast, ArrayRef<Value> values);

private:
  /// A vector of a lane in each strip: its row, its first column, where in shared memory its first word is, and where
  /// it is in memory, for the first strip.
  struct Place {
    Coord row;
    Value column; ///< elements; as far ahead of the strip as the row starts past a sector
    Value inside, outside;
  };

  void beginRows(const Strip &strip);
  void keepLeft();
  SmallVector<Value> vectorAt(const Place &place);
  void storeVector(const Strip &strip, const Place &place, ArrayRef<Value> words, bool isFirst);
  void storeEnd(const Strip &strip, bool isHead);

  /// Whether (row, column) of the warp's part is within the memory; null where it is for certain.
  Value predicate(Coord row, Coord column) {
    return inside ? Value() : memory.predicate({e.add(part[0], row), e.add(part[1], column)});
  }
  void sync() { NVVM::SyncWarpOp::create(builder, e.loc, e.i32(-1)); }
  void conditional(Value condition, llvm::function_ref<void()> fn) {
    auto branch = scf::IfOp::create(builder, e.loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    fn();
  }
  Value bytesPast(Value pointer, int64_t bytes) { return e.pointer(pointer, Coord(bytes)); }
  Value elementsPast(Value pointer, Value elements) {
    return LLVM::GEPOp::create(builder, e.loc, pointer.getType(), builder.getIntegerType(8 * size), pointer,
                               ArrayRef<LLVM::GEPArg>{elements});
  }
  /// Where row `row` of a strip's rows starts in memory, and how many elements it starts past a sector's start.
  std::pair<Value, Value> rowStart(const Strip &strip, Coord row) {
    Value start = memory.pointer({e.add(e.add(part[0], Coord(strip.row)), row), part[1]});
    Value address = LLVM::PtrToIntOp::create(builder, e.loc, builder.getI64Type(), start);
    Value elements = arith::ShRUIOp::create(builder, e.loc, e.toI32(address), e.i32(size == 4 ? 2 : 1));
    return {start, arith::AndIOp::create(builder, e.loc, elements, e.i32(perSector - 1))};
  }

  BlockEmitter &e;
  OpBuilder &builder;
  MemoryBox &memory;
  tile::LayoutAttr layout;
  const bool inside;
  const int64_t size, perVector = kVectorBytes / size, perSector = kSectorBytes / size, width = Strip::rowBytes / size;
  /// Lanes side by side on a row.
  static constexpr int64_t lanesOfRow = Strip::rowBytes / kVectorBytes, rowsAtOnce = kLanes / lanesOfRow;
  SmallVector<Coord> part, lane;
  Value base; ///< of the warp's shared memory
  Value vectorOfLane;
  SmallVector<Place> places;
  Value bits;  ///< how many bits of a vector's first word belong to the one before; null where elements are words
  Value fifth; ///< bytes from there to the last word that is needed
};
} // namespace

/// The places of a lane's vectors in the rows from that of `strip` on.
void ShiftedStore::beginRows(const Strip &strip) {
  places.clear();
  for (int64_t i = 0; i < Strip::rows; i += rowsAtOnce) {
    Place place;
    place.row = e.add(Coord(e.div(e.lane(), lanesOfRow), rowsAtOnce - 1), Coord(i));
    Value shift = rowStart(strip, place.row).second;
    place.column = e.sub(e.mul(vectorOfLane, e.i32(perVector)), shift);
    Value word = place.column;
    if (size < kWordBytes) {
      word = arith::ShRSIOp::create(builder, e.loc, word, e.i32(1));
    }
    if (size < kWordBytes && i == 0) {
      // The same for all, since they are an even number of rows apart.
      Value odd = arith::AndIOp::create(builder, e.loc, shift, e.i32(1));
      bits = e.mul(odd, e.i32(8 * size));
      // Not read past the warp's memory where four words do.
      fifth = e.add(e.i32(kVectorBytes - kWordBytes), e.mul(odd, e.i32(kWordBytes)));
    }
    Value staged = e.pointer(base, e.add(e.scale(place.row, Strip::shiftedRowBytes), Coord(Strip::leftBytes)));
    place.inside = LLVM::GEPOp::create(builder, e.loc, staged.getType(), builder.getI32Type(), staged,
                                       ArrayRef<LLVM::GEPArg>{word});
    place.outside =
        memory.pointer({e.add(e.add(part[0], Coord(strip.row)), place.row), e.add(part[1], Coord(place.column, -1))});
    places.push_back(place);
  }
}

/// The last bytes of the strip before, which may belong to a vector of this one, go ahead of it.
void ShiftedStore::keepLeft() {
  static_assert(Strip::leftBytes * Strip::rows == kVectorBytes * kLanes, "a vector a lane");
  constexpr int64_t perRow = Strip::leftBytes / kVectorBytes;
  Value row = e.pointer(base, e.add(e.scale(Coord(e.div(e.lane(), perRow), -1), Strip::shiftedRowBytes),
                                    e.scale(Coord(e.rem(e.lane(), perRow), -1), kVectorBytes)));
  e.store(e.load(bytesPast(row, Strip::rowBytes), kVectorBytes), row, kVectorBytes);
  sync();
}

/// The words of a vector.
SmallVector<Value> ShiftedStore::vectorAt(const Place &place) {
  SmallVector<Value> words;
  for (int64_t i = 0; i < kVectorBytes; i += kWordBytes) {
    words.push_back(e.load(bytesPast(place.inside, i), kWordBytes));
  }
  if (!bits) {
    return words;
  }
  words.push_back(e.load(e.pointer(place.inside, Coord(fifth, -1)), kWordBytes));
  SmallVector<Value> shifted;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    shifted.push_back(
        LLVM::FshrOp::create(builder, e.loc, words[i].getType(), words[i + 1], words[i], bits).getResult());
  }
  return shifted;
}

void ShiftedStore::storeVector(const Strip &strip, const Place &place, ArrayRef<Value> words, bool isFirst) {
  Value target = bytesPast(place.outside, strip.column * size);
  auto holdsAt = [&](int64_t i) {
    return predicate(e.add(Coord(strip.row), place.row), e.add(Coord(place.column, -1), Coord(strip.column + i)));
  };
  // Vectors that begin before the row are its head's.
  Value begun = isFirst ? e.less(e.i32(-1), place.column) : Value();
  bool mayEndAfter = strip.columns != width;
  Value whole = holdsAt(perVector - 1);
  if (mayEndAfter) {
    whole = e.both(whole, e.less(place.column, e.i32(strip.columns - perVector + 1)));
  }
  e.storeIf(e.both(whole, begun), e.pack(words), target, kVectorBytes);
  if (!whole) {
    return;
  }
  Value broken = arith::XOrIOp::create(builder, e.loc, whole, e.boolean(true));
  conditional(e.both(broken, begun), [&] {
    for (int64_t i = 0; i < perVector; ++i) {
      Value holds = holdsAt(i);
      if (mayEndAfter) {
        holds = e.both(holds, e.less(place.column, e.i32(strip.columns - i)));
      }
      Value element = words[i * size / kWordBytes];
      if (size < kWordBytes) {
        if (i % 2 == 1) {
          element = arith::ShRUIOp::create(builder, e.loc, element, e.i32(8 * size));
        }
        element = arith::TruncIOp::create(builder, e.loc, builder.getIntegerType(8 * size), element);
      }
      e.storeIf(holds, element, bytesPast(target, i * size), size);
    }
  });
}

/// The elements of each row before the first sector that is all of it, or past the last such sector.
void ShiftedStore::storeEnd(const Strip &strip, bool isHead) {
  int64_t first = isHead ? 0 : strip.columns;
  for (int64_t i = 0; i < Strip::rows; i += kLanes / perSector) {
    Coord row = e.add(Coord(e.div(e.lane(), perSector), kLanes / perSector - 1), Coord(i));
    auto [start, shift] = rowStart(strip, row);
    Value item = e.rem(e.lane(), perSector);
    // The column, from `first` on: a head ends, and a tail begins, `shift` before a sector's end.
    Value column = isHead ? item : e.sub(item, shift), holds;
    if (isHead) {
      Value length = arith::AndIOp::create(builder, e.loc, e.sub(e.i32(0), shift), e.i32(perSector - 1));
      holds = e.less(item, length);
      if (strip.columns < perSector) {
        holds = e.both(holds, e.less(item, e.i32(strip.columns)));
      }
    } else {
      holds = e.less(column, e.i32(0));
      column = builder.createOrFold<arith::MinSIOp>(e.loc, column, e.i32(-1));
    }
    Value staged = e.pointer(base, e.add(e.scale(row, Strip::shiftedRowBytes), Coord(Strip::leftBytes + first * size)));
    Value value = e.load(elementsPast(staged, column), size);
    holds =
        e.both(predicate(e.add(Coord(strip.row), row), e.add(Coord(column, -1), Coord(strip.column + first))), holds);
    e.storeIf(holds, value, bytesPast(elementsPast(start, column), (strip.column + first) * size), size);
  }
}

void ShiftedStore::store(const Strip &strip, bool isFirst, bool isLast, ArrayRef<Value> values) {
  if (isFirst) {
    beginRows(strip);
  }
  sync(); // the strip before has been read
  if (!isFirst) {
    keepLeft();
  }
  for (size_t i = 0; i + 1 < strip.registers.size(); i += 2) {
    int64_t r = strip.registers[i];
    SmallVector<int64_t> offset = layout.registerOffset(r, 2);
    Coord row = e.add(lane[0], Coord(offset[0] - strip.row)), column = e.add(lane[1], Coord(offset[1] - strip.column));
    Coord at = e.add(e.scale(row, Strip::shiftedRowBytes), e.add(e.scale(column, size), Coord(Strip::leftBytes)));
    e.store(e.pack(values.slice(r, 2)), e.pointer(base, at), 2 * size);
  }
  sync();
  // Two vectors at a time: accumulators leave no registers for more.
  for (size_t pair = 0; pair < places.size(); pair += 2) {
    SmallVector<SmallVector<Value>> words;
    for (size_t i = pair; i < pair + 2; ++i) {
      words.push_back(vectorAt(places[i]));
    }
    for (size_t i = 0; i < 2; ++i) {
      storeVector(strip, places[pair + i], words[i], isFirst);
    }
  }
  if (isFirst) {
    storeEnd(strip, /*isHead=*/true);
  }
  if (isLast && strip.columns == width) {
    storeEnd(strip, /*isHead=*/false);
  }
}

void BlockLowering::storeShifted(MemoryBox &memory, tile::LayoutAttr layout, ArrayRef<Strip> strips,
                                 ArrayRef<Value> values) {
  auto emit = [&](bool inside) {
    ShiftedStore store(e, memory, layout, sharedPointer(stagingOffset), inside);
    for (auto [index, strip] : llvm::enumerate(strips)) {
      bool isLast = index + 1 == strips.size() || strips[index + 1].row != strip.row;
      store.store(strip, strip.column == 0, isLast, values);
    }
  };
  // All but the tiles at the edges are within the memory: they check nothing.
  int64_t lastRow = 0, lastColumn = 0;
  for (const Strip &strip : strips) {
    lastRow = std::max(lastRow, strip.row + Strip::rows - 1);
    lastColumn = std::max(lastColumn, strip.column + strip.columns - 1);
  }
  SmallVector<Coord> first(e.place(layout, 2).warpBase);
  Value inside = e.both(memory.predicate({first[0], first[1]}),
                        memory.predicate({e.add(first[0], Coord(lastRow)), e.add(first[1], Coord(lastColumn))}));
  if (!inside) {
    emit(/*inside=*/true);
    return;
  }
  auto branch = scf::IfOp::create(builder, e.loc, inside, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  emit(/*inside=*/true);
  builder.setInsertionPointToStart(branch.elseBlock());
  emit(/*inside=*/false);
}
