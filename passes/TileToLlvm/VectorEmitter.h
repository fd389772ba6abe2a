//===- VectorEmitter.h - loops, addresses and vectors, for the lowering of tile ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETOLLVM_VECTOREMITTER_H
#define KIMI_PASSES_TILETOLLVM_VECTOREMITTER_H

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/Builders.h"

namespace kimi {

/// A memref seen as flat memory: element [i0, i1, ..] lies at sum(ik * strides[k]).
struct FlatBuffer {
  mlir::Value flat; ///< 1-D memref of unit stride
  mlir::Type element;
  llvm::SmallVector<mlir::OpFoldResult> sizes;
  llvm::SmallVector<mlir::OpFoldResult> strides;

  unsigned rank() const { return strides.size(); }
  /// Stride of `dim` if it is known, otherwise ShapedType::kDynamic.
  int64_t staticStride(unsigned dim) const;
};

/// Emits index arithmetic (folded as it goes), loops and 1-D vector code at one location.
class VectorEmitter {
public:
  VectorEmitter(mlir::OpBuilder &b, mlir::Location loc, unsigned lanes) : b(b), loc(loc), lanes(lanes) {}

  mlir::OpBuilder &b;
  mlir::Location loc;
  unsigned lanes; ///< f32 lanes of a vector register

  mlir::Value index(int64_t value);
  mlir::Value materialize(mlir::OpFoldResult value);
  mlir::Value add(mlir::Value a, mlir::Value c);
  mlir::Value sub(mlir::Value a, mlir::Value c);
  mlir::Value mul(mlir::Value a, mlir::Value c);
  mlir::Value min(mlir::Value a, mlir::Value c);
  mlir::Value max(mlir::Value a, mlir::Value c);
  mlir::Value both(mlir::Value a, mlir::Value c); ///< i1 and
  mlir::Value lessEqual(mlir::Value a, mlir::Value c);
  /// lo + the largest multiple of `step` that is at most hi - lo.
  mlir::Value roundDown(mlir::Value lo, mlir::Value hi, int64_t step);

  FlatBuffer flatten(mlir::Value memref);
  /// Position of element `indices`.
  mlir::Value position(const FlatBuffer &buffer, llvm::ArrayRef<mlir::Value> indices);

  using Body = llvm::function_ref<void(mlir::Value)>;
  using CarryingBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  /// A loop that LLVM leaves in the shape it is given (unless `unroll`).
  void loop(mlir::Value lo, mlir::Value hi, int64_t step, Body body, bool unroll = false);
  llvm::SmallVector<mlir::Value> loop(mlir::Value lo, mlir::Value hi, int64_t step, mlir::ValueRange init,
                                      CarryingBody body);
  /// Nested loops over a box; `body` gets one index per dim.
  void loops(llvm::ArrayRef<mlir::Value> lo, llvm::ArrayRef<mlir::Value> hi,
             llvm::function_ref<void(llvm::ArrayRef<mlir::Value>)> body);
  void branch(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise);

  /// `width` elements from `position` on; width 0 gives a scalar.
  mlir::Value load(const FlatBuffer &buffer, mlir::Value position, unsigned width);
  void store(mlir::Value value, const FlatBuffer &buffer, mlir::Value position);
  mlir::Value splat(mlir::Value scalar, unsigned width); ///< width 0 returns the scalar
  mlir::Value constant(mlir::Type element, double value, unsigned width);
  /// fp widening or narrowing, elementwise.
  mlir::Value convert(mlir::Value value, mlir::Type element);
  mlir::Value combine(tile::ReduceKind kind, mlir::Value a, mlir::Value c);
  mlir::Value neutral(tile::ReduceKind kind, mlir::Type element, unsigned width);
  /// Combines the elements of a vector of a power of two elements, as a tree.
  mlir::Value horizontal(tile::ReduceKind kind, mlir::Value vector);
  /// Sums each of n vectors of n elements (n a power of two): element i of the result is the sum of vectors[i].
  mlir::Value horizontalSums(llvm::ArrayRef<mlir::Value> vectors);
  /// Transposes n vectors of n elements (n a power of two).
  llvm::SmallVector<mlir::Value> transpose(llvm::ArrayRef<mlir::Value> rows);

private:
  void annotate(mlir::Operation *loop);
};

/// The lowerings; each replaces `op` by loops and vector code in front of it.
void lowerLoad(VectorEmitter &e, tile::LoadOp op);
void lowerStore(VectorEmitter &e, tile::StoreOp op);
void lowerFill(VectorEmitter &e, tile::FillOp op);
void lowerMap(VectorEmitter &e, tile::MapOp op);
void lowerReduce(VectorEmitter &e, tile::ReduceOp op);
void lowerScan(VectorEmitter &e, tile::ScanOp op);
void lowerPickRows(VectorEmitter &e, tile::PickRowsOp op);
void lowerSolve(VectorEmitter &e, tile::SolveOp op);
void lowerDequantize(VectorEmitter &e, tile::DequantizeOp op);
/// `pack` is called for a buffer of so many f32, 64-byte aligned, that lives as long as the kernel.
void lowerMma(VectorEmitter &e, tile::MmaOp op, llvm::function_ref<mlir::Value(int64_t)> pack);
/// A loop over the loads and the computation, which are lowered on their own; erases `op`.
void lowerPipeline(tile::PipelineOp op);

} // namespace kimi

#endif // KIMI_PASSES_TILETOLLVM_VECTOREMITTER_H
