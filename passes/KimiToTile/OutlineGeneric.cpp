//===- OutlineGeneric.cpp - kernels of plain loops for what has no schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/LoopKernels.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleMemo.h"

namespace kimi {
#define GEN_PASS_DEF_KIMIOUTLINEGENERIC
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// True where `later` can be done together with `first`: rows of one shape at one place, ready before `first`.
bool joins(HostContext &context, CacheAppendOp first, CacheAppendOp later) {
  auto ready = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return !op || op->isBeforeInBlock(first);
  };
  return first.getState() != later.getState() && ready(later.getRows()) && ready(later.getPast()) &&
         first.getState().getType() == later.getState().getType() && first.getPast() == later.getPast() &&
         context.scalars.shape(first.getRows()) == context.scalars.shape(later.getRows());
}

struct KimiOutlineGeneric : kimi::impl::KimiOutlineGenericBase<KimiOutlineGeneric> {
  using KimiOutlineGenericBase::KimiOutlineGenericBase;

  void runOnOperation() override {
    KernelPool pool(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal()) {
        continue;
      }
      HostContext context(func, pool);
      ScheduleMemo memo(context);
      SmallVector<Operation *> ops;
      for (Operation &op : func.getBody().front()) {
        ops.push_back(&op);
      }
      llvm::SmallDenseSet<Operation *> done;
      for (auto [index, op] : llvm::enumerate(ops)) {
        if (done.contains(op)) {
          continue;
        }
        context.scalars.shareBefore(op);
        if (failed(outline(context, memo, op, ArrayRef<Operation *>(ops).drop_front(index + 1), done))) {
          return signalPassFailure();
        }
      }
      context.finish();
    }
  }

  LogicalResult outline(HostContext &context, ScheduleMemo &memo, Operation *op, ArrayRef<Operation *> following,
                        llvm::SmallDenseSet<Operation *> &done) {
    LogicalResult result = success();
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      result = memo.schedule(op, {{op}, ""}, [&] { return outlineGeneric(context, generic, taskWork); });
    } else if (auto loops = dyn_cast<LoopsOp>(op)) {
      result = memo.schedule(op, {{op}, ""}, [&] { return outlineLoops(context, loops); });
    } else if (auto pack = dyn_cast<PackWeightOp>(op)) {
      result = memo.schedule(op, {{op}, ""}, [&] { return outlinePack(context, pack); });
    } else if (auto read = dyn_cast<StateReadOp>(op)) {
      return outlineStateRead(context, read, taskWork);
    } else if (auto write = dyn_cast<StateWriteOp>(op)) {
      result = outlineStateWrite(context, write, taskWork);
    } else if (auto append = dyn_cast<CacheAppendOp>(op)) {
      SmallVector<CacheAppendOp> group{append};
      for (Operation *later : following) {
        auto other = dyn_cast<CacheAppendOp>(later);
        if (!other) {
          continue;
        }
        if (!joins(context, append, other)) {
          break;
        }
        done.insert(other);
        group.push_back(other);
      }
      result = outlineAppends(context, group, taskWork);
    } else {
      return success();
    }
    ++numDispatches;
    return result;
  }
};
} // namespace
