//===- ReferenceNorms.cpp - norms and softmax, row by row
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Kimi/Reference.h"
#include <limits>

using namespace mlir;
using namespace kimi;

static Value emitAdd(OpBuilder &b, Location loc, ValueRange args) {
  return arith::AddFOp::create(b, loc, args.back(), args.front());
}

static Value emitAddSquare(OpBuilder &b, Location loc, ValueRange args) {
  return arith::AddFOp::create(b, loc, args.back(), arith::MulFOp::create(b, loc, args.front(), args.front()));
}

Value kimi::emitNorm(TensorCode &code, NormKind kind, Value x, Value gamma, Value beta, FloatAttr eps, Type roundTo,
                     Type element) {
  SmallVector<OpFoldResult> sizes = code.sizes(x), rows(ArrayRef(sizes).drop_back());
  unsigned rank = sizes.size();
  AffineMap all = code.identity(rank), row = code.leading(rank, rank - 1), channel = code.loops(rank, {rank - 1});
  Type f32 = code.b.getF32Type();
  Value extent = code.asFloat(sizes.back());
  Value epsilon = code.constant(eps.getValueAsDouble());

  Value centred = x;
  if (kind == NormKind::layer) {
    Value sum = code.reduce(rows, 1, 0.0, {{x, all}}, emitAdd);
    centred = code.map(sizes, f32, {{x, all}, {sum, row}}, [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
      Value mean = arith::DivFOp::create(b, loc, args[1], extent);
      return arith::SubFOp::create(b, loc, args[0], mean);
    });
  }
  Value squares = code.reduce(rows, 1, 0.0, {{centred, all}}, emitAddSquare);
  SmallVector<TensorCode::Operand> operands = {{centred, all}, {squares, row}, {gamma, channel}};
  if (beta) {
    operands.push_back({beta, channel});
  }
  return code.map(sizes, element, operands, [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
    Value variance = arith::DivFOp::create(b, loc, args[1], extent);
    Value factor = math::RsqrtOp::create(b, loc, arith::AddFOp::create(b, loc, variance, epsilon));
    Value y = arith::MulFOp::create(b, loc, args[0], factor);
    if (roundTo) {
      y = castFloat(b, loc, castFloat(b, loc, y, roundTo), f32);
    }
    y = arith::MulFOp::create(b, loc, y, args[2]);
    return beta ? arith::AddFOp::create(b, loc, y, args[3]).getResult() : y;
  });
}

Value kimi::emitSoftmax(TensorCode &code, Value x, int64_t axis, bool log, Type element) {
  SmallVector<OpFoldResult> sizes = code.sizes(x), rows(sizes);
  int64_t rank = sizes.size();
  rows.erase(rows.begin() + axis);
  // Loops of a reduction: the other dims in order, then `axis`. Of a map: the dims in order.
  SmallVector<int64_t> reduced, kept;
  for (int64_t i = 0; i < rank; ++i) {
    reduced.push_back(i == axis ? rank - 1 : i - (i > axis));
    if (i != axis) {
      kept.push_back(i);
    }
  }
  AffineMap reduceMap = code.loops(rank, reduced), all = code.identity(rank), row = code.loops(rank, kept);
  Type f32 = code.b.getF32Type();
  Value max = code.reduce(rows, 1, -std::numeric_limits<double>::infinity(), {{x, reduceMap}},
                          [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                            return arith::MaximumFOp::create(b, loc, args[0], args[1]);
                          });
  Value shifted =
      code.map(sizes, f32, {{x, all}, {max, row}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
        return arith::SubFOp::create(b, loc, args[0], args[1]);
      });
  Value exps = code.map(sizes, f32, {{shifted, all}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
    return math::ExpOp::create(b, loc, args[0]);
  });
  Value sum = code.reduce(rows, 1, 0.0, {{exps, reduceMap}}, emitAdd);
  return code.map(sizes, element, {{log ? shifted : exps, all}, {sum, row}},
                  [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                    if (log) {
                      return arith::SubFOp::create(b, loc, args[0], math::LogOp::create(b, loc, args[1]));
                    }
                    return arith::DivFOp::create(b, loc, args[0], args[1]);
                  });
}

namespace {

struct LowerLayerNorm : OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(LayerNormOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    Value y = emitNorm(code, NormKind::layer, op.getX(), op.getGamma(), op.getBeta(), op.getEpsAttr(), Type(),
                       type.getElementType());
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

struct LowerRmsNorm : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RmsNormOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    Type roundTo = cast<RankedTensorType>(op.getX().getType()).getElementType();
    Value y = emitNorm(code, NormKind::rms, op.getX(), op.getGamma(), Value(), op.getEpsAttr(), roundTo,
                       type.getElementType());
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

struct LowerSoftmax : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    Value y = emitSoftmax(code, op.getX(), op.getAxis(), op.getLog(), type.getElementType());
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

} // namespace

void kimi::populateReferenceNormPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerLayerNorm, LowerRmsNorm, LowerSoftmax>(patterns.getContext());
}
