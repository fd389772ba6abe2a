//===- KernelRunner.cpp - compile a kernel from text and call it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/TileToLlvm/KernelRunner.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Codegen/CompileKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/TileToLlvm/Passes.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace kimi::test;

KernelRunner::KernelRunner(const std::string &mlir, const std::string &cpu, unsigned lanes, bool expandMath) {
  mlir::DialectRegistry registry;
  registry.insert<kimi::tile::TileDialect, mlir::arith::ArithDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect>();
  mlir::MLIRContext context(registry);
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    message += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(mlir, &context);
  if (!module) {
    return;
  }
  if (expandMath) {
    mlir::PassManager pm(&context);
    pm.addPass(createTileExpandMath({/*all=*/true}));
    if (mlir::failed(pm.run(*module))) {
      return;
    }
  }
  CpuTargetOptions options;
  options.cpu = cpu;
  options.lanes = lanes;
  mlir::FailureOr<std::string> image = compileKernels(*module, options);
  if (mlir::failed(image)) {
    return;
  }
  bytes = *image;
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, bytes.data(), bytes.size()) != ssize_t(bytes.size())) {
    message = "cannot write the image to memory";
    return;
  }
  library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    message = dlerror();
  }
  close(file);
}

KernelRunner::~KernelRunner() {
  if (library) {
    dlclose(library);
  }
}

bool KernelRunner::run(const std::string &symbol, const std::vector<View> &views, const std::vector<int64_t> &scalars,
                       int64_t x, int64_t y, int64_t z) const {
  using Kernel = void (*)(const int64_t *, int64_t, int64_t, int64_t);
  auto kernel = library ? reinterpret_cast<Kernel>(dlsym(library, symbol.c_str())) : nullptr;
  if (!kernel) {
    return false;
  }
  std::vector<int64_t> words;
  for (const View &view : views) {
    words.push_back(reinterpret_cast<int64_t>(view.data));
    words.insert(words.end(), view.sizes.begin(), view.sizes.end());
    words.insert(words.end(), view.strides.begin(), view.strides.end());
  }
  words.insert(words.end(), scalars.begin(), scalars.end());
  kernel(words.data(), x, y, z);
  return true;
}
