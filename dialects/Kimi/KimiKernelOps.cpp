//===- KimiKernelOps.cpp - verifiers and shapes of loops and dispatches
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kimi;

LogicalResult LoopsOp::verify() {
  Block &body = getBody().front();
  size_t buffers = getInputs().size() + getResults().size();
  size_t expected = buffers + getScalars().size() + (getRows() ? 1 : 0);
  if (body.getNumArguments() != expected) {
    return emitOpError("[K1] has a body of ")
           << body.getNumArguments() << " arguments; expected " << expected << ": one for each input, result and scalar"
           << (getRows() ? ", and the row" : "");
  }
  auto matches = [](Type argument, Type tensor) {
    auto memref = dyn_cast<MemRefType>(argument);
    auto shaped = cast<RankedTensorType>(tensor);
    return memref && memref.getElementType() == shaped.getElementType() && memref.getShape() == shaped.getShape();
  };
  for (size_t i = 0; i < expected; ++i) {
    Type argument = body.getArgument(i).getType();
    if (i >= buffers) {
      if (!argument.isIndex()) {
        return emitOpError("[K3] has body argument ") << i << " of type " << argument << "; expected index";
      }
      continue;
    }
    bool isInput = i < getInputs().size();
    Type tensor = isInput ? getInputs()[i].getType() : getResult(i - getInputs().size()).getType();
    if (!matches(argument, tensor)) {
      return emitOpError("[K2] has body argument ")
             << i << " of type " << argument << "; expected a memref of " << tensor;
    }
  }
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || !yield.getValues().empty()) {
    return emitOpError("[K4] has a body that does not end in a kimi.yield without values: results are written to their "
                       "buffers");
  }
  return verifyResultDims(*this, "K5", getResults(), getResultDims());
}

LogicalResult LoopsOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  reifyFromDims(b, getResults(), getResultDims(), dims);
  return success();
}

LogicalResult DispatchOp::verify() {
  size_t variants = getKernels().size();
  if (variants == 0) {
    return emitOpError("[D1] names no kernel");
  }
  if (getGuards().size() + 1 != variants) {
    return emitOpError("[D2] has ") << getGuards().size() << " guards for " << variants
                                    << " kernels; expected one fewer than kernels";
  }
  if (getGrid().size() != 3 * variants) {
    return emitOpError("[D3] has ") << getGrid().size() << " grid extents for " << variants
                                    << " kernels; expected three for each";
  }
  return verifyResultDims(*this, "D4", getResults(), getResultDims());
}

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &tables) {
  size_t expected = getInputs().size() + getStates().size() + getResults().size() + getScalars().size();
  for (auto name : getKernels().getAsRange<FlatSymbolRefAttr>()) {
    auto kernel = dyn_cast_or_null<FunctionOpInterface>(tables.lookupNearestSymbolFrom(*this, name));
    if (!kernel) {
      return emitOpError("[D5] names '") << name.getValue() << "', which is no kernel of the module";
    }
    if (kernel.getNumArguments() != expected) {
      return emitOpError("[D6] passes ") << expected << " arguments (inputs, states, results, scalars) to kernel '"
                                         << name.getValue() << "' of " << kernel.getNumArguments();
    }
  }
  return success();
}

LogicalResult DispatchOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  reifyFromDims(b, getResults(), getResultDims(), dims);
  return success();
}

//===----------------------------------------------------------------------===//
// kimi.require
//===----------------------------------------------------------------------===//

LogicalResult RequireOp::verify() {
  return getMessage().empty() ? emitOpError("[RQ1] has no message; say which extents must be equal") : success();
}
