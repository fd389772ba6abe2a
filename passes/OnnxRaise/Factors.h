//===- Factors.h - products and sums over the last axis, however they are spelled
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_FACTORS_H
#define KIMI_PASSES_ONNXRAISE_FACTORS_H

#include "passes/OnnxRaise/Raiser.h"

namespace kimi::onnx {

/// What multiplies to a value: factors that are no product themselves, or one of the stops, and a constant.
struct Factors {
  llvm::SmallVector<mlir::Value> values;
  double constant = 1.0;

  /// Takes one occurrence of `value` out; false where there is none.
  bool take(mlir::Value value);
};

/// `value` as a product, seen through Mul, Div by a constant and Neg, `depth` of them.
Factors factorsOf(const Raiser &raiser, mlir::Value value, llvm::ArrayRef<mlir::Value> stops, unsigned depth = 4);

/// c where `value` is c * x of a constant c, else nullopt.
std::optional<double> coefficientOf(const Raiser &raiser, mlir::Value value, mlir::Value x);

/// The x of Sigmoid(x), or of SiLU as one node (Swish of alpha 1); null for others.
mlir::Value sigmoidInput(const Raiser &raiser, mlir::Value value);
mlir::Value swishInput(const Raiser &raiser, mlir::Value value);

/// `value` seen through Reshape and its kin: the same elements in the same order.
mlir::Value peelReshapes(const Raiser &raiser, mlir::Value value);
/// `value` seen through Cast and CastLike.
mlir::Value peelCasts(const Raiser &raiser, mlir::Value value);
/// Both, in any order.
mlir::Value peelViews(const Raiser &raiser, mlir::Value value);

/// True for a reducing node over the last axis alone.
bool isOverLastAxis(const Raiser &raiser, NodeOp node, bool keepsDim);

/// True where the elements of `value` are floats that the kimi ops take: of 32 bits or fewer.
bool isSingleOrNarrow(const Raiser &raiser, mlir::Value value);
/// The same shape and element type, both known.
bool sameType(const Raiser &raiser, mlir::Value a, mlir::Value b);

/// The constant extents of `value`; nullopt where one is not known.
std::optional<llvm::SmallVector<int64_t>> constantShape(const Raiser &raiser, mlir::Value value);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_FACTORS_H
