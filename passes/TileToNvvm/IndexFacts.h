//===- IndexFacts.h - what is known about the index values of a kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_INDEXFACTS_H
#define KIMI_PASSES_TILETONVVM_INDEXFACTS_H

#include "mlir/IR/OpDefinition.h"
#include <optional>

namespace kimi {

/// The largest power of two up to 1024 that an index value is known to be a multiple of.
int64_t knownAlignment(mlir::OpFoldResult index);

/// The values an index may take, as far as they are known; loops with constant bounds and arithmetic are followed.
/// Index arithmetic is taken not to overflow.
struct IndexRange {
  std::optional<int64_t> low, high; ///< inclusive
};
IndexRange knownRange(mlir::OpFoldResult index);

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_INDEXFACTS_H
