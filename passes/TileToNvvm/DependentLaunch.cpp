//===- DependentLaunch.cpp - kernels that start while the one before them still runs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization". The first instruction of a kernel
// lets the next one start; griddepcontrol.wait stands before the first access to anything that an earlier launch may
// have written, or may still read. What comes before it, loads of constants mostly, overlaps the earlier launch. As
// every block waits before it ends, a launch that is complete implies that all before it are.
//
// Loads must not be moved across the wait: see emitGridControl. For the same reason no buffer is marked as one that is
// only read, not even a constant: ptxas moves ld.global.nc behind the wait.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/TileToLlvm/KernelAbi.h"
#include "passes/TileToNvvm/Hopper.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEDEPENDENTLAUNCH
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
bool isConstant(tile::KernelOp kernel, BlockArgument argument) {
  return kernel.getArgAttr(argument.getArgNumber(), kernel_attrs::kConstant) != nullptr;
}

/// Whether `op` (without what is inside) leaves alone all buffers but the kernel's own tiles and constants.
bool keepsToConstants(tile::KernelOp kernel, Operation *op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects) {
    return op->hasTrait<OpTrait::HasRecursiveMemoryEffects>();
  }
  SmallVector<MemoryEffects::EffectInstance> instances;
  effects.getEffects(instances);
  return llvm::all_of(instances, [&](const MemoryEffects::EffectInstance &instance) {
    if (!instance.getValue()) {
      return false;
    }
    FailureOr<BlockArgument> root = rootArgument(instance.getValue(), &kernel.getBody().front());
    return succeeded(root) && (!*root || isConstant(kernel, *root));
  });
}

/// So many blocks lie evenly on the multiprocessors, with room for those of the next kernel.
constexpr int64_t kFewBlocks = 264;

struct TileDependentLaunch : kimi::impl::TileDependentLaunchBase<TileDependentLaunch> {
  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      // Kernels with roles wait behind the initialisation of their barriers, and tasks before anything else.
      if (!holds<tile::RolesOp>(kernel) && !kernel->hasAttr(kernel_attrs::kTasks)) {
        run(kernel);
      }
    }
  }

  template <typename Op>
  static bool holds(tile::KernelOp kernel) {
    return kernel.walk([](Op) { return WalkResult::interrupt(); }).wasInterrupted();
  }

  /// At once, where the kernel's blocks are few and need no shared memory for pipelines. Elsewhere blocks of the next
  /// kernel that are there early would take places unevenly, several of them on what multiprocessor is free first: it
  /// starts when this kernel ends, without the latency of a launch.
  static void letDependentsStart(OpBuilder &b, tile::KernelOp kernel) {
    if (holds<tile::PipelineOp>(kernel)) {
      return;
    }
    b.setInsertionPointToStart(&kernel.getBody().front());
    hopper::emitGridControl(
        b, kernel.getLoc(),
        "{ .reg .pred few; .reg .b32 x, y; mov.u32 x, %nctaid.x; mov.u32 y, %nctaid.y; mul.lo.u32 x, x, y; "
        "setp.le.u32 few, x, " +
            std::to_string(kFewBlocks) + "; @few griddepcontrol.launch_dependents; }");
  }

  void run(tile::KernelOp kernel) {
    OpBuilder b(kernel);
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      if (isa<MemRefType>(type)) {
        kernel.setArgAttr(index, kernel_attrs::kDependent, b.getUnitAttr());
      }
    }
    kernel->setAttr(kernel_attrs::kPdl, b.getUnitAttr());
    Block &entry = kernel.getBody().front();
    letDependentsStart(b, kernel);
    Operation *first = &entry.front();
    if (isa<LLVM::InlineAsmOp>(first)) {
      first = first->getNextNode();
    }
    while (!first->hasTrait<OpTrait::IsTerminator>()) {
      bool safe = !first
                       ->walk<WalkOrder::PreOrder>([&](Operation *op) {
                         bool ends = op != first && op->hasTrait<OpTrait::IsTerminator>();
                         return ends || keepsToConstants(kernel, op) ? WalkResult::advance() : WalkResult::interrupt();
                       })
                       .wasInterrupted();
      if (!safe) {
        break;
      }
      first = first->getNextNode();
    }
    b.setInsertionPoint(first);
    hopper::emitGridControl(b, kernel.getLoc(), "griddepcontrol.wait;");
    ++numKernels;
  }
};
} // namespace
