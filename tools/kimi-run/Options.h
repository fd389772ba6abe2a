//===- Options.h - the command line of kimi-run
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_OPTIONS_H
#define KIMI_TOOLS_KIMIRUN_OPTIONS_H

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kimi::run {

/// What the process exits with; the numbers are promised in --help.
enum class Exit { Ok = 0, Failure = 1, Usage = 2, Mismatch = 3 };

/// What is asked for. Zero means "not given" for counts, empty for texts.
struct Options {
  std::string model; ///< A .kmod or an .onnx.
  std::vector<std::string> onnxTests;
  std::string testModule; ///< Compiled already, for the only folder of onnxTests.
  /// Inputs of an .onnx that are constants when it is compiled: names, and files of TensorProtos.
  std::vector<std::pair<std::string, std::string>> constants;
  bool quietCompiler = false; ///< What the compiler prints goes into the error.

  // Text.
  std::optional<std::string> prompt;
  std::string promptFile, tokenizer;
  std::string promptTokens; ///< Ids, or an .npy of them.
  std::string logits;       ///< A file for the logits after the prompt.
  int64_t tokens = 128, prefillChunk = 0;
  double temperature = 0, topP = 1;
  int64_t topK = 0;
  uint64_t seed = 0;
  bool greedy = false, ignoreEnd = false;

  // Arrays.
  std::string entry, output;
  std::vector<std::string> inputs;
  double rtol = 1e-3, atol = 1e-7;
  std::optional<double> rnorm;

  // Benchmark.
  bool benchmark = false;
  std::string profile; ///< A file for the trace of the benchmark's entries.
  int64_t runs = 10, warmup = 2, prefillTokens = 0, context = 0;

  // Looking.
  bool describe = false, memory = false;

  // Machine and compilation.
  int64_t maxSeq = 0, batch = 0;
  int32_t threads = 0;
  std::string weights, cpu = "native", precision = "f32", cache;
  std::string device; ///< Empty: what the module is compiled for; an .onnx is compiled for the CPU.
  bool reference = false, listDevices = false, noGraphs = false, checkLaunches = false;

  std::string json; ///< A file, or "-" for stdout.

  bool wantsText() const { return prompt || !promptFile.empty() || !promptTokens.empty(); }
  bool wantsArrays() const { return !inputs.empty() || !output.empty(); }
};

/// Reads and checks a command line. Nothing where options say all there is to say (--help, --version) or contain a
/// mistake; `code` is then the status to exit with and the text has been printed.
std::optional<Options> parseOptions(int argc, const char *const *argv, std::ostream &out, std::ostream &err,
                                    Exit &code);

/// What is wrong with a combination of options, or nothing.
std::optional<std::string> checkOptions(const Options &options);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_OPTIONS_H
