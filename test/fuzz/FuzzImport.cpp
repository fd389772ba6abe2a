//===- FuzzImport.cpp - any bytes as a model file
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportOnnx.h"
#include "test/fuzz/ImportContext.h"
#include "test/fuzz/MemoryFile.h"

using namespace mlir;
using namespace kimi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  MemoryFile file(bytes, size);
  ImportContext context;
  ImportOptions options;
  options.limits.nodes = 20000; // functions that call each other multiply: what the usual limit allows takes seconds
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(file.path(), context.get(), options);
  context.require(succeeded(module));
  return 0;
}
