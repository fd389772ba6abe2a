//===- FloatCasts.cpp - generics that only convert floats, and views
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/FloatCasts.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

bool kimi::isView(Operation *op) {
  return isa_and_nonnull<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp,
                         linalg::TransposeOp>(op);
}
