//===- WarpSpecialize.cpp - kernels marked warp_specialized, split by role
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/WarpSpecialize.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEWARPSPECIALIZE
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
struct TileWarpSpecialize : kimi::impl::TileWarpSpecializeBase<TileWarpSpecialize> {
  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel->removeAttr(kernel_attrs::kWarpSpecialized)) {
        continue;
      }
      hopper::KernelPlan plan;
      if (std::optional<hopper::Obstacle> obstacle = hopper::planKernel(kernel, plan)) {
        obstacle->op->emitRemark() << "kernel '" << kernel.getSymName()
                                   << "' is not split into producer and consumers: " << obstacle->reason;
        kernel->removeAttr(kernel_attrs::kCluster);
        ++numRefused;
        continue;
      }
      hopper::splitKernel(plan);
      ++numSplit;
    }
  }
};
} // namespace
