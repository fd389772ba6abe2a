//===- Bindings.h - weights, derived buffers and code of a module in memory -===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_BINDINGS_H
#define KIMI_RUNTIME_BINDINGS_H

#include "runtime/WeightFiles.h"
#include "runtime/cpu/KernelImage.h"

#include <memory>
#include <vector>

namespace kimi {

struct Plan;

/// A run of a mapping: bytes [offset, offset + size).
struct Extent {
  uint64_t offset = 0, size = 0;
};

/// What all sessions of a module share. Built by the first of them; read-only afterwards.
struct Bindings {
  /// Checks the target against this CPU, maps the weights beneath `weightsFolder`, loads the code, and runs `init` (the
  /// plan of the entry of that name, or null) on `pool`. Errors: those of its parts.
  static Status create(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                       ThreadPool &pool, std::shared_ptr<const Bindings> &out);

  WeightFiles weights;
  Mapping derived;
  std::vector<Extent> derivedExtents;
  std::vector<std::unique_ptr<KernelImage>> images;
  std::vector<KernelFunction> kernels;
};

} // namespace kimi

#endif // KIMI_RUNTIME_BINDINGS_H
