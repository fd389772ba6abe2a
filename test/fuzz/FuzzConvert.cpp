//===- FuzzConvert.cpp - any bytes as a model, up to the kimi dialect
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportOnnx.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Kimi/Passes.h"
#include "passes/OnnxRaise/Passes.h"
#include "passes/OnnxToKimi/Passes.h"
#include "passes/Pipelines/Pipelines.h"
#include "test/fuzz/ImportContext.h"
#include "test/fuzz/MemoryFile.h"

using namespace mlir;
using namespace kimi;

extern "C" int LLVMFuzzerInitialize(int * /*argc*/, char *** /*argv*/) {
  registerOnnxRaisePasses();
  registerOnnxToKimiPasses();
  registerKimiGraphPasses();
  registerTransformsPasses();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  MemoryFile file(bytes, size);
  ImportContext context;
  ImportOptions options;
  options.limits.nodes = 1000; // small graphs are enough, and many of them better
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(file.path(), context.get(), options);
  bool good = succeeded(module);
  if (good) {
    PassManager passes(context.get());
    for (const Phase &phase : graphPhases(PipelineOptions())) {
      good &= succeeded(addPhase(phase, passes));
    }
    good = good && succeeded(passes.run(**module));
  }
  context.require(good);
  return 0;
}
