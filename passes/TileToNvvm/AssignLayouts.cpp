//===- AssignLayouts.cpp - which thread holds which element of a fragment
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "passes/TileToNvvm/MmaKind.h"
#include "passes/TileToNvvm/Passes.h"
#include "passes/TileToNvvm/SharedLayout.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace kimi {
#define GEN_PASS_DEF_TILEASSIGNLAYOUTS
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
class LayoutAssignment {
public:
  LayoutAssignment(tile::KernelOp kernel, int64_t warps) : kernel(kernel), warps(warps) {}

  LogicalResult run() {
    kernel.walk([&](tile::AllocOp alloc) {
      if (isFragment(alloc)) {
        fragments.push_back(alloc);
      }
    });
    findWholeRows();
    anchor();
    propagate();
    while (tile::AllocOp left = largestLeft()) {
      auto type = cast<MemRefType>(left.getType());
      int64_t vector = std::max<int64_t>(1, 16 / elementBytes(type.getElementType()));
      give(left, tile::bestBlockedLayout(kernel.getContext(), type.getShape(), warps, vector));
      propagate();
    }
    for (tile::AllocOp alloc : fragments) {
      if (alloc.getLayoutAttr().registerCount() > 512) {
        return alloc.emitOpError("needs ") << alloc.getLayoutAttr().registerCount() << " registers of a thread for "
                                           << alloc.getType() << "; choose a smaller tile or more threads";
      }
    }
    return success();
  }

private:
  tile::AllocOp fragmentOf(Value memref) {
    auto alloc = memref.getDefiningOp<tile::AllocOp>();
    return alloc && isFragment(alloc) ? alloc : tile::AllocOp();
  }

  static ArrayRef<int64_t> shapeOf(Value memref) { return cast<MemRefType>(memref.getType()).getShape(); }

  void give(tile::AllocOp alloc, tile::LayoutAttr layout) {
    if (alloc && !alloc.getLayoutAttr() && layout && layout.covers(shapeOf(alloc))) {
      alloc.setLayoutAttr(layout);
      changed = true;
    }
  }

