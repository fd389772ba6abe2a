//===- ReferenceGates.cpp - gated activations, gates of decay, norms of heads
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

namespace {
/// Scalar f32 arithmetic.
struct Scalars {
  OpBuilder &b;
  Location loc;

  Value constant(double value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value exp(Value x) { return math::ExpOp::create(b, loc, x); }
  Value sigmoid(Value x) { return div(constant(1.0), add(constant(1.0), exp(neg(x)))); }
  /// size * tanh(x / size)
  Value bounded(Value x, double size) {
    return mul(constant(size), math::TanhOp::create(b, loc, div(x, constant(size))));
  }
  Value softplus(Value x) {
    Value small = math::Log1pOp::create(b, loc, exp(neg(math::AbsFOp::create(b, loc, x))));
    return add(arith::MaximumFOp::create(b, loc, x, constant(0.0)), small);
  }
};

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
} // namespace

Value kimi::emitSwiglu(OpBuilder &b, Location loc, Value gate, Value up) {
  Scalars s{b, loc};
  return s.mul(s.mul(gate, s.sigmoid(gate)), up);
}

Value kimi::emitSituGlu(OpBuilder &b, Location loc, Value gate, Value up, const APFloat &beta,
                        const std::optional<APFloat> &linearBeta) {
  Scalars s{b, loc};
  Value left = s.mul(s.bounded(gate, beta.convertToDouble()), s.sigmoid(gate));
  return s.mul(left, linearBeta ? s.bounded(up, linearBeta->convertToDouble()) : up);
}

Value kimi::emitSigmoid(OpBuilder &b, Location loc, Value x) { return Scalars{b, loc}.sigmoid(x); }

namespace {

/// An op of two operands of one shape as one elementwise generic.
template <typename Op>
LogicalResult lowerPair(Op op, PatternRewriter &rewriter, Value first, Value second,
                        llvm::function_ref<Value(OpBuilder &, Location, Value, Value)> body) {
  TensorCode code(rewriter, op.getLoc());
  RankedTensorType type = typeOf(op.getResult());
  AffineMap all = code.identity(type.getRank());
  Value y =
      code.map(code.sizes(first), type.getElementType(), {{first, all}, {second, all}},
               [&](OpBuilder &b, Location loc, ValueRange args) -> Value { return body(b, loc, args[0], args[1]); });
  rewriter.replaceOp(op, code.castTo(y, type));
  return success();
}

struct LowerSwiglu : OpRewritePattern<SwigluOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SwigluOp op, PatternRewriter &rewriter) const override {
    return lowerPair(op, rewriter, op.getGate(), op.getUp(), emitSwiglu);
  }
};

struct LowerSituGlu : OpRewritePattern<SituGluOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SituGluOp op, PatternRewriter &rewriter) const override {
    return lowerPair(op, rewriter, op.getGate(), op.getUp(), [&](OpBuilder &b, Location loc, Value gate, Value up) {
      return emitSituGlu(b, loc, gate, up, op.getBeta(), op.getLinearBeta());
    });
  }
};

struct LowerKdaGate : OpRewritePattern<KdaGateOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(KdaGateOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    RankedTensorType type = typeOf(op.getResult());
    int64_t rank = type.getRank(), tail = typeOf(op.getDtBias()).getRank();
    SmallVector<int64_t> trailing = llvm::to_vector(llvm::seq<int64_t>(rank - tail, rank));
    TensorCode::Operand rate{op.getRate(), code.loops(rank, {rank - tail})};
    TensorCode::Operand bias{op.getDtBias(), code.loops(rank, trailing)};
    Value y = code.map(code.sizes(op.getZ()), type.getElementType(), {{op.getZ(), code.identity(rank)}, rate, bias},
                       [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                         Scalars s{b, loc};
                         Value shifted = s.add(args[0], args[2]);
                         if (!op.getBound()) {
                           return s.neg(s.mul(args[1], s.softplus(shifted)));
                         }
                         Value open = s.sigmoid(s.mul(args[1], shifted));
                         return s.mul(s.constant(op.getBound()->convertToDouble()), open);
                       });
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

/// The sum of squares along the last axis of `x`.
Value sumOfSquares(TensorCode &code, Value x, ArrayRef<OpFoldResult> rows) {
  return code.reduce(rows, 1, 0.0, {{x, code.identity(rows.size() + 1)}},
                     [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                       return arith::AddFOp::create(b, loc, args[1], arith::MulFOp::create(b, loc, args[0], args[0]));
                     });
}

struct LowerL2Norm : OpRewritePattern<L2NormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(L2NormOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    RankedTensorType type = typeOf(op.getResult());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getX()), rows(ArrayRef(sizes).drop_back());
    unsigned rank = sizes.size();
    Value squares = sumOfSquares(code, op.getX(), rows);
    double eps = op.getEps().convertToDouble();
    Value y = code.map(
        sizes, type.getElementType(), {{op.getX(), code.identity(rank)}, {squares, code.leading(rank, rank - 1)}},
        [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
          Scalars s{b, loc};
          Value length = math::SqrtOp::create(b, loc, s.add(args[1], s.constant(eps)));
          Value quotient = s.div(args[0], length);
          if (eps != 0.0) {
            return quotient;
          }
          Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, args[1], s.constant(0.0));
          return arith::SelectOp::create(b, loc, isZero, s.constant(0.0), quotient);
        });
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

struct LowerGatedRmsNorm : OpRewritePattern<GatedRmsNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatedRmsNormOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    RankedTensorType type = typeOf(op.getResult());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getX()), rows(ArrayRef(sizes).drop_back());
    int64_t rank = type.getRank();
    Value squares = sumOfSquares(code, op.getX(), rows), extent = code.asFloat(sizes.back());
    AffineMap all = code.identity(rank);
    Value y = code.map(sizes, type.getElementType(),
                       {{op.getX(), all},
                        {op.getGate(), all},
                        {op.getGamma(), code.loops(rank, {rank - 1})},
                        {squares, code.leading(rank, rank - 1)}},
                       [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                         Scalars s{b, loc};
                         Value shifted = s.add(s.div(args[3], extent), s.constant(op.getEps().convertToDouble()));
                         Value normal = s.mul(s.mul(args[0], math::RsqrtOp::create(b, loc, shifted)), args[2]);
                         Value open = s.sigmoid(args[1]);
                         bool isSilu = op.getActivation() == GateKind::silu;
                         return s.mul(normal, isSilu ? s.mul(args[1], open) : open);
                       });
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

} // namespace

void kimi::populateReferenceGluPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerSwiglu, LowerSituGlu, LowerKdaGate>(patterns.getContext());
}

void kimi::populateReferenceHeadNormPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerL2Norm, LowerGatedRmsNorm>(patterns.getContext());
}
