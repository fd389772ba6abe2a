//===- OpUtils.h - what the operator families share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_OPUTILS_H
#define KIMI_PASSES_ONNXTOKIMI_OPUTILS_H

#include "passes/OnnxToKimi/OpTable.h"

namespace kimi::onnx {

/// The element type of ONNX's TensorProto.DataType `code`; null for strings, complex numbers and unknown codes.
mlir::Type elementTypeOfCode(mlir::MLIRContext *context, int64_t code);

/// The content of a small integer tensor of constant extents whose every element is `info.splat`.
void fillContent(ValueInfo &info);

/// Content and constant of `out` (whose shape is set), where element at `coordinates` of it is the element of `in` at
/// the row-major position that `from` gives. Nothing where `in` has no content or an extent is not constant.
void moveContent(const ValueInfo &in, ValueInfo &out,
                 llvm::function_ref<int64_t(llvm::ArrayRef<int64_t> coordinates)> from);

/// Calls `visit` for every coordinate of a tensor of these extents, in row-major order.
void forEachCoordinate(llvm::ArrayRef<int64_t> extents, llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);
/// Row-major position.
int64_t flatIndex(llvm::ArrayRef<int64_t> coordinates, llvm::ArrayRef<int64_t> extents);

/// One axis of a Slice: elements start, start + step, ... (`size` of them).
struct SliceAxis {
  SymbolicDim start = 0;
  SymbolicDim size = 0;
  int64_t step = 1;
};
/// Start and extent that ONNX's Slice takes of an axis of extent `dim` for these (possibly negative) bounds.
SliceAxis clampSlice(const SymbolicDim &dim, SymbolicDim start, SymbolicDim end, int64_t step);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_OPUTILS_H
