//===- Passes.td - passes of passes/OnnxRaise
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNX_RAISE_PASSES
#define KIMI_PASSES_ONNX_RAISE_PASSES

include "mlir/Pass/PassBase.td"

#endif // KIMI_PASSES_ONNX_RAISE_PASSES
