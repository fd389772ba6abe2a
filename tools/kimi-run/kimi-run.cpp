//===- kimi-run.cpp - runs compiled modules: text, arrays, tests, timings
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Run.h"
#include <csignal>
#include <exception>
#include <iostream>
#include <new>

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file that reaches the limit of its size is an error of the write
  try {
    return kimi::run::runMain(argc, argv, std::cout, std::cerr);
  } catch (const std::bad_alloc &) {
    std::cerr << "kimi-run: error: out of memory; raise the limit of this process (ulimit -v), or ask for less with "
                 "--max-seq or --batch\n";
    return 1;
  } catch (const std::exception &error) {
    std::cerr << "kimi-run: error: " << error.what() << std::endl;
    return 1;
  }
}
