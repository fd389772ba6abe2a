//===- LowerReduce.cpp - tile.reduce: in a thread, across lanes, across warps
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

/// Pairwise, so that independent operations overlap.
static Value combineAll(BlockEmitter &e, tile::ReduceKind kind, SmallVector<Value> values) {
  while (values.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
      next.push_back(e.combine(kind, values[i], values[i + 1]));
    }
    if (values.size() % 2 == 1) {
      next.push_back(values.back());
    }
    values = std::move(next);
  }
  return values[0];
}

void BlockLowering::reduceLanes(tile::ReduceKind kind, ArrayRef<tile::LayoutMode> lanes,
                                llvm::function_ref<bool(const tile::LayoutMode &)> reduced, Values &values) {
  int64_t prefix = 1;
  for (const tile::LayoutMode &mode : lanes) {
    if (reduced(mode)) {
      for (int64_t mask = prefix; mask < prefix * mode.extent; mask *= 2) {
        for (Value &value : values) {
          value = e.combine(kind, value, e.exchange(value, mask));
        }
      }
    }
    prefix *= mode.extent;
  }
}

void BlockLowering::reduceWarps(tile::ReduceKind kind, tile::LayoutAttr result, ArrayRef<int64_t> shape,
                                ArrayRef<tile::LayoutMode> warps,
                                llvm::function_ref<bool(const tile::LayoutMode &)> reduced, Values &values) {
  int64_t parts = 1, prefix = 1;
  Coord part; // this warp's
  for (const tile::LayoutMode &mode : warps) {
    if (reduced(mode)) {
      int64_t bits = llvm::isPowerOf2_64(mode.extent) ? mode.extent - 1 : -1;
      part = e.add(part, e.scale(Coord(e.digit(e.warp(), prefix, mode.extent), bits), parts));
      parts *= mode.extent;
    }
    prefix *= mode.extent;
  }
  if (parts == 1) {
    return;
  }
  // Each warp leaves its part in scratch memory; every thread combines those of its elements.
  unsigned rank = shape.size();
  int64_t elements = 1;
  for (int64_t extent : shape) {
    elements *= extent;
  }
  const SharedTile &tile = scratch(MemRefType::get({parts * elements}, e.b.getF32Type()));
  MemoryBox memory(e, tile, OpFoldResult(builder.getIndexAttr(0)), {0}, {parts * elements}, /*checked=*/false);
  auto at = [&](int64_t r) {
    Coord flat;
    for (auto [coord, extent] : llvm::zip(coordsOf(result, r, rank), shape)) {
      flat = e.add(e.scale(flat, extent), coord);
    }
    return flat;
  };
  // Of the lanes that hold the same elements, the first writes.
  Value owner = e.place(result, rank).laneOwner;
  access({}, {&memory});
  for (auto [r, value] : llvm::enumerate(values)) {
    memory.store({e.add(at(r), e.scale(part, elements))}, value, owner);
  }
  access({&memory}, {});
  for (auto [r, value] : llvm::enumerate(values)) {
    SmallVector<Value> all;
    for (int64_t p = 0; p < parts; ++p) {
      Coord from = at(r);
      from.fixed += p * elements;
      all.push_back(memory.load({from}, 1)[0]);
    }
    value = combineAll(e, kind, all);
  }
}

LogicalResult BlockLowering::lowerReduce(tile::ReduceOp op) {
  int64_t axis = op.getAxis();
  auto type = cast<MemRefType>(op.getInput().getType()), outType = cast<MemRefType>(op.getOut().getType());
  unsigned rank = type.getRank();
  FailureOr<TileOperand> in = operand(op, op.getInput());
  FailureOr<TileOperand> out = operand(op, op.getOut());
  if (failed(in) || failed(out)) {
    return failure();
  }
  tile::LayoutAttr layout;
  Values values;
  if (auto *fragment = std::get_if<Fragment *>(&*in)) {
    layout = (*fragment)->layout;
    values = getAll(**fragment);
  } else {
    auto &memory = std::get<MemoryBox>(*in);
    layout = tile::bestBlockedLayout(builder.getContext(), type.getShape(), e.warps(), memory.vectorElements(),
                                     memory.contiguousDim());
    access({&memory}, {});
    values = read(memory, layout, type.getShape());
  }
  tile::LayoutAttr result = layout.slice(axis);
  tile::RegisterTable table(result, rank);
  SmallVector<Values> groups(result.registerCount());
  for (auto [r, value] : llvm::enumerate(values)) {
    SmallVector<int64_t> offset = layout.registerOffset(r, rank);
    offset[axis] = 0;
    groups[table.lookup(offset)].push_back(value);
  }
  Values sums;
  for (const Values &group : groups) {
    sums.push_back(combineAll(e, op.getKind(), group));
  }
  auto alongAxis = [&](const tile::LayoutMode &mode) { return mode.stride != 0 && mode.dim == axis; };
  reduceLanes(op.getKind(), layout.getLanes(), alongAxis, sums);
  reduceWarps(op.getKind(), result, outType.getShape(), layout.getWarps(), alongAxis, sums);
  if (op.getAccumulate()) {
    if (auto *memory = std::get_if<MemoryBox>(&*out)) {
      access({memory}, {});
    }
    Values old = readOperand(op, *out, result, outType.getShape());
    for (auto [sum, before] : llvm::zip(sums, old)) {
      sum = e.combine(op.getKind(), before, sum);
    }
  }
  if (auto *memory = std::get_if<MemoryBox>(&*out)) {
    access({}, {memory});
  }
  writeOperand(op, *out, result, sums);
  return success();
}
