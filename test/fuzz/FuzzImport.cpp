//===- FuzzImport.cpp - any bytes as a model file
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportOnnx.h"
#include "mlir/IR/MLIRContext.h"
#include "test/fuzz/MemoryFile.h"

using namespace mlir;
using namespace kimi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  MemoryFile file(bytes, size);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  bool said = false;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    return success();
  });
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(file.path(), &context);
  if (failed(module) && !said) {
    __builtin_trap(); // refused without a reason
  }
  return 0;
}
