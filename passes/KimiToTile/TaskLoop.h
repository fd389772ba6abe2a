//===- TaskLoop.h - the rows that one task of a loop kernel computes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_TASKLOOP_H
#define KIMI_PASSES_KIMITOTILE_TASKLOOP_H

#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// A loop nest of independent points [0, e0) x [0, e1) x .. shared among tasks. A task computes whole rows (all extents
/// but the last one), or pieces of a row where a row alone is too much work.
class TaskLoop {
public:
  /// `pointWork`: element operations of one point; a task gets at least `taskWork` of them where there are as many.
  TaskLoop(llvm::ArrayRef<SymbolicDim> extents, const SymbolicDim &pointWork, int64_t taskWork);

  /// Writes the loops; `body` writes one point. `extents`: the extents within the kernel.
  void build(KernelWriter &writer, llvm::ArrayRef<mlir::Value> extents,
             llvm::function_ref<void(llvm::ArrayRef<mlir::Value> point)> body) const;
  /// The number of tasks: the x extent of the grid.
  const SymbolicDim &tasks() const { return taskCount; }

private:
  llvm::SmallVector<SymbolicDim> extents;
  SymbolicDim piece = SymbolicDim(1);  // points of the last axis that go together
  SymbolicDim pieces = SymbolicDim(1); // pieces of a row
  SymbolicDim units = SymbolicDim(1);  // rows times pieces
  SymbolicDim unitsPerTask = SymbolicDim(1), taskCount = SymbolicDim(1);
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_TASKLOOP_H
