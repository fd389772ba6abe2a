//===- Elementwise.h - operators that work on one element at a time
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_ELEMENTWISE_H
#define KIMI_PASSES_ONNXTOKIMI_ELEMENTWISE_H

#include "mlir/IR/Builders.h"
#include "passes/OnnxToKimi/OpTable.h"

namespace kimi::onnx {

/// Sets of element types, to be or-ed.
enum ElementKind : unsigned { kFloat = 1, kInteger = 2, kBool = 4, kNumber = kFloat | kInteger, kAnyElement = 7 };

/// True where `type` is one of `kinds`.
bool isKind(mlir::Type type, unsigned kinds);

/// The scalar body of an elementwise operator being built. Scalars are signless; `type` keeps the ONNX signedness of
/// the first data input. Floats narrower than 32 bits have been widened to f32 unless the operator is `exact`.
struct ScalarContext {
  mlir::OpBuilder &b;
  mlir::Location loc;
  NodeOp node;
  mlir::Type type;
  /// The ONNX element type of every input.
  llvm::ArrayRef<mlir::Type> types;

  bool isFloat() const { return llvm::isa<mlir::FloatType>(type); }
  bool isUnsigned() const { return type.isUnsignedInteger(); }
  /// `value` as a constant of the type of `like`.
  mlir::Value constant(mlir::Value like, double value) const;
};

using HostFn = std::function<std::optional<SymbolicDim>(NodeOp, llvm::ArrayRef<SymbolicDim>)>;
using RealFn = std::function<double(NodeOp, llvm::ArrayRef<double>)>;
using EmitFn = std::function<mlir::Value(ScalarContext &, mlir::ValueRange)>;

/// An elementwise operator with broadcasting.
struct ElementwiseOp {
  const char *name;
  int64_t since;
  /// Element types of the data inputs.
  unsigned kinds;
  /// The results are booleans whatever the inputs are.
  bool toBool = false;
  /// The body gives the same result in any float type, so narrow floats need not be widened.
  bool exact = false;
  /// The index of the input whose element type the result has (Where: 1).
  unsigned typeInput = 0;
  EmitFn emit = nullptr;
  /// On host values: integers and booleans known as expressions of dims.
  HostFn host = nullptr;
  /// On constants.
  RealFn real = nullptr;
  /// Any number of inputs: the functions above are a left fold over pairs.
  bool variadic = false;
  /// After the fold (Mean divides).
  EmitFn finish = nullptr;
  const char *note = "";
  const char *domain = "";
};

void addElementwise(OpTable &table, ElementwiseOp op);

/// Builds `op` as one linalg.generic.
mlir::LogicalResult buildElementwise(BuildContext &context, const ElementwiseOp &op);
/// Infers the result of `op`: broadcast shape, host content, constant.
mlir::LogicalResult inferElementwise(InferContext &context, const ElementwiseOp &op);
/// `value` rounded to the floating-point type `type`.
double roundTo(double value, mlir::Type type);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_ELEMENTWISE_H
