//===- ReferenceAttention.cpp - softmax attention, score by score
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
#include <limits>

using namespace mlir;
using namespace kimi;

namespace {

/// The loops of the score tensor [B, Hkv, G, T, S]: query head h is (h div G, h mod G), so that every map is a
/// projection.
enum Loop : int64_t { B, H, G, T, S, D };

/// The extents of the loops, and of v's channels.
struct Extents {
  OpFoldResult batch, kvHeads, group, queries, keys, channels;
  SmallVector<OpFoldResult> rows() const { return {batch, kvHeads, group, queries}; }
  SmallVector<OpFoldResult> rows(OpFoldResult last) const { return {batch, kvHeads, group, queries, last}; }
};

Extents extentsOf(TensorCode &code, AttentionOp op) {
  SmallVector<OpFoldResult> q = code.sizes(op.getQ()), k = code.sizes(op.getK());
  OpFoldResult group;
  std::optional<int64_t> heads = getConstantIntValue(q[1]), kvHeads = getConstantIntValue(k[1]);
  if (heads && kvHeads) {
    group = code.b.getIndexAttr(*heads / *kvHeads);
  } else {
    group = arith::DivUIOp::create(code.b, code.loc, getValueOrCreateConstantIndexOp(code.b, code.loc, q[1]),
                                   getValueOrCreateConstantIndexOp(code.b, code.loc, k[1]))
                .getResult();
  }
  return {q[0], k[1], group, q[2], k[2], tensor::getMixedSize(code.b, code.loc, op.getV(), 3)};
}

/// Rows [B, H*G, ...] as [B, H, G, ...]: a view.
Value splitHeads(TensorCode &code, Value value, const Extents &extents) {
  auto source = cast<RankedTensorType>(value.getType());
  SmallVector<OpFoldResult> sizes = code.sizes(value);
  sizes[1] = extents.kvHeads;
  sizes.insert(sizes.begin() + 2, extents.group);
  // What the type does not say stays unsaid, even where the size is a known number (one token of a decode step).
  SmallVector<int64_t> shape = {source.getDimSize(0), ShapedType::kDynamic, ShapedType::kDynamic, source.getDimSize(2),
                                source.getDimSize(3)};
  if (!source.isDynamicDim(1)) {
    shape[1] = getConstantIntValue(sizes[1]).value_or(ShapedType::kDynamic);
    shape[2] = getConstantIntValue(sizes[2]).value_or(ShapedType::kDynamic);
  }
  auto type = RankedTensorType::get(shape, source.getElementType());
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}, {3}, {4}};
  for (auto [size, extent] : llvm::zip(sizes, shape)) {
    size = ShapedType::isDynamic(extent) ? getValueOrCreateConstantIndexOp(code.b, code.loc, size)
                                         : OpFoldResult(code.b.getIndexAttr(extent));
  }
  return tensor::ExpandShapeOp::create(code.b, code.loc, type, value, groups, sizes);
}

/// The operand of a score loop that reads `mask`.
TensorCode::Operand maskOperand(TensorCode &code, AttentionOp op, const Extents &extents) {
  auto type = cast<RankedTensorType>(op.getMask().getType());
  auto dim = [&](int64_t index, int64_t loop) { return type.getDimSize(index) == 1 ? int64_t{-1} : loop; };
  if (type.getDimSize(1) == 1) {
    return {op.getMask(), code.loops(5, {dim(0, B), -1, dim(2, T), S})};
  }
  return {splitHeads(code, op.getMask(), extents), code.loops(5, {dim(0, B), H, G, dim(2, T), S})};
}

