//===- Passes.h - passes of passes/OnnxToKimi
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNX_TO_KIMI_PASSES_H
#define KIMI_PASSES_ONNX_TO_KIMI_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace kimi {
#define GEN_PASS_DECL
#include "passes/OnnxToKimi/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/OnnxToKimi/Passes.h.inc"
} // namespace kimi

#endif // KIMI_PASSES_ONNX_TO_KIMI_PASSES_H
