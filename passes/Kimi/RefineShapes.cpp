//===- RefineShapes.cpp - extents that casts hide
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Kimi/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_REFINESHAPES
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether `to` differs from `from` only by extents that are known in `to` and not in `from`.
bool isMoreStatic(RankedTensorType to, RankedTensorType from) {
  return to != from && tensor::preservesStaticInformation(from, to);
}

/// The extents of `op`'s result that its first operand gives: all of them, or all but the last.
bool givesAllExtents(Operation *op) { return isa<LayerNormOp, RmsNormOp, SoftmaxOp, GeluOp, L2NormOp, KdaGateOp>(op); }

bool isRefinable(Operation *op) { return givesAllExtents(op) || isa<LinearOp, HeadLinearOp, EmbeddingOp>(op); }

/// `type` with what `source`, the first operand of `op`, tells about it; null where the two do not agree in rank.
RankedTensorType refine(Operation *op, RankedTensorType type, RankedTensorType source) {
  int64_t known = givesAllExtents(op) ? type.getRank() : type.getRank() - 1;
  // An embedding adds an axis to its ids; the others keep the rank.
  if (source.getRank() != type.getRank() - (isa<EmbeddingOp>(op) ? 1 : 0)) {
    return {};
  }
  SmallVector<int64_t> shape(type.getShape());
  for (int64_t i = 0; i < known; ++i) {
    if (type.isDynamicDim(i)) {
      shape[i] = source.getDimSize(i);
    }
  }
  return type.clone(shape);
}

/// Makes `op` give `type`; its users see the old type through a cast.
void setResultType(PatternRewriter &rewriter, Operation *op, RankedTensorType type) {
  Value result = op->getResult(0);
  Type old = result.getType();
  rewriter.modifyOpInPlace(op, [&] { result.setType(type); });
  rewriter.setInsertionPointAfter(op);
  auto cast = tensor::CastOp::create(rewriter, op->getLoc(), old, result);
  rewriter.replaceAllUsesExcept(result, cast, cast);
}

/// The first operand's extents are known: so are the result's.
struct RefineFromOperand : RewritePattern {
  explicit RefineFromOperand(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isRefinable(op)) {
      return rewriter.notifyMatchFailure(op, "not an op whose extents follow its first operand");
    }
    Value source = op->getOperand(0);
    auto cast = source.getDefiningOp<tensor::CastOp>();
    bool hidden = cast && isa<RankedTensorType>(cast.getSource().getType()) &&
                  isMoreStatic(typeOf(cast.getSource()), typeOf(source));
    RankedTensorType type = typeOf(op->getResult(0));
    RankedTensorType refined = refine(op, type, typeOf(hidden ? cast.getSource() : source));
    if (!refined) {
      return rewriter.notifyMatchFailure(op, "the ranks do not agree");
    }
    if (hidden) {
      rewriter.modifyOpInPlace(op, [&] { op->setOperand(0, cast.getSource()); });
    }
    if (refined != type) {
      setResultType(rewriter, op, refined);
    }
    return success(hidden || refined != type);
  }
};

/// The only user knows more extents than the op: the op gives them.
struct RefineFromUser : OpRewritePattern<tensor::CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::CastOp op, PatternRewriter &rewriter) const override {
    Operation *producer = op.getSource().getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (!producer || !isRefinable(producer) || !type || !op.getSource().hasOneUse() ||
        !isMoreStatic(type, typeOf(op.getSource()))) {
      return rewriter.notifyMatchFailure(op, "tells nothing new of an op that can be refined");
    }
    rewriter.modifyOpInPlace(producer, [&] { producer->getResult(0).setType(type); });
    rewriter.replaceOp(op, producer->getResult(0));
    return success();
  }
};

struct RefineShapesPass : kimi::impl::RefineShapesBase<RefineShapesPass> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<RefineFromOperand, RefineFromUser>(context);
    // Upstream's ops take casts away by themselves; together both carry an extent through the whole graph.
    for (Dialect *dialect : context->getLoadedDialects()) {
      if (isa<tensor::TensorDialect, linalg::LinalgDialect>(dialect)) {
        dialect->getCanonicalizationPatterns(patterns);
      }
    }
    for (RegisteredOperationName name : context->getRegisteredOperations()) {
      if (isa<tensor::TensorDialect, linalg::LinalgDialect>(name.getDialect())) {
        name.getCanonicalizationPatterns(patterns, context);
      }
    }
    GreedyRewriteConfig config; // there is no control flow whose blocks could be simplified
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config))) {
      signalPassFailure();
    }
  }
};

} // namespace
