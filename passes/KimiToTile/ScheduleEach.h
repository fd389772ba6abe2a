//===- ScheduleEach.h - goes through the ops that a schedule is for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_SCHEDULEEACH_H
#define KIMI_PASSES_KIMITOTILE_SCHEDULEEACH_H

#include "passes/KimiToTile/ScheduleMemo.h"
#include <optional>

namespace kimi {

/// For schedules that look at nothing but the op, and replace nothing else.
inline ScheduleGroup aloneInGroup(HostContext &, mlir::Operation *op) { return {{op}, ""}; }

/// Schedules the ops of type `Op` of each host function of `module`: `whyNot(op)` tells why one is left to the
/// passes that follow (a remark repeats it, and says what `otherwise` does) or is empty, `schedule(context, op)` writes
/// the kernels of the others, which `scheduled` counts. It does so once for ops that are alike, where `groupOf(op)`
/// gives a group (see ScheduleMemo, and what it asks of `schedule`). Failure: as soon as `schedule` fails.
template <typename Op>
mlir::LogicalResult scheduleEach(mlir::ModuleOp module, llvm::function_ref<std::string(Op)> whyNot,
                                 llvm::function_ref<mlir::LogicalResult(HostContext &, Op)> schedule,
                                 mlir::Pass::Statistic &scheduled,
                                 llvm::function_ref<ScheduleGroup(HostContext &, Op)> groupOf,
                                 llvm::StringRef otherwise = "is computed by the reference lowering") {
  std::optional<KernelPool> pool; // made where there is something to schedule: it prints the kernels there are
  for (auto func : module.getOps<mlir::func::FuncOp>()) {
    llvm::SmallVector<Op> ops;
    func.walk([&](Op op) { ops.push_back(op); });
    if (ops.empty()) {
      continue;
    }
    if (!pool) {
      pool.emplace(module);
    }
    HostContext context(func, *pool);
    ScheduleMemo memo(context);
    for (Op op : ops) {
      std::string obstacle = whyNot(op);
      if (!obstacle.empty()) {
        op.emitRemark() << otherwise << ": " << obstacle;
        continue;
      }
      context.scalars.shareBefore(op);
      auto write = [&] { return schedule(context, op); };
      if (mlir::failed(memo.schedule(op, groupOf(context, op), write))) {
        return mlir::failure();
      }
      ++scheduled;
    }
    context.finish();
  }
  return mlir::success();
}

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_SCHEDULEEACH_H
