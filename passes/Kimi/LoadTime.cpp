//===- LoadTime.cpp - values that are known once the weights are loaded
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/LoadTime.h"
#include "dialects/Kimi/KimiDialect.h"

using namespace mlir;
using namespace kimi;

static bool isStatelessDispatch(Operation *op) {
  auto dispatch = dyn_cast<DispatchOp>(op);
  return dispatch && llvm::none_of(dispatch->getOperandTypes(), [](Type type) { return isa<StateType>(type); });
}

/// Whether `value` follows from weights and constants alone; `launched`: launches may stand between.
static bool followsFromWeights(Value value, bool launched) {
  SmallVector<Value> work = {value};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || (!isMemoryEffectFree(op) && !(launched && isStatelessDispatch(op)))) {
      return false;
    }
    if (!seen.insert(op).second || isa<WeightRefOp>(op)) {
      continue;
    }
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        if (!op->isProperAncestor(operand.getParentBlock()->getParentOp()) &&
            operand.getParentBlock()->getParentOp() != op) {
          work.push_back(operand);
        }
      }
    });
  }
  return true;
}

bool kimi::isLoadTimeValue(Value value) { return followsFromWeights(value, /*launched=*/false); }

bool kimi::mayBeLaunchedAtLoadTime(Value value) { return followsFromWeights(value, /*launched=*/true); }

void kimi::moveBefore(Value value, Operation *point) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != point->getBlock() || op->isBeforeInBlock(point)) {
    return;
  }
  op->moveBefore(point);
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      moveBefore(operand, op);
    }
  });
}
