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

/// Rows of sources [..., D] and what is taken of them: everything but the last extent is a loop over rows.
struct Rows {
  Rows(TensorCode &code, Value source) : sizes(code.sizes(source)), channels(sizes.back()) {
    rows.assign(sizes.begin(), sizes.end() - 1);
  }
  unsigned rank() const { return sizes.size(); }

  SmallVector<OpFoldResult> sizes, rows;
  OpFoldResult channels;
};

/// For each source and row, in one pass over the sources: the sum of squares, then the product with each of `scores`.
SmallVector<Value> emitSums(TensorCode &code, const Rows &at, ValueRange sources, ValueRange scores) {
  unsigned rank = at.rank(), count = sources.size(), sums = 1 + scores.size();
  SmallVector<Value> inputs(sources), inits;
  inputs.append(scores.begin(), scores.end());
  SmallVector<AffineMap> maps(count, code.identity(rank));
  maps.append(scores.size(), code.loops(rank, {static_cast<int64_t>(rank) - 1}));
  for (unsigned i = 0; i < sums * count; ++i) {
    Value empty = tensor::EmptyOp::create(code.b, code.loc, at.rows, code.b.getF32Type());
    inits.push_back(linalg::FillOp::create(code.b, code.loc, code.constant(0.0), empty).getResult(0));
    maps.push_back(code.leading(rank, rank - 1));
  }
  SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  auto body = [&](OpBuilder &b, Location loc, ValueRange args) {
    SmallVector<Value> factors, results;
    for (Value score : args.slice(count, scores.size())) {
      factors.push_back(castFloat(b, loc, score, b.getF32Type()));
    }
    ValueRange before = args.drop_front(inputs.size());
    for (unsigned i = 0; i < count; ++i) {
      Value v = castFloat(b, loc, args[i], b.getF32Type());
      for (unsigned j = 0; j < sums; ++j) {
        Value term = arith::MulFOp::create(b, loc, v, j == 0 ? v : factors[j - 1]);
        results.push_back(arith::AddFOp::create(b, loc, before[i * sums + j], term));
      }
    }
    linalg::YieldOp::create(b, loc, results);
  };
  auto generic =
      linalg::GenericOp::create(code.b, code.loc, ValueRange(inits).getTypes(), inputs, inits, maps, iterators, body);
  return SmallVector<Value>(generic.getResults());
}

/// For each row, of `inputs` (one number a row, or what `maps` says): `count` fp32 numbers that `body` computes.
SmallVector<Value> emitRows(TensorCode &code, const Rows &at, ValueRange inputs, unsigned count,
                            llvm::function_ref<SmallVector<Value>(OpBuilder &, Location, ValueRange)> body,
                            ArrayRef<AffineMap> inputMaps = {}) {
  unsigned rank = at.rows.size();
  SmallVector<Value> inits;
  for (unsigned i = 0; i < count; ++i) {
    inits.push_back(tensor::EmptyOp::create(code.b, code.loc, at.rows, code.b.getF32Type()));
  }
  SmallVector<AffineMap> maps(inputMaps);
  maps.resize(inputs.size(), code.identity(rank));
  maps.append(count, code.identity(rank));
  SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      code.b, code.loc, ValueRange(inits).getTypes(), inputs, inits, maps, iterators,
      [&](OpBuilder &b, Location loc, ValueRange args) { linalg::YieldOp::create(b, loc, body(b, loc, args)); });
  return SmallVector<Value>(generic.getResults());
}

/// sum_i shares_i * sources_i, rounded to `type`; a share is one number a row.
Value emitWeightedSum(TensorCode &code, const Rows &at, ValueRange sources, ValueRange shares, RankedTensorType type) {
  unsigned rank = at.rank(), count = sources.size();
  SmallVector<TensorCode::Operand> operands;
  for (Value source : sources) {
    operands.push_back({source, code.identity(rank)});
  }
  for (Value share : shares) {
    operands.push_back({share, code.leading(rank, rank - 1)});
  }
  auto body = [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
    Value sum;
    for (unsigned i = 0; i < count; ++i) {
      Value term = arith::MulFOp::create(b, loc, args[i], args[count + i]);
      sum = sum ? arith::AddFOp::create(b, loc, sum, term).getResult() : term;
    }
    return sum;
  };
  return code.castTo(code.map(at.sizes, type.getElementType(), operands, body), type);
}

/// rsqrt(squares / channels + eps) * product, of scalars.
Value emitScore(OpBuilder &b, Location loc, Value squares, Value product, Value channels, Value eps) {
  Value mean = arith::AddFOp::create(b, loc, arith::DivFOp::create(b, loc, squares, channels), eps);
  return arith::MulFOp::create(b, loc, product, math::RsqrtOp::create(b, loc, mean));
}

/// The scores become exp(score - maximum); gives the maximum and their sum.
std::pair<Value, Value> emitExponentials(OpBuilder &b, Location loc, SmallVectorImpl<Value> &scores) {
  Value largest = scores[0], total;
  for (Value score : ArrayRef<Value>(scores).drop_front()) {
    largest = arith::MaximumFOp::create(b, loc, largest, score);
  }
  for (Value &score : scores) {
    score = math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, score, largest));
    total = total ? arith::AddFOp::create(b, loc, total, score).getResult() : score;
  }
  return {largest, total};
}

