//===- SinkSlices.cpp - --kimi-sink-slices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "lib/Module/HostScalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/Kimi/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kimi {
#define GEN_PASS_DEF_SINKSLICES
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// A box of a tensor with unit steps; `partial` says on which axes it is less than the whole.
struct Box {
  SmallVector<OpFoldResult> offsets, sizes;
  SmallVector<bool> partial;

  /// Everything of `tensor`.
  static Box whole(OpBuilder &b, Location loc, Value tensor) {
    Box box;
    box.sizes = tensor::getMixedSizes(b, loc, tensor);
    box.offsets.assign(box.sizes.size(), b.getIndexAttr(0));
    box.partial.assign(box.sizes.size(), false);
    return box;
  }
  /// Axis `axis` as axis `other` of `from` has it.
  void take(int64_t axis, const Box &from, int64_t other) {
    offsets[axis] = from.offsets[other];
    sizes[axis] = from.sizes[other];
    partial[axis] = from.partial[other];
  }
  bool isWhole() const {
    return llvm::none_of(partial, [](bool part) { return part; });
  }
};

bool areEqual(HostScalars &scalars, ArrayRef<OpFoldResult> a, ArrayRef<OpFoldResult> b) {
  return llvm::equal(a, b, [&](OpFoldResult x, OpFoldResult y) {
    return isEqualConstantIntOrValue(x, y) || scalars.of(x) == scalars.of(y);
  });
}

bool areEqual(HostScalars &scalars, tensor::ExtractSliceOp a, tensor::ExtractSliceOp b) {
  return a.getType() == b.getType() && areEqual(scalars, a.getMixedOffsets(), b.getMixedOffsets()) &&
         areEqual(scalars, a.getMixedSizes(), b.getMixedSizes()) &&
         areEqual(scalars, a.getMixedStrides(), b.getMixedStrides());
}

/// The slices of `value` if it is read by nothing else and all take the same; empty where it is read otherwise. Extents
/// (tensor.dim) do not count.
SmallVector<tensor::ExtractSliceOp> onlySlices(HostScalars &scalars, Value value) {
  SmallVector<tensor::ExtractSliceOp> slices;
  for (Operation *user : value.getUsers()) {
    if (isa<tensor::DimOp>(user)) {
      continue;
    }
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!slice || (!slices.empty() && !areEqual(scalars, slice, slices.front()))) {
      return {};
    }
    slices.push_back(slice);
  }
  return slices;
}

/// Writes what computes only a box of what `op` gives.
class Sinker {
public:
  Sinker(HostScalars &scalars, OpBuilder &b, Operation *op) : scalars(scalars), b(b), op(op), loc(op->getLoc()) {}

  /// The box `slice` of `op`'s result, computed from slices of its operands; null where that is not possible.
  Value sink(const Box &box, RankedTensorType type) {
    Value value =
        llvm::TypeSwitch<Operation *, Value>(op)
            .Case<LinearOp, LayerNormOp, RmsNormOp>(
                [&](auto rowwise) { return box.partial.back() ? Value() : onOperand(box, rowwise.getX(), type); })
            .Case([&](HeadLinearOp linear) { // heads have a matrix each, columns are made of all channels
              return box.partial[1] || box.partial.back() ? Value() : onOperand(box, linear.getX(), type);
            })
            .Case([&](GeluOp gelu) { return onOperand(box, gelu.getX(), type); })
            .Case([&](SoftmaxOp softmax) {
              return box.partial[softmax.getAxis()] ? Value() : onOperand(box, softmax.getX(), type);
            })
            .Case([&](tensor::CastOp cast) {
              return isa<RankedTensorType>(cast.getSource().getType()) ? slice(cast.getSource(), box) : Value();
            })
            .Case([&](tensor::ExpandShapeOp expand) { return sinkExpand(box, expand, type); })
            .Case([&](tensor::CollapseShapeOp collapse) { return sinkCollapse(box, collapse, type); })
            .Case([&](linalg::TransposeOp transpose) { return sinkTranspose(box, transpose); })
            .Case([&](linalg::GenericOp generic) { return sinkGeneric(box, generic, type); })
            .Case<AttentionOp, MlaOp>([&](auto attention) { return sinkAttention(box, attention, type); })
            .Default([](Operation *) { return Value(); });
    return !value || value.getType() == type ? value : tensor::CastOp::create(b, loc, type, value).getResult();
  }

private:
  Value slice(Value source, const Box &box) {
    if (box.isWhole()) {
      return source;
    }
    SmallVector<OpFoldResult> steps(box.sizes.size(), b.getIndexAttr(1));
    return tensor::ExtractSliceOp::create(b, loc, source, box.offsets, box.sizes, steps);
  }

