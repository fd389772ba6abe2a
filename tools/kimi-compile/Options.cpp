//===- Options.cpp - the command line of kimi-compile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Options.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;

static const char kOverview[] =
    "Compiles a language model in ONNX format.\n\n"
    "exit codes: 0 compiled, 1 the model cannot be compiled or a file cannot be written, 2 wrong usage\n";

std::optional<kimi::CompileOptions> kimi::parseCompileOptions(int argc, char **argv) {
  // Options live here rather than at namespace scope, so that a library that is linked in brings none with it.
  static cl::OptionCategory category("options");
  static cl::opt<std::string> input(cl::Positional, cl::desc("<model.onnx>"), cl::cat(category));
  static cl::opt<std::string> output("o", cl::desc("Output file (default: stdout)"), cl::value_desc("file"), cl::init("-"),
                              cl::cat(category));
  static cl::opt<Emit> emit("emit", cl::desc("What to write:"), cl::init(Emit::Onnx), cl::cat(category),
                     cl::values(clEnumValN(Emit::Onnx, "onnx", "the imported graph, one op per node")));
  static cl::opt<bool> locations("locations", cl::desc("Print node and value names as locations of the IR"),
                          cl::cat(category));

  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "kimi-compile " << KIMI_VERSION << "\n"; });
  std::string problems;
  llvm::raw_string_ostream problemStream(problems);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview, &problemStream)) {
    llvm::errs() << problems;
    return std::nullopt;
  }
  if (input.empty()) {
    llvm::errs() << "kimi-compile: error: no model given; usage: kimi-compile model.onnx -o out (see --help)\n";
    return std::nullopt;
  }
  CompileOptions options;
  options.input = input;
  options.output = output;
  options.emit = emit;
  options.locations = locations;
  return options;
}
