//===- Driver.cpp - from an .onnx file to what was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Driver.h"
#include "lib/Import/ImportOnnx.h"
#include "tools/kimi-compile/Diagnostics.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kimi;

/// Writes through a temporary file that is renamed at the end.
static LogicalResult writeOutput(StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    write(os);
    return llvm::Error::success();
  });
  if (error) {
    llvm::errs() << "kimi-compile: error: cannot write '" << path << "': " << llvm::toString(std::move(error)) << "\n";
    return failure();
  }
  return success();
}

LogicalResult kimi::compile(const CompileOptions &options) {
  MLIRContext context;
  DiagnosticPrinter printer(&context, "kimi-compile");
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(options.input, &context);
  if (failed(module)) {
    return failure();
  }
  return writeOutput(options.output, [&](llvm::raw_ostream &os) {
    OpPrintingFlags flags;
    flags.printNameLocAsPrefix().enableDebugInfo(options.locations);
    (*module)->print(os, flags);
  });
}
