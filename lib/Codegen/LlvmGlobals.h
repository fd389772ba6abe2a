//===- LlvmGlobals.h - what several compilations in one process share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_LLVMGLOBALS_H
#define KIMI_LIB_CODEGEN_LLVMGLOBALS_H

#include <shared_mutex>

namespace kimi {

/// Guards LLVM's command-line options and its list of targets, which are globals. Code generation reads them; lld,
/// which is a program made a library, resets all options and registers all targets each time it starts. Readers take a
/// shared lock and lld the only one, so that two models may be compiled at a time. Not to be taken twice by one thread,
/// nor by threads that a holder waits for.
std::shared_mutex &llvmGlobals();

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_LLVMGLOBALS_H
