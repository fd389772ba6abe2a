//===- kimi-compile.cpp - from ONNX to a compiled module
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/Exhaustion.h"
#include "tools/kimi-compile/Driver.h"
#include "tools/kimi-compile/Options.h"

int main(int argc, char **argv) {
  kimi::reportExhaustion("kimi-compile");
  std::optional<kimi::CompileOptions> options = kimi::parseCompileOptions(argc, argv);
  if (!options) {
    return kimi::kExitUsage;
  }
  return mlir::succeeded(kimi::compile(*options)) ? kimi::kExitOk : kimi::kExitError;
}
