//===- CheckBounds.cpp - --tile-check-bounds
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/TileToLlvm/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kimi {
#define GEN_PASS_DEF_TILECHECKBOUNDS
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
class Guard {
public:
  explicit Guard(Operation *op) : b(op), loc(op->getLoc()) {}

  /// Elements [first, first + count) of an axis of extent `extent` are within it.
  void within(Value first, Value count, Value extent) {
    Value end = arith::AddIOp::create(b, loc, first, count);
    require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, first, number(0)));
    require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, end, extent));
  }

  /// `indices` of `buffer`, and `lanes` elements from the last of them on. The first element may be read of any buffer:
  /// those of no elements have room for one.
  void access(Value buffer, ValueRange indices, int64_t lanes, bool reads) {
    Value first;
    for (auto [axis, index] : llvm::enumerate(indices)) {
      Value extent = memref::DimOp::create(b, loc, buffer, axis);
      within(index, number(axis + 1 == indices.size() ? lanes : 1), extent);
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index, number(0));
      first = first ? arith::AndIOp::create(b, loc, first, isFirst).getResult() : isFirst;
    }
    if (first && reads && lanes == 1) {
      holds = arith::OrIOp::create(b, loc, holds, first);
    }
  }

  /// The elements of a view are within its source, or it has none.
  void view(memref::SubViewOp view) {
    Value isEmpty;
    for (Value size : values(view.getMixedSizes())) {
      Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, size, number(0));
      isEmpty = isEmpty ? arith::OrIOp::create(b, loc, isEmpty, none).getResult() : none;
    }
    SmallVector<Value> offsets = values(view.getMixedOffsets()), sizes = values(view.getMixedSizes()),
                       strides = values(view.getMixedStrides());
    for (auto [axis, offset] : llvm::enumerate(offsets)) {
      Value steps = arith::SubIOp::create(b, loc, sizes[axis], number(1));
      Value last = arith::MulIOp::create(b, loc, steps, strides[axis]);
      Value count = arith::AddIOp::create(b, loc, last, number(1));
      within(offset, count, memref::DimOp::create(b, loc, view.getSource(), axis));
    }
    holds = isEmpty && holds ? arith::OrIOp::create(b, loc, isEmpty, holds).getResult() : holds;
  }

  void finish() {
    if (!holds) {
      return;
    }
    Value fails = arith::XOrIOp::create(b, loc, holds, arith::ConstantIntOp::create(b, loc, 1, 1));
    auto out = scf::IfOp::create(b, loc, fails, /*withElseRegion=*/false);
    OpBuilder inner = out.getThenBodyBuilder();
    LLVM::Trap::create(inner, loc);
  }

private:
  Value number(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  void require(Value condition) {
    holds = holds ? arith::AndIOp::create(b, loc, holds, condition).getResult() : condition;
  }
  SmallVector<Value> values(ArrayRef<OpFoldResult> numbers) {
    SmallVector<Value> result;
    for (OpFoldResult each : numbers) {
      result.push_back(getValueOrCreateConstantIndexOp(b, loc, each));
    }
    return result;
  }

  OpBuilder b;
  Location loc;
  Value holds;
};

struct TileCheckBounds : kimi::impl::TileCheckBoundsBase<TileCheckBounds> {
  void runOnOperation() override {
    SmallVector<Operation *> accesses;
    getOperation()->walk([&](Operation *op) {
      if (isa<memref::LoadOp, memref::StoreOp, vector::LoadOp, vector::StoreOp, memref::SubViewOp>(op)) {
        accesses.push_back(op);
      }
    });
    for (Operation *op : accesses) {
      Guard guard(op);
      llvm::TypeSwitch<Operation *>(op)
          .Case<memref::LoadOp, memref::StoreOp>(
              [&](auto access) { guard.access(access.getMemRef(), access.getIndices(), 1, isa<memref::LoadOp>(op)); })
          .Case<vector::LoadOp, vector::StoreOp>([&](auto access) {
            guard.access(access.getBase(), access.getIndices(), access.getVectorType().getNumElements(),
                         isa<vector::LoadOp>(op));
          })
          .Case([&](memref::SubViewOp view) { guard.view(view); });
      guard.finish();
    }
  }
};
} // namespace
