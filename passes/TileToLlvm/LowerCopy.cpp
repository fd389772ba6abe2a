//===- LowerCopy.cpp - tile.load, tile.store and tile.fill as vector loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToLlvm/VectorEmitter.h"

using namespace mlir;
using namespace kimi;

namespace {
/// A copy between a tile and a box of a buffer, in either direction.
struct BoxCopy {
  VectorEmitter &e;
  FlatBuffer tile;
  FlatBuffer buffer;
  SmallVector<int64_t> shape;     ///< of the tile
  SmallVector<int64_t> dims;      ///< of the buffer, for each dim of the tile
  Value base;                     ///< where tile element (0, ..) lies in the buffer
  SmallVector<Value> tileStrides; ///< for each dim of the tile
  SmallVector<Value> boxStrides;  ///< for each dim of the tile
  bool toTile;

  BoxCopy(VectorEmitter &e, Value tileValue, Value bufferValue, ValueRange offsets, ArrayRef<int64_t> dimNames,
          bool toTile)
      : e(e), tile(e.flatten(tileValue)), buffer(e.flatten(bufferValue)),
        shape(cast<MemRefType>(tileValue.getType()).getShape()), dims(dimNames), toTile(toTile) {
    base = e.position(buffer, SmallVector<Value>(offsets));
    for (auto [k, dim] : llvm::enumerate(dims)) {
      tileStrides.push_back(e.materialize(tile.strides[k]));
      boxStrides.push_back(e.materialize(buffer.strides[dim]));
    }
  }

  unsigned rank() const { return shape.size(); }

  Value tilePosition(ArrayRef<Value> at) { return e.position(tile, at); }
  Value boxPosition(ArrayRef<Value> at) {
    Value result = base;
    for (auto [i, stride] : llvm::zip_equal(at, boxStrides)) {
      result = e.add(result, e.mul(i, stride));
    }
    return result;
  }

  /// Moves `width` elements along the innermost dim (0: one element).
  void move(ArrayRef<Value> at, unsigned width) {
    Value inTile = tilePosition(at), inBox = boxPosition(at);
    if (toTile) {
      e.store(e.convert(e.load(buffer, inBox, width), tile.element), tile, inTile);
    } else {
      e.store(e.convert(e.load(tile, inTile, width), buffer.element), buffer, inBox);
    }
  }

  /// Moves a square of lanes x lanes whose rows run along `across` in the buffer and innermost in the tile.
  void moveSquare(ArrayRef<Value> at, unsigned across) {
    unsigned inner = rank() - 1;
    FlatBuffer &from = toTile ? buffer : tile;
    FlatBuffer &to = toTile ? tile : buffer;
    Value fromStride = toTile ? boxStrides[inner] : tileStrides[across];
    Value toStride = toTile ? tileStrides[across] : boxStrides[inner];
    Value source = toTile ? boxPosition(at) : tilePosition(at);
    Value target = toTile ? tilePosition(at) : boxPosition(at);
    SmallVector<Value> rows;
    for (unsigned i = 0; i < e.lanes; ++i) {
      Value row = e.load(from, e.add(source, e.mul(e.index(i), fromStride)), e.lanes);
      rows.push_back(e.convert(row, to.element));
    }
    for (auto [i, row] : llvm::enumerate(e.transpose(rows))) {
      e.store(row, to, e.add(target, e.mul(e.index(i), toStride)));
    }
  }

  /// Copies tile elements lo <= i < hi.
  void copy(ArrayRef<Value> lo, ArrayRef<Value> hi) {
    if (rank() == 0) {
      return move({}, 0);
    }
    unsigned inner = rank() - 1;
    bool tileUnit = tile.staticStride(inner) == 1;
    if (tileUnit && buffer.staticStride(dims[inner]) == 1) {
      return copyRows(lo, hi);
    }
    for (unsigned k = 0; k + 1 < rank() && tileUnit; ++k) {
      if (buffer.staticStride(dims[k]) == 1) {
        return copyTransposed(lo, hi, k);
      }
    }
    e.loops(lo, hi, [&](ArrayRef<Value> at) { move(at, 0); });
  }

private:
  void copyRows(ArrayRef<Value> lo, ArrayRef<Value> hi) {
    unsigned inner = rank() - 1;
    e.loops(lo.drop_back(), hi.drop_back(), [&](ArrayRef<Value> outer) {
      SmallVector<Value> at(outer);
      at.push_back(Value());
      auto run = [&](unsigned width) {
        return [&, width](Value i) {
          at[inner] = i;
          move(at, width);
        };
      };
      Value middle = e.roundDown(lo[inner], hi[inner], e.lanes);
      e.loop(lo[inner], middle, e.lanes, run(e.lanes), /*unroll=*/true);
      e.loop(middle, hi[inner], 1, run(0));
    });
  }

