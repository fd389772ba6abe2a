//===- FatalErrorTest.cpp - what goes wrong inside LLVM is an error of the kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/KernelModules.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/ErrorHandling.h"
#include <csignal>
#include <gtest/gtest.h>

using namespace kimi;
using Generate = llvm::function_ref<llvm::Expected<std::string>(mlir::ModuleOp)>;

namespace {
struct FatalError : testing::Test {
  FatalError() {
    mlir::OpBuilder b(&context);
    module = mlir::ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToEnd(module->getBody());
    for (const char *name : {"first", "second", "third"}) {
      mlir::ModuleOp::create(b, b.getUnknownLoc(), llvm::StringRef(name));
    }
  }

  /// The results joined by blanks, or the diagnostics.
  std::string run(Generate generate) {
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      said += diagnostic.str();
      return mlir::success();
    });
    mlir::FailureOr<std::vector<std::string>> results = generateKernels(*module, 2, generate);
    if (mlir::failed(results)) {
      return said;
    }
    for (const std::string &result : *results) {
      said += result + " ";
    }
    return said;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(FatalError, ResultsKeepTheirOrder) {
  EXPECT_EQ(run([](mlir::ModuleOp kernel) { return kernel.getName()->str(); }), "first second third ");
}

TEST_F(FatalError, ErrorsNameTheKernel) {
  EXPECT_EQ(run([](mlir::ModuleOp kernel) -> llvm::Expected<std::string> {
              if (*kernel.getName() == "second") {
                return llvm::createStringError("is too large");
              }
              return "";
            }),
            "kernel 'second' is too large");
}

TEST_F(FatalError, FatalErrorsDoNotEndTheProcess) {
  EXPECT_EQ(run([](mlir::ModuleOp kernel) -> llvm::Expected<std::string> {
              if (*kernel.getName() == "third") {
                llvm::report_fatal_error("cannot select: t1");
              }
              return "";
            }),
            "kernel 'third' cannot be compiled: cannot select: t1");
}

TEST_F(FatalError, CrashesDoNotEndTheProcess) {
  EXPECT_EQ(run([](mlir::ModuleOp kernel) -> llvm::Expected<std::string> {
              if (*kernel.getName() == "first") {
                raise(SIGSEGV);
              }
              return "";
            }),
            "kernel 'first' cannot be compiled: the code generator crashed");
}

TEST_F(FatalError, LaterRunsWork) {
  run([](mlir::ModuleOp) -> llvm::Expected<std::string> { llvm::report_fatal_error("no"); });
  EXPECT_EQ(run([](mlir::ModuleOp kernel) { return kernel.getName()->str(); }), "first second third ");
}
} // namespace
