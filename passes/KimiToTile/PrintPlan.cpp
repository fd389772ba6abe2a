//===- PrintPlan.cpp - prints the plan of the host functions
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/BuildModule.h"
#include "passes/KimiToTile/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_KIMIPRINTPLAN
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

namespace {
struct KimiPrintPlan : kimi::impl::KimiPrintPlanBase<KimiPrintPlan> {
  void runOnOperation() override {
    if (mlir::failed(kimi::printPlan(getOperation(), llvm::outs()))) {
      signalPassFailure();
    }
  }
};
} // namespace
