//===- Passes.cpp - registration of every pass and pipeline
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Onnx/OnnxDialect.h"
#include "dialects/Tile/TileDialect.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "passes/Kimi/Passes.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/OnnxRaise/Passes.h"
#include "passes/OnnxToKimi/Passes.h"
#include "passes/TileToLlvm/Passes.h"
#include "passes/TileToNvvm/Passes.h"

void kimi::registerKimiDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<KimiDialect, onnx::OnnxDialect, tile::TileDialect>();
}

void kimi::registerKimiPasses() {
  registerOnnxRaisePasses();
  registerOnnxToKimiPasses();
  registerKimiGraphPasses();
  registerKimiToTilePasses();
  registerTileToLlvmPasses();
  registerTileToLlvmPipeline();
  registerTileToNvvmPasses();
  registerTileToCudaPipeline();
}
