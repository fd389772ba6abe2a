//===- Window.h - sliding windows over the spatial axes of a tensor
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_WINDOW_H
#define KIMI_PASSES_ONNXTOKIMI_WINDOW_H

#include "passes/OnnxToKimi/BuildContext.h"

namespace kimi::onnx {

/// A window along one axis: position o of the result sees begin + k * dilation of the input, k < kernel, with begin =
/// o * stride - padBegin.
struct WindowAxis {
  SymbolicDim in, out, kernel;
  int64_t stride = 1, dilation = 1;
  SymbolicDim padBegin = 0, padEnd = 0;
};

/// The windows of a pooling or convolution node whose data has the spatial extents `in`, from strides, dilations, pads,
/// auto_pad and ceil_mode; failure (with its reason) where they do not fit.
mlir::FailureOr<llvm::SmallVector<WindowAxis>> readWindow(InferContext &c, llvm::ArrayRef<SymbolicDim> in,
                                                          llvm::ArrayRef<SymbolicDim> kernel);

/// Within a body: the positions of the input that element `k` of the window of `o` sees, clamped to the input, and
/// whether they are inside (i1).
std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>
windowPosition(BuildContext &c, mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<WindowAxis> window,
               llvm::ArrayRef<mlir::Value> o, llvm::ArrayRef<mlir::Value> k);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_WINDOW_H
