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

/// What the schedule of an op makes launches of: the op, and its neighbours that a launch computes as well.
struct ScheduleGroup {
  llvm::SmallVector<mlir::Operation *> ops; // in the order of their block; empty where no other op is ever alike
  std::string facts;                        // what else the launches depend on
};

/// Remembers what scheduling an op has put before it: launches, and views of their operands. An op of the same host
/// function that is alike gets a copy of that, so that compile time follows the number of distinct layers: to write a
/// kernel only to find that there is an equal one takes far longer. Scalars that depend on the function's dims alone
/// are not even copied: the later op takes those of the earlier one.
///
/// Alike are ops whose groups are: ops of equal names, attributes and bodies, used by each other in the same way, whose
/// operands and results have equal types, layouts and extents (as polynomials of the function's dims), and equal facts.
/// For schedules that look at nothing else, write before the op alone, and replace what is in the group and nothing
/// else (see HostContext).
class ScheduleMemo {
public:
  explicit ScheduleMemo(HostContext &context) : context(context) {}
  /// Schedules `op`, one of `group`: by `write`, or without it.
  mlir::LogicalResult schedule(mlir::Operation *op, const ScheduleGroup &group,
                               llvm::function_ref<mlir::LogicalResult()> write);

private:
  /// What an op got, and what of it is the op's own: to be replaced in a copy.
  struct Entry {
    mlir::Operation *op;
    llvm::SmallVector<mlir::Value> outside;       // that its group uses
    llvm::SmallVector<mlir::Operation *> written; // to be copied
    struct Replaced {
      unsigned op, result; // of the group
      mlir::Value by;
    };
    llvm::SmallVector<Replaced> replaced;
    llvm::SmallVector<unsigned> dead; // of the group, in the order they were given up
  };
  void remember(const std::string &key, Entry entry, llvm::ArrayRef<mlir::Operation *> group, mlir::Operation *before,
                size_t dead);
  void copy(const Entry &entry, llvm::ArrayRef<mlir::Value> outside, mlir::Operation *op,
            llvm::ArrayRef<mlir::Operation *> group);

  HostContext &context;
  std::map<std::string, Entry> entries;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_SCHEDULEMEMO_H
