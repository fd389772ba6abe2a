//===- Options.h - the command line of kimi-compile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMICOMPILE_OPTIONS_H
#define KIMI_TOOLS_KIMICOMPILE_OPTIONS_H

#include "tools/kimi-compile/Driver.h"
#include <optional>

namespace kimi {

/// Exit codes of the tools.
enum ExitCode { kExitOk = 0, kExitError = 1, kExitUsage = 2 };

/// Reads the command line. Nullopt after a usage message on stderr; --help and --version print and end the process with
/// kExitOk.
std::optional<CompileOptions> parseCompileOptions(int argc, char **argv);

} // namespace kimi

#endif // KIMI_TOOLS_KIMICOMPILE_OPTIONS_H
