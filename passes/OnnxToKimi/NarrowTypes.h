//===- NarrowTypes.h - elements of 8-bit floating point and of fewer than 8 bits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_NARROWTYPES_H
#define KIMI_PASSES_ONNXTOKIMI_NARROWTYPES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace kimi::onnx {

/// What Cast says of numbers that its target cannot hold.
struct CastRules {
  /// Beyond the greatest number of an 8-bit type: the greatest number, or infinity or NaN.
  bool saturate = true;
  /// Which power of two float8e8m0 takes of a number between two of them.
  enum { Up, Down, Nearest } powers = Up;
};

/// Floats of 4 and 8 bits, integers of 2 and 4 bits. Below the onnx level each element of them is an i8: the bits of a
/// float (the low ones), or the number that an integer is. Weights stay as the file packs them.
bool isNarrow(mlir::Type type);
/// Whether a port that holds elements of `type` is of unsigned integers: these, and the bits of narrow floats.
bool isUnsignedStorage(mlir::Type type);
/// Narrow floats whose conversions are known: the four of 8 bits with a fraction, float8e8m0 and float4e2m1.
bool isNarrowFloat(mlir::Type type);

/// The f32 that the low bits of the i8 `bits` are as a float of `type`.
mlir::Value decodeNarrow(mlir::OpBuilder &b, mlir::Location loc, mlir::Value bits, mlir::FloatType type);
/// The bits (i8) of f32 `value` as a float of `type`, rounded to nearest even.
mlir::Value encodeNarrow(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::FloatType type,
                         const CastRules &rules);
/// Integer `value` (any width) cut to the width of `type`, as an i8.
mlir::Value wrapNarrow(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::IntegerType type);
/// Constant elements of a narrow type as i8.
mlir::DenseElementsAttr unpackNarrow(mlir::DenseElementsAttr elements);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_NARROWTYPES_H
