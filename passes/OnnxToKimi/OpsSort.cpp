//===- OpsSort.cpp - running sums, order
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static LogicalResult inferSameShape(InferContext &c) {
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

void kimi::onnx::registerSortOps(OpTable &table) { table.add("CumSum", 11, inferSameShape, nullptr); }
