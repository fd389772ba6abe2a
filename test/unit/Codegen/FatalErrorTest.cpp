//===- FatalErrorTest.cpp - what goes wrong inside LLVM is an error of the kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/CompileCuda.h"
#include "lib/Codegen/CompileKernels.h"
#include "lib/Codegen/KernelModules.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "passes/Passes.h"
#include "llvm/Support/ErrorHandling.h"
#include <chrono>
#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <thread>

using namespace kimi;
using Generate = llvm::function_ref<llvm::Expected<std::string>(mlir::ModuleOp)>;

namespace {
/// Three kernels in a context of their own.
struct Kernels {
  Kernels() {
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
struct FatalError : testing::Test, Kernels {};

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

/// Two compilations at a time: neither waits for the other, and the one that ends first leaves the other its handlers.
TEST_F(FatalError, SeveralCompilationsAtATime) {
  std::promise<void> begun, ended;
  std::future<void> other = ended.get_future();
  std::string said;
  std::thread crashing([&] {
    Kernels own;
    said = own.run([&](mlir::ModuleOp kernel) -> llvm::Expected<std::string> {
      if (*kernel.getName() == "first") {
        begun.set_value();
        if (other.wait_for(std::chrono::minutes(2)) != std::future_status::ready) {
          return llvm::createStringError("waited in vain");
        }
        raise(SIGSEGV);
      }
      return "";
    });
  });
  begun.get_future().wait();
  EXPECT_EQ(run([](mlir::ModuleOp kernel) { return kernel.getName()->str(); }), "first second third ");
  ended.set_value();
  crashing.join();
  EXPECT_EQ(said, "kernel 'first' cannot be compiled: the code generator crashed");
}

/// Kernels with an instruction of a GPU, for a CPU, and the reverse: LLVM's instruction selection ends with a fatal
/// error.
struct NoInstruction : testing::Test {
  NoInstruction() {
    mlir::DialectRegistry registry;
    registerKimiDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// The kernel calls `intrinsic`; what `compile` says about it, one message a line.
  std::string run(const std::string &intrinsic, llvm::function_ref<bool(mlir::ModuleOp)> compile) {
    std::string text = R"mlir(
      module {
        tile.kernel @reads(%y: memref<1xi32, strided<[1], offset: ?>>) {
          %0 = llvm.call_intrinsic "INTRINSIC"() : () -> i32
          %c0 = arith.constant 0 : index
          memref.store %0, %y[%c0] : memref<1xi32, strided<[1], offset: ?>>
          tile.return
        } loc("node_7")
        func.func @main(%n: index) -> tensor<1xi32> {
          %0 = kimi.dispatch [@reads] grid(%n, %n, %n) -> tensor<1xi32>
          return %0 : tensor<1xi32>
        }
        func.func @decode(%n: index) -> tensor<1xi32> {
          %0 = kimi.dispatch [@reads] grid(%n, %n, %n) -> tensor<1xi32>
          return %0 : tensor<1xi32>
        }
      } loc("model.onnx":0:0))mlir";
    text.replace(text.find("INTRINSIC"), 9, intrinsic);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      llvm::raw_string_ostream stream(said);
      stream << diagnostic.getLocation() << " " << diagnostic.str() << "\n";
      for (const mlir::Diagnostic &note : diagnostic.getNotes()) {
        stream << note.getLocation() << " " << note.str() << "\n";
      }
      return mlir::success();
    });
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module && !compile(*module));
    return said;
  }

  static std::string refused(const std::string &intrinsic) {
    return "loc(\"model.onnx\":0:0) kernel 'reads' of entries 'main', 'decode' cannot be compiled: Cannot select: "
           "intrinsic %" +
           intrinsic + "\nloc(\"node_7\") the kernel was made from this\n";
  }

  mlir::MLIRContext context;
};

TEST_F(NoInstruction, OnACpu) {
  std::string said = run("llvm.nvvm.read.ptx.sreg.tid.x", [](mlir::ModuleOp module) {
    return mlir::succeeded(compileKernels(module, CpuTargetOptions()));
  });
  EXPECT_EQ(said, refused("llvm.nvvm.read.ptx.sreg.tid.x"));
}

TEST_F(NoInstruction, OnAGpu) {
  CudaOptions options;
  options.ptxas = "none";
  std::string said =
      run("llvm.x86.rdpkru", [&](mlir::ModuleOp module) { return mlir::succeeded(compileCuda(module, options)); });
  EXPECT_EQ(said, refused("llvm.x86.rdpkru"));
}

TEST_F(FatalError, LaterRunsWork) {
  run([](mlir::ModuleOp) -> llvm::Expected<std::string> { llvm::report_fatal_error("no"); });
  EXPECT_EQ(run([](mlir::ModuleOp kernel) { return kernel.getName()->str(); }), "first second third ");
}
} // namespace