  /// A copy of `op` with operand 0, which has its axes except perhaps the extent of the last, sliced.
  Value onOperand(const Box &box, Value x, RankedTensorType type) {
    Box own = Box::whole(b, loc, x);
    for (size_t axis = 0; axis < own.sizes.size(); ++axis) {
      if (box.partial[axis]) {
        own.take(axis, box, axis);
      }
    }
    return copy(slice(x, own), type);
  }

  Value copy(Value x, RankedTensorType type) {
    Operation *fresh = b.clone(*op);
    fresh->setOperand(0, x);
    fresh->getResult(0).setType(type);
    return fresh->getResult(0);
  }

  Value sinkExpand(const Box &box, tensor::ExpandShapeOp expand, RankedTensorType type) {
    Box source = Box::whole(b, loc, expand.getSrc());
    for (auto [axis, group] : llvm::enumerate(expand.getReassociationIndices())) {
      for (int64_t inner : group) {
        if (box.partial[inner] && group.size() > 1) {
          return {};
        }
      }
      if (group.size() == 1) {
        source.take(axis, box, group.front());
      }
    }
    return tensor::ExpandShapeOp::create(b, loc, type, slice(expand.getSrc(), source), expand.getReassociationIndices(),
                                         box.sizes);
  }

  Value sinkCollapse(const Box &box, tensor::CollapseShapeOp collapse, RankedTensorType type) {
    Box source = Box::whole(b, loc, collapse.getSrc());
    for (auto [axis, group] : llvm::enumerate(collapse.getReassociationIndices())) {
      if (box.partial[axis] && group.size() > 1) {
        return {};
      }
      if (group.size() == 1) {
        source.take(group.front(), box, axis);
      }
    }
    Value part = slice(collapse.getSrc(), source);
    return tensor::CollapseShapeOp::create(b, loc, part, collapse.getReassociationIndices());
  }

  Value sinkTranspose(const Box &box, linalg::TransposeOp transpose) {
    Box source = Box::whole(b, loc, transpose.getInput());
    for (auto [axis, from] : llvm::enumerate(transpose.getPermutation())) {
      source.take(from, box, axis);
    }
    Type element = tensorType(transpose.getInput()).getElementType();
    Value init = tensor::EmptyOp::create(b, loc, box.sizes, element);
    return linalg::TransposeOp::create(b, loc, slice(transpose.getInput(), source), init, transpose.getPermutation())
        ->getResult(0);
  }

  Value sinkGeneric(const Box &box, linalg::GenericOp generic, RankedTensorType type) {
    OpOperand *init = generic.getDpsInitOperand(0);
    AffineMap map = generic.getMatchingIndexingMap(init);
    if (generic.getNumResults() != 1 || generic.getNumParallelLoops() != generic.getNumLoops() ||
        generic.payloadUsesValueFromOperand(init) || !map.isPermutation()) {
      return {};
    }
    for (OpOperand *input : generic.getDpsInputOperands()) {
      if (!generic.getMatchingIndexingMap(input).isProjectedPermutation(/*allowZeroInResults=*/true)) {
        return {};
      }
    }
    // The box of the loops.
    auto axisOf = [&](unsigned loop) { return *map.getResultPosition(b.getAffineDimExpr(loop)); };
    SmallVector<Value> inputs;
    for (OpOperand *input : generic.getDpsInputOperands()) {
      if (!isa<RankedTensorType>(input->get().getType())) {
        inputs.push_back(input->get());
        continue;
      }
      Box own = Box::whole(b, loc, input->get());
      for (auto [axis, expr] : llvm::enumerate(generic.getMatchingIndexingMap(input).getResults())) {
        auto loop = dyn_cast<AffineDimExpr>(expr);
        if (loop && box.partial[axisOf(loop.getPosition())]) {
          own.take(axis, box, axisOf(loop.getPosition()));
        }
      }
      inputs.push_back(slice(input->get(), own));
    }
    Value empty = tensor::EmptyOp::create(b, loc, box.sizes, type.getElementType());
    SmallVector<Value> operands(inputs);
    operands.push_back(empty);
    auto fresh = cast<linalg::GenericOp>(clone(b, generic, TypeRange{empty.getType()}, operands));
    // Positions are counted from the first of the box.
    fresh.walk([&](linalg::IndexOp index) {
      int64_t axis = axisOf(index.getDim());
      if (!box.partial[axis]) {
        return;
      }
      OpBuilder inner(index->getContext());
      inner.setInsertionPoint(fresh);
      Value first = getValueOrCreateConstantIndexOp(inner, loc, box.offsets[axis]);
      inner.setInsertionPointAfter(index);
      Value moved = arith::AddIOp::create(inner, loc, index.getResult(), first);
      index.getResult().replaceAllUsesExcept(moved, moved.getDefiningOp());
    });
    return fresh->getResult(0);
  }

