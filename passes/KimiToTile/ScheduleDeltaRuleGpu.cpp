//===- ScheduleDeltaRuleGpu.cpp - tile kernels of kimi.delta_rule for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/DeltaRuleGpuKernel.h"
#include "passes/KimiToTile/GateRange.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEDELTARULEGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

/// Up to so many tokens are taken one by one.
static constexpr int64_t kFewTokens = 16;

namespace {
struct KimiScheduleDeltaRuleGpu : kimi::impl::KimiScheduleDeltaRuleGpuBase<KimiScheduleDeltaRuleGpu> {
  using KimiScheduleDeltaRuleGpuBase::KimiScheduleDeltaRuleGpuBase;

  void runOnOperation() override {
    FailureOr<GpuArch> found = gpuArchOption(getOperation(), archName, multiprocessors);
    if (failed(found)) {
      return signalPassFailure();
    }
    arch = *found;
    auto one = [&](HostContext &context, DeltaRuleOp op) { return schedule(context, op); };
    auto group = [](HostContext &context, DeltaRuleOp op) {
      ScheduleGroup group = DeltaRuleProblem::group(op);
      if (hasFewTokens(context, op).is(1)) {
        SmallVector<Operation *> makers = DeltaRuleInputs::computed(context, op).makers();
        group.ops.insert(group.ops.begin(), makers.begin(), makers.end());
      }
      return group;
    };
    if (failed(scheduleEach<DeltaRuleOp>(
            getOperation(), [&](DeltaRuleOp op) { return whyNot(op); }, one, numScheduled, group,
            "is not computed in chunks"))) {
      signalPassFailure();
    }
  }

private:
  static SymbolicDim hasFewTokens(HostContext &context, DeltaRuleOp op) {
    return SymbolicDim::le(context.scalars.shape(op.getQ())[2], kFewTokens);
  }

  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

  static DeltaRuleShape shapeOf(DeltaRuleOp op) {
    bool narrow = true;
    for (Value value : {op.getQ(), op.getK(), op.getV()}) {
      narrow &= typeOf(value).getElementType() == typeOf(op.getQ()).getElementType() &&
                !typeOf(value).getElementType().isF32();
    }
    bool bounded = !op.getDecay() || std::isfinite(rangeOfElements(op.getDecay()).least);
    return {typeOf(op.getK()).getDimSize(3), typeOf(op.getV()).getDimSize(3), narrow ? 2 : 4, bounded};
  }

  std::string whyNot(DeltaRuleOp op) {
    constexpr int64_t matrixDepth = 16;
    if (op.getNormalize()) {
      return "it divides by the sum of the keys";
    }
    if (typeOf(op.getQ()).getDimSize(1) > op.getStateHeads()) {
      return "several queries share a state";
    }
    for (Value value : {op.getQ(), op.getK(), op.getV()}) {
      Type element = typeOf(value).getElementType();
      if (!element.isF32() && !element.isBF16() && !element.isF16()) {
        return "it is of another element type than f32, bf16 and f16";
      }
    }
    DeltaRuleShape shape = shapeOf(op);
    std::string channels = std::to_string(shape.depth) + " and " + std::to_string(shape.width) + " channels";
    if (ShapedType::isDynamic(shape.depth) || ShapedType::isDynamic(shape.width)) {
      return "its channels are not static";
    }
    if (shape.depth % matrixDepth != 0 || shape.width % matrixDepth != 0) {
      return "heads of " + channels + " are not whole matrix instructions";
    }
    return chooseDeltaRuleTile(arch, shape) ? "" : "heads of " + channels + " do not fit a block";
  }

  LogicalResult schedule(HostContext &context, DeltaRuleOp op) {
    SymbolicDim few = hasFewTokens(context, op);
    bool inChunks = !few.is(1);
    // Variants of a launch have the same arguments.
    DeltaRuleInputs inputs = inChunks ? DeltaRuleInputs(op) : DeltaRuleInputs::computed(context, op);
    DeltaRuleProblem p(context, op);
    DeltaRuleTile tile = *chooseDeltaRuleTile(arch, shapeOf(op));
    std::string stem = deltaRuleStem(op);
    DeltaRuleChunks chunks;
    if (inChunks && failed(prepare(context, p, inputs, tile, stem, SymbolicDim(1) - few, chunks))) {
      return failure();
    }
    SmallVector<KernelWriter::Variant> variants;
    std::unique_ptr<DeltaRuleGpuKernel> kernel;
    auto add = [&](DeltaRulePart part, const std::string &suffix, const SymbolicDim &guard) -> LogicalResult {
      DeltaRuleTile own = tile;
      if (part == DeltaRulePart::tokens) { // the state is all there is to read: many small blocks
        own.columns = std::min<int64_t>(own.columns, 32);
        own.threads = 128;
      }
      kernel = std::make_unique<DeltaRuleGpuKernel>(context, p, inputs, own, part, inChunks ? &chunks : nullptr);
      FailureOr<KernelWriter::Variant> variant = kernel->build(stem + suffix, guard, SymbolicDim(1));
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
      return success();
    };
    if (!few.is(0) && failed(add(DeltaRulePart::tokens, "_tokens", inChunks ? few : SymbolicDim(1)))) {
      return failure();
    }
    if (inChunks && failed(add(DeltaRulePart::chunks, "_chunks", SymbolicDim(1)))) {
      return failure();
    }
    p.replace(context, kernel->getWriter().dispatch(variants));
    return success();
  }

  /// The launch before the state's. Its grid is empty where tokens are taken one by one.
  LogicalResult prepare(HostContext &context, DeltaRuleProblem &p, const DeltaRuleInputs &inputs,
                        const DeltaRuleTile &tile, const std::string &stem, const SymbolicDim &used,
                        DeltaRuleChunks &chunks) {
    DeltaRuleGpuKernel kernel(context, p, inputs, tile, DeltaRulePart::prepare, nullptr);
    FailureOr<KernelWriter::Variant> variant = kernel.build(stem + "_prepare", SymbolicDim(1), used);
    if (failed(variant)) {
      return failure();
    }
    DispatchOp dispatch = kernel.getWriter().dispatch(*variant);
    auto next = dispatch.getResults().begin();
    chunks.writes = *next++;
    chunks.queries = *next++;
    chunks.keys = *next++;
    chunks.pairs = *next++;
    chunks.reads = p.op.erases() ? *next++ : Value();
    chunks.ends = p.op.getDecay() ? *next++ : Value();
    return success();
  }

  GpuArch arch;
};
} // namespace
