//===- GpuArchOption.h - the GPU that a schedule's options name -------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_GPUARCHOPTION_H
#define KIMI_PASSES_KIMITOTILE_GPUARCHOPTION_H

#include "mlir/IR/Operation.h"
#include "passes/KimiToTile/GpuSchedule.h"

namespace kimi {

/// The limits of compute capability `name` (see GpuArch::get); an error at `module` where there are no schedules for
/// it.
inline mlir::FailureOr<GpuArch> gpuArchOption(mlir::Operation *module, llvm::StringRef name, int64_t multiprocessors) {
  if (std::optional<GpuArch> found = GpuArch::get(name, multiprocessors)) {
    return *found;
  }
  return module->emitError() << "there are no schedules for the compute capability '" << name
                             << "'; the least is 80, 90a has its own";
}

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_GPUARCHOPTION_H
