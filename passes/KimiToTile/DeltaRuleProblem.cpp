//===- DeltaRuleProblem.cpp - a delta rule and what its kernel does beside it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/DeltaRuleProblem.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/AttentionProblem.h"
#include "passes/KimiToTile/GateRange.h"
#include "passes/KimiToTile/HostViews.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace kimi;

DeltaRuleProblem::DeltaRuleProblem(HostContext &context, DeltaRuleOp op) : op(op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (failed(context.layouts.of(operand.get()))) { // a reshape of memory with gaps
      operand.set(copyBefore(context, op, operand.get()));
    }
  }
  findNeighbours();
}

void DeltaRuleProblem::findNeighbours() {
  transpose = tokensFirstUse(op.getResult(), casts);
  auto from = op.getInitial() ? op.getInitial().getDefiningOp<StateReadOp>() : StateReadOp();
  if (!from || !from.getResult().hasOneUse() || !op.getState().hasOneUse() || from->getBlock() != op->getBlock()) {
    return;
  }
  auto to = dyn_cast<StateWriteOp>(*op.getState().getUsers().begin());
  bool alone = to && to.getState() == from.getState() &&
               llvm::all_of(from.getState().getUsers(), [&](Operation *user) { return user == from || user == to; });
  if (alone) {
    read = from;
    write = to;
  }
}

ScheduleGroup DeltaRuleProblem::group(DeltaRuleOp op) {
  DeltaRuleProblem p(op);
  ScheduleGroup group;
  if (p.read) {
    group.ops.push_back(p.read);
  }
  group.ops.push_back(op);
  if (p.write) {
    group.ops.push_back(p.write);
  }
  if (p.transpose) {
    group.ops.append(p.casts);
    group.ops.push_back(p.transpose);
  }
  // How low a gate can be, which the op that computes it tells: as a hexadecimal number.
  llvm::raw_string_ostream(group.facts) << llvm::format("%a",
                                                        op.getDecay() ? rangeOfElements(op.getDecay()).least : 0.0);
  return group;
}

Value DeltaRuleProblem::addResult(HostContext &context, KernelWriter &writer) {
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getResult());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  SmallVector<int64_t> shape(type.getShape());
  if (tokensFirst()) {
    std::swap(sizes[1], sizes[2]);
    std::swap(shape[1], shape[2]);
  }
  return writer.result(RankedTensorType::get(shape, type.getElementType()), sizes);
}

void DeltaRuleProblem::replace(HostContext &context, DispatchOp dispatch) {
  // What is erased goes from the last to the first.
  if (read) {
    context.dead.push_back(read);
  }
  if (dispatch->getNumResults() == 2) {
    context.replaceValue(op.getState(), dispatch->getResult(1));
  }
  context.dead.push_back(op);
  if (write) {
    context.dead.push_back(write);
  }
  if (!transpose) {
    context.replaceValue(op.getResult(), dispatch->getResult(0));
    return;
  }
  context.dead.append(casts);
  OpBuilder b(op);
  Value result = dispatch->getResult(0);
  Type expected = transpose->getResult(0).getType();
  if (result.getType() != expected) {
    result = tensor::CastOp::create(b, op.getLoc(), expected, result);
  }
  context.replace(transpose, result);
}