/// scale * (q . k), capped, masked: [B, Hkv, G, T, S].
Value emitScores(TensorCode &code, AttentionOp op, const Extents &extents) {
  SmallVector<OpFoldResult> sizes = extents.rows(extents.keys);
  Value q = splitHeads(code, op.getQ(), extents);
  Value products =
      code.reduce(sizes, 1, 0.0, {{q, code.loops(6, {B, H, G, T, D})}, {op.getK(), code.loops(6, {B, H, S, D})}},
                  [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                    Value product = arith::MulFOp::create(b, loc, args[0], args[1]);
                    return arith::AddFOp::create(b, loc, args[2], product);
                  });
  Value scale = code.constant(op.getScale().convertToFloat());
  float capValue = op.getSoftcap().convertToFloat();
  Value cap = capValue > 0 ? code.constant(capValue) : Value();
  Value minusInfinity = code.constant(-std::numeric_limits<double>::infinity());
  Value past; // the position of the first query among the keys
  if (op.getCausal()) {
    past = arith::SubIOp::create(code.b, code.loc, getValueOrCreateConstantIndexOp(code.b, code.loc, extents.keys),
                                 getValueOrCreateConstantIndexOp(code.b, code.loc, extents.queries));
  }
  SmallVector<TensorCode::Operand> operands = {{products, code.identity(5)}};
  if (op.getMask()) {
    operands.push_back(maskOperand(code, op, extents));
  }
  return code.map(sizes, code.b.getF32Type(), operands, [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
    Value score = arith::MulFOp::create(b, loc, args[0], scale);
    if (cap) {
      Value bounded = math::TanhOp::create(b, loc, arith::DivFOp::create(b, loc, score, cap));
      score = arith::MulFOp::create(b, loc, cap, bounded);
    }
    if (op.getMask()) {
      if (args[1].getType().isInteger(1)) {
        score = arith::SelectOp::create(b, loc, args[1], score, minusInfinity);
      } else {
        score = arith::AddFOp::create(b, loc, score, args[1]);
      }
    }
    if (past) {
      Value query = linalg::IndexOp::create(b, loc, T), key = linalg::IndexOp::create(b, loc, S);
      Value last = arith::AddIOp::create(b, loc, query, past);
      Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, key, last);
      score = arith::SelectOp::create(b, loc, seen, score, minusInfinity);
    }
    return score;
  });
}

/// softmax over the last dim of `scores`; a row of only -inf gives zeros.
Value emitWeights(TensorCode &code, Value scores, const Extents &extents) {
  SmallVector<OpFoldResult> sizes = extents.rows(extents.keys), rows = extents.rows();
  AffineMap all = code.identity(5), row = code.loops(5, {B, H, G, T});
  double minusInfinity = -std::numeric_limits<double>::infinity();
  Value max =
      code.reduce(rows, 1, minusInfinity, {{scores, all}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
        return arith::MaximumFOp::create(b, loc, args[0], args[1]);
      });
  Value zero = code.constant(0.0), nothing = code.constant(minusInfinity);
  Value exps = code.map(sizes, code.b.getF32Type(), {{scores, all}, {max, row}},
                        [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                          Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, args[1], nothing);
                          Value anchor = arith::SelectOp::create(b, loc, none, zero, args[1]);
                          return math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, args[0], anchor));
                        });
  Value sum = code.reduce(rows, 1, 0.0, {{exps, all}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
    return arith::AddFOp::create(b, loc, args[1], args[0]);
  });
  return code.map(sizes, code.b.getF32Type(), {{exps, all}, {sum, row}},
                  [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, args[1], zero);
                    Value weight = arith::DivFOp::create(b, loc, args[0], args[1]);
                    return arith::SelectOp::create(b, loc, none, zero, weight);
                  });
}

struct LowerAttention : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    Extents extents = extentsOf(code, op);
    Value weights = emitWeights(code, emitScores(code, op, extents), extents);
    SmallVector<OpFoldResult> sizes = extents.rows(extents.channels);
    // Here the loop of the value's channels comes before that of the keys, which is reduced.
    Value sum = code.reduce(sizes, 1, 0.0,
                            {{weights, code.loops(6, {0, 1, 2, 3, 5})}, {op.getV(), code.loops(6, {0, 1, 5, 4})}},
                            [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                              Value product = arith::MulFOp::create(b, loc, args[0], args[1]);
                              return arith::AddFOp::create(b, loc, args[2], product);
                            });
    auto resultType = cast<RankedTensorType>(op.getType());
    Value rounded = code.round(sum, sizes, resultType.getElementType());
    SmallVector<ReassociationIndices> groups = {{0}, {1, 2}, {3}, {4}};
    Value joined = tensor::CollapseShapeOp::create(rewriter, code.loc, rounded, groups);
    rewriter.replaceOp(op, code.castTo(joined, resultType));
    return success();
  }
};

} // namespace

void kimi::populateReferenceAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerAttention>(patterns.getContext());
}
