//===- Passes.h - passes of passes/TileToNvvm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILE_TO_NVVM_PASSES_H
#define KIMI_PASSES_TILE_TO_NVVM_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace kimi {
#define GEN_PASS_DECL
#include "passes/TileToNvvm/Passes.h.inc"

/// Options of the pipeline `tile-to-cuda`.
struct TileToCudaOptions : mlir::PassPipelineOptions<TileToCudaOptions> {
  Option<unsigned> sm{*this, "sm", llvm::cl::desc("compute capability, major * 10 + minor: 80, 86, 89, 90"),
                      llvm::cl::init(80)};
  Option<bool> hopper{*this, "hopper",
                      llvm::cl::desc("the instructions of sm_90a (wgmma, setmaxnreg), which run on no other processor"),
                      llvm::cl::init(false)};
};

/// tile.kernel ops of a module → LLVM dialect functions that are CUDA kernels (see `tile-kernel-to-nvvm`).
void buildTileToCudaPipeline(mlir::OpPassManager &pm, const TileToCudaOptions &options);

/// Makes the pipeline known to kimi-opt.
void registerTileToCudaPipeline();

#define GEN_PASS_REGISTRATION
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

#endif // KIMI_PASSES_TILE_TO_NVVM_PASSES_H
