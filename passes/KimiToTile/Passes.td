//===- Passes.td - passes of passes/KimiToTile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_TO_TILE_PASSES
#define KIMI_PASSES_KIMI_TO_TILE_PASSES

include "mlir/Pass/PassBase.td"

#endif // KIMI_PASSES_KIMI_TO_TILE_PASSES
