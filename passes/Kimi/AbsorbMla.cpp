//===- AbsorbMla.cpp - --kimi-absorb-mla
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/MlaForms.h"
#include "passes/Kimi/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ABSORBMLA
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// Which form of an mla does less, and why, in words.
struct Choice {
  bool absorbs;
  std::string why;
};

/// Multiplications a head, with T queries and S latents:
///   expanded  S R (N + V) + T S (N + P + V)
///   absorbed  T R (N + V) + T S (2 R + P)
/// Where S is not known it may be anything from T on: what S is multiplied with decides.
Choice choose(const MlaOp::Extents &e, std::optional<int64_t> queries, std::optional<int64_t> latents) {
  if (!queries) {
    return {false, "there may be many queries: keys and values of every latent are made once for all of them"};
  }
  int64_t making = e.rank * (e.own + e.values), expanded = e.own + e.shared + e.values;
  int64_t absorbed = 2 * e.rank + e.shared;
  std::string counted = std::to_string(*queries) + (*queries == 1 ? " query" : " queries");
  if (latents) {
    bool less = *queries * making + *queries * *latents * absorbed < *latents * making + *queries * *latents * expanded;
    return {less, counted + " and " + std::to_string(*latents) + " latents"};
  }
  return {*queries * absorbed < making + *queries * expanded, counted + " and any number of latents"};
}

struct AbsorbMlaPass : kimi::impl::AbsorbMlaBase<AbsorbMlaPass> {
  using AbsorbMlaBase::AbsorbMlaBase;

  void runOnOperation() override {
    if (form != "auto" && form != "absorbed" && form != "expanded") {
      getOperation().emitError() << "kimi-absorb-mla: there is no form '" << form.getValue()
                                 << "'; forms: auto, absorbed, expanded";
      return signalPassFailure();
    }
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<MlaOp> ops;
      func.walk([&](MlaOp op) { ops.push_back(op); });
      if (ops.empty()) {
        continue;
      }
      HostScalars scalars(func);
      for (MlaOp op : ops) {
        rewrite(op, scalars);
      }
      for (MlaOp op : ops) {
        op.erase();
      }
    }
  }

  void rewrite(MlaOp op, HostScalars &scalars) {
    OpBuilder b(op);
    MlaOp::Extents e = op.getExtents();
    Choice choice =
        choose(e, scalars.shape(op.getQ())[2].getConstant(), scalars.shape(op.getLatent())[1].getConstant());
    if (form != "auto") {
      choice = {form == "absorbed", "asked for"};
    }
    Value result = choice.absorbs ? absorbMla(b, op, scalars) : expandMla(b, op);
    op.emitRemark() << "latent attention is computed " << (choice.absorbs ? "absorbed" : "expanded") << " ("
                    << choice.why << "); the latents of a token are " << e.rank + e.shared
                    << " numbers, its keys and values would be " << e.heads * (e.own + e.shared + e.values);
    op.getResult().replaceAllUsesWith(result);
    ++(choice.absorbs ? numAbsorbed : numExpanded);
  }
};

} // namespace
