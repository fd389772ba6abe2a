//===- Grid.h - the points a kernel is launched on --------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_GRID_H
#define KIMI_RUNTIME_GRID_H

#include <cstdint>

namespace kimi {

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

} // namespace kimi

#endif // KIMI_RUNTIME_GRID_H
