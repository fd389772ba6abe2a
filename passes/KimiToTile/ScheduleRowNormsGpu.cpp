//===- ScheduleRowNormsGpu.cpp - block programs of norms and softmax for a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/RowNormKernel.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEROWNORMSGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

namespace {
struct KimiScheduleRowNormsGpu : kimi::impl::KimiScheduleRowNormsGpuBase<KimiScheduleRowNormsGpu> {
  using KimiScheduleRowNormsGpuBase::KimiScheduleRowNormsGpuBase;

  void runOnOperation() override {
    FailureOr<GpuArch> arch = gpuArchOption(getOperation(), archName, multiprocessors);
    if (failed(arch)) {
      return signalPassFailure();
    }
    KernelPool pool(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Operation *> ops;
      func.walk([&](Operation *op) {
        if (isa<L2NormOp, RmsNormOp, GatedRmsNormOp, LayerNormOp, SoftmaxOp>(op)) {
          ops.push_back(op);
        }
      });
      HostContext context(func, pool);
      ScheduleMemo memo(context);
      Operation *last = nullptr;
      for (Operation *op : ops) {
        RowNorm norm(op); // of the function as it is by now
        std::string obstacle = whyNot(norm);
        std::optional<RowNormTile> tile;
        if (obstacle.empty()) {
          int64_t bytes = elementOf(norm.result()).getIntOrFloatBitWidth() / 8;
          tile = RowNormTile::choose(*arch, norm.channels(), bytes, norm.rows().size());
          obstacle = tile ? "" : "rows of " + std::to_string(norm.channels()) + " channels do not fit a block";
        }
        if (!obstacle.empty()) {
          op->emitRemark() << "is computed by the reference lowering: " << obstacle;
          continue;
        }
        retireExtents(context, norm);
        Operation *host = norm.result().getDefiningOp();
        if (!last || last->getBlock() != host->getBlock() ||
            last->isBeforeInBlock(host)) { // what follows may be far off
          context.scalars.shareBefore(host);
          last = host;
        }
        if (failed(memo.schedule(host, norm.group(), [&] { return scheduleRowNorm(context, norm, *tile); }))) {
          return signalPassFailure();
        }
        ++numScheduled;
      }
      context.finish();
    }
  }

  static std::string whyNot(const RowNorm &norm) {
    if (!RowNorm::handles(norm.op)) {
      return "it runs along an axis that is not the last";
    }
    SmallVector<Value> tensors = norm.rows();
    tensors.append({norm.result(), norm.gamma, norm.beta});
    for (Value tensor : tensors) {
      if (tensor && !elementOf(tensor).isF32() && !elementOf(tensor).isBF16() && !elementOf(tensor).isF16()) {
        return "there is no kernel for operands that are not f32, bf16 or f16";
      }
    }
    if (ShapedType::isDynamic(norm.channels()) || norm.channels() == 0) {
      return "the number of channels is not known, or 0";
    }
    return "";
  }
};
} // namespace