  void copyTransposed(ArrayRef<Value> lo, ArrayRef<Value> hi, unsigned across) {
    unsigned inner = rank() - 1;
    SmallVector<Value> otherLo, otherHi;
    for (unsigned k = 0; k < inner; ++k) {
      if (k != across) {
        otherLo.push_back(lo[k]);
        otherHi.push_back(hi[k]);
      }
    }
    e.loops(otherLo, otherHi, [&](ArrayRef<Value> others) {
      SmallVector<Value> at(others);
      at.insert(at.begin() + across, Value());
      at.push_back(Value());
      Value middleAcross = e.roundDown(lo[across], hi[across], e.lanes);
      Value middleInner = e.roundDown(lo[inner], hi[inner], e.lanes);
      auto elements = [&](Value i) {
        at[inner] = i;
        move(at, 0);
      };
      e.loop(lo[across], middleAcross, e.lanes, [&](Value i) {
        e.loop(lo[inner], middleInner, e.lanes, [&](Value j) {
          at[across] = i;
          at[inner] = j;
          moveSquare(at, across);
        });
      });
      e.loop(lo[across], middleAcross, 1, [&](Value i) {
        at[across] = i;
        e.loop(middleInner, hi[inner], 1, elements);
      });
      e.loop(middleAcross, hi[across], 1, [&](Value i) {
        at[across] = i;
        e.loop(lo[inner], hi[inner], 1, elements);
      });
    });
  }
};

/// The part of the tile that lies within the buffer.
struct Bounds {
  SmallVector<Value> lo, hi; ///< for each dim of the tile; empty ranges have lo = hi
  Value whole;               ///< i1: the box is fully inside
};
} // namespace

static Bounds clip(VectorEmitter &e, const BoxCopy &copy, ValueRange offsets) {
  Bounds result;
  Value zero = e.index(0);
  result.whole = arith::ConstantOp::create(e.b, e.loc, e.b.getBoolAttr(true));
  Value pinnedInside = result.whole; // dims of the buffer that the tile does not run along
  for (auto [dim, offset] : llvm::enumerate(offsets)) {
    Value size = e.materialize(copy.buffer.sizes[dim]);
    bool mapped = llvm::is_contained(copy.dims, static_cast<int64_t>(dim));
    int64_t extent = mapped ? copy.shape[llvm::find(copy.dims, static_cast<int64_t>(dim)) - copy.dims.begin()] : 1;
    Value inside = e.both(e.lessEqual(zero, offset), e.lessEqual(e.add(offset, e.index(extent)), size));
    result.whole = e.both(result.whole, inside);
    if (!mapped) {
      pinnedInside = e.both(pinnedInside, inside);
    }
  }
  for (auto [k, dim] : llvm::enumerate(copy.dims)) {
    Value size = e.materialize(copy.buffer.sizes[dim]);
    Value extent = e.index(copy.shape[k]);
    Value lo = e.min(e.max(e.sub(zero, offsets[dim]), zero), extent);
    Value hi = e.max(e.min(e.sub(size, offsets[dim]), extent), lo);
    hi = e.b.createOrFold<arith::SelectOp>(e.loc, pinnedInside, hi, lo);
    result.lo.push_back(lo);
    result.hi.push_back(hi);
  }
  return result;
}

static void fill(VectorEmitter &e, const FlatBuffer &tile, ArrayRef<int64_t> shape, Value scalar) {
  unsigned rank = shape.size();
  if (rank == 0) {
    return e.store(scalar, tile, e.index(0));
  }
  // Dims that follow each other in memory are one.
  int64_t run = 1;
  unsigned outer = rank;
  while (outer > 0 && (shape[outer - 1] == 1 || tile.staticStride(outer - 1) == run)) {
    run *= shape[--outer];
  }
  if (run == 1) { // no unit stride innermost
    outer = rank;
  }
  SmallVector<Value> lo(outer, e.index(0)), hi;
  for (unsigned k = 0; k < outer; ++k) {
    hi.push_back(e.index(shape[k]));
  }
  e.loops(lo, hi, [&](ArrayRef<Value> at) {
    Value start = e.index(0);
    for (auto [k, i] : llvm::enumerate(at)) {
      start = e.add(start, e.mul(i, e.materialize(tile.strides[k])));
    }
    int64_t whole = run / e.lanes * e.lanes;
    if (whole > 0) {
      Value vector = e.splat(scalar, e.lanes);
      e.loop(e.index(0), e.index(whole), e.lanes, [&](Value i) { e.store(vector, tile, e.add(start, i)); }, true);
    }
    if (run > whole) {
      unsigned rest = run - whole;
      e.store(e.splat(scalar, rest), tile, e.add(start, e.index(whole)));
    }
  });
}

void kimi::lowerLoad(VectorEmitter &e, tile::LoadOp op) {
  BoxCopy copy(e, op.getTile(), op.getSource(), op.getOffsets(), op.getDims(), /*toTile=*/true);
  SmallVector<Value> zero(copy.rank(), e.index(0)), extent;
  for (int64_t size : copy.shape) {
    extent.push_back(e.index(size));
  }
  Bounds bounds = clip(e, copy, op.getOffsets());
  e.branch(
      bounds.whole, [&] { copy.copy(zero, extent); },
      [&] {
        fill(e, copy.tile, copy.shape, e.constant(copy.tile.element, op.getPad().convertToDouble(), 0));
        copy.copy(bounds.lo, bounds.hi);
      });
}

void kimi::lowerStore(VectorEmitter &e, tile::StoreOp op) {
  BoxCopy copy(e, op.getTile(), op.getDest(), op.getOffsets(), op.getDims(), /*toTile=*/false);
  SmallVector<Value> zero(copy.rank(), e.index(0)), extent;
  for (int64_t size : copy.shape) {
    extent.push_back(e.index(size));
  }
  Bounds bounds = clip(e, copy, op.getOffsets());
  e.branch(bounds.whole, [&] { copy.copy(zero, extent); }, [&] { copy.copy(bounds.lo, bounds.hi); });
}

void kimi::lowerFill(VectorEmitter &e, tile::FillOp op) {
  fill(e, e.flatten(op.getTile()), cast<MemRefType>(op.getTile().getType()).getShape(), op.getValue());
}
