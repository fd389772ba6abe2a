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

int64_t BlockLowering::Reduction::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) {
    count *= extent;
  }
  return count;
}

void BlockLowering::splitOverWarps(Reduction &reduction, ArrayRef<tile::LayoutMode> warps,
                                   llvm::function_ref<bool(const tile::LayoutMode &)> reduced) {
  int64_t prefix = 1;
  for (const tile::LayoutMode &mode : warps) {
    if (reduced(mode)) {
      int64_t bits = llvm::isPowerOf2_64(mode.extent) ? mode.extent - 1 : -1;
      Coord digit(e.digit(e.warp(), prefix, mode.extent), bits);
      reduction.part = e.add(reduction.part, e.scale(digit, reduction.parts));
      reduction.parts *= mode.extent;
    }
    prefix *= mode.extent;
  }
}

/// Each warp leaves its parts in scratch memory; every thread combines those of its elements. The parts of all
/// reductions are there behind one barrier.
void BlockLowering::reduceWarps(MutableArrayRef<Reduction> reductions) {
  constexpr int64_t kVector = 4;
  SmallVector<int64_t> starts;
  int64_t floats = 0;
  for (const Reduction &reduction : reductions) {
    starts.push_back(floats);
    floats += reduction.parts == 1 ? 0 : llvm::alignTo(reduction.parts * reduction.elements(), kVector);
  }
  if (floats == 0) {
    return;
  }
  const SharedTile &tile = scratch(MemRefType::get({floats}, e.b.getF32Type()));
  MemoryBox memory(e, tile, OpFoldResult(builder.getIndexAttr(0)), {0}, {floats}, /*checked=*/false);
  auto at = [&](const Reduction &reduction, int64_t index) {
    Coord flat;
    for (auto [coord, extent] : llvm::zip(coordsOf(reduction.result, index, reduction.shape.size()), reduction.shape)) {
      flat = e.add(e.scale(flat, extent), coord);
    }
    return flat;
  };
  access({}, {&memory});
  for (auto [reduction, start] : llvm::zip_equal(reductions, starts)) {
    if (reduction.parts == 1) {
      continue;
    }
    // Of the lanes that hold the same elements, the first writes.
    Value owner = e.place(reduction.result, reduction.shape.size()).laneOwner;
    Coord mine = e.scale(reduction.part, reduction.elements());
    mine.fixed += start;
    for (auto [r, value] : llvm::enumerate(reduction.sums)) {
      memory.store({e.add(at(reduction, r), mine)}, value, owner);
    }
  }
  access({&memory}, {});
  for (auto [reduction, start] : llvm::zip_equal(reductions, starts)) {
    if (reduction.parts == 1) {
      continue;
    }
    int64_t elements = reduction.elements();
    for (auto [r, value] : llvm::enumerate(reduction.sums)) {
      Values all;
      for (int64_t p = 0; p < reduction.parts;) {
        // The parts of a single element stand beside each other.
        int64_t count = elements == 1 && p + kVector <= reduction.parts ? kVector : 1;
        Coord from = at(reduction, r);
        from.fixed += start + p * elements;
        all.append(memory.load({from}, count));
        p += count;
      }
      value = combineAll(e, reduction.kind, all);
    }
  }
}

SmallVector<tile::ReduceOp> BlockLowering::reductionsFrom(ArrayRef<Operation *> ops) {
  SmallVector<tile::ReduceOp> run;
  llvm::SmallDenseSet<Value> written;
  for (Operation *op : ops) {
    auto reduce = dyn_cast<tile::ReduceOp>(op);
    bool follows = run.empty() || op->getPrevNode() == run.back();
    // Results in registers: one that is an operand of another, or in memory, waits for its turn.
    if (!reduce || !follows || written.contains(reduce.getInput()) || !fragments.contains(reduce.getOut()) ||
        !written.insert(reduce.getOut()).second) {
      break;
    }
    run.push_back(reduce);
  }
  return run;
}

LogicalResult BlockLowering::lowerReduces(ArrayRef<tile::ReduceOp> ops) {
  std::vector<Reduction> reductions;
  SmallVector<TileOperand, 0> outs;
  for (tile::ReduceOp op : ops) {
    int64_t axis = op.getAxis();
    auto type = cast<MemRefType>(op.getInput().getType());
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
    outs.push_back(std::move(*out));
    Reduction reduction{op.getKind(), layout.slice(axis),
                        SmallVector<int64_t>(cast<MemRefType>(op.getOut().getType()).getShape())};
    tile::RegisterTable table(reduction.result, rank);
    SmallVector<Values> groups(reduction.result.registerCount());
    for (auto [r, value] : llvm::enumerate(values)) {
      SmallVector<int64_t> offset = layout.registerOffset(r, rank);
      offset[axis] = 0;
      groups[table.lookup(offset)].push_back(value);
    }
    for (const Values &group : groups) {
      reduction.sums.push_back(combineAll(e, op.getKind(), group));
    }
    auto alongAxis = [&](const tile::LayoutMode &mode) { return mode.stride != 0 && mode.dim == axis; };
    reduceLanes(op.getKind(), layout.getLanes(), alongAxis, reduction.sums);
    splitOverWarps(reduction, layout.getWarps(), alongAxis);
    reductions.push_back(std::move(reduction));
  }
  reduceWarps(reductions);
  for (size_t i = 0; i < ops.size(); ++i) {
    tile::ReduceOp op = ops[i];
    TileOperand &out = outs[i];
    Reduction &reduction = reductions[i];
    auto *memory = std::get_if<MemoryBox>(&out);
    if (op.getAccumulate()) {
      if (memory) {
        access({memory}, {});
      }
      Values old = readOperand(op, out, reduction.result, reduction.shape);
      for (auto [sum, before] : llvm::zip(reduction.sums, old)) {
        sum = e.combine(op.getKind(), before, sum);
      }
    }
    if (memory) {
      access({}, {memory});
    }
    writeOperand(op, out, reduction.result, reduction.sums);
  }
  return success();
}
