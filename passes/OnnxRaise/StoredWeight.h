//===- StoredWeight.h - triangular masks stored as weights
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_STOREDWEIGHT_H
#define KIMI_PASSES_ONNXRAISE_STOREDWEIGHT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"
#include <optional>
#include <string>

namespace kimi::onnx {

/// A tensor [1, ..., N, N] with one value where column <= row and another elsewhere.
struct Triangle {
  double below = 0.0;
  double above = 0.0;
};

/// Whether `value` (onnx.constant or kimi.weight_ref) is such a tensor. `elements` are its elements where they are in
/// the IR (may be null); bytes of an external file are read from beneath `modelDir`, unless that is empty. Bool, 8-bit
/// and 32-bit element types, at most 4096 rows; nullopt for anything else and for a file that cannot be read.
std::optional<Triangle> readTriangle(mlir::Value value, mlir::DenseElementsAttr elements, llvm::StringRef modelDir);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_STOREDWEIGHT_H
