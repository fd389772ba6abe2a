//===- Passes.td - passes of passes/TileToLlvm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILE_TO_LLVM_PASSES
#define KIMI_PASSES_TILE_TO_LLVM_PASSES

include "mlir/Pass/PassBase.td"

#endif // KIMI_PASSES_TILE_TO_LLVM_PASSES
