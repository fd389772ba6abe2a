//===- Driver.h - from an .onnx file to what was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMICOMPILE_DRIVER_H
#define KIMI_TOOLS_KIMICOMPILE_DRIVER_H

#include "lib/Import/ImportLimits.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <utility>
#include <vector>

namespace kimi {

/// The level at which compilation stops and what is written.
enum class Emit { Onnx, Kimi, Tile, Llvm, Asm, Ptx, SassInfo, Plan, Kmod };

struct CompileOptions {
  /// The .onnx file.
  std::string input;
  /// Where to write; "-" is stdout. Empty: the input's name with .kmod for a module, stdout for text.
  std::string output;
  Emit emit = Emit::Kmod;
  /// Print the location of every operation (IR output only).
  bool locations = false;
  /// Print remarks: which form was recognised, which fast path was refused and why.
  bool verbose = false;
  /// Print how long each phase and each pass took.
  bool timing = false;
  /// "cpu", or a CUDA target ("cuda:sm_90a").
  std::string target = "cpu";
  /// "native", "x86-64-v3", "x86-64-v4", or a processor name of LLVM.
  std::string cpu = "native";
  /// What weights and activations are held in: "f32", "tf32", "bf16" or "fp16".
  std::string precision = "f32";
  /// The program that assembles PTX; "none" for none, empty to look for it.
  std::string ptxas;
  /// Compute capability (times ten: "80", "90a") of the GPU whose schedules are taken, whatever the target; empty: the
  /// target's own.
  std::string gpuSchedules;
  /// Kernels for the CPU end the program where they leave a buffer.
  bool checkBounds = false;
  /// How latent attention is computed: "auto", "absorbed", "expanded" or "none".
  std::string mla = "auto";
  /// Plain fp32 loops instead of fusion and schedules.
  bool reference = false;
  int deltaChunk = 0; // tokens of a chunk of the delta rule; 0: token by token
  /// Make `prefill` and `decode` entries where the graph allows it.
  bool deriveDecode = true;
  /// Give them the greedy token as an output.
  bool nextToken = true;
  /// Put the bytes of external weights into the module.
  bool bake = false;
  /// What the importer accepts at most.
  ImportLimits limits;
  /// Inputs that are constants: names, and files of serialised TensorProtos.
  std::vector<std::pair<std::string, std::string>> constants;
  /// Functions and kernels side by side, on every core; else one at a time, for who compiles several models at a time.
  bool parallel = true;
  /// Only this kernel in the output of tile, llvm, asm, ptx and sass-info; empty: all.
  std::string kernel;
};

/// Compiles; problems, and progress where that is a terminal's stderr, go to `log`. The output file appears whole or
/// not at all. Several threads may do so at a time.
mlir::LogicalResult compile(const CompileOptions &options, llvm::raw_ostream &log = llvm::errs());

} // namespace kimi

#endif // KIMI_TOOLS_KIMICOMPILE_DRIVER_H
