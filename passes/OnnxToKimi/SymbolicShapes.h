//===- SymbolicShapes.h - what is known of every value of an ONNX graph
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_SYMBOLICSHAPES_H
#define KIMI_PASSES_ONNXTOKIMI_SYMBOLICSHAPES_H

#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Support/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace kimi::onnx {

/// What is known at compile time of one tensor value.
struct ValueInfo {
  /// Null where nothing is known.
  mlir::Type elementType;
  /// Extents; nullopt where the rank is unknown.
  std::optional<llvm::SmallVector<SymbolicDim>> shape;
  /// The elements, row-major, of an integer or boolean tensor of at most kMaxHostElements elements whose every element
  /// is a constant or an expression of dims (Shape, Gather, Concat, ... of a shape). Such tensors never reach a kernel.
  std::optional<llvm::SmallVector<SymbolicDim>> content;

  int64_t rank() const { return shape ? static_cast<int64_t>(shape->size()) : -1; }
  /// The tensor type with `?` for every extent that is not a constant.
  mlir::Type type() const;
};

/// Tensors of more elements are not tracked element by element.
constexpr int64_t kMaxHostElements = 1024;

/// Element types, symbolic shapes and host contents of every value of `func` (onnx level), in one forward walk. kimi and
/// upstream ops that raising has put among the nodes are understood through their result types and
/// ReifyRankedShapedTypeOpInterface, or keep the info recorded for the value they replaced (see `transfer`).
class SymbolicShapes {
public:
  explicit SymbolicShapes(mlir::func::FuncOp func);
  const ValueInfo &of(mlir::Value value) const;
  /// After a rewrite: `to` stands for `from` and is known by the same shape.
  void transfer(mlir::Value from, mlir::Value to);
  void set(mlir::Value value, ValueInfo info);
  /// Where `value` is a float or integer scalar, or a tensor all of whose elements are one constant: that constant.
  std::optional<double> splat(mlir::Value value) const;
  /// The constant elements behind `value` (onnx.constant, or a small inline weight), or null.
  mlir::DenseElementsAttr constant(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Value, ValueInfo> infos;
};

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_SYMBOLICSHAPES_H
