//===- MixerInterface.td - what every token mixer answers -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_MIXERINTERFACE
#define KIMI_DIALECTS_KIMI_MIXERINTERFACE

include "mlir/IR/OpBase.td"

def MixerOpInterface : OpInterface<"MixerOpInterface"> {
  let cppNamespace = "::kimi";
  let description = [{
    A token mixer carries memory along the sequence. It says what it keeps (the state types), along which axis of each
    operand and result time runs, and how one step over T new tokens reads and updates the state. Every pass that cares
    about time (derived decode entry, chunked prefill) goes through this interface and never through a
    particular op.
  }];
  let methods = [
    InterfaceMethod<"The states the mixer keeps, in a fixed order, with a short name each (`key`, `value`, ...).",
      "::llvm::SmallVector<::kimi::MixerState>", "getMixerStates">,
    InterfaceMethod<"The axis of operand `index` along which time runs; -1 where the operand has no time axis.",
      "int64_t", "getTimeAxis", (ins "unsigned":$index)>,
    InterfaceMethod<"The axis of the result along which time runs.", "int64_t", "getResultTimeAxis">,
    InterfaceMethod<[{Why this op cannot be run step by step (for example attention that is not causal), or an empty
      string.}], "std::string", "getStepwiseObstacle">,
    InterfaceMethod<[{Rewrites the op into its form over T new tokens that reads and updates `states` (same order as
      getMixerStates) in place; `past` (index) is the number of tokens already seen. Gives the value that replaces the
      result. The op itself is left for the caller to erase.}],
      "::mlir::FailureOr<::mlir::Value>", "buildStep",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$states, "::mlir::Value":$past)>,
    InterfaceMethod<[{The operand through which a graph that carries its states itself gives the op state `index` (same
      order as getMixerStates): what is held so far, or, of a state that grows, all rows. Null where it has none.}],
      "::mlir::OpOperand *", "getStateOperand", (ins "unsigned":$index), "", "return nullptr;">,
    InterfaceMethod<[{The result that is state `index` after the last token; null where the state grows.}],
      "::mlir::Value", "getStateResult", (ins "unsigned":$index), "", "return {};">,
  ];
}

#endif // KIMI_DIALECTS_KIMI_MIXERINTERFACE
