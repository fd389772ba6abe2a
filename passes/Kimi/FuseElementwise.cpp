//===- FuseElementwise.cpp - chains of elementwise ops and lookups as one kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Kimi/IdentityViews.h"
#include "passes/Kimi/Passes.h"
#include "passes/Kimi/Reference.h"

namespace kimi {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// A fused op reads at most so many tensors: more do not fit the registers that hold their addresses.
constexpr unsigned kMaxInputs = 12;

/// What one evaluation of a scalar region costs.
struct Cost {
  unsigned simple = 0;  // additions, comparisons, conversions, selects
  unsigned lookups = 0; // tensor.extract
  unsigned heavy = 0;   // divisions, transcendental functions
};

Cost costOf(linalg::GenericOp op) {
  Cost cost;
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (isa<arith::ConstantOp, linalg::IndexOp>(inner)) {
      continue;
    }
    if (isa<tensor::ExtractOp>(inner)) {
      ++cost.lookups;
      continue;
    }
    bool isHeavy =
        !isa<arith::ArithDialect>(inner.getDialect()) ||
        isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(inner);
    ++(isHeavy ? cost.heavy : cost.simple);
  }
  return cost;
}

bool isAllParallel(linalg::GenericOp op) { return op.getNumParallelLoops() == op.getNumLoops(); }

/// Computed from loop indices and constants alone by a few instructions: cheaper to repeat than to read back.
bool isFree(linalg::GenericOp op) {
  Cost cost = costOf(op);
  return op.getNumDpsInputs() == 0 && cost.lookups == 0 && cost.heavy == 0 && cost.simple <= 8;
}

/// One simple op on one tensor (a conversion, a negation): reading its input costs what reading its result would.
bool isLight(linalg::GenericOp op) {
  Cost cost = costOf(op);
  return op.getNumDpsInputs() == 1 && cost.lookups == 0 && cost.heavy == 0 && cost.simple <= 1;
}

/// A conversion, or a lookup and its index arithmetic: cheap enough to be evaluated again along a broadcast.
bool isRepeatable(linalg::GenericOp op) {
  Cost cost = costOf(op);
  return op.getNumDpsInputs() <= 1 && cost.lookups <= 1 && cost.heavy == 0 && cost.simple <= 8;
}

/// Whether all users of `producer` are `consumer`.
bool isOnlyUser(Operation *consumer, Operation *producer) {
  return llvm::all_of(producer->getUsers(), [&](Operation *user) { return user == consumer; });
}

bool shouldFuse(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
  if (!producer || !consumer || !isAllParallel(producer) ||
      producer.getNumDpsInputs() + consumer.getNumDpsInputs() > kMaxInputs + 1) {
    return false;
  }
  if (isFree(producer)) {
    return true;
  }
  // A loop of the consumer that the operand does not depend on evaluates the producer again.
  bool isRepeated = !consumer.getMatchingIndexingMap(operand).isPermutation();
  if (isRepeated && (!isAllParallel(consumer) || !isRepeatable(producer))) {
    return false;
  }
  if (isOnlyUser(consumer, producer)) {
    return true;
  }
  return isLight(producer) && llvm::all_of(producer->getUsers(), [](Operation *user) {
           auto generic = dyn_cast<linalg::GenericOp>(user);
           return generic && isAllParallel(generic);
         });
}

/// Reshapes are free as views; one is folded only where it keeps two elementwise ops apart.
bool shouldFoldReshape(OpOperand *operand) {
  Operation *owner = operand->getOwner();
  auto joins = [](linalg::GenericOp producer, Operation *reshape, linalg::GenericOp consumer) {
    return producer && consumer && isAllParallel(producer) && isAllParallel(consumer) && producer->hasOneUse() &&
           reshape->hasOneUse();
  };
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(owner)) {
    auto user = expand->hasOneUse() ? dyn_cast<linalg::GenericOp>(*expand->user_begin()) : linalg::GenericOp();
    return joins(operand->get().getDefiningOp<linalg::GenericOp>(), expand, user);
  }
  if (auto collapse = operand->get().getDefiningOp<tensor::CollapseShapeOp>()) {
    return joins(collapse.getSrc().getDefiningOp<linalg::GenericOp>(), collapse, dyn_cast<linalg::GenericOp>(owner));
  }
  return false;
}

struct FuseElementwisePass : kimi::impl::FuseElementwiseBase<FuseElementwisePass> {
  template <typename Op>
  unsigned count() {
    unsigned ops = 0;
    getOperation()->walk([&](Op) { ++ops; });
    return ops;
  }

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    lookups += count<EmbeddingOp>();
    // There is no control flow whose blocks could be simplified.
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    RewritePatternSet scalar(context);
    populateReferenceElementwisePatterns(scalar);
    populateReferenceGluPatterns(scalar);
    populateIdentityViewPatterns(scalar);
    if (failed(applyPatternsGreedily(getOperation(), std::move(scalar), config))) {
      return signalPassFailure();
    }
    OpPassManager cleanUp(getOperation()->getName());
    OpPassManager &each = cleanUp.nestAny();
    each.addPass(createCanonicalizerPass(config));
    each.addPass(createCSEPass());
    if (failed(runPipeline(cleanUp, getOperation()))) {
      return signalPassFailure();
    }

    unsigned before = count<linalg::GenericOp>();
    RewritePatternSet patterns(context);
    linalg::populateElementwiseOpsFusionPatterns(patterns, shouldFuse);
    linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, shouldFoldReshape);
    linalg::GenericOp::getCanonicalizationPatterns(patterns, context);
    affine::AffineApplyOp::getCanonicalizationPatterns(patterns, context);
    tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, context);
    tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, context);
    context->getLoadedDialect<linalg::LinalgDialect>()->getCanonicalizationPatterns(patterns);
    config.setUseTopDownTraversal();
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)) ||
        failed(runPipeline(cleanUp, getOperation()))) {
      return signalPassFailure();
    }
    fused += before - count<linalg::GenericOp>();
  }
};

} // namespace
