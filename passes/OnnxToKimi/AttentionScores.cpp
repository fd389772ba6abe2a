//===- AttentionScores.cpp - the scores of an Attention node as a result
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/AttentionScores.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// scale * q k^T in fp32; query head h reads key head h div (Hq / Hkv).
static Tensor products(BuildContext &c, const Tensor &q, const Tensor &k, double scale) {
  Type single = c.b.getF32Type();
  Value queries = c.value(q), keys = c.value(k);
  Value group = c.index(SymbolicDim::floorDiv(q.shape[1], k.shape[1]));
  Shape loops = {q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.shape[3]};
  Tensor sums = c.reduceIndexed(
      {}, loops, {4}, single, c.constant(single, 0.0),
      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
        Value head = arith::DivUIOp::create(b, loc, at[1], group);
        Value left = c.read(b, loc, queries, {at[0], at[1], at[2], at[4]});
        Value right = c.read(b, loc, keys, {at[0], head, at[3], at[4]});
        return arith::MulFOp::create(b, loc, castElement(b, loc, left, q.type, single),
                                     castElement(b, loc, right, k.type, single));
      },
      [](OpBuilder &b, Location loc, Value total, Value term) -> Value {
        return arith::AddFOp::create(b, loc, total, term);
      });
  return c.map({sums}, sums.shape, single, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
    return arith::MulFOp::create(b, loc, e[0], scalarConstant(b, loc, single, scale));
  });
}

Tensor kimi::onnx::attentionScores(BuildContext &c, const Tensor &q, const Tensor &k, const std::optional<Tensor> &mask,
                                   double scale, double softcap, ScoreMode mode) {
  Type single = c.b.getF32Type();
  Tensor scores = products(c, q, k, scale);
  if (mode >= ScoreMode::Capped && softcap > 0) {
    scores = c.map({scores}, scores.shape, single, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
      Value cap = scalarConstant(b, loc, single, softcap);
      Value share = math::TanhOp::create(b, loc, arith::DivFOp::create(b, loc, e[0], cap));
      return arith::MulFOp::create(b, loc, share, cap);
    });
  }
  if (mode >= ScoreMode::Masked && mask) {
    scores = c.map({scores, *mask}, scores.shape, single, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
      if (mask->isFloat()) {
        return arith::AddFOp::create(b, loc, e[0], castElement(b, loc, e[1], mask->type, single));
      }
      Value never = scalarConstant(b, loc, single, -std::numeric_limits<double>::infinity());
      return arith::SelectOp::create(b, loc, e[1], e[0], never);
    });
  }
  if (mode == ScoreMode::Probabilities) {
    Value value = c.value(scores);
    Value shares = SoftmaxOp::create(c.b, c.loc, value.getType(), value, /*axis=*/3, /*log=*/false);
    scores = c.map({c.wrap(shares, scores.shape, single)}, scores.shape, single,
                   [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
                     // A row of -inf has no softmax.
                     Value unseen = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, e[0], e[0]);
                     return arith::SelectOp::create(b, loc, unseen, scalarConstant(b, loc, single, 0.0), e[0]);
                   });
  }
  return c.cast(scores, q.type);
}
