//===- Registers.cpp - what a thread holds of a tile, in registers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

/// Registers of a thread that a piece of a tile outside of registers may take.
static constexpr int64_t kPieceRegisters = 64;

Value BlockLowering::get(const Fragment &fragment, int64_t index) {
  Type stored = fragment.element.isIndex() ? builder.getI64Type() : fragment.element;
  Value at = fragment.array;
  if (index != 0) {
    at = LLVM::GEPOp::create(builder, e.loc, at.getType(), stored, at,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  }
  Value value = LLVM::LoadOp::create(builder, e.loc, stored, at);
  return fragment.element.isIndex() ? e.toIndex(value) : value;
}

void BlockLowering::set(Fragment &fragment, int64_t index, Value value) {
  Type stored = fragment.element.isIndex() ? builder.getI64Type() : fragment.element;
  Value at = fragment.array;
  if (index != 0) {
    at = LLVM::GEPOp::create(builder, e.loc, at.getType(), stored, at,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  }
  LLVM::StoreOp::create(builder, e.loc, fragment.element.isIndex() ? e.toI64(value) : value, at);
}

BlockLowering::Values BlockLowering::getAll(const Fragment &fragment) {
  Values values;
  for (int64_t r = 0, n = fragment.layout.registerCount(); r < n; ++r) {
    values.push_back(get(fragment, r));
  }
  return values;
}

SmallVector<Coord> BlockLowering::coordsOf(tile::LayoutAttr layout, int64_t index, unsigned rank,
                                           ArrayRef<Coord> origin) {
  SmallVector<Coord> coords(e.place(layout, rank).base);
  SmallVector<int64_t> offset = layout.registerOffset(index, rank);
  for (unsigned d = 0; d < rank; ++d) {
    if (!origin.empty()) {
      coords[d] = e.add(origin[d], coords[d]);
    }
    coords[d].fixed += offset[d];
  }
  return coords;
}

int64_t BlockLowering::vectorOf(tile::LayoutAttr layout, unsigned rank, int64_t dim, int64_t limit) {
  ArrayRef<tile::LayoutMode> modes = layout.getRegisters();
  if (dim < 0 || modes.empty() || modes[0].dim != dim || modes[0].stride != 1) {
    return 1;
  }
  int64_t count = std::gcd(modes[0].extent, limit);
  while (count > 1 && e.place(layout, rank).base[dim].alignment(count) < count) {
    count /= 2;
  }
  return count;
}

/// `coords` with the dims that a box does not have at 0.
static SmallVector<Coord> within(ArrayRef<int64_t> shape, SmallVector<Coord> coords) {
  for (auto [extent, coord] : llvm::zip(shape, coords)) {
    if (extent == 1) {
      coord = Coord();
    }
  }
  return coords;
}

BlockLowering::Values BlockLowering::read(MemoryBox &box, tile::LayoutAttr layout, ArrayRef<int64_t> shape,
                                          FloatAttr pad, ArrayRef<Coord> origin, int64_t first, int64_t wanted) {
  unsigned rank = shape.size();
  int64_t dim = box.contiguousDim(), end = wanted < 0 ? layout.registerCount() : first + wanted;
  bool broadcast = dim >= 0 && box.shape()[dim] == 1;
  int64_t count = broadcast ? 1 : vectorOf(layout, rank, dim, box.vectorElements());
  Values values(end - first);
  std::map<std::vector<int64_t>, Value> loaded; // broadcast elements are loaded once
  for (int64_t r = first; r < end; r += count) {
    SmallVector<Coord> coords = within(box.shape(), coordsOf(layout, r, rank, origin));
    std::vector<int64_t> key;
    for (const Coord &coord : coords) {
      key.push_back(coord.fixed);
    }
    if (count == 1) {
      Value &value = loaded[key];
      value = value ? value : box.load(coords, 1, pad)[0];
      values[r - first] = value;
      continue;
    }
    llvm::copy(box.load(coords, count, pad), values.begin() + (r - first));
  }
  return values;
}

void BlockLowering::write(MemoryBox &box, tile::LayoutAttr layout, ArrayRef<Value> values, ArrayRef<Coord> origin) {
  unsigned rank = box.shape().size();
  Values converted = e.convert(values, box.element());
  int64_t count = vectorOf(layout, rank, box.contiguousDim(), box.vectorElements());
  Value owner = e.place(layout, rank).owner;
  for (int64_t r = 0; r < layout.registerCount(); r += count) {
    box.store(coordsOf(layout, r, rank, origin), ArrayRef<Value>(converted).slice(r, count), owner);
  }
}

/// The layout of a tile that is `layout` of `shape` with the dims broadcast that `own` has not.
static tile::LayoutAttr sliceTo(tile::LayoutAttr layout, ArrayRef<int64_t> shape, ArrayRef<int64_t> own) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (own[d] != shape[d]) {
      layout = layout.slice(d);
    }
  }
  return layout;
}