struct LowerAttnRes : OpRewritePattern<AttnResOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttnResOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    Rows at(code, op.getSources().front());
    SmallVector<Value> sums = emitSums(code, at, op.getSources(), op.getScore());
    unsigned count = op.getSources().size();
    Value extent = code.asFloat(at.channels), eps = code.constant(op.getEps().convertToDouble());
    SmallVector<Value> shares = emitRows(code, at, sums, count, [&](OpBuilder &b, Location loc, ValueRange args) {
      SmallVector<Value> scores;
      for (unsigned i = 0; i < count; ++i) {
        scores.push_back(emitScore(b, loc, args[2 * i], args[2 * i + 1], extent, eps));
      }
      Value total = emitExponentials(b, loc, scores).second;
      for (Value &score : scores) {
        score = arith::DivFOp::create(b, loc, score, total);
      }
      return scores;
    });
    auto type = cast<RankedTensorType>(op.getType());
    rewriter.replaceOp(op, emitWeightedSum(code, at, op.getSources(), shares, type));
    return success();
  }
};

struct LowerAttnResBank : OpRewritePattern<AttnResBankOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttnResBankOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    Rows at(code, op.getSources().front());
    unsigned count = op.getSources().size(), step = 1 + op.getScores().size();
    SmallVector<Value> sums = emitSums(code, at, op.getSources(), op.getScores());
    Value extent = code.asFloat(at.channels), eps = code.constant(op.getEps().convertToDouble());
    SmallVector<Value> results(op.getNumResults());
    for (unsigned j = 0; j < op.getScores().size(); ++j) {
      SmallVector<Value> inputs;
      for (unsigned i = 0; i < count; ++i) {
        inputs.append({sums[i * step], sums[i * step + 1 + j]});
      }
      SmallVector<Value> rows = emitRows(code, at, inputs, count + 2, [&](OpBuilder &b, Location loc, ValueRange args) {
        SmallVector<Value> scores;
        for (unsigned i = 0; i < count; ++i) {
          scores.push_back(emitScore(b, loc, args[2 * i], args[2 * i + 1], extent, eps));
        }
        auto [largest, total] = emitExponentials(b, loc, scores);
        scores.append({largest, total});
        return scores;
      });
      results[j] = emitStatistics(code, at, rows[count], rows[count + 1], op.getStatistics()[j].getType());
      auto type = cast<RankedTensorType>(op.getSums()[j].getType());
      results[step - 1 + j] = emitWeightedSum(code, at, op.getSources(), ArrayRef(rows).take_front(count), type);
    }
    rewriter.replaceOp(op, results);
    return success();
  }

  /// The maximum and the total of each row beside each other.
  static Value emitStatistics(TensorCode &code, const Rows &at, Value maximum, Value total, Type type) {
    SmallVector<OpFoldResult> sizes(at.rows);
    sizes.push_back(code.b.getIndexAttr(2));
    AffineMap row = code.leading(at.rank(), at.rank() - 1);
    Value pairs = code.map(sizes, code.b.getF32Type(), {{maximum, row}, {total, row}},
                           [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                             Value column = linalg::IndexOp::create(b, loc, at.rank() - 1);
                             Value zero = arith::ConstantIndexOp::create(b, loc, 0);
                             Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, column, zero);
                             return arith::SelectOp::create(b, loc, first, args[0], args[1]);
                           });
    return code.castTo(pairs, type);
  }
};

struct LowerAttnResMerge : OpRewritePattern<AttnResMergeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttnResMergeOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    Rows at(code, op.getP());
    SmallVector<Value> inputs = emitSums(code, at, op.getP(), op.getScore());
    Value extent = code.asFloat(at.channels), eps = code.constant(op.getEps().convertToDouble());
    unsigned rows = at.rows.size();
    SmallVector<AffineMap> maps(inputs.size(), code.identity(rows));
    for (int64_t column : {0, 1}) {
      inputs.push_back(op.getStatistics());
      SmallVector<AffineExpr> exprs(code.identity(rows).getResults());
      exprs.push_back(rewriter.getAffineConstantExpr(column));
      maps.push_back(AffineMap::get(rows, 0, exprs, rewriter.getContext()));
    }
    // The shares of what is merged: that of the bank's sum, and that of p.
    SmallVector<Value> shares = emitRows(
        code, at, inputs, 2,
        [&](OpBuilder &b, Location loc, ValueRange args) {
          SmallVector<Value> scores{args[2], emitScore(b, loc, args[0], args[1], extent, eps)};
          emitExponentials(b, loc, scores);
          Value total = arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, scores[0], args[3]), scores[1]);
          for (Value &score : scores) {
            score = arith::DivFOp::create(b, loc, score, total);
          }
          return scores;
        },
        maps);
    auto type = cast<RankedTensorType>(op.getType());
    rewriter.replaceOp(op, emitWeightedSum(code, at, {op.getSum(), op.getP()}, shares, type));
    return success();
  }
};

} // namespace

void kimi::populateReferenceDepthPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerAttnRes, LowerAttnResBank, LowerAttnResMerge>(patterns.getContext());
}
