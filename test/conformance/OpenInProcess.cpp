//===- OpenInProcess.cpp - from an .onnx to a module without another process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpenInProcess.h"
#include "tools/kimi-compile/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"

namespace kimi::conformance {

Status InProcessOpener::start() {
  // LLVM's handlers, which remove temporary files, give the thread that installs them another stack for signals. That
  // is to be one that stays: AddressSanitizer takes the stack of a thread that ends for its own, and unmaps it.
  llvm::sys::SetInterruptFunction(nullptr);
  llvm::SmallString<128> path;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("kimi-onnx-tests", path)) {
    return {KIMI_RUNTIME_ERROR, "no temporary folder: " + code.message()};
  }
  folder = path.str().str();
  return {};
}

InProcessOpener::~InProcessOpener() {
  if (!folder.empty()) {
    llvm::sys::fs::remove_directories(folder);
  }
}

Status InProcessOpener::open(const run::Options &options, std::unique_ptr<run::Model> &model) {
  CompileOptions compile;
  compile.input = options.model;
  compile.output = folder + "/" + std::to_string(modules++) + ".kmod";
  compile.cpu = options.cpu;
  compile.precision = options.precision;
  compile.reference = options.reference;
  compile.constants = options.constants;
  compile.parallel = false;
  std::string said;
  llvm::raw_string_ostream log(said);
  if (mlir::failed(kimi::compile(compile, log))) {
    return {KIMI_RUNTIME_ERROR, options.model + ": the compiler failed:\n" + said};
  }
  std::string weights = options.weights.empty() ? run::folderOf(options.model) : options.weights;
  Status loaded = run::Model::load(compile.output, weights, model);
  llvm::sys::fs::remove(compile.output); // mapped
  return loaded;
}

} // namespace kimi::conformance
