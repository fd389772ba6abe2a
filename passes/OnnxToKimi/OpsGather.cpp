//===- OpsGather.cpp - reading and writing at indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static LogicalResult inferGather(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  ArrayRef<SymbolicDim> data = c.shape(0), indices = c.shape(1);
  if (failed(c.hasPositions(data[*axis], indices))) {
    return failure();
  }
  Shape shape(data.take_front(*axis));
  shape.append(indices.begin(), indices.end());
  shape.append(data.begin() + *axis + 1, data.end());
  ValueInfo info(c.in(0).elementType, std::move(shape));
  std::optional<SmallVector<int64_t>> in = staticShape(data), at = staticShape(indices);
  std::optional<SmallVector<int64_t>> positions = c.in(1).constants();
  if (in && at && positions) {
    moveContent(c.in(0), info, [&](ArrayRef<int64_t> coordinates) {
      SmallVector<int64_t> from(coordinates.take_front(*axis));
      int64_t position = (*positions)[flatIndex(coordinates.slice(*axis, at->size()), *at)];
      from.push_back(position < 0 ? position + (*in)[*axis] : position);
      llvm::append_range(from, coordinates.drop_front(*axis + at->size()));
      return from.back() < 0 || from[*axis] >= (*in)[*axis] ? -1 : flatIndex(from, *in);
    });
  }
  info.splat = c.in(0).splat;
  c.setOut(std::move(info));
  return success();
}

static LogicalResult inferGatherND(InferContext &c) {
  ArrayRef<SymbolicDim> data = c.shape(0), indices = c.shape(1);
  int64_t batch = c.node.getInt("batch_dims", 0);
  std::optional<int64_t> depth = indices.empty() ? std::nullopt : indices.back().getConstant();
  if (!depth || batch < 0 || batch + *depth > static_cast<int64_t>(data.size()) ||
      batch >= static_cast<int64_t>(indices.size())) {
    return c.fail("the last extent of indices must be a constant within the rank of data");
  }
  if (failed(c.same(data.take_front(batch), indices.take_front(batch), "the extents of a batch axis"))) {
    return failure();
  }
  for (const SymbolicDim &dim : data.slice(batch, *depth)) {
    if (failed(c.hasPositions(dim, indices))) {
      return failure();
    }
  }
  Shape shape(indices.drop_back());
  shape.append(data.begin() + batch + *depth, data.end());
  c.setOut(ValueInfo(c.in(0).elementType, std::move(shape)));
  return success();
}

static LogicalResult inferGatherElements(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  if (c.in(1).rank() != c.in(0).rank()) {
    return c.fail("indices and data differ in rank");
  }
  if (failed(c.atMostBut(*axis, c.shape(1), c.shape(0), "the extent of indices")) ||
      failed(c.hasPositions(c.shape(0)[*axis], c.shape(1)))) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(1)));
  return success();
}

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

static LogicalResult buildGather(BuildContext &c) {
  Tensor data = c.input(0), indices = c.input(1);
  int64_t axis = *c.axis(c.node.getInt("axis", 0), data.rank());
  Type type = data.type;
  const Shape &shape = *c.result().shape;
  if (axis == 0 && data.rank() == 2 && data.isFloat() && indices.rank() > 0) {
    auto result = tensorType(shape, storageType(type));
    Value rows = EmbeddingOp::create(c.b, c.loc, result, c.value(indices), c.value(data));
    c.give(c.wrap(rows, shape, type));
    return success();
  }
  Value source = c.value(data), extent = c.index(data.shape[axis]);
  // One position for all elements: a slice.
  if (!indices.value && indices.scalar && indices.rank() == 0) {
    SymbolicDim position = *indices.scalar;
    if (!position.isKnownNonNegative()) {
      position = SymbolicDim::select(SymbolicDim::lt(position, 0), position + data.shape[axis], position);
    }
    if ((data.shape[axis] - SymbolicDim(1) - position).isKnownNonNegative()) {
      SmallVector<SliceAxis> slices;
      for (const SymbolicDim &dim : data.shape) {
        slices.push_back({0, dim, 1});
      }
      slices[axis] = {position, 1, 1};
      c.give(c.reshape(c.slice(data, slices), shape));
      return success();
    }
  }
  // The indices keep their own axes: seen with 1 in place of the data's axes, they broadcast.
  Shape spread(shape.size() - axis, SymbolicDim(1));
  for (auto [i, dim] : llvm::enumerate(indices.shape)) {
    spread[i] = dim;
  }
  size_t rank = indices.shape.size();
  bool isUnsigned = indices.isUnsigned();
  c.give(c.mapIndexed({c.reshape(indices, spread)}, shape, type,
                      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
                        SmallVector<Value> from(at.take_front(axis));
                        from.push_back(clampPosition(b, loc, e[0], isUnsigned, extent));
                        llvm::append_range(from, at.drop_front(axis + rank));
                        return c.read(b, loc, source, from);
                      }));
  return success();
}

static LogicalResult buildGatherElements(BuildContext &c) {
  Tensor data = c.input(0), indices = c.input(1);
  int64_t axis = *c.axis(c.node.getInt("axis", 0), data.rank());
  Value source = c.value(data), extent = c.index(data.shape[axis]);
  bool isUnsigned = indices.isUnsigned();
  c.give(c.mapIndexed({indices}, indices.shape, data.type,
                      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
                        SmallVector<Value> from(at);
                        from[axis] = clampPosition(b, loc, e[0], isUnsigned, extent);
                        return c.read(b, loc, source, from);
                      }));
  return success();
}

static LogicalResult buildGatherND(BuildContext &c) {
  Tensor data = c.input(0), indices = c.input(1);
  int64_t batch = c.node.getInt("batch_dims", 0), depth = *indices.shape.back().getConstant();
  Value source = c.value(data), positions = c.value(indices);
  size_t rows = indices.shape.size() - 1;
  SmallVector<Value> extents;
  for (int64_t i = 0; i < depth; ++i) {
    extents.push_back(c.index(data.shape[batch + i]));
  }
  bool isUnsigned = indices.isUnsigned();
  c.give(
      c.mapIndexed({}, *c.result().shape, data.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
        SmallVector<Value> from(at.take_front(batch));
        for (int64_t i = 0; i < depth; ++i) {
          SmallVector<Value> row(at.take_front(rows));
          row.push_back(arith::ConstantIndexOp::create(b, loc, i));
          from.push_back(clampPosition(b, loc, c.read(b, loc, positions, row), isUnsigned, extents[i]));
        }
        llvm::append_range(from, at.drop_front(rows));
        return c.read(b, loc, source, from);
      }));
  return success();
}

void kimi::onnx::registerGatherOps(OpTable &table) {
  table.add("Gather", 1, inferGather, buildGather);
  table.add("GatherND", 11, inferGatherND, buildGatherND);
  table.add("GatherElements", 11, inferGatherElements, buildGatherElements);
}