BlockLowering::Values BlockLowering::readFragment(Operation *op, Fragment &fragment, tile::LayoutAttr layout,
                                                  ArrayRef<int64_t> shape) {
  unsigned rank = shape.size();
  Values values;
  if (fragment.layout.sameElements(sliceTo(layout, shape, fragment.shape))) {
    for (int64_t r = 0; r < layout.registerCount(); ++r) {
      SmallVector<int64_t> offset = layout.registerOffset(r, rank);
      for (unsigned d = 0; d < rank; ++d) {
        offset[d] = fragment.shape[d] == 1 ? 0 : offset[d];
      }
      values.push_back(get(fragment, fragment.registers->lookup(offset)));
    }
    return values;
  }
  op->emitRemark() << "reads a fragment of " << fragment.layout << " as " << layout
                   << "; it goes through shared memory";
  auto type = MemRefType::get(fragment.shape, fragment.element);
  const SharedTile &tile = scratch(type);
  SmallVector<OpFoldResult> zeros(rank, builder.getIndexAttr(0));
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  MemoryBox memory(e, tile, zeros, dims, fragment.shape, /*checked=*/false);
  access({}, {&memory});
  write(memory, fragment.layout, getAll(fragment));
  access({&memory}, {});
  return read(memory, layout, shape);
}

void BlockLowering::writeFragment(Operation *op, Fragment &fragment, tile::LayoutAttr layout, ArrayRef<Value> values) {
  unsigned rank = fragment.shape.size();
  Values converted = e.convert(values, fragment.element);
  if (fragment.layout.sameElements(layout)) {
    for (auto [r, value] : llvm::enumerate(converted)) {
      set(fragment, fragment.registers->lookup(layout.registerOffset(r, rank)), value);
    }
    return;
  }
  op->emitRemark() << "writes a fragment of " << fragment.layout << " from " << layout
                   << "; it goes through shared memory";
  const SharedTile &tile = scratch(MemRefType::get(fragment.shape, fragment.element));
  SmallVector<OpFoldResult> zeros(rank, builder.getIndexAttr(0));
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  MemoryBox memory(e, tile, zeros, dims, fragment.shape, /*checked=*/false);
  access({}, {&memory});
  write(memory, layout, converted);
  access({&memory}, {});
  for (auto [r, value] : llvm::enumerate(read(memory, fragment.layout, fragment.shape))) {
    set(fragment, r, value);
  }
}

BlockLowering::Values BlockLowering::readOperand(Operation *op, TileOperand &operand, tile::LayoutAttr layout,
                                                 ArrayRef<int64_t> shape) {
  if (auto *fragment = std::get_if<Fragment *>(&operand)) {
    return readFragment(op, **fragment, layout, shape);
  }
  return read(std::get<MemoryBox>(operand), layout, shape);
}

void BlockLowering::writeOperand(Operation *op, TileOperand &operand, tile::LayoutAttr layout, ArrayRef<Value> values) {
  if (auto *fragment = std::get_if<Fragment *>(&operand)) {
    writeFragment(op, **fragment, layout, values);
  } else {
    write(std::get<MemoryBox>(operand), layout, values);
  }
}

void BlockLowering::pieces(ArrayRef<int64_t> shape, int64_t fastest, int64_t vector, PieceFn fn) {
  unsigned rank = shape.size();
  SmallVector<int64_t> piece(shape);
  auto layoutOf = [&](ArrayRef<int64_t> extents) {
    return tile::bestBlockedLayout(builder.getContext(), extents, e.warps(), vector, fastest);
  };
  // Halve (or take a prime factor of) the outermost dim that has one until a piece fits the registers of a thread and
  // still occupies all threads.
  int64_t count = 1;
  int64_t dim = -1;
  while (true) {
    tile::LayoutAttr layout = layoutOf(piece);
    if (layout && layout.registerCount() <= kPieceRegisters) {
      break;
    }
    int64_t best = -1;
    for (unsigned d = 0; d < rank && best < 0; ++d) {
      if (piece[d] > 1 && (dim < 0 || dim == static_cast<int64_t>(d)) &&
          (static_cast<int64_t>(d) != fastest || piece[d] > 32 * vector)) {
        best = d;
      }
    }
    if (best < 0) {
      break;
    }
    int64_t factor = 2;
    while (piece[best] % factor != 0) {
      ++factor;
    }
    dim = best;
    piece[best] /= factor;
    count *= factor;
  }
  tile::LayoutAttr layout = layoutOf(piece);
  SmallVector<Coord> origin(rank);
  if (count == 1) {
    fn(layout, piece, origin);
    return;
  }
  e.loop(count, [&](Value i) {
    origin[dim] = e.scale(Coord(i, -1), piece[dim]);
    fn(layout, piece, origin);
  });
}
