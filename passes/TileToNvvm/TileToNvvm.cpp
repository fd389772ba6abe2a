//===- TileToNvvm.cpp - tile ops as the work of one thread
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/BlockLowering.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"
#include "passes/TileToNvvm/SharedPlan.h"

namespace kimi {
#define GEN_PASS_DEF_TILETONVVM
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
struct TileToNvvm : kimi::impl::TileToNvvmBase<TileToNvvm> {
  using TileToNvvmBase::TileToNvvmBase;

  void runOnOperation() override {
    SmallVector<tile::KernelOp> kernels(getOperation().getOps<tile::KernelOp>());
    for (tile::KernelOp kernel : kernels) {
      bool tiles = kernel.walk([](tile::AllocOp) { return WalkResult::interrupt(); }).wasInterrupted();
      if (tiles && failed(lower(kernel))) {
        return signalPassFailure();
      }
    }
  }

  LogicalResult lower(tile::KernelOp kernel) {
    if (!kernel.getThreads()) {
      return kernel.emitError() << "kernel '" << kernel.getSymName()
                                << "' has no block size; run --tile-assign-threads first";
    }
    if (failed(BlockLowering(kernel, sm).run())) {
      return failure();
    }
    auto bytes = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kSharedBytes);
    if (!bytes) {
      return success();
    }
    int64_t limit = sharedMemoryLimit(sm);
    if (bytes.getInt() > limit) {
      return kernel.emitError() << "kernel '" << kernel.getSymName() << "' needs " << bytes.getInt()
                                << " bytes of shared memory; a block of sm_" << sm.getValue() << " may use " << limit
                                << ": choose smaller tiles or fewer stages";
    }
    // Its size is given at the launch.
    OpBuilder b(kernel);
    auto array = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    LLVM::GlobalOp::create(b, kernel.getLoc(), array, /*isConstant=*/false, LLVM::Linkage::External,
                           (kernel.getSymName() + "_shared").str(), Attribute(), /*alignment=*/1024,
                           /*addrSpace=*/3);
    return success();
  }
};
} // namespace
