//===- LinearFusion.cpp - what kimi.fused_linear can take in
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/LinearFusion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kimi/LoadTime.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

std::pair<Value, bool> kimi::matrixOf(LinearOp op) {
  Value w = op.getW();
  bool transpose = op.getTranspose();
  while (auto swap = w.getDefiningOp<linalg::TransposeOp>()) {
    if (swap.getPermutation() != ArrayRef<int64_t>{1, 0}) {
      break;
    }
    w = swap.getInput();
    transpose = !transpose;
  }
  return {w, transpose};
}

StringRef kimi::fusionObstacle(LinearOp op) {
  if (tensorOf(op.getX()).getRank() < 2) {
    return "its input has rank 1: reshape it to [1, K]";
  }
  if (!tensorOf(op.getW()).hasStaticShape() || tensorOf(op.getX()).isDynamicDim(tensorOf(op.getX()).getRank() - 1)) {
    return "the extents of its matrix, or the channels of its input, are not known at compile time";
  }
  if (!isLoadTimeValue(matrixOf(op).first)) {
    return "its matrix is computed at run time, not a weight";
  }
  return "";
}

/// Whether `user` maps the elements of `value` one to one, reading any other operand at a projection of its place.
static bool isElementwiseOf(linalg::GenericOp user, Value value) {
  RankedTensorType type = tensorOf(value);
  if (user.getNumResults() != 1 || !user.hasPureTensorSemantics() || user.getNumParallelLoops() != user.getNumLoops() ||
      !isa<FloatType>(tensorOf(user.getResult(0)).getElementType())) {
    return false;
  }
  OpOperand *init = user.getDpsInitOperand(0);
  if (user.payloadUsesValueFromOperand(init) || !user.getMatchingIndexingMap(init).isIdentity() ||
      user.getNumLoops() != static_cast<unsigned>(type.getRank())) {
    return false;
  }
  for (OpOperand *input : user.getDpsInputOperands()) {
    AffineMap map = user.getMatchingIndexingMap(input);
    bool fits = input->get() == value ? map.isIdentity() : map.isProjectedPermutation(/*allowZeroInResults=*/true);
    if (!fits || !isa<RankedTensorType>(input->get().getType())) {
      return false;
    }
  }
  // Scalar code only: a lookup or an index has no place in an epilogue, a value from outside must be a constant.
  Block *body = user.getBody();
  for (Operation &inner : body->without_terminator()) {
    if (!isa<arith::ArithDialect, math::MathDialect>(inner.getDialect())) {
      return false;
    }
  }
  for (Operation &inner : *body) {
    for (Value operand : inner.getOperands()) {
      if (operand.getParentBlock() != body && !matchPattern(operand, m_Constant())) {
        return false;
      }
    }
  }
  return true;
}

/// The only user of `value`; null where there are several.
static Operation *singleUser(Value value) {
  Operation *user = nullptr;
  for (Operation *next : value.getUsers()) {
    if (user && next != user) {
      return nullptr;
    }
    user = next;
  }
  return user;
}

Operation *kimi::fusableConsumer(Value value) {
  Operation *user = singleUser(value);
  if (!user || user->getBlock() != value.getParentBlock()) {
    return nullptr;
  }
  if (isa<GeluOp>(user)) {
    return user;
  }
  auto generic = dyn_cast<linalg::GenericOp>(user);
  return generic && isElementwiseOf(generic, value) ? user : nullptr;
}
