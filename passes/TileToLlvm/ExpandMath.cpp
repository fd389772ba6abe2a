//===- ExpandMath.cpp - exp, log, tanh, erf and their kin as arithmetic
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/MathCode.h"
#include "passes/TileToLlvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEEXPANDMATH
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
struct TileExpandMath : kimi::impl::TileExpandMathBase<TileExpandMath> {
  using TileExpandMathBase::TileExpandMathBase;

  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      bool candidate = op->getDialect() && isa<math::MathDialect>(op->getDialect()) && op->getNumResults() == 1;
      if (candidate || (all && isa<arith::RemFOp>(op) && getElementTypeOrSelf(op->getResult(0).getType()).isF32())) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      if (Value result = expand(op)) {
        op->getResult(0).replaceAllUsesWith(result);
        op->erase();
      }
    }
  }

  /// What `op` computes; null where it stays.
  Value expand(Operation *op) {
    OpBuilder b(op);
    Type type = op->getResult(0).getType(), element = getElementTypeOrSelf(type);
    if (element.isF32()) {
      if (Value result = Float32Math(b, op->getLoc(), type).expand(op)) {
        return result;
      }
    }
    if (!all || !(element.isF32() || element.isF64())) {
      return {};
    }
    // What is rare in fp32 goes through fp64, where no cancellation shows.
    Type wide = b.getF64Type();
    if (auto vector = dyn_cast<VectorType>(type)) {
      wide = VectorType::get(vector.getShape(), wide);
    }
    bool widened = wide != type;
    SmallVector<Value> operands(op->getOperands());
    Operation *firstNew = op->getPrevNode();
    for (Value &operand : operands) {
      operand = widened && operand.getType() == type ? arith::ExtFOp::create(b, op->getLoc(), wide, operand) : operand;
    }
    Value result = Float64Math(b, op->getLoc(), wide).expand(op, operands);
    if (!result) {
      while (op->getPrevNode() != firstNew) { // the conversions have no use
        op->getPrevNode()->erase();
      }
      return {};
    }
    return widened ? arith::TruncFOp::create(b, op->getLoc(), type, result) : result;
  }
};
} // namespace
