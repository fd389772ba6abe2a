//===- BuildContext.h - what an operator is built with
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_BUILDCONTEXT_H
#define KIMI_PASSES_ONNXTOKIMI_BUILDCONTEXT_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "passes/OnnxToKimi/NarrowTypes.h"
#include "passes/OnnxToKimi/OpTable.h"
#include "passes/OnnxToKimi/OpUtils.h"

namespace kimi::onnx {

/// The type that holds elements of `type` below the onnx level: integers are signless, narrow types are i8.
mlir::Type storageType(mlir::Type type);
/// The same for a weight, whose narrow elements stay as the file packs them.
mlir::Type weightType(mlir::Type type);

/// A tensor while an operator is built: its symbolic shape, its ONNX element type, and its value or the one constant
/// (or expression of dims) that it is full of, from which the value is made only where one is needed.
struct Tensor {
  mlir::Value value;
  Shape shape;
  mlir::Type type;
  /// Every element is this floating-point number.
  std::optional<double> splat;
  /// Every element is this integer or truth value.
  std::optional<SymbolicDim> scalar;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(type); }
  bool isUnsigned() const { return type.isUnsignedInteger(); }
};

/// The body of one function being converted: the values made so far and the dims computed at its entry.
class FunctionBuilder {
public:
  FunctionBuilder(mlir::func::FuncOp func, SymbolicShapes &shapes);
  /// Arguments of unsigned and narrow integers become those of the types that hold them.
  void storeArguments();

  SymbolicShapes &shapes;
  mlir::OpBuilder b;

  /// The `index` value of `dim`: one for each distinct polynomial, computed at the function's entry.
  mlir::Value dim(const SymbolicDim &dim);
  /// A kimi.require, one for each pair of extents.
  void require(const Requirement &requirement);
  /// The tensor that stands for the onnx-level `value`.
  Tensor tensor(mlir::Value value);
  void set(mlir::Value original, mlir::Value converted) { converted_[original] = converted; }
  bool isBuilt(mlir::Value original) const { return converted_.count(original) != 0; }
  /// The value of `tensor`, made now where it is a constant or an expression of dims. Of storageType elements.
  mlir::Value materialize(const Tensor &tensor, mlir::Location loc);
  /// The converted value of onnx-level `value`, made now where it is known on the host.
  mlir::Value materialize(mlir::Value value, mlir::Location loc);

private:
  mlir::Value atom(mlir::OpBuilder &at, const SymbolicDim &dim, const std::string &key);
  mlir::Value condition(mlir::OpBuilder &at, const SymbolicDim &dim);
  bool isLate(const SymbolicDim &dim);

  llvm::DenseMap<mlir::Value, mlir::Value> converted_;
  std::string describe(const SymbolicDim &dim);

  std::map<std::string, mlir::Value> dims;
  std::set<std::string> required;
  mlir::func::FuncOp func;
  mlir::Operation *entryMarker = nullptr;
  mlir::Location entryLoc;
};

/// A scalar body: element values (storage types) in, one element out.
using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;
/// The same, with the position of the element (index values, one for each axis of the result).
using IndexedBody =
    llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, llvm::ArrayRef<mlir::Value>, mlir::ValueRange)>;
/// Accumulator and element in, accumulator out.
using Combine = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value, mlir::Value)>;

/// One node being built: everything that InferContext gives, and ops.
class BuildContext : public InferContext {
public:
  BuildContext(NodeOp node, FunctionBuilder &function)
      : InferContext(node, function.shapes), function(function), b(function.b), loc(node.getLoc()) {}

  FunctionBuilder &function;
  mlir::OpBuilder &b;
  mlir::Location loc;
  /// An operand could not be broadcast where it is needed (`reason` says so): what is built has no meaning.
  bool misfits = false;

  Tensor input(unsigned index) { return function.tensor(node.getInputs()[index]); }
  /// What inference says of output `index`.
  const ValueInfo &result(unsigned index = 0) { return shapes.of(node->getResult(index)); }
  bool wants(unsigned index) { return index < node->getNumResults() && !node->getResult(index).use_empty(); }
  /// Gives output `index`; its type and shape are brought to what inference says.
  void give(unsigned index, Tensor tensor);
  void give(Tensor tensor) { give(0, std::move(tensor)); }

