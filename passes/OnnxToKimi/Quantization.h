//===- Quantization.h - scales, zero points and integer products
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_QUANTIZATION_H
#define KIMI_PASSES_ONNXTOKIMI_QUANTIZATION_H

#include "passes/OnnxToKimi/BuildContext.h"

namespace kimi::onnx {

/// int8, uint8, int16, uint16, int32 and narrow types: what a number is stored as beside a scale.
bool isQuantized(mlir::Type type);
/// Whether inputs 1 (scale) and 2 (zero point, may be absent) of a (de)quantizing node fit x; failure with its reason.
mlir::LogicalResult checkScale(InferContext &c);
/// A scale or zero point of such a node, in a shape that broadcasts to x.
Tensor spreadScale(BuildContext &c, const Tensor &scale);

/// The shape of a product of matrices (or of stacks of them, or vectors); nothing, with the node's reason set, where
/// their extents do not fit.
std::optional<Shape> matrixProductShape(InferContext &c, llvm::ArrayRef<SymbolicDim> a, llvm::ArrayRef<SymbolicDim> b);
/// The product a . b as MatMul has it, elements of `type`.
Tensor matrixProduct(BuildContext &c, Tensor a, Tensor b, mlir::Type type);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_QUANTIZATION_H
