//===- ImportOnnx.h - an .onnx file as a module of the onnx dialect
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_IMPORTONNX_H
#define KIMI_LIB_IMPORT_IMPORTONNX_H

#include "lib/Import/ImportLimits.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace kimi {

struct ImportOptions {
  /// Problems reported before the rest is only counted.
  unsigned maxErrors = 50;
  /// What is refused as too large.
  ImportLimits limits;
  /// Run the MLIR verifier on the result.
  bool verify = true;
  /// Inputs of the graph that are constants instead: their names, and the files (serialised TensorProtos) that hold
  /// their values.
  std::vector<std::pair<std::string, std::string>> constants;
};

/// Reads `path` into a module (see docs of the onnx dialect for its form): `kimi.weight` symbols and one
/// `func.func @main`. Tensor contents are neither copied nor, where they lie in external files, read, except integers
/// that shapes may depend on. Time and memory are linear in the file without its tensor contents. Every problem found
/// is reported through the context's diagnostics; the file is not trusted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(llvm::StringRef path, mlir::MLIRContext *context,
                                                              const ImportOptions &options = {});

/// Loads the dialects that importOnnx creates.
void loadImportDialects(mlir::MLIRContext *context);

} // namespace kimi

#endif // KIMI_LIB_IMPORT_IMPORTONNX_H