  mlir::Value value(const Tensor &tensor) { return function.materialize(tensor, loc); }
  mlir::Value index(const SymbolicDim &dim) { return function.dim(dim); }
  mlir::OpFoldResult size(const SymbolicDim &dim);
  llvm::SmallVector<mlir::OpFoldResult> sizes(llvm::ArrayRef<SymbolicDim> dims);
  /// A scalar constant of a storage type.
  mlir::Value constant(mlir::Type type, double value);
  /// A tensor wrapped around a value made by the caller.
  Tensor wrap(mlir::Value value, Shape shape, mlir::Type type) { return {value, std::move(shape), type, {}, {}}; }
  /// A tensor full of one number.
  Tensor full(Shape shape, mlir::Type type, double value);
  mlir::Value empty(llvm::ArrayRef<SymbolicDim> shape, mlir::Type type);

  /// An elementwise linalg.generic over `shape`, `inputs` broadcast to it.
  Tensor map(llvm::ArrayRef<Tensor> inputs, Shape shape, mlir::Type type, Body body);
  /// The same with positions. Tensors not among `inputs` may be read in the body with `read`.
  Tensor mapIndexed(llvm::ArrayRef<Tensor> inputs, Shape shape, mlir::Type type, IndexedBody body);
  /// Element of `tensor` (a value that exists already) at `indices`, within a body. `some` is given where the indices
  /// are clamped into axes that may have no elements: what `unlessEmpty` says of these.
  mlir::Value read(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tensor, llvm::ArrayRef<mlir::Value> indices,
                   mlir::Value some = {});
  /// 1, or 0 where one of these extents is 0 in a call; null where that cannot be. Times it, the indices of a tensor
  /// without elements are those of its first one, which every buffer has room for.
  mlir::Value unlessEmpty(llvm::ArrayRef<SymbolicDim> extents);
  /// Reduces `axes` (sorted) away, from the scalar `init`; elements are those of `inputs` broadcast to `shape`, through
  /// `body`.
  Tensor reduce(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<SymbolicDim> shape, llvm::ArrayRef<int64_t> axes,
                mlir::Type type, mlir::Value init, Body body, Combine combine);

  /// The same with positions over `shape`; tensors may be read in the body.
  Tensor reduceIndexed(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<SymbolicDim> shape, llvm::ArrayRef<int64_t> axes,
                       mlir::Type type, mlir::Value init, IndexedBody body, Combine combine);

  Tensor reshape(const Tensor &tensor, Shape shape);
  Tensor transpose(const Tensor &tensor, llvm::ArrayRef<int64_t> permutation);
  Tensor expand(const Tensor &tensor, Shape shape);
  Tensor slice(const Tensor &tensor, llvm::ArrayRef<SliceAxis> slices);
  Tensor concat(llvm::ArrayRef<Tensor> tensors, int64_t axis);
  Tensor cast(const Tensor &tensor, mlir::Type type, const CastRules &rules = {});

  /// Opens the body of a kimi.loops: `body` gets one memref for each input and result, then the scalars, then the row
  /// where `rows` is given.
  llvm::SmallVector<Tensor> loops(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<ValueInfo> results,
                                  llvm::ArrayRef<mlir::Value> scalars, std::optional<SymbolicDim> rows,
                                  llvm::function_ref<void(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)> body);
};

/// One element converted between ONNX element types, by the rules of Cast (`from`, `to` keep their signedness).
mlir::Value castElement(mlir::OpBuilder &b, mlir::Location loc, mlir::Value element, mlir::Type from, mlir::Type to,
                        const CastRules &rules = {});
/// A float narrower than 32 bits widened to f32; anything else as it is.
mlir::Value widenElement(mlir::OpBuilder &b, mlir::Location loc, mlir::Value element);
/// The type in which sums over elements of `type` are taken: f32 for narrow floats.
mlir::Type accumulatorType(mlir::Type type);
/// `value` as an integer constant of storage type `type`, wrapped to its width; `type` may be index.
mlir::Value integerConstant(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type, int64_t value);
/// `value` as a constant of storage type `type`.
mlir::Value scalarConstant(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type, double value);
/// `index` of a possibly negative position `value` (any integer type) in an axis of extent `extent`: counted from the
/// front, clamped into the axis so that no position of a file or an input can read out of bounds.
mlir::Value clampPosition(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, bool isUnsigned,
                          mlir::Value extent);

/// The mean of body(inputs) over `axes` of the shape of `x`, in fp32, with extent 1 along each of them.
Tensor meanOf(BuildContext &c, llvm::ArrayRef<Tensor> inputs, const Tensor &x, llvm::ArrayRef<int64_t> axes, Body body);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_BUILDCONTEXT_H
