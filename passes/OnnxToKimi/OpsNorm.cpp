//===- OpsNorm.cpp - softmax and norms
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static LogicalResult inferSoftmax(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", -1), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

static LogicalResult inferNorm(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", -1), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  Shape statistics = c.shape(0);
  for (size_t i = *axis; i < statistics.size(); ++i) {
    statistics[i] = 1;
  }
  Type single = Float32Type::get(c.node.getContext());
  c.setOut(1, ValueInfo(single, statistics));
  c.setOut(2, ValueInfo(single, statistics));
  return success();
}

void kimi::onnx::registerNormOps(OpTable &table) {
  table.add("Softmax", 13, inferSoftmax, nullptr);
  table.add("LogSoftmax", 13, inferSoftmax, nullptr);
  table.add("LayerNormalization", 17, inferNorm, nullptr);
  table.add("RMSNormalization", 23, inferNorm, nullptr);
}
