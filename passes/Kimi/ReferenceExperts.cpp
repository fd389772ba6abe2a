//===- ReferenceExperts.cpp - routed experts and packed weights
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/PackedFloats.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The expert that `id` names, inside [0, experts).
Value emitExpert(OpBuilder &b, Location loc, Value id, int64_t experts) {
  Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), id);
  Value first = arith::ConstantIndexOp::create(b, loc, 0), last = arith::ConstantIndexOp::create(b, loc, experts - 1);
  return arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, index, first), last);
}

Value emitMulAdd(OpBuilder &b, Location loc, Value x, Value y, Value sum) {
  return arith::AddFOp::create(b, loc, sum, arith::MulFOp::create(b, loc, x, y));
}

struct LowerMoe : OpRewritePattern<MoeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MoeOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    FailureOr<StoredMatrix> w1 = storedMatrix(rewriter, op.getLoc(), op.getW1(), op.getS1()),
                            w3 = storedMatrix(rewriter, op.getLoc(), op.getW3(), op.getS3()),
                            w2 = storedMatrix(rewriter, op.getLoc(), op.getW2(), op.getS2());
    if (failed(w1) || failed(w3) || failed(w2)) {
      return rewriter.notifyMatchFailure(op, "packed experts that are no weights of the module");
    }
    SmallVector<OpFoldResult> places = code.sizes(op.getIndices());
    auto sizes = [&](int64_t last) -> SmallVector<OpFoldResult> {
      return {places[0], places[1], rewriter.getIndexAttr(last)};
    };
    Type element = typeOf(op.getX()).getElementType();
    AffineMap each = code.identity(3);
    // h[n, j, f], from both products with the row of x.
    SmallVector<OpFoldResult> inner = sizes(typeOf(op.getW1()).getDimSize(1));
    auto [gate, up] = emitProducts(code, op, *w1, *w3, inner);
    Value hidden =
        code.map(inner, element, {{gate, each}, {up, each}}, [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
          return op.getActivation() == ExpertKind::swiglu
                     ? emitSwiglu(b, loc, args[0], args[1])
                     : emitSituGlu(b, loc, args[0], args[1], *op.getBeta(), op.getLinearBeta());
        });
    // e[n, j, o], then the weighted sum over j.
    int64_t experts = typeOf(op.getW2()).getDimSize(0), channels = typeOf(op.getW2()).getDimSize(1);
    Value output = code.reduce(sizes(channels), 1, 0.0,
                               {{hidden, code.loops(4, {0, 1, 3})}, {op.getIndices(), code.loops(4, {0, 1})}},
                               [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                                 Value expert = emitExpert(b, loc, args[1], experts);
                                 Value row = linalg::IndexOp::create(b, loc, 2), f = linalg::IndexOp::create(b, loc, 3);
                                 Value w = w2->read(b, loc, {expert, row, f});
                                 return emitMulAdd(b, loc, args[0], w, args[2]);
                               });
    output = code.round(output, sizes(channels), element);
    SmallVector<OpFoldResult> result = {places[0], rewriter.getIndexAttr(channels)};
    Value y =
        code.reduce(result, 1, 0.0, {{output, code.loops(3, {0, 2, 1})}, {op.getWeights(), code.loops(3, {0, 2})}},
                    [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                      return emitMulAdd(b, loc, args[1], args[0], args[2]);
                    });
    auto type = typeOf(op.getResult());
    rewriter.replaceOp(op, code.castTo(code.round(y, result, type.getElementType()), type));
    return success();
  }

  /// w1[e] x_n and w3[e] x_n: fp32 [N, k, F] each, in one pass over x.
  static std::pair<Value, Value> emitProducts(TensorCode &code, MoeOp op, const StoredMatrix &w1,
                                              const StoredMatrix &w3, ArrayRef<OpFoldResult> sizes) {
    OpBuilder &b = code.b;
    int64_t experts = typeOf(op.getW1()).getDimSize(0);
    Value empty = tensor::EmptyOp::create(b, code.loc, sizes, b.getF32Type());
    Value init = linalg::FillOp::create(b, code.loc, code.constant(0.0), empty).getResult(0);
    AffineMap sum = code.leading(4, 3);
    SmallVector<AffineMap> maps = {code.loops(4, {0, 3}), code.leading(4, 2), sum, sum};
    SmallVector<utils::IteratorType> iterators(4, utils::IteratorType::parallel);
    iterators.back() = utils::IteratorType::reduction;
    auto body = [&](OpBuilder &inner, Location loc, ValueRange args) {
      Value x = castFloat(inner, loc, args[0], inner.getF32Type());
      Value expert = emitExpert(inner, loc, args[1], experts);
      Value row = linalg::IndexOp::create(inner, loc, 2), channel = linalg::IndexOp::create(inner, loc, 3);
      SmallVector<Value> sums;
      for (auto [w, accumulated] : {std::pair(&w1, args[2]), {&w3, args[3]}}) {
        sums.push_back(emitMulAdd(inner, loc, x, w->read(inner, loc, {expert, row, channel}), accumulated));
      }
      linalg::YieldOp::create(inner, loc, sums);
    };
    auto generic = linalg::GenericOp::create(b, code.loc, TypeRange{init.getType(), init.getType()},
                                             ValueRange{op.getX(), op.getIndices()}, ValueRange{init, init}, maps,
                                             iterators, body);
    return {generic.getResult(0), generic.getResult(1)};
  }
};

struct LowerDequantize : OpRewritePattern<DequantizeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DequantizeOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    Value codes = bytesOf(rewriter, op.getLoc(), op.getX()), scales = op.getScale();
    bool packedScale = isa<Float8E8M0FNUType>(typeOf(scales).getElementType());
    scales = packedScale ? bytesOf(rewriter, op.getLoc(), scales) : scales;
    if (!codes || !scales) {
      return rewriter.notifyMatchFailure(op, "packed floats that are no weights of the module, or end within a byte");
    }
    auto type = typeOf(op.getResult());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getX());
    int64_t rank = type.getRank(), axis = op.getAxis(), block = op.getBlock();
    Value y = code.map(sizes, type.getElementType(), {}, [&](OpBuilder &b, Location loc, ValueRange) -> Value {
      SmallVector<Value> at;
      for (int64_t i = 0; i < rank; ++i) {
        at.push_back(linalg::IndexOp::create(b, loc, i));
      }
      auto divided = [&](int64_t along, int64_t by) {
        SmallVector<Value> moved(at);
        moved[along] = arith::DivUIOp::create(b, loc, at[along], arith::ConstantIndexOp::create(b, loc, by));
        return moved;
      };
      Value byte = tensor::ExtractOp::create(b, loc, codes, divided(rank - 1, 2));
      Value scale = tensor::ExtractOp::create(b, loc, scales, divided(axis, block));
      scale = packedScale ? emitE8M0(b, loc, scale) : castFloat(b, loc, scale, b.getF32Type());
      return arith::MulFOp::create(b, loc, emitE2M1(b, loc, byte, at.back()), scale);
    });
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

} // namespace

void kimi::populateReferenceExpertPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerMoe, LowerDequantize>(patterns.getContext());
}
