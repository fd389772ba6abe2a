//===- SymbolicShapes.h - what is known of every value of an ONNX graph
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_SYMBOLICSHAPES_H
#define KIMI_PASSES_ONNXTOKIMI_SYMBOLICSHAPES_H

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Support/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <optional>

namespace kimi::onnx {

using Shape = llvm::SmallVector<SymbolicDim>;

/// What is known at compile time of one tensor value.
struct ValueInfo {
  /// As ONNX has it: unsigned integers are unsigned types. Null where nothing is known.
  mlir::Type elementType;
  /// Extents; nullopt where the rank is unknown.
  std::optional<Shape> shape;
  /// The elements, row-major, of an integer or boolean tensor of at most kMaxHostElements elements whose every element
  /// is a constant or an expression of dims (Shape, Gather, Concat, ... of a shape). Such tensors never reach a kernel.
  std::optional<Shape> content;
  /// The constant that every element has, of whatever type and extent the tensor is.
  std::optional<double> splat;

  ValueInfo() = default;
  ValueInfo(mlir::Type elementType, Shape shape) : elementType(elementType), shape(std::move(shape)) {}

  int64_t rank() const { return shape ? static_cast<int64_t>(shape->size()) : -1; }
  /// Element type and rank are known.
  bool isRanked() const { return elementType && shape; }
  /// Every element is known from dims and constants alone: a host value, not a tensor.
  bool isHost() const;
  /// The constants of `content`, where every element is one.
  std::optional<llvm::SmallVector<int64_t>> constants() const;
  /// The tensor type with `?` for every extent that is not a constant; unranked or null where little is known.
  mlir::Type type() const;
};

/// Tensors of more elements are not tracked element by element.
constexpr int64_t kMaxHostElements = 1024;

/// The tensor type of `shape`: `?` for every extent that is not a (non-negative) constant.
mlir::RankedTensorType tensorType(llvm::ArrayRef<SymbolicDim> shape, mlir::Type elementType);
/// The number of elements.
SymbolicDim elementCount(llvm::ArrayRef<SymbolicDim> shape);

/// Where a named dim is read from: dim = sign * (extent `axis` of `value` - rest).
struct DimSource {
  mlir::Value value;
  int64_t axis;
  int64_t sign = 1;
  SymbolicDim rest = 0;
};

/// How a node takes two extents to compare, where that does not follow from their names.
struct Requirement {
  NodeOp node;
  SymbolicDim left;
  RequireKind kind;
  SymbolicDim right;
};

/// Element types, symbolic shapes and host contents of every value of `func` (onnx level), in one forward walk. kimi
/// and upstream ops that raising has put among the nodes are understood too. Values whose shape cannot be inferred get
/// a fresh dim for each unknown extent of their declared type.
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
  /// Why the results of `node` could not be inferred; empty where they were, or where an input was already unknown.
  llvm::StringRef whyUnknown(NodeOp node) const;
  /// What `node`, of the walk, takes for granted.
  llvm::ArrayRef<Requirement> requirements(NodeOp node) const;
  /// Infers the results of one op from its operands, for ops made after the walk.
  void infer(mlir::Operation *op);

  /// Where the named dim `name` can be read, or null.
  const DimSource *source(const std::string &name) const;
  /// The function argument and row-major element behind the run-time value `name`.
  std::optional<std::pair<mlir::Value, int64_t>> runtimeSource(const std::string &name) const;

private:
  void readArguments(mlir::func::FuncOp func);
  void readBlock(mlir::Block &block);
  void inferNode(NodeOp node);
  void inferIf(NodeOp node);
  void inferScan(NodeOp node);
  bool inferForeign(mlir::Operation *op);
  void useDeclaredType(mlir::Value value);

  llvm::DenseMap<mlir::Value, ValueInfo> infos;
  llvm::DenseMap<mlir::Operation *, std::string> reasons;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Requirement>> required;
  /// Values of the weights that are written inline in the module.
  llvm::DenseMap<mlir::StringAttr, mlir::DenseElementsAttr> inlineWeights;
  std::map<std::string, DimSource> sources;
  std::map<std::string, std::pair<mlir::Value, int64_t>> runtimeSources;
  unsigned fresh = 0;
};

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_SYMBOLICSHAPES_H
