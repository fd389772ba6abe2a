//===- HeadLinearProblem.cpp - a head_linear, for any schedule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/HeadLinearProblem.h"
#include "passes/KimiToTile/HostViews.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

HeadLinearProblem::HeadLinearProblem(HostContext &context, HeadLinearOp op) : op(op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (failed(context.layouts.of(operand.get()))) { // a reshape of memory with gaps
      operand.set(copyBefore(context, op, operand.get()));
    }
  }
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getX());
  batch = sizes[0];
  heads = sizes[1];
  tokens = sizes[2];
  channels = tensorOf(op.getW()).getDimSize(1);
  width = tensorOf(op.getW()).getDimSize(2);
}

Value HeadLinearProblem::addResult(KernelWriter &writer) const {
  return writer.result(tensorOf(HeadLinearOp(op).getResult()), {batch, heads, tokens, SymbolicDim(width)});
}

std::string kimi::headLinearStem(HeadLinearOp op) {
  RankedTensorType w = tensorOf(op.getW());
  std::string text = "head_linear_" + std::to_string(w.getDimSize(1)) + "x" + std::to_string(w.getDimSize(2));
  Type element = w.getElementType();
  return text + (element.isF32() ? "" : element.isBF16() ? "_bf16" : "_f16");
}

std::string kimi::whyNotHeadLinear(HeadLinearOp op) {
  RankedTensorType w = tensorOf(op.getW());
  for (Value value : {op.getX(), op.getW(), op.getResult()}) {
    Type element = tensorOf(value).getElementType();
    if (!element.isF32() && !element.isBF16() && !element.isF16()) {
      return "there is no kernel for tensors that are not f32, bf16 or f16";
    }
  }
  if (w.isDynamicDim(1) || w.isDynamicDim(2)) {
    return "the extents of its matrices are not known";
  }
  if (w.getDimSize(1) < 1 || w.getDimSize(2) < 1) {
    return "its matrices are empty";
  }
  return {};
}
