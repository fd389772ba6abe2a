//===- ReferenceDepth.cpp - attention residuals, source by source
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

using namespace mlir;
using namespace kimi;

namespace {

struct LowerAttnRes : OpRewritePattern<AttnResOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttnResOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getSources().front()), rows(ArrayRef(sizes).drop_back());
    SmallVector<Value> shares = emitShares(code, op, emitSums(code, op, rows), rows, sizes.back());
    unsigned rank = sizes.size(), count = op.getSources().size();
    SmallVector<TensorCode::Operand> operands;
    for (Value source : op.getSources()) {
      operands.push_back({source, code.identity(rank)});
    }
    for (Value share : shares) {
      operands.push_back({share, code.leading(rank, rank - 1)});
    }
    Value y =
        code.map(sizes, type.getElementType(), operands, [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
          Value sum;
          for (unsigned i = 0; i < count; ++i) {
            Value term = arith::MulFOp::create(b, loc, args[i], args[count + i]);
            sum = sum ? arith::AddFOp::create(b, loc, sum, term).getResult() : term;
          }
          return sum;
        });
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }

  /// For each source and row: the sum of squares and the product with the score vector, in one pass over the sources.
  static SmallVector<Value> emitSums(TensorCode &code, AttnResOp op, ArrayRef<OpFoldResult> rows) {
    unsigned rank = rows.size() + 1, count = op.getSources().size();
    SmallVector<Value> inputs(op.getSources()), inits;
    inputs.push_back(op.getScore());
    SmallVector<AffineMap> maps(count, code.identity(rank));
    maps.push_back(code.loops(rank, {static_cast<int64_t>(rank) - 1}));
    for (unsigned i = 0; i < 2 * count; ++i) {
      Value empty = tensor::EmptyOp::create(code.b, code.loc, rows, code.b.getF32Type());
      inits.push_back(linalg::FillOp::create(code.b, code.loc, code.constant(0.0), empty).getResult(0));
      maps.push_back(code.leading(rank, rank - 1));
    }
    SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
    iterators.back() = utils::IteratorType::reduction;
    auto body = [&](OpBuilder &b, Location loc, ValueRange args) {
      Type f32 = b.getF32Type();
      Value score = castFloat(b, loc, args[count], f32);
      SmallVector<Value> sums;
      for (unsigned i = 0; i < count; ++i) {
        Value v = castFloat(b, loc, args[i], f32);
        for (auto [factor, sum] : {std::pair(v, args[count + 1 + 2 * i]), {score, args[count + 2 + 2 * i]}}) {
          sums.push_back(arith::AddFOp::create(b, loc, sum, arith::MulFOp::create(b, loc, v, factor)));
        }
      }
      linalg::YieldOp::create(b, loc, sums);
    };
    auto generic =
        linalg::GenericOp::create(code.b, code.loc, ValueRange(inits).getTypes(), inputs, inits, maps, iterators, body);
    return SmallVector<Value>(generic.getResults());
  }

  /// softmax over the sources of rsqrt(squares / D + eps) * products: one tensor of the rows for each source.
  static SmallVector<Value> emitShares(TensorCode &code, AttnResOp op, ValueRange sums, ArrayRef<OpFoldResult> rows,
                                       OpFoldResult channels) {
    unsigned rank = rows.size(), count = op.getSources().size();
    Value extent = code.asFloat(channels), eps = code.constant(op.getEps().convertToDouble());
    SmallVector<Value> inits;
    SmallVector<AffineMap> maps(3 * count, code.identity(rank));
    for (unsigned i = 0; i < count; ++i) {
      inits.push_back(tensor::EmptyOp::create(code.b, code.loc, rows, code.b.getF32Type()));
    }
    SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
    auto body = [&](OpBuilder &b, Location loc, ValueRange args) {
      SmallVector<Value> scores;
      Value largest, total;
      for (unsigned i = 0; i < count; ++i) {
        Value mean = arith::AddFOp::create(b, loc, arith::DivFOp::create(b, loc, args[2 * i], extent), eps);
        scores.push_back(arith::MulFOp::create(b, loc, args[2 * i + 1], math::RsqrtOp::create(b, loc, mean)));
        largest = i == 0 ? scores[0] : arith::MaximumFOp::create(b, loc, largest, scores[i]).getResult();
      }
      for (Value &score : scores) {
        score = math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, score, largest));
        total = total ? arith::AddFOp::create(b, loc, total, score).getResult() : score;
      }
      for (Value &score : scores) {
        score = arith::DivFOp::create(b, loc, score, total);
      }
      linalg::YieldOp::create(b, loc, scores);
    };
    auto generic =
        linalg::GenericOp::create(code.b, code.loc, ValueRange(inits).getTypes(), sums, inits, maps, iterators, body);
    return SmallVector<Value>(generic.getResults());
  }
};

} // namespace

void kimi::populateReferenceDepthPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerAttnRes>(patterns.getContext());
}
