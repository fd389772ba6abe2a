//===- ScheduleAttentionGpu.cpp - tile kernels of kimi.attention for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/AttentionGpuKernel.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEATTENTIONGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
struct KimiScheduleAttentionGpu : kimi::impl::KimiScheduleAttentionGpuBase<KimiScheduleAttentionGpu> {
  using KimiScheduleAttentionGpuBase::KimiScheduleAttentionGpuBase;

  void runOnOperation() override {
    FailureOr<GpuArch> found = gpuArchOption(getOperation(), archName, multiprocessors);
    if (failed(found)) {
      return signalPassFailure();
    }
    arch = *found;
    auto one = [&](HostContext &context, AttentionOp op) { return schedule(context, op); };
    auto group = [&](HostContext &context, AttentionOp op) {
      ScheduleGroup group = AttentionProblem::group(context, op, /*fuseAppends=*/true);
      numAppends += isa<CacheAppendOp>(group.ops.front()) ? 2 : 0;
      return group;
    };
    if (failed(scheduleEach<AttentionOp>(
            getOperation(), [&](AttentionOp op) { return whyNot(op); }, one, numScheduled, group))) {
      signalPassFailure();
    }
  }

private:
  static AttentionShape shapeOf(AttentionOp op) {
    auto type = [](Value value) { return cast<RankedTensorType>(value.getType()); };
    bool narrow = true;
    for (Value value : {op.getQ(), op.getK(), op.getV()}) {
      narrow &= !type(value).getElementType().isF32();
    }
    int64_t depth = type(op.getK()).getDimSize(3), width = type(op.getV()).getDimSize(3);
    bool inKeys = areValuesInKeys(op); // sums of values are as wide as keys then, and what is too much is not stored
    return {depth, inKeys ? depth : width, narrow ? 2 : 4, /*copyable=*/false, inKeys};
  }

  /// Whether boxes of keys and values can be fetched by the copy engine.
  static bool isCopyable(HostContext &context, const AttentionProblem &p) {
    constexpr int64_t alignment = 16; // bytes, of addresses and strides
    for (Value tensor : {p.keys, p.values}) {
      FailureOr<ViewLayout> layout = context.layouts.of(tensor);
      Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
      if (failed(layout) || !layout->strides.back().is(1) || alignmentOf(*layout, element) < alignment) {
        return false;
      }
      for (const SymbolicDim &stride : ArrayRef<SymbolicDim>(layout->strides).drop_back()) {
        std::optional<int64_t> elements = stride.getConstant();
        if (elements && *elements * element.getIntOrFloatBitWidth() / 8 % alignment != 0) {
          return false;
        }
      }
    }
    return true;
  }

  std::string whyNot(AttentionOp op) {
    std::string obstacle = whyNotAttention(op);
    if (!obstacle.empty()) {
      return obstacle;
    }
    AttentionShape shape = shapeOf(op);
    if (!chooseAttentionTile(arch, shape)) {
      return "heads of " + std::to_string(shape.depth) + " and " + std::to_string(shape.width) +
             " channels do not fit a block";
    }
    return {};
  }

