//===- OpsReduce.cpp - reductions
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// The reduced axes, sorted; all of them where none is given, none with noop_with_empty_axes.
static FailureOr<SmallVector<int64_t>> reducedAxes(InferContext &c) {
  int64_t rank = c.in(0).rank();
  auto given = c.axes(1, rank);
  if (failed(given)) {
    return failure();
  }
  SmallVector<int64_t> axes;
  if (*given && !(*given)->empty()) {
    axes = **given;
  } else if (c.node.getInt("noop_with_empty_axes", 0) == 0) {
    for (int64_t axis = 0; axis < rank; ++axis) {
      axes.push_back(axis);
    }
  }
  llvm::sort(axes);
  axes.erase(llvm::unique(axes), axes.end());
  return axes;
}

static Shape reducedShape(ArrayRef<SymbolicDim> from, ArrayRef<int64_t> axes, bool keep) {
  Shape shape;
  for (auto [axis, dim] : llvm::enumerate(from)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis))) {
      shape.push_back(dim);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

using Combine = SymbolicDim (*)(const SymbolicDim &, const SymbolicDim &);
static SymbolicDim sum(const SymbolicDim &a, const SymbolicDim &b) { return a + b; }
static SymbolicDim product(const SymbolicDim &a, const SymbolicDim &b) { return a * b; }

static LogicalResult inferReduce(InferContext &c, Combine combine) {
  FailureOr<SmallVector<int64_t>> axes = reducedAxes(c);
  if (failed(axes)) {
    return failure();
  }
  const ValueInfo &x = c.in(0);
  ValueInfo info(x.elementType, reducedShape(*x.shape, *axes, c.node.getInt("keepdims", 1) != 0));
  std::optional<SmallVector<int64_t>> in = staticShape(*x.shape);
  if (combine && in && x.content && !x.content->empty()) {
    Shape kept = reducedShape(*x.shape, *axes, true);
    SmallVector<int64_t> extents = *staticShape(kept);
    SmallVector<std::optional<SymbolicDim>> totals(*elementCount(kept).getConstant());
    forEachCoordinate(*in, [&](ArrayRef<int64_t> coordinates) {
      SmallVector<int64_t> to(coordinates);
      for (int64_t axis : *axes) {
        to[axis] = 0;
      }
      const SymbolicDim &element = (*x.content)[flatIndex(coordinates, *in)];
      std::optional<SymbolicDim> &total = totals[flatIndex(to, extents)];
      total = total ? combine(*total, element) : element;
    });
    info.content.emplace();
    for (const std::optional<SymbolicDim> &total : totals) {
      info.content->push_back(*total);
    }
  }
  c.setOut(std::move(info));
  return success();
}

void kimi::onnx::registerReduceOps(OpTable &table) {
  auto add = [&](StringRef name, Combine combine) {
    table.add(name, 1, [combine](InferContext &c) { return inferReduce(c, combine); }, nullptr);
  };
  add("ReduceSum", sum);
  add("ReduceProd", product);
  add("ReduceMax", SymbolicDim::max);
  add("ReduceMin", SymbolicDim::min);
  add("ReduceMean", nullptr);
}
