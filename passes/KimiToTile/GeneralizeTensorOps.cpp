//===- GeneralizeTensorOps.cpp - tensor work of every kind to linalg.generic
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/KimiToTile/KernelWriter.h"
#include "passes/KimiToTile/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_KIMIGENERALIZETENSOROPS
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
using ElementFn = llvm::function_ref<Value(OpBuilder &, Location, ValueRange)>;

/// A linalg.generic whose element at `indices` is `element(indices)`, in place of `op`.
Value buildByIndex(HostContext &context, Operation *op, ElementFn element) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op->getResult(0));
  SmallVector<Value> dynamic;
  for (auto [axis, size] : llvm::enumerate(sizes)) {
    if (type.isDynamicDim(axis)) {
      dynamic.push_back(context.scalars.materialize(b, loc, size));
    }
  }
  Value empty = tensor::EmptyOp::create(b, loc, type, dynamic);
  SmallVector<AffineMap> maps{b.getMultiDimIdentityMap(type.getRank())};
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(b, loc, TypeRange(type), ValueRange(), ValueRange(empty), maps, iterators,
                                           [&](OpBuilder &nested, Location nestedLoc, ValueRange) {
                                             SmallVector<Value> indices;
                                             for (int64_t axis = 0; axis < type.getRank(); ++axis) {
                                               indices.push_back(linalg::IndexOp::create(nested, nestedLoc, axis));
                                             }
                                             Value value = element(nested, nestedLoc, indices);
                                             linalg::YieldOp::create(nested, nestedLoc, value);
                                           });
  return generic.getResult(0);
}

Value toValue(OpBuilder &b, Location loc, OpFoldResult scalar) {
  return getValueOrCreateConstantIndexOp(b, loc, scalar);
}

Value buildIf(OpBuilder &b, Location loc, Value condition, llvm::function_ref<Value(OpBuilder &)> yes,
              llvm::function_ref<Value(OpBuilder &)> no) {
  auto choice = scf::IfOp::create(
      b, loc, condition, [&](OpBuilder &nested, Location at) { scf::YieldOp::create(nested, at, yes(nested)); },
      [&](OpBuilder &nested, Location at) { scf::YieldOp::create(nested, at, no(nested)); });
  return choice.getResult(0);
}

/// The value that `region` yields for `indices`, its ops cloned to the builder's place.
Value cloneRegion(OpBuilder &b, Region &region, ValueRange indices) {
  IRMapping mapping;
  Block &block = region.front();
  mapping.map(block.getArguments(), indices);
  for (Operation &op : block.without_terminator()) {
    b.clone(op, mapping);
  }
  return mapping.lookupOrDefault(block.getTerminator()->getOperand(0));
}

Value elementOfConcat(OpBuilder &b, Location loc, tensor::ConcatOp concat, unsigned input, Value start,
                      ValueRange indices, HostContext &context) {
  Value source = concat.getInputs()[input];
  SmallVector<Value> local(indices);
  uint64_t axis = concat.getDim();
  local[axis] = arith::SubIOp::create(b, loc, indices[axis], start);
  auto read = [&](OpBuilder &at) { return tensor::ExtractOp::create(at, loc, source, local).getResult(); };
  if (input + 1 == concat.getInputs().size()) {
    return read(b);
  }
  auto type = cast<RankedTensorType>(source.getType());
  Value extent = type.isDynamicDim(axis) ? tensor::DimOp::create(b, loc, source, axis).getResult()
                                         : arith::ConstantIndexOp::create(b, loc, type.getDimSize(axis)).getResult();
  Value end = arith::AddIOp::create(b, loc, start, extent);
  Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, indices[axis], end);
  return buildIf(b, loc, here, read,
                 [&](OpBuilder &at) { return elementOfConcat(at, loc, concat, input + 1, end, indices, context); });
}

Value elementOfPad(OpBuilder &b, Location loc, tensor::PadOp pad, ValueRange indices) {
  Value inside;
  SmallVector<Value> local;
  for (auto [axis, low] : llvm::enumerate(pad.getMixedLowPad())) {
    Value position = arith::SubIOp::create(b, loc, indices[axis], toValue(b, loc, low));
    Value extent = b.createOrFold<tensor::DimOp>(loc, pad.getSource(), axis);
    // Unsigned: a position before the source is a very large number.
    Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, position, extent);
    inside = inside ? arith::AndIOp::create(b, loc, inside, fits).getResult() : fits;
    local.push_back(position);
  }
  auto read = [&](OpBuilder &at) { return tensor::ExtractOp::create(at, loc, pad.getSource(), local).getResult(); };
  if (!inside) {
    return read(b);
  }
  return buildIf(b, loc, inside, read, [&](OpBuilder &at) { return cloneRegion(at, pad.getRegion(), indices); });
}

