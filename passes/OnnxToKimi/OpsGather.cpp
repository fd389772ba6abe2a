//===- OpsGather.cpp - reading and writing at indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static LogicalResult inferGather(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  ArrayRef<SymbolicDim> data = c.shape(0), indices = c.shape(1);
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
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(1)));
  return success();
}

void kimi::onnx::registerGatherOps(OpTable &table) {
  table.add("Gather", 1, inferGather, nullptr);
  table.add("GatherND", 11, inferGatherND, nullptr);
  table.add("GatherElements", 11, inferGatherElements, nullptr);
}
