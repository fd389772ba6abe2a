//===- Run.h - what kimi-run does
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_RUN_H
#define KIMI_TOOLS_KIMIRUN_RUN_H

#include <iosfwd>

namespace kimi::run {

/// The whole tool: reads the command line, does what it says, returns the exit status.
int runMain(int argc, const char *const *argv, std::ostream &out, std::ostream &err);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_RUN_H
