//===- KimiWeightOps.cpp - verifiers and shapes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

LogicalResult WeightOp::verify() { return success(); }
LogicalResult WeightRefOp::verifySymbolUses(SymbolTableCollection &tables) { return success(); }
LogicalResult PackWeightOp::verify() { return success(); }
