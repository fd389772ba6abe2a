//===- MemoryBox.cpp - a box of shared or global memory that the threads of a block access together
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/MemoryBox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "passes/TileToNvvm/IndexFacts.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kimi;

/// Bytes of the widest access of a thread.
static constexpr int64_t kVectorBytes = 16;

MemoryBox::MemoryBox(BlockEmitter &e, const GlobalBuffer &buffer, ArrayRef<OpFoldResult> offsets,
                     ArrayRef<int64_t> dims, ArrayRef<int64_t> extents, bool checked)
    : e(e), elementType(buffer.element), extents(extents), readOnly(buffer.readOnly) {
  int64_t size = elementBytes(elementType);
  auto strideOf = [&](int64_t dim) { return buffer.strides[dim]; };
  Value start; // in elements, i64
  for (auto [dim, offset] : llvm::enumerate(offsets)) {
    if (getConstantIntValue(offset) == 0) {
      continue;
    }
    auto asI64 = [&](OpFoldResult value) {
      std::optional<int64_t> constant = getConstantIntValue(value);
      return constant ? e.i64(*constant) : e.toI64(cast<Value>(value));
    };
    Value part = e.mul(asI64(offset), asI64(strideOf(dim)));
    start = start ? e.add(start, part) : part;
  }
  origin = buffer.pointer;
  if (start) {
    Type unit = e.b.getIntegerType(8 * size);
    origin = LLVM::GEPOp::create(e.b, e.loc, origin.getType(), unit, origin, ArrayRef<LLVM::GEPArg>{start});
  }
  for (auto [i, dim] : llvm::enumerate(dims)) {
    strides.push_back(strideOf(dim));
    if (getConstantIntValue(strides.back()) == 1 && (contiguous < 0 || extents[i] > extents[contiguous])) {
      contiguous = i;
    }
  }
  if (checked) {
    check(offsets, buffer.sizes, dims);
  } else {
    limits.resize(dims.size());
    floors.resize(dims.size());
  }
  if (contiguous < 0) {
    return;
  }
  // What the address of a vector is a multiple of.
  int64_t align = std::min(kVectorBytes, buffer.align);
  int64_t runs = dims[contiguous];
  for (auto [dim, offset] : llvm::enumerate(offsets)) {
    if (static_cast<int64_t>(dim) == runs) {
      align = std::min(align, knownAlignment(offset) * size);
      continue;
    }
    bool moves = getConstantIntValue(offset) != 0;
    for (auto [i, along] : llvm::enumerate(dims)) {
      moves |= along == static_cast<int64_t>(dim) && extents[i] != 1;
    }
    if (std::optional<int64_t> stride = getConstantIntValue(strideOf(dim)); stride && moves) {
      align = std::min(align, *stride == 0 ? align : (*stride * size) & -(*stride * size));
    } else if (moves) {
      align = std::min(align, buffer.align);
    }
  }
  vector = std::max<int64_t>(1, align / size);
  // A vector must lie within the buffer as a whole or not at all.
  if (limits[contiguous] || floors[contiguous]) {
    vector = std::min(vector, knownAlignment(buffer.sizes[runs]));
  }
}

MemoryBox::MemoryBox(BlockEmitter &e, const SharedTile &tile, ArrayRef<OpFoldResult> offsets, ArrayRef<int64_t> dims,
                     ArrayRef<int64_t> extents, bool checked)
    : e(e), elementType(tile.type.getElementType()), extents(extents), shared(&tile), tileDims(dims) {
  int64_t last = tile.type.getRank() - 1;
  for (OpFoldResult offset : offsets) {
    tileOffsets.push_back(e.coord(offset));
  }
  SmallVector<OpFoldResult> sizes;
  for (int64_t extent : tile.type.getShape()) {
    sizes.push_back(e.b.getIndexAttr(extent));
  }
  if (checked) {
    check(offsets, sizes, dims);
  } else {
    limits.resize(dims.size());
    floors.resize(dims.size());
  }
  int64_t size = tile.layout.elementBytes;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim == last) {
      contiguous = i;
      int64_t pitch = tile.layout.rows == 1 ? kVectorBytes : tile.layout.panelBytes & -tile.layout.panelBytes;
      int64_t align = std::min({kVectorBytes, pitch, tileOffsets[last].alignment(kVectorBytes) * size});
      vector = std::max<int64_t>(1, align / size);
      if (limits[i] || floors[i]) {
        vector = std::min(vector, knownAlignment(sizes[last]));
      }
    }
  }
}

bool MemoryBox::isInside(OpFoldResult offset, OpFoldResult size, int64_t extent, bool &low, bool &high) {
  IndexRange range = knownRange(offset);
  std::optional<int64_t> bound = getConstantIntValue(size);
  low = range.low && *range.low >= 0;
  high = bound && range.high && *range.high + extent <= *bound;
  return low && high;
}

