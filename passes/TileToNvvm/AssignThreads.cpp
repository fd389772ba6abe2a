//===- AssignThreads.cpp - block programs and task programs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "passes/TileToLlvm/KernelAbi.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEASSIGNTHREADS
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
struct TileAssignThreads : kimi::impl::TileAssignThreadsBase<TileAssignThreads> {
  using TileAssignThreadsBase::TileAssignThreadsBase;

  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      if (failed(assign(kernel))) {
        return signalPassFailure();
      }
    }
  }

  LogicalResult assign(tile::KernelOp kernel) {
    OpBuilder b(kernel);
    auto given = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kThreads);
    int64_t count = given ? given.getInt() : threads;
    if (count < 32 || count > 1024 || count % 32 != 0) {
      return kernel.emitError() << "kernel '" << kernel.getSymName() << "': a block of " << count
                                << " threads; accepted are multiples of 32 up to 1024";
    }
    kernel->setAttr(kernel_attrs::kThreads, b.getI64IntegerAttr(count));
    bool tiles = kernel.walk([](tile::AllocOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (!tiles) {
      kernel->setAttr(kernel_attrs::kTasks, b.getUnitAttr());
    }
    FailureOr<SmallVector<bool>> written = writtenArguments(kernel);
    if (failed(written)) {
      kernel->setAttr(kernel_attrs::kUntraced, b.getUnitAttr());
      return success();
    }
    for (auto [index, isWritten] : llvm::enumerate(*written)) {
      if (isWritten) {
        kernel.setArgAttr(index, kernel_attrs::kWritten, b.getUnitAttr());
      }
    }
    return success();
  }
};
} // namespace
