//===- Exhaustion.cpp - messages for what a process runs out of
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/Exhaustion.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

static const char *toolName = "";

/// Without asking for memory.
[[noreturn]] static void outOfMemory() {
  for (const char *part : {toolName, ": error: out of memory; raise the limit of this process (ulimit -v) or take a "
                                     "machine with more\n"}) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) {
      break;
    }
  }
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  _exit(1);
}

void kimi::reportExhaustion(const char *tool) {
  toolName = tool;
  std::set_new_handler(outOfMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { outOfMemory(); });
  std::signal(SIGXFSZ, SIG_IGN);
}
