//===- ReferenceTokens.cpp - the likeliest token, logit by logit
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include <limits>

using namespace mlir;
using namespace kimi;

Value kimi::emitMinusIndexOfMaximum(OpBuilder &b, Location loc, Value value, Value maximum, Value index) {
  Value integer = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  Value number = arith::NegFOp::create(b, loc, arith::SIToFPOp::create(b, loc, b.getF32Type(), integer));
  Value none = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  Value equal = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, value, maximum);
  return arith::SelectOp::create(b, loc, equal, number, none);
}

Value kimi::emitToken(OpBuilder &b, Location loc, Value maximum, Value minusIndex, Type type) {
  auto constant = [&](float value) -> Value { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); };
  Value size = math::AbsFOp::create(b, loc, maximum);
  Value isNumber =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, size, constant(std::numeric_limits<float>::infinity()));
  // Chosen before the conversion, which is defined for numbers only.
  Value index = arith::SelectOp::create(b, loc, isNumber, arith::NegFOp::create(b, loc, minusIndex), constant(-1.0f));
  return arith::FPToSIOp::create(b, loc, type, index);
}

namespace {

struct LowerGreedyToken : OpRewritePattern<GreedyTokenOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GreedyTokenOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    SmallVector<OpFoldResult> rows = code.sizes(op.getLogits());
    unsigned rank = rows.size();
    rows.pop_back();
    AffineMap all = code.identity(rank), row = all.getMajorSubMap(rank - 1);
    double minusInfinity = -std::numeric_limits<double>::infinity();
    auto larger = [](OpBuilder &b, Location loc, Value x, Value y) -> Value {
      return arith::MaximumFOp::create(b, loc, x, y);
    };
    Value maxima = code.reduce(
        rows, 1, minusInfinity, {{op.getLogits(), all}},
        [&](OpBuilder &b, Location loc, ValueRange args) -> Value { return larger(b, loc, args[0], args[1]); });
    Value indices =
        code.reduce(rows, 1, minusInfinity, {{op.getLogits(), all}, {maxima, row}},
                    [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                      Value index = linalg::IndexOp::create(b, loc, rank - 1);
                      return larger(b, loc, args[2], emitMinusIndexOfMaximum(b, loc, args[0], args[1], index));
                    });
    AffineMap each = code.identity(rank - 1);
    Type type = cast<RankedTensorType>(op.getType()).getElementType();
    Value tokens = code.map(rows, type, {{maxima, each}, {indices, each}},
                            [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                              return emitToken(b, loc, args[0], args[1], type);
                            });
    rewriter.replaceOp(op, code.castTo(tokens, op.getType()));
    return success();
  }
};

} // namespace

void kimi::populateReferenceTokenPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerGreedyToken>(patterns.getContext());
}