void MemoryBox::check(ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes, ArrayRef<int64_t> dims) {
  limits.resize(dims.size());
  floors.resize(dims.size());
  auto asI64 = [&](OpFoldResult value) {
    std::optional<int64_t> constant = getConstantIntValue(value);
    return constant ? e.i64(*constant) : e.toI64(cast<Value>(value));
  };
  for (auto [dim, offset] : llvm::enumerate(offsets)) {
    auto it = llvm::find(dims, static_cast<int64_t>(dim));
    int64_t extent = it == dims.end() ? 1 : extents[it - dims.begin()];
    bool low, high;
    if (isInside(offset, sizes[dim], extent, low, high)) {
      continue;
    }
    Value from = asI64(offset), size = asI64(sizes[dim]), zero = e.i64(0), span = e.i64(extent);
    if (it == dims.end()) {
      // As one comparison of numbers without sign: offsets below 0 are huge.
      within = e.both(within, e.b.createOrFold<arith::CmpIOp>(e.loc, arith::CmpIPredicate::ult, from, size));
      continue;
    }
    int64_t i = it - dims.begin();
    auto clamp = [&](Value value) {
      value = e.b.createOrFold<arith::MaxSIOp>(e.loc, value, zero);
      return e.toI32(e.b.createOrFold<arith::MinSIOp>(e.loc, value, span));
    };
    if (!high) {
      limits[i] = clamp(e.sub(size, from));
    }
    if (!low) {
      floors[i] = clamp(e.sub(zero, from));
    }
  }
}

Value MemoryBox::pointer(ArrayRef<Coord> coords) {
  if (shared) {
    SmallVector<Coord> at(tileOffsets);
    for (auto [i, dim] : llvm::enumerate(tileDims)) {
      at[dim] = e.add(at[dim], coords[i]);
    }
    Coord row;
    ArrayRef<int64_t> shape = shared->type.getShape();
    for (size_t d = 0; d + 1 < at.size(); ++d) {
      row = e.add(e.scale(row, shape[d]), at[d]);
    }
    Coord column = at.empty() ? Coord() : e.scale(at.back(), shared->layout.elementBytes);
    return e.pointer(shared->pointer, e.sharedOffset(shared->layout, row, column));
  }
  int64_t size = elementBytes(elementType), fixed = 0;
  Value dynamic; // i64, elements
  auto addTo = [&](Value part) { dynamic = dynamic ? e.add(dynamic, part) : part; };
  for (auto [coord, stride] : llvm::zip(coords, strides)) {
    std::optional<int64_t> constant = getConstantIntValue(stride);
    Value factor = constant ? e.i64(*constant) : cast<Value>(stride);
    if (coord.dynamic) {
      addTo(e.mul(e.toI64(coord.dynamic), factor));
    }
    if (constant) {
      fixed += coord.fixed * *constant * size;
    } else if (coord.fixed != 0) {
      addTo(e.mul(e.i64(coord.fixed), factor));
    }
  }
  Value address = origin;
  if (dynamic) {
    Type unit = e.b.getIntegerType(8 * size);
    address = LLVM::GEPOp::create(e.b, e.loc, address.getType(), unit, address, ArrayRef<LLVM::GEPArg>{dynamic});
  }
  if (fixed != 0) {
    Value bytes = e.i64(fixed);
    address =
        LLVM::GEPOp::create(e.b, e.loc, address.getType(), e.b.getI8Type(), address, ArrayRef<LLVM::GEPArg>{bytes});
  }
  return address;
}

Value MemoryBox::predicate(ArrayRef<Coord> coords) {
  Value holds = within;
  for (auto [i, coord] : llvm::enumerate(coords)) {
    if (limits[i]) {
      // base < limit - fixed: the right side is the same for all threads.
      Value bound = coord.fixed == 0 ? limits[i] : e.sub(limits[i], e.i32(coord.fixed));
      holds = e.both(holds, e.less(coord.dynamic ? coord.dynamic : e.i32(0), bound));
    }
    if (floors[i]) {
      holds =
          e.both(holds, e.b.createOrFold<arith::CmpIOp>(e.loc, arith::CmpIPredicate::sge, e.value(coord), floors[i]));
    }
  }
  return holds;
}

Value MemoryBox::loadRaw(ArrayRef<Coord> coords, int64_t count) {
  int64_t bytes = count * elementBytes(elementType);
  Value at = pointer(coords), holds = predicate(coords);
  if (!shared) {
    return e.loadIf(holds, at, bytes, readOnly);
  }
  if (!holds) {
    return e.load(at, bytes);
  }
  Value raw = e.load(LLVM::SelectOp::create(e.b, e.loc, holds, at, shared->pointer), bytes);
  Value zero = LLVM::ZeroOp::create(e.b, e.loc, raw.getType());
  return LLVM::SelectOp::create(e.b, e.loc, holds, raw, zero);
}

SmallVector<Value> MemoryBox::load(ArrayRef<Coord> coords, int64_t count, FloatAttr pad) {
  SmallVector<Value> values = e.unpack(loadRaw(coords, count), elementType);
  if (!pad || pad.getValue().isPosZero() || !isa<FloatType>(elementType)) {
    return values;
  }
  if (Value holds = predicate(coords)) {
    APFloat number = pad.getValue();
    bool lost;
    number.convert(cast<FloatType>(elementType).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    Value padding = arith::ConstantOp::create(e.b, e.loc, FloatAttr::get(elementType, number));
    for (Value &value : values) {
      value = arith::SelectOp::create(e.b, e.loc, holds, value, padding);
    }
  }
  return values;
}

void MemoryBox::storeRaw(ArrayRef<Coord> coords, Value raw, int64_t count, Value condition) {
  Value holds = e.both(predicate(coords), condition);
  e.storeIf(holds, raw, pointer(coords), count * elementBytes(elementType));
}

void MemoryBox::store(ArrayRef<Coord> coords, ArrayRef<Value> values, Value condition) {
  storeRaw(coords, e.pack(values), values.size(), condition);
}
