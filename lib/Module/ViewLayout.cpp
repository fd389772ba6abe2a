//===- ViewLayout.cpp - tensors as strided views of buffers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/ViewLayout.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

SmallVector<SymbolicDim> kimi::rowMajorStrides(ArrayRef<SymbolicDim> sizes) {
  SmallVector<SymbolicDim> strides(sizes.size(), SymbolicDim(1));
  for (int64_t axis = static_cast<int64_t>(sizes.size()) - 2; axis >= 0; --axis) {
    strides[axis] = strides[axis + 1] * sizes[axis + 1];
  }
  return strides;
}

bool ViewLayout::isDense() const {
  if (!offset.is(0)) {
    return false;
  }
  for (auto [size, stride, expected] : llvm::zip(sizes, strides, rowMajorStrides(sizes))) {
    if (!size.is(1) && stride != expected) {
      return false;
    }
  }
  return true;
}

bool ViewLayout::isInnermostContiguous() const { return sizes.empty() || sizes.back().is(1) || strides.back().is(1); }

MemRefType ViewLayout::memrefType(Type elementType) const {
  auto constant = [](const SymbolicDim &dim) { return dim.getConstant().value_or(ShapedType::kDynamic); };
  SmallVector<int64_t> shape, staticStrides;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    shape.push_back(constant(size));
    staticStrides.push_back(constant(stride));
  }
  auto layout = StridedLayoutAttr::get(elementType.getContext(), ShapedType::kDynamic, staticStrides);
  return MemRefType::get(shape, elementType, layout);
}

Value ViewLayouts::base(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp, linalg::TransposeOp,
            linalg::BroadcastOp, StateViewOp>(op)) {
      tensor = op->getOperand(0);
      continue;
    }
    break;
  }
  return tensor;
}

ViewLayout ViewLayouts::ofState(Value state, const SymbolicDim &batch) {
  auto type = cast<StateType>(state.getType());
  RankedTensorType shape = type.getShape();
  ViewLayout layout;
  layout.base = state;
  for (int64_t axis = 0; axis < shape.getRank(); ++axis) {
    if (axis == type.getGrows()) {
      layout.sizes.push_back(scalars.capacity());
    } else {
      layout.sizes.push_back(shape.isDynamicDim(axis) ? batch : SymbolicDim(shape.getDimSize(axis)));
    }
  }
  layout.strides = rowMajorStrides(layout.sizes);
  return layout;
}

FailureOr<ViewLayout> ViewLayouts::of(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  if (!op || !isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
                  linalg::TransposeOp, linalg::BroadcastOp, StateViewOp>(op)) {
    ViewLayout layout;
    layout.base = tensor;
    layout.sizes = scalars.shape(tensor);
    // What an append gives lies in the buffer of its state, which has room for more rows.
    auto append = dyn_cast_or_null<CacheAppendOp>(op);
    layout.strides = append ? ofState(append.getState(), SymbolicDim(1)).strides : rowMajorStrides(layout.sizes);
    return layout;
  }
  if (auto view = dyn_cast<StateViewOp>(op)) {
    ViewLayout layout = ofState(view.getState(), SymbolicDim(1));
    layout.sizes = scalars.shape(tensor); // the strides do not depend on the batch, which is the outermost axis
    return layout;
  }
  FailureOr<ViewLayout> source = of(op->getOperand(0));
  if (failed(source)) {
    return failure();
  }
  ViewLayout layout;
  layout.base = source->base;
  layout.offset = source->offset;
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<OpFoldResult> offsets = slice.getMixedOffsets(), sizes = slice.getMixedSizes(),
                              steps = slice.getMixedStrides();
    for (size_t axis = 0; axis < offsets.size(); ++axis) {
      layout.offset = layout.offset + scalars.of(offsets[axis]) * source->strides[axis];
      if (!dropped.test(axis)) {
        layout.sizes.push_back(scalars.of(sizes[axis]));
        layout.strides.push_back(source->strides[axis] * scalars.of(steps[axis]));
      }
    }
    return layout;
  }
  layout.sizes = scalars.shape(tensor);
  if (isa<tensor::CastOp>(op)) {
    layout.strides = source->strides;
    return layout;
  }
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    for (int64_t axis : transpose.getPermutation()) {
      layout.strides.push_back(source->strides[axis]);
    }
    return layout;
  }
  if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op)) {
    unsigned next = 0;
    for (int64_t axis = 0; axis < static_cast<int64_t>(layout.sizes.size()); ++axis) {
      bool added = llvm::is_contained(broadcast.getDimensions(), axis);
      layout.strides.push_back(added ? SymbolicDim(0) : source->strides[next++]);
    }
    return layout;
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    layout.strides.assign(layout.sizes.size(), SymbolicDim(1));
    for (auto [axis, group] : llvm::enumerate(expand.getReassociationIndices())) {
      SymbolicDim stride = source->strides[axis];
      for (int64_t inner : llvm::reverse(group)) {
        layout.strides[inner] = stride;
        stride = stride * layout.sizes[inner];
      }
    }
    return layout;
  }
  for (ReassociationIndices group : cast<tensor::CollapseShapeOp>(op).getReassociationIndices()) {
    llvm::erase_if(group, [&](int64_t axis) { return source->sizes[axis].is(1); });
    for (size_t i = 0; i + 1 < group.size(); ++i) {
      int64_t outer = group[i], inner = group[i + 1];
      if (source->strides[outer] != source->strides[inner] * source->sizes[inner]) {
        return failure();
      }
    }
    layout.strides.push_back(group.empty() ? SymbolicDim(1) : source->strides[group.back()]);
  }
  return layout;
}
