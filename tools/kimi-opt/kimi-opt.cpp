//===- kimi-opt.cpp - every dialect and pass, for tests and for the curious
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/Passes.h"
#include "passes/Pipelines/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllPasses();
  kimi::registerKimiDialects(registry);
  kimi::registerKimiPasses();
  kimi::registerKimiPipelines();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Kimi optimizer driver\n", registry));
}
