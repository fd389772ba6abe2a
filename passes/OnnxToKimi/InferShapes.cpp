//===- InferShapes.cpp - --onnx-infer-shapes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/Passes.h"
#include "passes/OnnxToKimi/SymbolicShapes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXINFERSHAPES
#include "passes/OnnxToKimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static std::string listText(ArrayRef<SymbolicDim> dims) {
  std::string text = "[";
  for (auto [index, dim] : llvm::enumerate(dims)) {
    text += (index == 0 ? "" : ", ") + dim.str();
  }
  return text + "]";
}

namespace {
struct OnnxInferShapes : kimi::impl::OnnxInferShapesBase<OnnxInferShapes> {
  using OnnxInferShapesBase::OnnxInferShapesBase;

  void runOnOperation() override {
    SymbolicShapes shapes(getOperation());
    getOperation().walk([&](NodeOp node) {
      for (Value result : node->getResults()) {
        const ValueInfo &info = shapes.of(result);
        if (info.isRanked()) {
          result.setType(info.type());
        }
        if (!remarks) {
          continue;
        }
        InFlightDiagnostic remark = node.emitRemark() << node.getOpType() << " ";
        if (StringRef reason = shapes.whyUnknown(node); !reason.empty()) {
          remark << "is not understood: " << reason;
          continue;
        }
        remark << (info.shape ? listText(*info.shape) : "of unknown rank");
        if (info.content) {
          remark << " = " << listText(*info.content);
        } else if (info.splat) {
          remark << " all " << std::to_string(*info.splat);
        }
      }
    });
    Operation *terminator = getOperation().getBody().front().getTerminator();
    FunctionType type = getOperation().getFunctionType();
    getOperation().setFunctionType(FunctionType::get(&getContext(), type.getInputs(), terminator->getOperandTypes()));
  }
};
} // namespace
