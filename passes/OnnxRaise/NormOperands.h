//===- NormOperands.h - what every normalisation that is raised must have
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_NORMOPERANDS_H
#define KIMI_PASSES_ONNXRAISE_NORMOPERANDS_H

#include "passes/OnnxRaise/Raiser.h"

namespace kimi::onnx {

/// True where `vector` has rank 1 and the extent of the last axis of `x`.
bool isOfLastAxis(const Raiser &raiser, mlir::Value vector, mlir::Value x);

/// Whether an ONNX normalisation of x = input 0 and scale = input 1 is one over the last axis whose statistics nobody
/// reads; failure with the reason where not.
mlir::LogicalResult checkNormNode(Raiser &raiser, NodeOp node);

/// Whether x, scale and bias (may be null) are of known rank and the vectors of x's last axis; failure of `root` with
/// the reason where not.
mlir::LogicalResult checkNormOperands(Raiser &raiser, NodeOp root, mlir::Value x, mlir::Value gamma, mlir::Value beta);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_NORMOPERANDS_H
