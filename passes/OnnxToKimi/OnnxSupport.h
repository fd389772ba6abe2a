//===- OnnxSupport.h - the page of supported operators
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_ONNXSUPPORT_H
#define KIMI_PASSES_ONNXTOKIMI_ONNXSUPPORT_H

namespace llvm {
class raw_ostream;
}

namespace kimi::onnx {

/// Writes the table of supported operators as Markdown (docs/onnx-support.md).
void printOnnxSupport(llvm::raw_ostream &os);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_ONNXSUPPORT_H
