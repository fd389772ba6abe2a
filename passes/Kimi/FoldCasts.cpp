//===- FoldCasts.cpp - conversions of floats as part of the ops around them
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Kimi/FloatCasts.h"
#include "passes/Kimi/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_FOLDCASTS
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

/// The source of `value` where it is widened from a 16-bit type; null otherwise.
Value widenedFrom(Value value) {
  linalg::GenericOp cast = castOf<arith::ExtFOp>(value.getDefiningOp());
  return cast ? cast.getInputs()[0] : Value();
}

/// An empty tensor of the extents of `like` and of elements `element`.
Value emptyLike(OpBuilder &b, Location loc, Value like, Type element) {
  return tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, like), element);
}

/// The view `op` of `source`, which has the extents of its operand.
Value viewOf(OpBuilder &b, Operation *op, Value source) {
  Type element = elementOf(source);
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) { // it holds a region of its element type
    Value init = transpose.getInit();
    auto type = cast<RankedTensorType>(init.getType());
    Value empty;
    if (auto old = init.getDefiningOp<tensor::EmptyOp>()) {
      empty = tensor::EmptyOp::create(b, op->getLoc(), type.clone(element), old.getDynamicSizes());
    } else {
      empty = emptyLike(b, op->getLoc(), init, element);
    }
    return linalg::TransposeOp::create(b, op->getLoc(), source, empty, transpose.getPermutation())->getResult(0);
  }
  IRMapping mapping;
  mapping.map(op->getOperand(0), source);
  Operation *copy = b.clone(*op, mapping);
  copy->getResult(0).setType(cast<RankedTensorType>(op->getResult(0).getType()).clone(element));
  return copy->getResult(0);
}

/// `value` with elements of type `element`, as `cast`, a generic, makes its result.
Value castLike(OpBuilder &b, linalg::GenericOp cast, Value value, Type element) {
  Location loc = cast.getLoc();
  auto type = mlir::cast<RankedTensorType>(value.getType());
  AffineMap identity = b.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  Value empty = emptyLike(b, loc, value, element);
  if (empty.getType() != type.clone(element)) { // extents that the type does not have
    empty = tensor::CastOp::create(b, loc, type.clone(element), empty);
  }
  bool widens = castOf<arith::ExtFOp>(cast) != nullptr;
  return linalg::GenericOp::create(b, loc, TypeRange(type.clone(element)), ValueRange(value), ValueRange(empty),
                                   ArrayRef<AffineMap>{identity, identity}, iterators,
                                   [&](OpBuilder &nested, Location at, ValueRange args) {
                                     Value result =
                                         widens ? arith::ExtFOp::create(nested, at, element, args[0]).getResult()
                                                : arith::TruncFOp::create(nested, at, element, args[0]).getResult();
                                     linalg::YieldOp::create(nested, at, result);
                                   })
      .getResult(0);
}

/// Users of `value` but for those that ask for its extents.
SmallVector<Operation *> readersOf(Value value) {
  SmallVector<Operation *> readers;
  llvm::copy_if(value.getUsers(), std::back_inserter(readers),
                [](Operation *user) { return !isa<tensor::DimOp>(user); });
  return readers;
}

struct FoldCasts : kimi::impl::FoldCastsBase<FoldCasts> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal()) {
        continue;
      }
      // Forwards what is widened, then backwards what is rounded; a chain of views takes one walk.
      for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
        widenLater(&op);
      }
      SmallVector<linalg::GenericOp> casts;
      for (auto generic : func.getBody().front().getOps<linalg::GenericOp>()) {
        if (castOf<arith::TruncFOp>(generic)) {
          casts.push_back(generic);
        }
      }
      for (linalg::GenericOp cast : llvm::reverse(casts)) {
        roundEarlier(cast);
      }
    }
  }

