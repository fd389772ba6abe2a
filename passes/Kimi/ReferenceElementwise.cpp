//===- ReferenceElementwise.cpp - activations and lookups, element by element
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

Value kimi::emitGelu(OpBuilder &b, Location loc, Value x, bool tanh) {
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
  };
  auto mul = [&](Value l, Value r) -> Value { return arith::MulFOp::create(b, loc, l, r); };
  auto add = [&](Value l, Value r) -> Value { return arith::AddFOp::create(b, loc, l, r); };
  Value gate;
  if (tanh) {
    Value cube = mul(x, mul(x, x));
    Value inner = add(x, mul(constant(0.044715), cube));
    gate = math::TanhOp::create(b, loc, mul(constant(0.79788456080286535588), inner)); // sqrt(2/pi)
  } else {
    gate = math::ErfOp::create(b, loc, mul(x, constant(0.70710678118654752440))); // 1/sqrt(2)
  }
  return mul(mul(constant(0.5), x), add(constant(1.0), gate));
}

namespace {

struct LowerGelu : OpRewritePattern<GeluOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GeluOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    Value y = code.map(
        code.sizes(op.getX()), type.getElementType(), {{op.getX(), code.identity(type.getRank())}},
        [&](OpBuilder &b, Location loc, ValueRange args) -> Value { return emitGelu(b, loc, args[0], op.getTanh()); });
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

/// The row that `id` names, inside [0, rows): negative ids count from the end, what is outside reads the nearest row.
Value emitRow(OpBuilder &b, Location loc, Value id, Value rows) {
  if (!id.getType().isIndex()) {
    id = id.getType().isInteger(1) ? arith::IndexCastUIOp::create(b, loc, b.getIndexType(), id).getResult()
                                   : arith::IndexCastOp::create(b, loc, b.getIndexType(), id).getResult();
  }
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, id, zero);
  Value fromEnd = arith::AddIOp::create(b, loc, id, rows);
  Value row = arith::SelectOp::create(b, loc, isNegative, fromEnd, id);
  Value last = arith::SubIOp::create(b, loc, rows, one);
  return arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, row, zero), last);
}

struct LowerEmbedding : OpRewritePattern<EmbeddingOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EmbeddingOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getIds()), table = code.sizes(op.getTable());
    sizes.push_back(table[1]);
    Value rows = getValueOrCreateConstantIndexOp(rewriter, code.loc, table[0]);
    unsigned rank = sizes.size();
    SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
    Value init = tensor::EmptyOp::create(rewriter, code.loc, sizes, type.getElementType());
    AffineMap all = code.identity(rank);
    auto generic = linalg::GenericOp::create(rewriter, code.loc, TypeRange{init.getType()}, ValueRange{op.getIds()},
                                             ValueRange{init}, ArrayRef<AffineMap>{code.leading(rank, rank - 1), all},
                                             iterators, [&](OpBuilder &b, Location loc, ValueRange args) {
                                               Value row = emitRow(b, loc, args[0], rows);
                                               Value channel = linalg::IndexOp::create(b, loc, rank - 1);
                                               Value element = tensor::ExtractOp::create(b, loc, op.getTable(),
                                                                                         ValueRange{row, channel});
                                               linalg::YieldOp::create(b, loc, element);
                                             });
    rewriter.replaceOp(op, code.castTo(generic.getResult(0), type));
    return success();
  }
};

} // namespace

void kimi::populateReferenceElementwisePatterns(RewritePatternSet &patterns) {
  patterns.add<LowerGelu, LowerEmbedding>(patterns.getContext());
}
