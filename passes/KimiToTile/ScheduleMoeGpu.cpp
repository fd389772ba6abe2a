//===- ScheduleMoeGpu.cpp - tile kernels of kimi.moe for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/MoeGpuKernels.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEMOEGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
struct KimiScheduleMoeGpu : kimi::impl::KimiScheduleMoeGpuBase<KimiScheduleMoeGpu> {
  using KimiScheduleMoeGpuBase::KimiScheduleMoeGpuBase;

  void runOnOperation() override {
    FailureOr<GpuArch> arch = gpuArchOption(getOperation(), archName, multiprocessors);
    if (failed(arch)) {
      return signalPassFailure();
    }
    auto one = [&](HostContext &context, MoeOp op) { return scheduleMoe(context, *arch, MoeProblem(context, op)); };
    // The bytes of packed experts are read by ops that the schedule writes, which name their weights.
    auto group = [](HostContext &context, MoeOp op) {
      return op.getS1() ? ScheduleGroup() : aloneInGroup(context, op);
    };
    if (failed(scheduleEach<MoeOp>(getOperation(), whyNotMoe, one, numScheduled, group))) {
      signalPassFailure();
    }
  }
};
} // namespace
