//===- MlaForms.cpp - the two ways to compute multi-head latent attention
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/MlaForms.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

namespace {

RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Writes views of tensors at one place.
class Views {
public:
  Views(OpBuilder &b, Location loc) : b(b), loc(loc) {}

  /// `count` entries of axis `axis` from `first` on.
  Value slice(Value source, int64_t axis, int64_t first, int64_t count) {
    if (first == 0 && tensorOf(source).getDimSize(axis) == count) {
      return source;
    }
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source);
    SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), steps(sizes.size(), b.getIndexAttr(1));
    offsets[axis] = b.getIndexAttr(first);
    sizes[axis] = b.getIndexAttr(count);
    return tensor::ExtractSliceOp::create(b, loc, source, offsets, sizes, steps);
  }

  /// Axis `axis` split into axes of `extents`, all static but those of an extent that keeps the axis whole.
  Value split(Value source, int64_t axis, ArrayRef<int64_t> extents) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source), all;
    SmallVector<int64_t> shape;
    SmallVector<ReassociationIndices> groups;
    for (auto [index, size] : llvm::enumerate(sizes)) {
      ReassociationIndices &group = groups.emplace_back();
      if (static_cast<int64_t>(index) != axis) {
        group.push_back(shape.size());
        shape.push_back(tensorOf(source).getDimSize(index));
        all.push_back(size);
        continue;
      }
      for (int64_t extent : extents) {
        bool whole = ShapedType::isDynamic(extent);
        group.push_back(shape.size());
        shape.push_back(whole ? tensorOf(source).getDimSize(index) : extent);
        all.push_back(whole ? size : OpFoldResult(b.getIndexAttr(extent)));
      }
    }
    auto type = RankedTensorType::get(shape, tensorOf(source).getElementType());
    return tensor::ExpandShapeOp::create(b, loc, type, source, groups, all);
  }

  Value transpose(Value source, ArrayRef<int64_t> permutation) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source), moved;
    for (int64_t axis : permutation) {
      moved.push_back(sizes[axis]);
    }
    Value init = tensor::EmptyOp::create(b, loc, moved, tensorOf(source).getElementType());
    return linalg::TransposeOp::create(b, loc, source, init, permutation)->getResult(0);
  }

  OpBuilder &b;
  Location loc;
};

/// The key half [H, N, R] and the value half [H, R, V] of kv_b. Both are to be read along their last axis: the half
/// that lies the other way is copied, once, when weights are loaded.
std::pair<Value, Value> halvesOf(Views &views, MlaOp op) {
  MlaOp::Extents e = op.getExtents();
  Value w = op.getKvB();
  bool transposed = op.getTranspose();
  if (auto swap = w.getDefiningOp<linalg::TransposeOp>()) {
    w = swap.getInput();
    transposed = !transposed;
  }
  TensorCode code(views.b, views.loc);
  auto copy = [&](Value source, ArrayRef<int64_t> permutation) {
    SmallVector<OpFoldResult> sizes;
    SmallVector<int64_t> dims(permutation.size());
    for (auto [index, axis] : llvm::enumerate(permutation)) {
      sizes.push_back(views.b.getIndexAttr(tensorOf(source).getDimSize(axis)));
      dims[axis] = index;
    }
    return code.map(sizes, tensorOf(source).getElementType(), {{source, code.loops(permutation.size(), dims)}},
                    [](OpBuilder &, Location, ValueRange args) { return args[0]; });
  };
  if (transposed) { // [H*(N+V), R]
    Value all = views.split(w, 0, {e.heads, e.own + e.values});
    return {views.slice(all, 1, 0, e.own), copy(views.slice(all, 1, e.own, e.values), {0, 2, 1})};
  }
  Value all = views.split(w, 1, {e.heads, e.own + e.values}); // [R, H, N+V]
  return {copy(views.slice(all, 2, 0, e.own), {1, 2, 0}),
          views.transpose(views.slice(all, 2, e.own, e.values), {1, 0, 2})};
}

