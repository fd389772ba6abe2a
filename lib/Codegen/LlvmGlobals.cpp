//===- LlvmGlobals.cpp - what several compilations in one process share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/LlvmGlobals.h"

std::shared_mutex &kimi::llvmGlobals() {
  static std::shared_mutex mutex;
  return mutex;
}
