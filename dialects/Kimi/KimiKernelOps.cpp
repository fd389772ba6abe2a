//===- KimiKernelOps.cpp - verifiers and shapes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

LogicalResult LoopsOp::verify() { return success(); }
LogicalResult LoopsOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) { return failure(); }
LogicalResult DispatchOp::verify() { return success(); }
LogicalResult DispatchOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) { return failure(); }
