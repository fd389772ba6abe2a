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
    if (threads < 32 || threads > 1024 || threads % 32 != 0) {
      getOperation().emitError() << "a block of " << threads.getValue()
                                 << " threads; accepted are multiples of 32 up to 1024";
      return signalPassFailure();
    }
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      assign(kernel);
    }
  }

  void assign(tile::KernelOp kernel) {
    OpBuilder b(kernel);
    if (!kernel.getThreads()) {
      kernel.setThreads(threads);
    }
    bool tiles = kernel.walk([](tile::AllocOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (!tiles) {
      kernel->setAttr(kernel_attrs::kTasks, b.getUnitAttr());
    }
    FailureOr<SmallVector<bool>> written = writtenArguments(kernel);
    if (failed(written)) {
      kernel->setAttr(kernel_attrs::kUntraced, b.getUnitAttr());
      return;
    }
    for (auto [index, isWritten] : llvm::enumerate(*written)) {
      if (isWritten) {
        kernel.setArgAttr(index, kernel_attrs::kWritten, b.getUnitAttr());
      }
    }
  }
};
} // namespace
