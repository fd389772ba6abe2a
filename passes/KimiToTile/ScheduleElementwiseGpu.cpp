//===- ScheduleElementwiseGpu.cpp - block programs of elementwise ops for a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/ElementwiseGpuKernel.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleMemo.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEELEMENTWISEGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
bool isOfFloats(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : type;
  return !tensor || element.isF32() || element.isBF16() || element.isF16();
}

/// Why a tile.map cannot be what `op` does; "" where it can.
std::string whyNoMap(linalg::GenericOp op) {
  if (op.getNumParallelLoops() != op.getNumLoops()) {
    return "it reduces";
  }
  if (op->getNumResults() == 0) {
    return "it works on buffers";
  }
  for (OpOperand &operand : op->getOpOperands()) {
    bool used = !op.isDpsInput(&operand) || op.payloadUsesValueFromOperand(&operand);
    if (used && !isOfFloats(operand.get().getType())) {
      return "operand " + std::to_string(operand.getOperandNumber()) + " does not hold f32, bf16 or f16";
    }
    if (!op.isDpsInput(&operand) && op.payloadUsesValueFromOperand(&operand)) {
      return "it reads what it replaces";
    }
  }
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (!OpTrait::hasElementwiseMappableTraits(&inner) && !inner.hasTrait<OpTrait::ConstantLike>()) {
      return "its body has a '" + inner.getName().getStringRef().str() + "'";
    }
  }
  return "";
}

struct KimiScheduleElementwiseGpu : kimi::impl::KimiScheduleElementwiseGpuBase<KimiScheduleElementwiseGpu> {
  void runOnOperation() override {
    KernelPool pool(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal()) {
        continue;
      }
      HostContext context(func, pool);
      ScheduleMemo memo(context);
      SmallVector<linalg::GenericOp> ops(func.getBody().front().getOps<linalg::GenericOp>());
      for (linalg::GenericOp op : ops) {
        std::string obstacle = whyNoMap(op);
        FailureOr<ElementwiseSpace> space = failure();
        if (obstacle.empty()) {
          space = ElementwiseSpace::of(context, op, obstacle);
        }
        if (!obstacle.empty()) {
          op.emitRemark() << "is computed by a thread for each element of its result: " << obstacle;
          continue;
        }
        context.scalars.shareBefore(op);
        if (failed(memo.schedule(op, {{op}, ""}, [&] { return scheduleElementwise(context, op, *space); }))) {
          return signalPassFailure();
        }
        ++numScheduled;
      }
      context.finish();
    }
  }
};
} // namespace
