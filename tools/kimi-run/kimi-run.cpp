//===- kimi-run.cpp - runs compiled modules: text, arrays, tests, timings
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Run.h"
#include <exception>
#include <iostream>

int main(int argc, char **argv) {
  try {
    return kimi::run::runMain(argc, argv, std::cout, std::cerr);
  } catch (const std::exception &error) { // Memory that is not to be had, above all.
    std::cerr << "kimi-run: error: " << error.what() << std::endl;
    return 1;
  }
}
