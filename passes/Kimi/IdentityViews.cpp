//===- IdentityViews.cpp - views that change nothing
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/IdentityViews.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;

namespace {

/// Where an extent comes from: a number or an index value (`known`), or dim `dim` of `tensor`. Equal extents may have
/// different origins; equal origins are equal extents.
struct Origin {
  OpFoldResult known;
  Value tensor;
  int64_t dim = 0;

  bool operator==(const Origin &other) const {
    return tensor == other.tensor && (tensor ? dim == other.dim : isEqualConstantIntOrValue(known, other.known));
  }
};

Origin originOf(Value tensor, int64_t dim);

Origin originOf(OpFoldResult size) {
  if (auto value = dyn_cast<Value>(size)) {
    if (auto dimOp = value.getDefiningOp<tensor::DimOp>()) {
      std::optional<int64_t> index = dimOp.getConstantIndex();
      if (index && isa<RankedTensorType>(dimOp.getSource().getType())) {
        return originOf(dimOp.getSource(), *index);
      }
    }
  }
  return {size, Value(), 0};
}

/// The operand whose dim `dim` gives that of `op`'s result; null where it is none.
Value tensorOfSameExtent(Operation *op, OpResult result, int64_t dim) {
  int64_t last = cast<RankedTensorType>(result.getType()).getRank() - 1;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<LayerNormOp, RmsNormOp, SoftmaxOp, GeluOp>([](auto kimiOp) { return kimiOp.getX(); })
      .Case<LinearOp, FusedLinearOp, HeadLinearOp>([&](auto kimiOp) { return dim < last ? kimiOp.getX() : Value(); })
      .Case<EmbeddingOp>([&](auto kimiOp) { return dim < last ? kimiOp.getIds() : Value(); })
      .Case<AttentionOp, MlaOp>([&](auto kimiOp) { return dim < last ? kimiOp.getQ() : Value(); })
      .Case<tensor::CastOp>(
          [](auto cast) { return isa<RankedTensorType>(cast.getSource().getType()) ? cast.getSource() : Value(); })
      .Case<DestinationStyleOpInterface>([&](auto dps) { return dps.getTiedOpOperand(result)->get(); })
      .Default(Value());
}

Origin originOf(Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim)) {
    return {IntegerAttr::get(IndexType::get(tensor.getContext()), type.getDimSize(dim)), Value(), 0};
  }
  Operation *op = tensor.getDefiningOp();
  if (auto empty = dyn_cast_or_null<tensor::EmptyOp>(op)) {
    return originOf(empty.getMixedSizes()[dim]);
  }
  if (auto slice = dyn_cast_or_null<tensor::ExtractSliceOp>(op)) {
    if (slice.getType().getRank() == slice.getSourceType().getRank()) {
      return originOf(slice.getMixedSizes()[dim]);
    }
  }
  if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op)) {
    return originOf(expand.getMixedOutputShape()[dim]);
  }
  if (op) {
    if (Value source = tensorOfSameExtent(op, cast<OpResult>(tensor), dim)) {
      return originOf(source, dim);
    }
  }
  return {OpFoldResult(), tensor, dim};
}

struct DropWholeSlice : OpRewritePattern<tensor::ExtractSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExtractSliceOp op, PatternRewriter &rewriter) const override {
    if (op.getType().getRank() != op.getSourceType().getRank()) {
      return rewriter.notifyMatchFailure(op, "drops dims");
    }
    auto sizes = op.getMixedSizes(), offsets = op.getMixedOffsets(), strides = op.getMixedStrides();
    for (int64_t i = 0; i < op.getType().getRank(); ++i) {
      if (!isConstantIntValue(offsets[i], 0) || !isConstantIntValue(strides[i], 1) ||
          !(originOf(sizes[i]) == originOf(op.getSource(), i))) {
        return rewriter.notifyMatchFailure(op, "not known to cover its source");
      }
    }
    if (op.getType() == op.getSourceType()) {
      rewriter.replaceOp(op, op.getSource());
    } else {
      rewriter.replaceOpWithNewOp<tensor::CastOp>(op, op.getType(), op.getSource());
    }
    return success();
  }
};

struct DropSingleConcat : OpRewritePattern<tensor::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 1 || op.getInputs()[0].getType() != op.getType()) {
      return rewriter.notifyMatchFailure(op, "joins several tensors");
    }
    rewriter.replaceOp(op, op.getInputs()[0]);
    return success();
  }
};

} // namespace

void kimi::populateIdentityViewPatterns(RewritePatternSet &patterns) {
  patterns.add<DropWholeSlice, DropSingleConcat>(patterns.getContext());
}