private:
  void replace(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }

  void widenLater(Operation *op) {
    if (isView(op)) {
      if (Value narrow = widenedFrom(op->getOperand(0))) {
        OpBuilder b(op);
        auto cast = op->getOperand(0).getDefiningOp<linalg::GenericOp>();
        replace(op, castLike(b, cast, viewOf(b, op, narrow), elementOf(op->getResult(0))));
        ++folded;
      }
      return;
    }
    if (isa<L2NormOp, LayerNormOp, KdaGateOp, SoftmaxOp>(op)) {
      takeNarrow(op, 1);
    } else if (isa<GatedRmsNormOp>(op)) {
      takeNarrow(op, 2);
    } else if (auto mix = dyn_cast<AttnResOp>(op)) {
      takeNarrow(op, mix.getSources().size());
    }
  }

  /// The first `count` operands of `op`, which computes in fp32, are to have one type.
  void takeNarrow(Operation *op, unsigned count) {
    Type narrow;
    for (Value operand : op->getOperands().take_front(count)) {
      Value source = widenedFrom(operand);
      if (!source || (narrow && elementOf(source) != narrow) || !elementOf(op->getResult(0)).isF32()) {
        return;
      }
      narrow = elementOf(source);
    }
    for (OpOperand &operand : op->getOpOperands().take_front(count)) {
      operand.set(widenedFrom(operand.get()));
    }
    folded += count;
  }

  void roundEarlier(linalg::GenericOp cast) {
    Type narrow = elementOf(cast->getResult(0));
    Value wide = cast.getInputs()[0];
    // The views between what is computed and what is rounded, if nothing else reads them.
    SmallVector<Operation *> views;
    while (isView(wide.getDefiningOp()) && readersOf(wide).size() == 1) {
      views.push_back(wide.getDefiningOp());
      wide = views.back()->getOperand(0);
    }
    Value rounded = roundedSource(wide, narrow, cast);
    if (!rounded) {
      return;
    }
    SmallVector<Value> moved(views.size());
    for (int64_t i = static_cast<int64_t>(views.size()) - 1; i >= 0; --i) {
      OpBuilder at(views[i]);
      rounded = moved[i] = viewOf(at, views[i], rounded);
    }
    OpBuilder b(cast);
    if (rounded.getType() != cast->getResult(0).getType()) {
      rounded = tensor::CastOp::create(b, cast.getLoc(), cast->getResult(0).getType(), rounded);
    }
    replace(cast, rounded);
    for (auto [view, value] : llvm::zip_equal(views, moved)) { // extents of them may still be asked for
      view->getResult(0).replaceAllUsesWith(value);
      view->erase();
    }
    ++folded;
  }

  /// `wide` as elements of type `narrow`, without a conversion of it alone; null where there is no such way.
  Value roundedSource(Value wide, Type narrow, linalg::GenericOp cast) {
    if (Value source = widenedFrom(wide)) {
      return elementOf(source) == narrow ? source : Value();
    }
    Operation *op = wide.getDefiningOp();
    if (!op || readersOf(wide).size() != 1) {
      return {};
    }
    bool rounds = isa<L2NormOp, GatedRmsNormOp, LayerNormOp, KdaGateOp, SoftmaxOp, AttnResOp>(op);
    rounds |= isa<DeltaRuleOp>(op) && wide == op->getResult(0);
    if (rounds && elementOf(op->getOperand(0)) == narrow) {
      wide.setType(mlir::cast<RankedTensorType>(wide.getType()).clone(narrow));
      return wide;
    }
    auto generic = dyn_cast<linalg::GenericOp>(op);
    bool fuses = generic && generic.getNumParallelLoops() == generic.getNumLoops() && generic->getNumResults() == 1;
    if (fuses && readersOf(wide)[0] != cast) { // beside it, where fusion joins the two
      OpBuilder b(op->getContext());
      b.setInsertionPointAfter(op);
      return castLike(b, cast, wide, narrow);
    }
    return {};
  }
};
} // namespace
