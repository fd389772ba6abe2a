//===- ImportErrors.h - problems of one import, counted
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_IMPORTERRORS_H
#define KIMI_LIB_IMPORT_IMPORTERRORS_H

#include "mlir/IR/Diagnostics.h"

namespace kimi {

/// Reports problems at the model file, the first `limit` of them; finish() says how many more there were.
class ImportErrors {
public:
  ImportErrors(mlir::Location file, unsigned limit) : file(file), limit(limit) {}

  mlir::InFlightDiagnostic report() {
    mlir::InFlightDiagnostic diagnostic = mlir::emitError(file);
    if (count++ >= limit) {
      diagnostic.abandon();
    }
    return diagnostic;
  }
  mlir::InFlightDiagnostic warn() { return mlir::emitWarning(file); }

  bool any() const { return count != 0; }

  mlir::LogicalResult finish() {
    if (count > limit) {
      mlir::emitError(file) << (count - limit) << " more problems are not shown";
    }
    return mlir::success(count == 0);
  }

private:
  mlir::Location file;
  unsigned limit;
  unsigned count = 0;
};

} // namespace kimi

#endif // KIMI_LIB_IMPORT_IMPORTERRORS_H
