//===- ScheduleMemo.h - kernels of ops that are alike are written once
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_SCHEDULEMEMO_H
#define KIMI_PASSES_KIMITOTILE_SCHEDULEMEMO_H

#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// Remembers what scheduling an op has put before it: launches, and views of their operands. An op of the same host
/// function that is alike gets a copy of that, so that compile time follows the number of distinct layers: to write a
/// kernel only to find that there is an equal one takes far longer.
///
/// Alike are ops of equal name, attributes and bodies, whose operands and results have equal types, layouts and extents
/// (as polynomials of the function's dims). For schedules that look at nothing else, write before the op alone, and
/// replace it and nothing else (see HostContext::replace).
class ScheduleMemo {
public:
  explicit ScheduleMemo(HostContext &context) : context(context) {}
  /// Schedules `op`: by `write`, or without it.
  mlir::LogicalResult schedule(mlir::Operation *op, llvm::function_ref<mlir::LogicalResult()> write);

private:
  /// What an op got, and what of it is the op's own: to be replaced in a copy.
  struct Entry {
    mlir::Location loc;
    llvm::SmallVector<mlir::Value> outside;
    llvm::SmallVector<mlir::Operation *> written;
    llvm::SmallVector<mlir::Value> results;
  };
  void copy(const Entry &entry, llvm::ArrayRef<mlir::Value> outside, mlir::Operation *op);

  HostContext &context;
  std::map<std::string, Entry> entries;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_SCHEDULEMEMO_H
