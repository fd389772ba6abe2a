//===- ImportContext.h - what an import says
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_FUZZ_IMPORTCONTEXT_H
#define KIMI_TEST_FUZZ_IMPORTCONTEXT_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace kimi {

/// A context whose messages are not printed.
class ImportContext {
public:
  ImportContext()
      : context(mlir::MLIRContext::Threading::DISABLED), handler(&context, [this](mlir::Diagnostic &diagnostic) {
          said |= diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
          return mlir::success();
        }) {}

  mlir::MLIRContext *get() { return &context; }
  /// Ends the program where something was refused without a reason.
  void require(bool good) const {
    if (!good && !said) {
      __builtin_trap();
    }
  }

private:
  bool said = false;
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kimi

#endif // KIMI_TEST_FUZZ_IMPORTCONTEXT_H