  /// Some queries of an attention: of a causal one the last ones, which its definition aligns with the last keys.
  template <typename Op>
  Value sinkAttention(const Box &box, Op attention, RankedTensorType type) {
    if (box.partial[0] || box.partial[1] || box.partial[3]) {
      return {};
    }
    SymbolicDim end = scalars.of(box.offsets[2]) + scalars.of(box.sizes[2]);
    if (attention.getCausal() && end != scalars.shape(attention.getQ())[2]) {
      return {};
    }
    Box queries = Box::whole(b, loc, attention.getQ());
    queries.take(2, box, 2);
    Value mask = attention.getMask();
    if (mask && tensorType(mask).getDimSize(2) != 1) {
      Box rows = Box::whole(b, loc, mask);
      rows.take(2, box, 2);
      mask = slice(mask, rows);
    }
    Value q = slice(attention.getQ(), queries);
    auto fresh = cast<Op>(b.clone(*attention));
    fresh.getQMutable().assign(q);
    if (mask) {
      fresh.getMaskMutable().assign(mask);
    }
    fresh.getResult().setType(type);
    return fresh.getResult();
  }

  HostScalars &scalars;
  OpBuilder &b;
  Operation *op;
  Location loc;
};

/// The box that `slice` takes; nothing where it takes steps, drops dims or takes everything.
std::optional<Box> boxOf(HostScalars &scalars, tensor::ExtractSliceOp slice) {
  Box box{slice.getMixedOffsets(), slice.getMixedSizes(), {}};
  SmallVector<SymbolicDim> extents = scalars.shape(slice.getSource());
  if (slice.getType().getRank() != slice.getSourceType().getRank() ||
      !llvm::all_of(slice.getMixedStrides(), [](OpFoldResult step) { return isConstantIntValue(step, 1); })) {
    return std::nullopt;
  }
  for (auto [axis, extent] : llvm::enumerate(extents)) {
    box.partial.push_back(!isConstantIntValue(box.offsets[axis], 0) || scalars.of(box.sizes[axis]) != extent);
  }
  return box.isWhole() ? std::nullopt : std::optional<Box>(box);
}

/// Whether the extents of `value` that others ask for can be computed without it.
bool hasKnownExtents(HostScalars &scalars, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto dim = dyn_cast<tensor::DimOp>(user);
    return !dim || (dim.getConstantIndex() && scalars.isComputable(scalars.of(dim.getResult())));
  });
}

void replaceExtents(HostScalars &scalars, Value value) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto dim = cast<tensor::DimOp>(user); // the slices are gone
    OpBuilder b(dim);
    dim.getResult().replaceAllUsesWith(scalars.materialize(b, dim.getLoc(), scalars.of(dim.getResult())));
    dim.erase();
  }
}

struct SinkSlicesPass : kimi::impl::SinkSlicesBase<SinkSlicesPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal()) {
        continue;
      }
      while (sinkOne(func)) {
        ++sunk;
      }
    }
  }

  /// Moves the slices of one value in front of the op that computes it; false where there is no more to move.
  static bool sinkOne(func::FuncOp func) {
    HostScalars scalars(func);
    for (Operation &op : llvm::reverse(func.getBody().front())) {
      if (op.getNumResults() != 1 || !isa<RankedTensorType>(op.getResult(0).getType())) {
        continue;
      }
      SmallVector<tensor::ExtractSliceOp> slices = onlySlices(scalars, op.getResult(0));
      if (slices.empty() || !hasKnownExtents(scalars, op.getResult(0))) {
        continue;
      }
      tensor::ExtractSliceOp first = slices.front();
      for (tensor::ExtractSliceOp slice : slices) {
        first = slice->isBeforeInBlock(first) ? slice : first;
      }
      std::optional<Box> box = boxOf(scalars, first);
      if (!box) {
        continue;
      }
      OpBuilder b(first);
      Value part = Sinker(scalars, b, &op).sink(*box, first.getType());
      if (!part) {
        continue;
      }
      for (tensor::ExtractSliceOp slice : slices) {
        slice.getResult().replaceAllUsesWith(part);
      }
      for (tensor::ExtractSliceOp slice : slices) {
        slice.erase();
      }
      replaceExtents(scalars, op.getResult(0));
      op.erase();
      return true;
    }
    return false;
  }
};

} // namespace