/// The rows [B, S, R+P] of which the latents and the shared part are slices beside each other; null where they are not.
Value wholeRows(Views &views, MlaOp op, HostScalars &scalars) {
  MlaOp::Extents e = op.getExtents();
  auto latent = op.getLatent().getDefiningOp<tensor::ExtractSliceOp>();
  auto shared = op.getShared().getDefiningOp<tensor::ExtractSliceOp>();
  if (!latent || !shared || latent.getSource() != shared.getSource() || latent.getSourceType().getRank() != 3 ||
      latent.getSourceType().getDimSize(2) != e.rank + e.shared) {
    return {};
  }
  SmallVector<OpFoldResult> sizes = latent.getMixedSizes(), others = shared.getMixedSizes();
  for (auto [slice, first] : {std::pair(latent, int64_t(0)), {shared, e.rank}}) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      if (!isConstantIntValue(slice.getMixedStrides()[axis], 1) ||
          !isConstantIntValue(slice.getMixedOffsets()[axis], axis == 2 ? first : 0) ||
          (axis < 2 && scalars.of(sizes[axis]) != scalars.of(others[axis]))) {
        return {};
      }
    }
  }
  SmallVector<SymbolicDim> extents = scalars.shape(latent.getSource());
  if (scalars.of(sizes[0]) == extents[0] && scalars.of(sizes[1]) == extents[1]) {
    return latent.getSource();
  }
  sizes[2] = views.b.getIndexAttr(e.rank + e.shared);
  SmallVector<OpFoldResult> offsets(3, views.b.getIndexAttr(0)), steps(3, views.b.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(views.b, views.loc, latent.getSource(), offsets, sizes, steps);
}

} // namespace

Value kimi::expandMla(OpBuilder &b, MlaOp op) {
  Views views(b, op.getLoc());
  Location loc = op.getLoc();
  MlaOp::Extents e = op.getExtents();
  RankedTensorType latent = tensorOf(op.getLatent());
  auto rowsType = latent.clone({latent.getDimSize(0), latent.getDimSize(1), e.heads * (e.own + e.values)});
  Value rows = LinearOp::create(b, loc, rowsType, op.getLatent(), op.getKvB(), Value(), op.getTranspose());
  Value heads = views.split(rows, 2, {e.heads, e.own + e.values}); // [B, S, H, N+V]
  Value keys = views.slice(heads, 3, 0, e.own), values = views.slice(heads, 3, e.own, e.values);
  if (op.getShared()) {
    TensorCode code(b, loc);
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, op.getShared());
    sizes.insert(sizes.begin() + 2, b.getIndexAttr(e.heads));
    Value repeated = code.map(sizes, latent.getElementType(), {{op.getShared(), code.loops(4, {0, 1, 3})}},
                              [](OpBuilder &, Location, ValueRange args) { return args[0]; });
    keys = tensor::ConcatOp::create(b, loc, 3, ValueRange{keys, repeated});
  }
  keys = views.transpose(keys, {0, 2, 1, 3});
  values = views.transpose(values, {0, 2, 1, 3});
  return AttentionOp::create(b, loc, op.getType(), op.getQ(), keys, values, op.getMask(), op.getCausalAttr(),
                             op.getScaleAttr(), op.getSoftcapAttr());
}

Value kimi::absorbMla(OpBuilder &b, MlaOp op, HostScalars &scalars) {
  Views views(b, op.getLoc());
  Location loc = op.getLoc();
  MlaOp::Extents e = op.getExtents();
  RankedTensorType q = tensorOf(op.getQ());
  auto heads = [&](int64_t channels) { return q.clone({q.getDimSize(0), e.heads, q.getDimSize(2), channels}); };
  auto [keyHalf, valueHalf] = halvesOf(views, op);
  Value queries = HeadLinearOp::create(b, loc, heads(e.rank), views.slice(op.getQ(), 3, 0, e.own), keyHalf);
  Value rows = op.getLatent();
  if (op.getShared()) {
    queries = tensor::ConcatOp::create(b, loc, 3, ValueRange{queries, views.slice(op.getQ(), 3, e.own, e.shared)});
    rows = wholeRows(views, op, scalars);
    if (!rows) {
      rows = tensor::ConcatOp::create(b, loc, 2, ValueRange{op.getLatent(), op.getShared()});
    }
  }
  Value keys = views.split(rows, 1, {1, ShapedType::kDynamic}); // [B, 1, S, R+P]
  Value values = views.slice(keys, 3, 0, e.rank);
  Value mixed = AttentionOp::create(b, loc, heads(e.rank), queries, keys, values, op.getMask(), op.getCausalAttr(),
                                    op.getScaleAttr(), op.getSoftcapAttr());
  return HeadLinearOp::create(b, loc, op.getType(), mixed, valueHalf);
}
