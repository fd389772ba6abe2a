//===- LowerToReference.cpp - every kimi op as plain fp32 tensor loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "passes/Kimi/MlaForms.h"
#include "passes/Kimi/Passes.h"
#include "passes/Kimi/Reference.h"

namespace kimi {
#define GEN_PASS_DEF_LOWERTOREFERENCE
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

void kimi::populateReferencePatterns(RewritePatternSet &patterns) {
  populateReferenceAttentionPatterns(patterns);
  populateReferenceDeltaPatterns(patterns);
  populateReferenceNormPatterns(patterns);
  populateReferenceLinearPatterns(patterns);
  populateReferenceElementwisePatterns(patterns);
  populateReferenceTokenPatterns(patterns);
  populateReferenceGluPatterns(patterns);
  populateReferenceHeadNormPatterns(patterns);
  populateReferenceDepthPatterns(patterns);
  populateReferenceRouterPatterns(patterns);
  populateReferenceExpertPatterns(patterns);
}

namespace {

struct LowerToReferencePass : kimi::impl::LowerToReferenceBase<LowerToReferencePass> {
  static bool isLowered(Operation *op) {
    return isa<AttentionOp, MlaOp, HeadLinearOp, DeltaRuleOp, CausalConvOp, LayerNormOp, RmsNormOp, SoftmaxOp, GeluOp,
               LinearOp, FusedLinearOp, EmbeddingOp, GreedyTokenOp, SwigluOp, SituGluOp, KdaGateOp, L2NormOp,
               GatedRmsNormOp, AttnResOp, AttnResBankOp, AttnResMergeOp, RouterOp, MoeOp, DequantizeOp>(op);
  }

  unsigned count() {
    unsigned ops = 0;
    getOperation()->walk([&](Operation *op) { ops += isLowered(op); });
    return ops;
  }

  using LowerToReferenceBase::LowerToReferenceBase;

  void runOnOperation() override {
    if (remarkUnscheduled) {
      getOperation()->walk([](Operation *op) {
        if (isa<AttentionOp, DeltaRuleOp, FusedLinearOp, HeadLinearOp, MoeOp>(op)) {
          op->emitRemark() << "is computed by the reference lowering: the target has no schedule for it";
        }
      });
    }
    unsigned before = count();
    SmallVector<MlaOp> latent;
    getOperation()->walk([&](MlaOp op) { latent.push_back(op); });
    for (MlaOp op : latent) { // into ops that have patterns of their own
      OpBuilder b(op);
      op.getResult().replaceAllUsesWith(expandMla(b, op));
      op.erase();
    }
    RewritePatternSet patterns(&getContext());
    populateReferencePatterns(patterns);
    // One walk, no folding: the loops are left as the patterns wrote them.
    walkAndApplyPatterns(getOperation(), std::move(patterns));
    lowered += before - count();
  }
};

} // namespace
