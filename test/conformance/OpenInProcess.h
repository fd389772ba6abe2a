//===- OpenInProcess.h - from an .onnx to a module without another process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_CONFORMANCE_OPENINPROCESS_H
#define KIMI_TEST_CONFORMANCE_OPENINPROCESS_H

#include "tools/kimi-run/OpenModel.h"
#include <atomic>
#include <string>

namespace kimi::conformance {

/// Does what kimi-run does with an .onnx (run::openModel on the CPU), with the compiler in this process, on the calling
/// thread. Modules stand in a temporary folder until they are loaded. Several threads may use one opener.
class InProcessOpener {
public:
  InProcessOpener() = default;
  ~InProcessOpener();
  InProcessOpener(const InProcessOpener &) = delete;
  InProcessOpener &operator=(const InProcessOpener &) = delete;

  /// Makes the folder; to be called by the main thread. Error: KIMI_RUNTIME_ERROR.
  Status start();

  /// Compiles and loads `options.model`. Where it does not compile, the error holds what kimi-compile would print.
  Status open(const run::Options &options, std::unique_ptr<run::Model> &model);

private:
  std::string folder;
  std::atomic<unsigned> modules{0};
};

} // namespace kimi::conformance

#endif // KIMI_TEST_CONFORMANCE_OPENINPROCESS_H