  /// Fragments that belong together (by maps, reductions and products), and whether one of them is a factor of a
  /// product: its rows must be whole in a warp.
  void findWholeRows() {
    for (tile::AllocOp alloc : fragments) {
      related.insert(alloc.getOperation());
    }
    auto join = [&](Value x, Value y) {
      if (fragmentOf(x) && fragmentOf(y)) {
        related.unionSets(fragmentOf(x), fragmentOf(y));
      }
    };
    kernel.walk([&](Operation *op) {
      if (auto map = dyn_cast<tile::MapOp>(op)) {
        for (Value input : map.getInputs()) {
          join(input, map.getOut());
        }
      } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
        join(reduce.getInput(), reduce.getOut());
      } else if (auto mma = dyn_cast<tile::MmaOp>(op)) {
        join(mma.getA(), mma.getAcc());
      }
    });
    kernel.walk([&](tile::MmaOp mma) {
      if (fragmentOf(mma.getA())) {
        wholeRows.insert(related.getLeaderValue(fragmentOf(mma.getA())));
      }
    });
  }

  void anchor() {
    kernel.walk([&](tile::MmaAsyncOp product) {
      // Warpgroups split the rows; a factor in registers is laid out like an accumulator.
      for (Value operand : {product.getAcc(), product.getA()}) {
        ArrayRef<int64_t> shape = shapeOf(operand);
        int64_t groups = warps / 4;
        if (fragmentOf(operand) && groups > 0 && shape[0] % (64 * groups) == 0 && shape[1] % 8 == 0) {
          give(fragmentOf(operand), tile::wgmmaAccumulatorLayout(kernel.getContext(), shape[0], shape[1], groups, 1));
        }
      }
    });
    kernel.walk([&](Operation *op) {
      if (isa<tile::ScanOp, tile::PickRowsOp, tile::SolveOp>(op)) {
        for (Value operand : op->getOperands()) {
          bool isMatrix = isa<tile::SolveOp>(op) && operand == cast<tile::SolveOp>(op).getA();
          if (fragmentOf(operand) && !isMatrix) {
            ArrayRef<int64_t> shape = shapeOf(operand);
            give(fragmentOf(operand), tile::columnLayout(kernel.getContext(), shape[0], shape[1], warps));
          }
        }
      }
    });
    kernel.walk([&](tile::MmaOp mma) {
      tile::AllocOp acc = fragmentOf(mma.getAcc());
      if (!acc || acc.getLayoutAttr()) {
        return;
      }
      MmaShape shape(mma);
      bool rowsOnly = wholeRows.contains(related.getLeaderValue(acc));
      switch (mmaKind(mma)) {
      case MmaKind::tensorCore:
        give(acc, tensorCoreLayout(mma, warps, rowsOnly));
        break;
      case MmaKind::skinny:
        give(acc, skinnyLayout(mma, warps));
        give(fragmentOf(mma.getB()), skinnyOperandLayout(mma, warps));
        break;
      case MmaKind::simt:
        give(acc,
             tile::simtAccumulatorLayout(kernel.getContext(), shape.m, shape.n, warps, mma.getTransposeB(), rowsOnly));
        break;
      }
    });
  }

  /// The layout of what is `shape` in `layout` with the dims reduced to 1 that `own` lacks.
  static tile::LayoutAttr sliced(tile::LayoutAttr layout, ArrayRef<int64_t> shape, ArrayRef<int64_t> own) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != own[d]) {
        layout = layout.slice(d);
      }
    }
    return layout;
  }

  void propagate() {
    do {
      changed = false;
      kernel.walk([&](Operation *op) {
        if (auto map = dyn_cast<tile::MapOp>(op)) {
          propagateMap(map);
        } else if (auto dequantize = dyn_cast<tile::DequantizeOp>(op)) {
          tile::AllocOp codes = fragmentOf(dequantize.getCodes());
          if (codes && codes.getLayoutAttr()) { // 16 bytes a scale
            give(fragmentOf(dequantize.getScales()), tile::groupedLayout(codes.getLayoutAttr(), 1, 16));
          }
        } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
          tile::AllocOp in = fragmentOf(reduce.getInput()), out = fragmentOf(reduce.getOut());
          if (in && in.getLayoutAttr()) {
            give(out, in.getLayoutAttr().slice(reduce.getAxis()));
          }
        } else if (auto mma = dyn_cast<tile::MmaOp>(op)) {
          tile::AllocOp acc = fragmentOf(mma.getAcc()), a = fragmentOf(mma.getA());
          if (a && acc && acc.getLayoutAttr() && mmaKind(mma) == MmaKind::tensorCore) {
            give(a, aFragmentLayout(acc.getLayoutAttr(), shapeOf(a)[0], shapeOf(a)[1]));
          }
        }
      });
    } while (changed);
  }

  void propagateMap(tile::MapOp map) {
    ArrayRef<int64_t> shape = shapeOf(map.getOut());
    SmallVector<tile::AllocOp> whole;
    if (tile::AllocOp out = fragmentOf(map.getOut())) {
      whole.push_back(out);
    }
    for (Value input : map.getInputs()) {
      if (fragmentOf(input) && shapeOf(input) == shape) {
        whole.push_back(fragmentOf(input));
      }
    }
    tile::LayoutAttr layout;
    for (tile::AllocOp alloc : whole) {
      layout = layout ? layout : alloc.getLayoutAttr();
    }
    if (!layout) {
      return;
    }
    for (tile::AllocOp alloc : whole) {
      give(alloc, layout);
    }
    for (Value input : map.getInputs()) {
      if (tile::AllocOp alloc = fragmentOf(input)) {
        give(alloc, sliced(layout, shape, shapeOf(input)));
      }
    }
  }

  tile::AllocOp largestLeft() {
    tile::AllocOp largest;
    int64_t most = 0;
    for (tile::AllocOp alloc : fragments) {
      int64_t count = cast<MemRefType>(alloc.getType()).getNumElements();
      if (!alloc.getLayoutAttr() && count > most) {
        largest = alloc;
        most = count;
      }
    }
    return largest;
  }

  tile::KernelOp kernel;
  int64_t warps;
  SmallVector<tile::AllocOp> fragments;
  llvm::EquivalenceClasses<Operation *> related;
  llvm::SmallPtrSet<Operation *, 4> wholeRows;
  bool changed = false;
};

struct TileAssignLayouts : kimi::impl::TileAssignLayoutsBase<TileAssignLayouts> {
  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      bool tiles = kernel.walk([](tile::AllocOp) { return WalkResult::interrupt(); }).wasInterrupted();
      if (!tiles) {
        continue;
      }
      if (!kernel.getThreads()) {
        kernel.emitError() << "kernel '" << kernel.getSymName()
                           << "' has no block size; run --tile-assign-threads first";
        return signalPassFailure();
      }
      if (failed(LayoutAssignment(kernel, *kernel.getThreads() / 32).run())) {
        return signalPassFailure();
      }
    }
  }
};
} // namespace