  LogicalResult schedule(HostContext &context, AttentionOp op) {
    AttentionProblem p(context, op, /*fuseAppends=*/true);
    std::string stem = attentionStem(op) + (p.keyAppend ? "_append" : "");
    SmallVector<SymbolicDim> q = context.scalars.shape(op.getQ());
    std::optional<int64_t> queries = q[2].getConstant(), heads = q[1].getConstant();
    std::optional<int64_t> keyHeads = context.scalars.shape(p.keys)[1].getConstant();
    AttentionShape shape = shapeOf(op);
    int64_t group = heads && keyHeads && *keyHeads > 0 ? std::max<int64_t>(*heads / *keyHeads, 1) : 1;
    AttentionShares shares;
    std::optional<AttentionTile> ofOne = chooseAttentionTile(arch, shape, group);
    if (!ofOne || !chooseAttentionTile(arch, shape)) { // values that were in keys were copied
      op.emitRemark("not scheduled: keys and values do not lie in memory as they have to");
      return success();
    }
    AttentionTile oneTile = *ofOne;
    bool one = !queries || *queries == 1;
    if (one) {
      chooseShares(context, p, oneTile, shares);
    }
    bool splits = one && !shares.count.is(1);
    if (splits && failed(buildShares(context, p, oneTile, stem, shares))) {
      return failure();
    }
    SmallVector<KernelWriter::Variant> variants;
    std::unique_ptr<AttentionGpuKernel> kernel;
    auto add = [&](const AttentionTile &tile, AttentionRows rows, const std::string &suffix, const SymbolicDim &guard,
                   AttentionPart part = AttentionPart::whole, bool fresh = false) -> LogicalResult {
      kernel = std::make_unique<AttentionGpuKernel>(context, p, tile, rows, part, splits ? &shares : nullptr, fresh);
      FailureOr<KernelWriter::Variant> variant = kernel->build(stem + suffix, guard);
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
      return success();
    };
    // One query: the heads that share keys are the rows of a block, so that keys are read once.
    if (one) {
      SymbolicDim isOne = SymbolicDim::eq(q[2], 1), whole = SymbolicDim::eq(shares.count, 1);
      if (!whole.is(0) && failed(add(oneTile, AttentionRows::heads, "_t1", isOne * whole))) {
        return failure();
      }
      if (splits && failed(add(oneTile, AttentionRows::heads, "_combine", isOne, AttentionPart::combine))) {
        return failure();
      }
    }
    constexpr int64_t few = 16;
    if ((!queries || (*queries > 1 && *queries <= few)) &&
        failed(add(*chooseAttentionTile(arch, shape, few), AttentionRows::queries, "_t" + std::to_string(few),
                   SymbolicDim::le(q[2], few)))) {
      return failure();
    }
    if (!queries || *queries > few || *queries < 1) {
      // The copy engine fetches from whole buffers: what a state holds has no extent of its own.
      AttentionShape copied = shape;
      copied.copyable = isCopyable(context, p);
      std::vector<AttentionChoice> special = chooseAttentionTiles(arch, copied);
      bool fresh = p.keyAppend && special.back().tile.specialized;
      SymbolicDim isFresh = fresh ? SymbolicDim::eq(p.past, 0) : SymbolicDim(1);
      for (const AttentionChoice &choice : special) {
        if (p.keyAppend && !fresh) {
          break;
        }
        SymbolicDim condition(1);
        std::string suffix = fresh ? "_fresh" : "";
        if (choice.mostBlocks) {
          SymbolicDim blocks = q[0] * q[1] * SymbolicDim::ceilDiv(q[2], kAttentionRows);
          condition = SymbolicDim::le(blocks, *choice.mostBlocks);
        }
        if (choice.leastTokens > 0) {
          condition = condition * SymbolicDim::le(choice.leastTokens, q[2]);
        }
        if (&choice != &special.back()) {
          suffix += "_r" + std::to_string(choice.tile.queries);
        }
        if (condition.is(0)) {
          continue;
        }
        if (failed(
                add(choice.tile, AttentionRows::queries, suffix, isFresh * condition, AttentionPart::whole, fresh))) {
          return failure();
        }
        if (condition.is(1)) {
          break;
        }
      }
      if (p.keyAppend && failed(add(*chooseAttentionTile(arch, shape), AttentionRows::queries, "", SymbolicDim(1)))) {
        return failure();
      }
    }
    p.replace(context, kernel->getWriter().dispatch(variants).getResult(0));
    return success();
  }

  /// Into how many shares the keys of one query are split: more than one where its blocks are too few to keep the
  /// device busy and there are keys enough.
  void chooseShares(HostContext &context, AttentionProblem &p, const AttentionTile &tile, AttentionShares &shares) {
    constexpr int64_t kShareKeys = 512, kBlocksPerSm = 2; // fewer keys are not worth another launch
    SmallVector<SymbolicDim> q = context.scalars.shape(p.op.getQ()), k = context.scalars.shape(p.keys);
    SymbolicDim keys = p.past + k[2], one(1);
    SymbolicDim groups = SymbolicDim::ceilDiv(SymbolicDim::floorDiv(q[1], SymbolicDim::max(k[1], one)), tile.queries);
    SymbolicDim blocks = SymbolicDim::max(q[0] * k[1] * groups, one);
    SymbolicDim most = SymbolicDim::max(SymbolicDim::floorDiv(arch.multiprocessors * kBlocksPerSm, blocks), one);
    shares.count = SymbolicDim::max(SymbolicDim::min(SymbolicDim::floorDiv(keys, kShareKeys), most), one);
    SymbolicDim steps = SymbolicDim::ceilDiv(keys, tile.keys);
    shares.keys = SymbolicDim::ceilDiv(steps, shares.count) * SymbolicDim(tile.keys);
  }

  /// The launch that computes the shares. Its grid is empty where the attention is not split.
  LogicalResult buildShares(HostContext &context, AttentionProblem &p, const AttentionTile &tile,
                            const std::string &stem, AttentionShares &shares) {
    AttentionGpuKernel kernel(context, p, tile, AttentionRows::heads, AttentionPart::share, &shares);
    SymbolicDim split = SymbolicDim(1) - SymbolicDim::eq(shares.count, 1);
    SymbolicDim isOne = SymbolicDim::eq(context.scalars.shape(p.op.getQ())[2], 1);
    FailureOr<KernelWriter::Variant> variant = kernel.build(stem + "_share", isOne * split);
    if (failed(variant)) {
      return failure();
    }
    DispatchOp dispatch = kernel.getWriter().dispatch(*variant);
    shares.acc = dispatch.getResult(0);
    shares.top = dispatch.getResult(1);
    shares.sum = dispatch.getResult(2);
    return success();
  }

  GpuArch arch;
};
} // namespace
