//===- ScheduleLinearGpu.cpp - tile kernels of kimi.fused_linear for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/LinearGpuKernel.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "llvm/Support/MathExtras.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULELINEARGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// The tile that sums the parts of a split product.
LinearTile sumTile(const LinearTile &split) {
  return {16, std::min<int64_t>(split.columns, 64), /*depth=*/0, /*stages=*/1, /*threads=*/128};
}

struct KimiScheduleLinearGpu : kimi::impl::KimiScheduleLinearGpuBase<KimiScheduleLinearGpu> {
  using KimiScheduleLinearGpuBase::KimiScheduleLinearGpuBase;

  void runOnOperation() override {
    FailureOr<GpuArch> found = gpuArchOption(getOperation(), archName, multiprocessors);
    if (failed(found)) {
      return signalPassFailure();
    }
    arch = *found;
    auto one = [&](HostContext &context, FusedLinearOp op) { return schedule(context, op); };
    auto group = [](HostContext &, FusedLinearOp op) { // one with a greedy token is the only one of its function
      return findGreedyToken(op.getResult()) ? ScheduleGroup() : ScheduleGroup{{op}, ""};
    };
    if (failed(scheduleEach<FusedLinearOp>(getOperation(), whyNotLinear, one, numScheduled, group))) {
      signalPassFailure();
    }
  }

  LogicalResult schedule(HostContext &context, FusedLinearOp op) {
    FoldedLinear p(context, op);
    LinearShape shape{};
    shape.n = p.n;
    shape.k = p.k;
    shape.elementSize = static_cast<int64_t>(p.operand.getIntOrFloatBitWidth() / 8);
    Type result = cast<ShapedType>(op.getType()).getElementType();
    shape.resultSize = static_cast<int64_t>(result.getIntOrFloatBitWidth() / 8);
    shape.norm = p.hasNorm();
    shape.wideExtras = llvm::any_of(p.extras, [](const LinearExtra &extra) { return extra.perRow && extra.perColumn; });
    shape.copyable = p.copyable;
    GreedyTokenOp greedy = findGreedyToken(op.getResult());
    shape.argmax = greedy != nullptr;
    std::vector<LinearChoice> choices = chooseLinearTiles(arch, shape, p.m.getConstant());
    SymbolicDim wanted(0), below(0);
    for (const LinearChoice &choice : choices) {
      wanted = choice.tile.launchedStatistics ? wanted + taken(p, choice, below) : wanted;
      below = choice.rows ? SymbolicDim(*choice.rows) : below;
    }
    if (greedy) {
      joinGreedy(p, greedy, choices);
    }
    if (!wanted.is(0) && failed(buildStatistics(context, p, wanted))) {
      return failure();
    }
    std::string stem = linearStem(op);
    Workspaces workspaces;
    if (failed(buildPartials(context, p, choices, stem, workspaces))) {
      return failure();
    }
    SmallVector<KernelWriter::Variant> variants;
    std::unique_ptr<LinearGpuKernel> kernel;
    for (auto [index, choice] : llvm::enumerate(choices)) {
      bool split = choice.tile.splits > 1;
      LinearTile tile = split ? sumTile(choice.tile) : choice.tile;
      SymbolicDim guard = choice.rows ? SymbolicDim::le(p.m, *choice.rows) : SymbolicDim(1);
      kernel = std::make_unique<LinearGpuKernel>(context, arch, p, tile, split ? LinearPart::sum : LinearPart::whole,
                                                 workspaces.tensors, workspaces.of[index]);
      FailureOr<KernelWriter::Variant> variant = kernel->build(name(stem, choice, split ? "_sum" : ""), guard);
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
    }
    DispatchOp dispatch = kernel->getWriter().dispatch(variants, 2 * p.k);
    Value y = dispatch.getResult(0);
    if (p.greedy &&
        failed(buildGreedyLast(context, p.greedy, {dispatch.getResult(1), dispatch.getResult(2), p.m, p.mostParts}))) {
      return failure();
    }
    OpBuilder b(op);
    auto type = cast<RankedTensorType>(op.getType());
    context.replace(op, fromMatrix(context, b, op.getLoc(), y, type, context.scalars.shape(op.getResult())));
    return success();
  }

private:
  struct Workspaces {
    SmallVector<Value> tensors;    // partial sums, one tensor for each choice that is split
    std::map<size_t, unsigned> of; // by choice
  };

  /// 1 where `choice` is the one for M: more than `below` rows, and no more than it is for.
  static SymbolicDim taken(const FoldedLinear &p, const LinearChoice &choice, const SymbolicDim &below) {
    if (p.m.isConstant()) {
      return SymbolicDim(1);
    }
    SymbolicDim more = SymbolicDim::lt(below, p.m);
    return choice.rows ? more * SymbolicDim::le(p.m, *choice.rows) : more;
  }

  /// The argmax of y's rows begins in the epilogue: each tile of y is a part.
  static void joinGreedy(FoldedLinear &p, GreedyTokenOp greedy, ArrayRef<LinearChoice> choices) {
    p.greedy = greedy;
    for (const LinearChoice &choice : llvm::reverse(choices)) {
      int64_t columns = choice.tile.splits > 1 ? sumTile(choice.tile).columns : choice.tile.columns;
      int64_t count = llvm::divideCeil(p.n, columns);
      p.mostParts = std::max(p.mostParts, count);
      SymbolicDim parts(count);
      bool isSame = !choice.rows || parts == p.parts;
      p.parts = isSame ? parts : SymbolicDim::select(SymbolicDim::le(p.m, *choice.rows), parts, p.parts);
    }
  }

  static std::string name(const std::string &stem, const LinearChoice &choice, const char *suffix) {
    std::string rows = choice.rows ? "_m" + std::to_string(*choice.rows) : "";
    return stem + rows + suffix;
  }

  /// For each choice that splits the sum over k, a launch that writes partial sums; its grid is empty where another
  /// choice is taken.
  LogicalResult buildPartials(HostContext &context, FoldedLinear &p, ArrayRef<LinearChoice> choices,
                              const std::string &stem, Workspaces &workspaces) {
    SymbolicDim below(0);
    for (auto [index, choice] : llvm::enumerate(choices)) {
      SymbolicDim isTaken = taken(p, choice, below);
      below = choice.rows ? SymbolicDim(*choice.rows) : below;
      if (choice.tile.splits == 1) {
        continue;
      }
      LinearGpuKernel kernel(context, arch, p, choice.tile, LinearPart::partial);
      FailureOr<KernelWriter::Variant> variant = kernel.build(name(stem, choice, "_part"), isTaken);
      if (failed(variant)) {
        return failure();
      }
      workspaces.of[index] = workspaces.tensors.size();
      workspaces.tensors.push_back(kernel.getWriter().dispatch(*variant).getResult(0));
    }
    return success();
  }

  GpuArch arch;
};
} // namespace
