//===- LowerMma.cpp - tile.mma: which road, and the one of fused multiply-adds
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

LogicalResult BlockLowering::lowerMma(tile::MmaOp op) {
  auto it = fragments.find(op.getAcc());
  if (it == fragments.end()) {
    return op.emitOpError("accumulates in ") << op.getAcc().getType() << "; accumulators are fragments on a GPU";
  }
  if (op.getPanels()) {
    return op.emitOpError("has b in panels, which is a layout for CPUs; on a GPU b is [K, N] or [N, K]");
  }
  std::string obstacle;
  MmaKind kind = mmaKind(op, &obstacle);
  if (!obstacle.empty()) {
    op.emitRemark() << "is computed by fused multiply-adds instead of tensor cores: " << obstacle;
  }
  FailureOr<TileOperand> a = operand(op, op.getA());
  FailureOr<TileOperand> b = operand(op, op.getB());
  if (failed(a) || failed(b)) {
    return failure();
  }
  Fragment &acc = *it->second;
  switch (kind) {
  case MmaKind::tensorCore:
    return lowerTensorCore(op, acc, *a, std::get<MemoryBox>(*b));
  case MmaKind::skinny:
    if (auto *held = std::get_if<Fragment *>(&*b)) {
      return lowerSkinny(op, acc, *a, **held);
    }
    return lowerSkinny(op, acc, *a, std::get<MemoryBox>(*b));
  case MmaKind::simt:
    return lowerSimt(op, acc, *a, *b);
  }
  return failure();
}

MemoryBox BlockLowering::inMemory(Operation *op, TileOperand &operand) {
  if (auto *memory = std::get_if<MemoryBox>(&operand)) {
    return *memory;
  }
  Fragment &fragment = *std::get<Fragment *>(operand);
  op->emitRemark() << "reads a fragment of " << fragment.layout << " by rows; it goes through shared memory";
  const SharedTile &tile = scratch(MemRefType::get(fragment.shape, fragment.element));
  unsigned rank = fragment.shape.size();
  SmallVector<OpFoldResult> zeros(rank, builder.getIndexAttr(0));
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  MemoryBox memory(e, tile, zeros, dims, fragment.shape, /*checked=*/false);
  access({}, {&memory});
  write(memory, fragment.layout, getAll(fragment));
  return memory;
}

namespace {
/// The coordinates along one dim of an accumulator's registers, and which register each pair of them is.
struct Accumulators {
  Accumulators(const Fragment &acc) {
    for (int64_t r = 0; r < acc.layout.registerCount(); ++r) {
      SmallVector<int64_t> offset = acc.layout.registerOffset(r, 2);
      rows.insert(offset[0]);
      columns.insert(offset[1]);
    }
  }
  llvm::SetVector<int64_t> rows, columns;
};
} // namespace

LogicalResult BlockLowering::lowerSimt(tile::MmaOp op, Fragment &acc, TileOperand &aOperand, TileOperand &bOperand) {
  MmaShape shape(op);
  MemoryBox a = inMemory(op, aOperand);
  bool aMoved = std::holds_alternative<Fragment *>(aOperand);
  if (aMoved && std::holds_alternative<Fragment *>(bOperand)) {
    return op.emitOpError("has two operands in fragments; put b in shared memory");
  }
  MemoryBox b = inMemory(op, bOperand);
  if (!b.isShared() && shape.m > kSkinnyRows) {
    op.emitRemark() << "reads b from global memory for each of " << shape.m << " rows; load it into a shared tile";
  }
  access({&a, &b}, {});
  Accumulators registers(acc);
  const ThreadPlace &place = e.place(acc.layout, 2);
  bool transposed = op.getTransposeB();

  // How many values along K come with one load, and how many columns of a row of b.
  int64_t wide = std::min<int64_t>(4, a.contiguousDim() == 1 ? a.vectorElements() : 1);
  if (transposed && b.contiguousDim() == 1) {
    wide = std::max(wide, std::min<int64_t>(4, b.vectorElements()));
  }
  int64_t step = std::gcd(shape.k, wide);
  int64_t aVector = a.contiguousDim() == 1 ? std::gcd(step, a.vectorElements()) : 1;
  int64_t bVector = !transposed ? vectorOf(acc.layout, 2, 1, b.contiguousDim() == 1 ? b.vectorElements() : 1)
                    : b.contiguousDim() == 1 ? std::gcd(step, b.vectorElements())
                                             : 1;
  Type f32 = builder.getF32Type();
  auto at = [](const Coord &base, int64_t offset) {
    Coord coord = base;
    coord.fixed += offset;
    return coord;
  };
  auto body = [&](const Coord &depth) {                            // `step` values of k from `depth` on
    std::map<std::pair<int64_t, int64_t>, Value> aValues, bValues; // (row or column, k)
    for (int64_t row : registers.rows) {
      for (int64_t k = 0; k < step; k += aVector) {
        Values part = e.convert(a.load({at(place.base[0], row), at(depth, k)}, aVector), f32);
        for (auto [i, value] : llvm::enumerate(part)) {
          aValues[{row, k + i}] = value;
        }
      }
    }
    for (int64_t column : registers.columns) {
      if (transposed) {
        for (int64_t k = 0; k < step; k += bVector) {
          Values part = e.convert(b.load({at(place.base[1], column), at(depth, k)}, bVector), f32);
          for (auto [i, value] : llvm::enumerate(part)) {
            bValues[{column, k + i}] = value;
          }
        }
      } else if (column % bVector == 0) {
        for (int64_t k = 0; k < step; ++k) {
          Values part = e.convert(b.load({at(depth, k), at(place.base[1], column)}, bVector), f32);
          for (auto [i, value] : llvm::enumerate(part)) {
            bValues[{column + i, k}] = value;
          }
        }
      }
    }
    for (int64_t r = 0; r < acc.layout.registerCount(); ++r) {
      SmallVector<int64_t> offset = acc.layout.registerOffset(r, 2);
      Value sum = get(acc, r);
      for (int64_t k = 0; k < step; ++k) {
        sum = LLVM::FMAOp::create(builder, e.loc, aValues[{offset[0], k}], bValues[{offset[1], k}], sum);
      }
      set(acc, r, sum);
    }
  };
  int64_t steps = shape.k / step, unroll = std::gcd<int64_t>(steps, 2);
  auto rounds = [&](const Coord &from) {
    for (int64_t u = 0; u < unroll; ++u) {
      body(at(from, u * step));
    }
  };
  if (steps == unroll) {
    rounds(Coord());
  } else {
    e.loop(steps / unroll, [&](Value i) { rounds(e.scale(Coord(i, -1), unroll * step)); });
  }
  return success();
}
