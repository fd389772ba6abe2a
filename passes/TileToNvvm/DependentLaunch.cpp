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
// Both instructions are inline assembly: LLVM's intrinsic of the wait touches no memory as far as LLVM is told, and
// loads could be moved across.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/TileToLlvm/KernelAbi.h"
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
  return kernel.getArgAttr(argument.getArgNumber(), tile::KernelOp::kConstantAttrName) != nullptr;
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

void emit(OpBuilder &b, Location loc, StringRef instruction) {
  LLVM::InlineAsmOp::create(b, loc, TypeRange(), ValueRange(), instruction, "~{memory}", /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
                            ArrayAttr());
}

struct TileDependentLaunch : kimi::impl::TileDependentLaunchBase<TileDependentLaunch> {
  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      run(kernel);
    }
  }

  void run(tile::KernelOp kernel) {
    OpBuilder b(kernel);
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      if (isa<MemRefType>(type) && !kernel.getArgAttr(index, tile::KernelOp::kConstantAttrName)) {
        kernel.setArgAttr(index, kernel_attrs::kDependent, b.getUnitAttr());
      }
    }
    kernel->setAttr(kernel_attrs::kPdl, b.getUnitAttr());
    Block &entry = kernel.getBody().front();
    b.setInsertionPointToStart(&entry);
    emit(b, kernel.getLoc(), "griddepcontrol.launch_dependents;");
    Operation *first = &*b.getInsertionPoint();
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
    emit(b, kernel.getLoc(), "griddepcontrol.wait;");
    ++numKernels;
  }
};
} // namespace
