//===- Driver.h - from an .onnx file to what was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMICOMPILE_DRIVER_H
#define KIMI_TOOLS_KIMICOMPILE_DRIVER_H

#include "mlir/Support/LLVM.h"
#include <string>

namespace kimi {

/// The level at which compilation stops and what is written.
enum class Emit { Onnx };

struct CompileOptions {
  /// The .onnx file.
  std::string input;
  /// Where to write; "-" is stdout.
  std::string output = "-";
  Emit emit = Emit::Onnx;
  /// Print the location of every operation (IR output only).
  bool locations = false;
};

/// Compiles; problems go to stderr. The output file appears whole or not at all.
mlir::LogicalResult compile(const CompileOptions &options);

} // namespace kimi

#endif // KIMI_TOOLS_KIMICOMPILE_DRIVER_H
