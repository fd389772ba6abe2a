//===- Raiser.h - what the raising passes share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_RAISER_H
#define KIMI_PASSES_ONNXRAISE_RAISER_H

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/OnnxToKimi/SymbolicShapes.h"
#include <functional>

namespace kimi::onnx {

/// One function of onnx.nodes, what is known of its values, and the rewriter that changes it. Matchers replace only the
/// last node of a group; `finish` erases what nobody uses any more.
class Raiser {
public:
  explicit Raiser(mlir::func::FuncOp func);

  mlir::func::FuncOp func;
  SymbolicShapes shapes;
  mlir::IRRewriter rewriter;

  /// Calls `raise` on every node of the function body in order; gives the number of successes.
  unsigned forEachNode(llvm::function_ref<mlir::LogicalResult(NodeOp)> raise);
  /// Erases dead nodes and gives the function the types that it now returns.
  void finish();

  /// The node behind `value` if it is of this operator of the default domain, seen through `strip`; else null. A
  /// Softmax of several axes, as before opset 13, is none.
  NodeOp node(mlir::Value value, llvm::StringRef opType) const;
  /// `value` without what changes nothing: Identity, Dropout at inference, Concat of one tensor, Cast to the same type,
  /// and Reshape, Expand, Squeeze to the same shape.
  mlir::Value strip(mlir::Value value) const;
  /// The constant that every element of `value` has; arithmetic over constants is computed.
  std::optional<double> scalar(mlir::Value value) const;
  /// For a commutative binary node: the operand that is not a scalar constant, and the constant.
  std::optional<std::pair<mlir::Value, double>> withScalar(NodeOp node) const;
  /// The only node that reads `value`, dead ones and those that take its type alone aside; null where there are several
  /// or another kind of op.
  NodeOp onlyUser(mlir::Value value) const;
  /// True where `value` comes from weights and constants alone.
  bool isWeight(mlir::Value value) const;

  /// The symbolic shape of `value`, or null where its rank is unknown.
  const llvm::SmallVector<SymbolicDim> *shape(mlir::Value value) const;
  int64_t rank(mlir::Value value) const { return shapes.of(value).rank(); }
  bool sameShape(mlir::Value a, mlir::Value b) const;
  /// The tensor type of `value` as far as it is known; null where the rank or the element type is unknown.
  mlir::RankedTensorType type(mlir::Value value) const;
  /// `value`, its type refined to `type(value)`; null where there is none.
  mlir::Value ranked(mlir::Value value);

  /// A new node of the default domain (opset 17) before the insertion point, with one result, shape inferred.
  mlir::Value create(mlir::Location loc, llvm::StringRef opType, mlir::ValueRange inputs,
                     llvm::ArrayRef<mlir::NamedAttribute> attrs = {});
  mlir::Value constant(mlir::Location loc, llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute intAttr(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute intsAttr(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  /// `value` with axes of extent 1 put in front of it, up to `rank`.
  mlir::Value padRank(mlir::Location loc, mlir::Value value, int64_t rank);
  /// `value` with its axes permuted.
  mlir::Value transpose(mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> perm);
  /// All users of `from` read `to` instead; `to` is known by the shape of `from`.
  void replace(mlir::Value from, mlir::Value to);
};

/// Reshape, Flatten, Squeeze or Unsqueeze: the same elements in the same order.
bool isReshape(NodeOp node);
/// The axes of a reducing node (attribute or second input), made non-negative; nullopt where they are not constant.
std::optional<llvm::SmallVector<int64_t>> reducedAxes(const Raiser &raiser, NodeOp node);
/// True for a ReduceMean over the last axis that keeps its dim.
bool isMeanOfLastAxis(const Raiser &raiser, NodeOp node);
/// For x * x or Pow(x, 2): x. Else null.
mlir::Value squaredOf(const Raiser &raiser, mlir::Value value);
/// |a - b| within 0.1 % of |b|.
bool isClose(double a, double b);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_RAISER_H
