//===- Passes.cpp - registration of every pass and pipeline
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Kimi/Passes.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/OnnxRaise/Passes.h"
#include "passes/OnnxToKimi/Passes.h"
#include "passes/TileToLlvm/Passes.h"

void kimi::registerKimiPasses() {
  registerOnnxRaisePasses();
  registerOnnxToKimiPasses();
  registerKimiGraphPasses();
  registerKimiToTilePasses();
  registerTileToLlvmPasses();
  registerTileToLlvmPipeline();
}
