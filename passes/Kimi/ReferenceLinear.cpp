//===- ReferenceLinear.cpp - projections as sums of products
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

/// The extents of x . w.
template <typename Op>
static SmallVector<OpFoldResult> resultSizes(TensorCode &code, Op op) {
  SmallVector<OpFoldResult> sizes = code.sizes(op.getX());
  sizes.back() = code.sizes(op.getW())[op.getTranspose() ? 0 : 1];
  return sizes;
}

/// x . w in fp32: [..., N], of extents `sizes`.
static Value emitProduct(TensorCode &code, Value x, Value w, bool transpose, ArrayRef<OpFoldResult> sizes) {
  unsigned n = sizes.size() - 1, k = sizes.size();
  SmallVector<int64_t> xDims = llvm::to_vector(llvm::seq<int64_t>(0, n));
  xDims.push_back(k);
  AffineMap wMap = transpose ? code.loops(k + 1, {n, k}) : code.loops(k + 1, {k, n});
  return code.reduce(sizes, 1, 0.0, {{x, code.loops(k + 1, xDims)}, {w, wMap}},
                     [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                       Value product = arith::MulFOp::create(b, loc, args[0], args[1]);
                       return arith::AddFOp::create(b, loc, args[2], product);
                     });
}

namespace {

struct LowerLinear : OpRewritePattern<LinearOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(LinearOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<OpFoldResult> sizes = resultSizes(code, op);
    Value sum = emitProduct(code, op.getX(), op.getW(), op.getTranspose(), sizes);
    unsigned rank = type.getRank();
    Value y;
    if (op.getBias()) {
      y = code.map(sizes, type.getElementType(),
                   {{sum, code.identity(rank)}, {op.getBias(), code.loops(rank, {rank - 1})}},
                   [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                     return arith::AddFOp::create(b, loc, args[0], args[1]);
                   });
    } else {
      y = code.round(sum, sizes, type.getElementType());
    }
    rewriter.replaceOp(op, code.castTo(y, type));
    return success();
  }
};

struct LowerHeadLinear : OpRewritePattern<HeadLinearOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(HeadLinearOp op, PatternRewriter &rewriter) const override {
    enum Loop : int64_t { B, H, T, N, K };
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getX());
    sizes.back() = code.sizes(op.getW()).back();
    Value sum =
        code.reduce(sizes, 1, 0.0, {{op.getX(), code.loops(5, {B, H, T, K})}, {op.getW(), code.loops(5, {H, K, N})}},
                    [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                      Value product = arith::MulFOp::create(b, loc, args[0], args[1]);
                      return arith::AddFOp::create(b, loc, args[2], product);
                    });
    rewriter.replaceOp(op, code.castTo(code.round(sum, sizes, type.getElementType()), type));
    return success();
  }
};

struct LowerFusedLinear : OpRewritePattern<FusedLinearOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(FusedLinearOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getType());
    Value x = op.getX();
    if (op.getNorm() != NormKind::none) {
      x = emitNorm(code, op.getNorm(), x, op.getGamma(), op.getBeta(), op.getEpsAttr(), Type(), rewriter.getF32Type());
    }
    SmallVector<OpFoldResult> sizes = resultSizes(code, op);
    Value sum = emitProduct(code, x, op.getW(), op.getTranspose(), sizes);
    SmallVector<Value> inputs = {sum};
    SmallVector<AffineMap> maps = {code.identity(type.getRank())};
    inputs.append(op.getExtras().begin(), op.getExtras().end());
    llvm::append_range(maps, op.getExtraMaps().getAsValueRange<AffineMapAttr>());
    maps.push_back(code.identity(type.getRank()));
    Value init = tensor::EmptyOp::create(rewriter, code.loc, sizes, type.getElementType());
    SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
    // The epilogue is scalar code in its own types already.
    auto generic = linalg::GenericOp::create(
        rewriter, code.loc, TypeRange{init.getType()}, inputs, ValueRange{init}, maps, iterators,
        [&](OpBuilder &b, Location loc, ValueRange args) {
          Block &body = op.getEpilogue().front();
          IRMapping mapping;
          mapping.map(body.getArguments(), args.drop_back());
          for (Operation &inner : body.without_terminator()) {
            b.clone(inner, mapping);
          }
          linalg::YieldOp::create(b, loc, mapping.lookupOrDefault(body.getTerminator()->getOperand(0)));
        });
    rewriter.replaceOp(op, code.castTo(generic.getResult(0), type));
    return success();
  }
};

} // namespace

void kimi::populateReferenceLinearPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerLinear, LowerHeadLinear, LowerFusedLinear>(patterns.getContext());
}
