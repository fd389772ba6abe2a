//===- MaterializeViews.cpp - copies where a reshape or a result cannot be a view
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/KernelWriter.h"
#include "passes/KimiToTile/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace kimi {
#define GEN_PASS_DEF_KIMIMATERIALIZEVIEWS
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// True where a kernel computes `base` in this function, so that it can be computed into the caller's buffer.
bool isComputedHere(Value base) {
  Operation *op = base.getDefiningOp();
  return op && !isa<WeightRefOp, arith::ConstantOp, CacheAppendOp, tensor::EmptyOp>(op);
}

bool readsByElement(Value buffer) {
  return llvm::all_of(buffer.getUsers(),
                      [](Operation *user) { return isa<memref::LoadOp, memref::StoreOp, memref::DimOp>(user); });
}

struct KimiMaterializeViews : kimi::impl::KimiMaterializeViewsBase<KimiMaterializeViews> {
  void runOnOperation() override {
    KernelPool pool(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (!func.isExternal()) {
        HostContext context(func, pool);
        copyReshapes(context);
        copyLoopInputs(context);
        copyResults(context);
      }
    }
  }

  void copyReshapes(HostContext &context) {
    SmallVector<tensor::CollapseShapeOp> reshapes;
    context.func.walk([&](tensor::CollapseShapeOp op) { reshapes.push_back(op); });
    for (tensor::CollapseShapeOp reshape : reshapes) {
      if (failed(context.layouts.of(reshape.getResult()))) {
        reshape->setOperand(0, copyBefore(context, reshape, reshape.getSrc()));
      }
    }
  }

  void copyLoopInputs(HostContext &context) {
    SmallVector<LoopsOp> loops;
    context.func.walk([&](LoopsOp op) { loops.push_back(op); });
    for (LoopsOp loop : loops) {
      for (auto [index, input] : llvm::enumerate(llvm::to_vector(loop.getInputs()))) {
        if (readsByElement(loop.getBody().getArgument(index))) {
          continue;
        }
        FailureOr<ViewLayout> layout = context.layouts.of(input);
        if (failed(layout) || !layout->isDense()) {
          loop->setOperand(index, copyBefore(context, loop, input));
        }
      }
    }
  }

  void copyResults(HostContext &context) {
    Operation *terminator = context.func.getBody().front().getTerminator();
    llvm::SmallDenseSet<Value> taken;
    for (OpOperand &operand : terminator->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType())) {
        continue;
      }
      FailureOr<ViewLayout> layout = context.layouts.of(operand.get());
      bool whole = succeeded(layout) && layout->isDense() && isComputedHere(layout->base);
      if (whole) {
        SymbolicDim viewed(1), held(1);
        for (const SymbolicDim &size : layout->sizes) {
          viewed = viewed * size;
        }
        for (const SymbolicDim &size : context.scalars.shape(layout->base)) {
          held = held * size;
        }
        whole = viewed == held && taken.insert(layout->base).second;
      }
      if (!whole) {
        Value copy = copyBefore(context, terminator, operand.get());
        taken.insert(copy);
        operand.set(copy);
      }
    }
  }
};
} // namespace
