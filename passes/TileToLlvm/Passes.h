//===- Passes.h - passes of passes/TileToLlvm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILE_TO_LLVM_PASSES_H
#define KIMI_PASSES_TILE_TO_LLVM_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace kimi {
#define GEN_PASS_DECL
#include "passes/TileToLlvm/Passes.h.inc"

/// Options of the pipeline `tile-to-llvm`.
struct TileToLlvmOptions : mlir::PassPipelineOptions<TileToLlvmOptions> {
  Option<unsigned> lanes{*this, "lanes", llvm::cl::desc("f32 lanes of a vector register (a power of two)"),
                         llvm::cl::init(8)};
  Option<bool> checkBounds{*this, "check-bounds", llvm::cl::desc("End the program where a kernel leaves a buffer"),
                           llvm::cl::init(false)};
};

/// tile.kernel ops of a module → LLVM dialect functions of the kernel ABI (see `tile-kernel-to-llvm`).
void buildTileToLlvmPipeline(mlir::OpPassManager &pm, const TileToLlvmOptions &options);

/// Makes the pipeline known to kimi-opt.
void registerTileToLlvmPipeline();

#define GEN_PASS_REGISTRATION
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

#endif // KIMI_PASSES_TILE_TO_LLVM_PASSES_H
