//===- HostViews.cpp - copies and reshapes between kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/HostViews.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

Value kimi::copyBefore(HostContext &context, Operation *user, Value tensor) {
  OpBuilder b(user);
  Location loc = user->getLoc();
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<Value> dynamic;
  for (auto [axis, size] : llvm::enumerate(context.scalars.shape(tensor))) {
    if (type.isDynamicDim(axis)) {
      dynamic.push_back(context.scalars.materialize(b, loc, size));
    }
  }
  auto fresh = RankedTensorType::get(type.getShape(), type.getElementType());
  Value empty = tensor::EmptyOp::create(b, loc, fresh, dynamic);
  AffineMap identity = b.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto copy = linalg::GenericOp::create(
      b, loc, TypeRange(fresh), ValueRange(tensor), ValueRange(empty), ArrayRef<AffineMap>{identity, identity},
      iterators, [](OpBuilder &nested, Location at, ValueRange args) { linalg::YieldOp::create(nested, at, args[0]); });
  return copy.getResult(0);
}

Value kimi::asMatrix(HostContext &context, Operation *user, Value tensor) {
  OpBuilder b(user);
  Location loc = user->getLoc();
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t rank = type.getRank();
  if (rank == 2) {
    return succeeded(context.layouts.of(tensor)) ? tensor : copyBefore(context, user, tensor);
  }
  if (rank < 2) { // a row, or one element
    SmallVector<ReassociationIndices> groups;
    SmallVector<int64_t> shape{1, rank == 1 ? type.getDimSize(0) : 1};
    if (rank == 1) {
      groups.push_back({0, 1});
    }
    SmallVector<OpFoldResult> sizes{b.getIndexAttr(1), b.getIndexAttr(1)};
    if (rank == 1) {
      sizes[1] = type.isDynamicDim(0)
                     ? OpFoldResult(context.scalars.materialize(b, loc, context.scalars.shape(tensor)[0]))
                     : OpFoldResult(b.getIndexAttr(type.getDimSize(0)));
    }
    auto matrix = RankedTensorType::get(shape, type.getElementType());
    return tensor::ExpandShapeOp::create(b, loc, matrix, tensor, groups, sizes);
  }
  ReassociationIndices rows, columns{rank - 1};
  for (int64_t axis = 0; axis + 1 < rank; ++axis) {
    rows.push_back(axis);
  }
  SmallVector<ReassociationIndices> groups{rows, columns};
  auto flat = tensor::CollapseShapeOp::create(b, loc, tensor, groups);
  if (failed(context.layouts.of(flat.getResult()))) {
    flat->setOperand(0, copyBefore(context, flat, tensor));
  }
  return flat.getResult();
}

Value kimi::fromMatrix(HostContext &context, OpBuilder &b, Location loc, Value matrix, RankedTensorType type,
                       ArrayRef<SymbolicDim> sizes) {
  int64_t rank = type.getRank();
  if (rank == 2) {
    return matrix;
  }
  if (rank < 2) {
    SmallVector<ReassociationIndices> groups;
    if (rank == 1) {
      groups.push_back({0, 1});
    }
    return tensor::CollapseShapeOp::create(b, loc, type, matrix, groups);
  }
  // A size may be a number that `type` does not know: the expansion has it in its type, so that it agrees with the
  // matrix, and a cast forgets it again.
  ReassociationIndices rows, columns{rank - 1};
  SmallVector<OpFoldResult> extents;
  SmallVector<int64_t> shape(type.getShape());
  bool dynamicRows = false;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis + 1 < rank) {
      rows.push_back(axis);
    }
    if (type.isDynamicDim(axis)) {
      shape[axis] = sizes[axis].getConstant().value_or(ShapedType::kDynamic);
    }
    bool dynamic = ShapedType::isDynamic(shape[axis]);
    dynamicRows |= dynamic && axis + 1 < rank;
    extents.push_back(dynamic ? OpFoldResult(context.scalars.materialize(b, loc, sizes[axis]))
                              : OpFoldResult(b.getIndexAttr(shape[axis])));
  }
  int64_t count = 1;
  for (int64_t axis = 0; axis + 1 < rank; ++axis) {
    count = dynamicRows ? ShapedType::kDynamic : count * shape[axis];
  }
  auto flat = RankedTensorType::get({count, shape.back()}, type.getElementType());
  if (matrix.getType() != flat) { // a product of dynamic extents may be a number: 0
    matrix = tensor::CastOp::create(b, loc, flat, matrix);
  }
  SmallVector<ReassociationIndices> groups{rows, columns};
  Value result = tensor::ExpandShapeOp::create(b, loc, type.clone(shape), matrix, groups, extents);
  return result.getType() == type ? result : tensor::CastOp::create(b, loc, type, result).getResult();
}
