//===- LowerCopies.cpp - tile.load, tile.store and tile.fill
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include <numeric>
#include <tuple>

using namespace mlir;
using namespace kimi;

/// Which dim of a copy neighbours in a warp should run along, and how many elements a thread should move at once: the
/// side in global memory decides (`memory`), then the tile.
static std::pair<int64_t, int64_t> direction(const MemoryBox &memory, const MemoryBox &tile) {
  int64_t last = static_cast<int64_t>(tile.shape().size()) - 1;
  int64_t fastest = memory.contiguousDim() >= 0 ? memory.contiguousDim() : last;
  int64_t vector = fastest == memory.contiguousDim() ? memory.vectorElements() : 1;
  if (fastest == tile.contiguousDim()) {
    vector = std::min(vector, tile.vectorElements());
  }
  return {fastest, vector};
}

LogicalResult BlockLowering::lowerLoad(tile::LoadOp op) {
  SmallVector<OpFoldResult> offsets(op.getOffsets().begin(), op.getOffsets().end());
  auto type = cast<MemRefType>(op.getTile().getType());
  FailureOr<MemoryBox> source = box(op, op.getSource(), offsets, op.getDims(), type.getShape(), /*checked=*/true);
  if (failed(source)) {
    return failure();
  }
  FailureOr<TileOperand> target = operand(op, op.getTile());
  if (failed(target)) {
    return failure();
  }
  if (auto *fragment = std::get_if<Fragment *>(&*target)) {
    access({&*source}, {});
    Values values((*fragment)->layout.registerCount());
    bool whole = llvm::equal(source->shape(), type.getShape()) && op.getPad().isPosZero();
    if (!whole || !moveStaged(*source, (*fragment)->layout, values, /*store=*/false)) {
      values = read(*source, (*fragment)->layout, type.getShape(), op.getPadAttr());
    }
    for (auto [r, value] : llvm::enumerate(e.convert(values, (*fragment)->element))) {
      set(**fragment, r, value);
    }
    return success();
  }
  auto &tile = std::get<MemoryBox>(*target);
  access({&*source}, {&tile});
  return copyIn(op, *source, tile);
}

LogicalResult BlockLowering::copyIn(tile::LoadOp op, MemoryBox &source, MemoryBox &tile) {
  int64_t fastest, vector;
  std::tie(fastest, vector) = direction(source, tile);
  bool raw = source.element() == tile.element() && op.getPad().isPosZero() && fastest == tile.contiguousDim();
  pieces(tile.shape(), fastest, vector, [&](tile::LayoutAttr layout, ArrayRef<int64_t> shape, ArrayRef<Coord> origin) {
    unsigned rank = shape.size();
    int64_t count = vectorOf(layout, rank, fastest, vector);
    Value owner = e.place(layout, rank).owner;
    SmallVector<std::pair<SmallVector<Coord>, Value>> words;
    SmallVector<std::pair<SmallVector<Coord>, Values>> elements;
    // All loads first: they are in flight together.
    for (int64_t r = 0; r < layout.registerCount(); r += count) {
      SmallVector<Coord> coords = coordsOf(layout, r, rank, origin);
      if (raw) {
        words.emplace_back(coords, source.loadRaw(coords, count));
      } else {
        elements.emplace_back(coords, e.convert(source.load(coords, count, op.getPadAttr()), tile.element()));
      }
    }
    for (auto &[coords, word] : words) {
      tile.storeRaw(coords, word, count, owner);
    }
    for (auto &[coords, values] : elements) {
      bool together = fastest == tile.contiguousDim() && count <= tile.vectorElements();
      for (int64_t i = 0; i < count; i += together ? count : 1) {
        SmallVector<Coord> at(coords);
        at[fastest].fixed += i;
        tile.store(at, ArrayRef<Value>(values).slice(i, together ? count : 1), owner);
      }
    }
  });
  return success();
}

LogicalResult BlockLowering::lowerStore(tile::StoreOp op) {
  SmallVector<OpFoldResult> offsets(op.getOffsets().begin(), op.getOffsets().end());
  auto type = cast<MemRefType>(op.getTile().getType());
  FailureOr<MemoryBox> target = box(op, op.getDest(), offsets, op.getDims(), type.getShape(), /*checked=*/true);
  if (failed(target)) {
    return failure();
  }
  FailureOr<TileOperand> source = operand(op, op.getTile());
  if (failed(source)) {
    return failure();
  }
  if (auto *fragment = std::get_if<Fragment *>(&*source)) {
    access({}, {&*target});
    Values values = e.convert(getAll(**fragment), target->element());
    if (!moveStaged(*target, (*fragment)->layout, values, /*store=*/true)) {
      write(*target, (*fragment)->layout, values);
    }
    return success();
  }
  auto &tile = std::get<MemoryBox>(*source);
  access({&tile}, {&*target});
  int64_t fastest, vector;
  std::tie(fastest, vector) = direction(*target, tile);
  pieces(type.getShape(), fastest, vector,
         [&](tile::LayoutAttr layout, ArrayRef<int64_t> shape, ArrayRef<Coord> origin) {
           unsigned rank = shape.size();
           int64_t count = vectorOf(layout, rank, fastest, vector);
           bool together = fastest == tile.contiguousDim() && count <= tile.vectorElements();
           SmallVector<std::pair<SmallVector<Coord>, Values>> elements; // all loads first: they are in flight together
           for (int64_t r = 0; r < layout.registerCount(); r += count) {
             SmallVector<Coord> coords = coordsOf(layout, r, rank, origin);
             Values values;
             for (int64_t i = 0; i < count; i += together ? count : 1) {
               SmallVector<Coord> at(coords);
               at[fastest].fixed += i;
               values.append(tile.load(at, together ? count : 1));
             }
             elements.emplace_back(coords, e.convert(values, target->element()));
           }
           for (auto &[coords, values] : elements) {
             target->store(coords, values, e.place(layout, rank).owner);
           }
         });
  return success();
}

LogicalResult BlockLowering::lowerFill(tile::FillOp op) {
  FailureOr<TileOperand> target = operand(op, op.getTile());
  if (failed(target)) {
    return failure();
  }
  if (auto *fragment = std::get_if<Fragment *>(&*target)) {
    for (int64_t r = 0; r < (*fragment)->layout.registerCount(); ++r) {
      set(**fragment, r, op.getValue());
    }
    return success();
  }
  auto &tile = std::get<MemoryBox>(*target);
  access({}, {&tile});
  int64_t fastest = std::max<int64_t>(tile.contiguousDim(), 0);
  pieces(tile.shape(), fastest, tile.vectorElements(),
         [&](tile::LayoutAttr layout, ArrayRef<int64_t> shape, ArrayRef<Coord> origin) {
           unsigned rank = shape.size();
           int64_t count = vectorOf(layout, rank, tile.contiguousDim(), tile.vectorElements());
           Value word = e.pack(Values(count, op.getValue()));
           for (int64_t r = 0; r < layout.registerCount(); r += count) {
             tile.storeRaw(coordsOf(layout, r, rank, origin), word, count, e.place(layout, rank).owner);
           }
         });
  return success();
}