Value elementOfInsert(OpBuilder &b, Location loc, tensor::InsertSliceOp insert, ValueRange indices) {
  Value inside;
  SmallVector<Value> local;
  llvm::SmallBitVector dropped = insert.getDroppedDims();
  SmallVector<OpFoldResult> offsets = insert.getMixedOffsets(), sizes = insert.getMixedSizes(),
                            steps = insert.getMixedStrides();
  auto both = [&](Value condition) {
    inside = inside ? arith::AndIOp::create(b, loc, inside, condition).getResult() : condition;
  };
  for (size_t axis = 0; axis < offsets.size(); ++axis) {
    Value position = arith::SubIOp::create(b, loc, indices[axis], toValue(b, loc, offsets[axis]));
    if (!isConstantIntValue(steps[axis], 1)) {
      Value step = toValue(b, loc, steps[axis]);
      Value rest = arith::RemUIOp::create(b, loc, position, step);
      Value zero = arith::ConstantIndexOp::create(b, loc, 0);
      both(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rest, zero));
      both(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, position, zero));
      position = arith::DivUIOp::create(b, loc, position, step);
    }
    both(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, position, toValue(b, loc, sizes[axis])));
    if (!dropped.test(axis)) {
      local.push_back(position);
    }
  }
  auto read = [&](OpBuilder &at) { return tensor::ExtractOp::create(at, loc, insert.getSource(), local).getResult(); };
  if (!inside) {
    return read(b);
  }
  return buildIf(b, loc, inside, read, [&](OpBuilder &at) {
    return tensor::ExtractOp::create(at, loc, insert.getDest(), indices).getResult();
  });
}

Value elementOfList(OpBuilder &b, Location loc, tensor::FromElementsOp list, ValueRange indices) {
  auto type = cast<RankedTensorType>(list.getType());
  Value linear = arith::ConstantIndexOp::create(b, loc, 0);
  for (auto [index, extent] : llvm::zip(indices, type.getShape())) {
    Value size = arith::ConstantIndexOp::create(b, loc, extent);
    linear = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, linear, size), index);
  }
  Value element = list.getElements().front();
  for (auto [position, candidate] : llvm::enumerate(list.getElements().drop_front())) {
    Value here = arith::ConstantIndexOp::create(b, loc, position + 1);
    Value equal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, linear, here);
    element = arith::SelectOp::create(b, loc, equal, candidate, element);
  }
  return element;
}

/// What replaces `op`; null where it is not one of ours.
Value generalize(HostContext &context, Operation *op) {
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    return buildByIndex(context, op, [&](OpBuilder &b, Location loc, ValueRange indices) {
      Value zero = arith::ConstantIndexOp::create(b, loc, 0);
      return elementOfConcat(b, loc, concat, 0, zero, indices, context);
    });
  }
  if (auto pad = dyn_cast<tensor::PadOp>(op)) {
    return buildByIndex(context, op,
                        [&](OpBuilder &b, Location loc, ValueRange i) { return elementOfPad(b, loc, pad, i); });
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    return buildByIndex(context, op,
                        [&](OpBuilder &b, Location loc, ValueRange i) { return elementOfInsert(b, loc, insert, i); });
  }
  if (auto generate = dyn_cast<tensor::GenerateOp>(op)) {
    return buildByIndex(context, op,
                        [&](OpBuilder &b, Location, ValueRange i) { return cloneRegion(b, generate.getBody(), i); });
  }
  if (auto list = dyn_cast<tensor::FromElementsOp>(op)) {
    return buildByIndex(context, op,
                        [&](OpBuilder &b, Location loc, ValueRange i) { return elementOfList(b, loc, list, i); });
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    return buildByIndex(context, op, [&](OpBuilder &, Location, ValueRange) { return splat.getInput(); });
  }
  return {};
}

/// True for a fill that only says where reductions start.
bool onlyInitializes(linalg::FillOp fill) {
  return llvm::all_of(fill->getUses(), [](OpOperand &use) {
    auto user = dyn_cast<linalg::LinalgOp>(use.getOwner());
    return user && user.isDpsInit(&use);
  });
}

/// True where a kernel that is already written reads `tensor` or a view of it: its strides must stay as they are.
bool feedsDispatch(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation *user) {
    if (isa<DispatchOp>(user)) {
      return true;
    }
    bool view = isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
                    linalg::TransposeOp, linalg::BroadcastOp>(user);
    return view && feedsDispatch(user->getResult(0));
  });
}

/// Writes the result of `transpose`'s producer in the transposed order, where nothing else reads it.
bool foldIntoProducer(linalg::TransposeOp transpose) {
  auto generic = transpose.getInput().getDefiningOp<linalg::GenericOp>();
  if (!generic || !transpose.getInput().hasOneUse() || generic->getNumResults() != 1 ||
      feedsDispatch(transpose->getResult(0))) {
    return false;
  }
  OpOperand *init = generic.getDpsInitOperand(0);
  auto fill = init->get().getDefiningOp<linalg::FillOp>();
  bool read = generic.payloadUsesValueFromOperand(init);
  auto permutation = AffineMap::getPermutationMap(transpose.getPermutation(), transpose.getContext());
  if (read && !fill) {
    return false;
  }
  OpBuilder b(transpose);
  Location loc = generic.getLoc();
  Value target = transpose.getInit();
  if (read) {
    target = linalg::FillOp::create(b, loc, fill.getInputs()[0], target).getResult(0);
  }
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  maps.back() = permutation.compose(maps.back());
  auto moved = linalg::GenericOp::create(b, loc, TypeRange(transpose->getResult(0).getType()), generic.getInputs(),
                                         ValueRange(target), maps, generic.getIteratorTypesArray());
  moved.getRegion().takeBody(generic.getRegion());
  transpose->getResult(0).replaceAllUsesWith(moved.getResult(0));
  transpose.erase();
  generic.erase();
  return true;
}

struct KimiGeneralizeTensorOps : kimi::impl::KimiGeneralizeTensorOpsBase<KimiGeneralizeTensorOps> {
  void runOnOperation() override {
    KernelPool pool(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal()) {
        continue;
      }
      {
        HostContext context(func, pool);
        SmallVector<Operation *> ops;
        for (Operation &op : func.getBody().front()) {
          ops.push_back(&op);
        }
        for (Operation *op : ops) {
          if (Value value = generalize(context, op)) {
            context.replace(op, value);
          }
        }
        context.finish();
      }
      nameToGeneric(func);
      func.walk([](linalg::TransposeOp transpose) { foldIntoProducer(transpose); });
      constantsToWeights(func);
    }
  }

  void nameToGeneric(func::FuncOp func) {
    SmallVector<linalg::LinalgOp> named;
    func.walk([&](linalg::LinalgOp op) {
      auto fill = dyn_cast<linalg::FillOp>(op.getOperation());
      bool kept = fill ? onlyInitializes(fill)
                       : isa<linalg::GenericOp, linalg::TransposeOp, linalg::BroadcastOp>(op.getOperation());
      if (!kept) {
        named.push_back(op);
      }
    });
    IRRewriter rewriter(&getContext());
    for (linalg::LinalgOp op : named) {
      rewriter.setInsertionPoint(op);
      if (failed(linalg::generalizeNamedOp(rewriter, op))) {
        op.emitError() << "cannot be written as linalg.generic";
        signalPassFailure();
      }
    }
  }

  void constantsToWeights(func::FuncOp func) {
    ModuleOp module = getOperation();
    SmallVector<arith::ConstantOp> constants;
    func.walk([&](arith::ConstantOp constant) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!elements || constant->use_empty()) {
        return;
      }
      bool inlined = elements.isSplat() &&
                     llvm::all_of(constant->getUsers(), [](Operation *user) { return isa<linalg::GenericOp>(user); });
      if (!inlined) {
        constants.push_back(constant);
      }
    });
    for (arith::ConstantOp constant : constants) {
      FlatSymbolRefAttr name;
      for (auto weight : module.getOps<WeightOp>()) {
        if (weight.getSource() == constant.getValue()) {
          name = FlatSymbolRefAttr::get(weight.getSymNameAttr());
        }
      }
      if (!name) {
        std::string symbol;
        for (unsigned i = 0; symbol.empty() || SymbolTable::lookupSymbolIn(module, symbol); ++i) {
          symbol = "constant_" + std::to_string(i);
        }
        OpBuilder top(module.getBodyRegion());
        WeightOp::create(top, constant.getLoc(), top.getStringAttr(symbol), TypeAttr::get(constant.getType()),
                         constant.getValue());
        name = FlatSymbolRefAttr::get(module.getContext(), symbol);
      }
      OpBuilder b(constant);
      auto ref = WeightRefOp::create(b, constant.getLoc(), constant.getType(), name);
      constant.getResult().replaceAllUsesWith(ref.getResult());
      constant.erase();
    }
  }
};
} // namespace
