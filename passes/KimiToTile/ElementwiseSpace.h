//===- ElementwiseSpace.h - the points of an elementwise op, with as few dims as its operands allow
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_ELEMENTWISESPACE_H
#define KIMI_PASSES_KIMITOTILE_ELEMENTWISESPACE_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// The loops of an elementwise linalg.generic in the order of its results' axes, without those of one step, neighbours
/// joined into one dim wherever memory of every operand runs through both: [batch, seq, 7168] that all operands hold
/// without gaps is one dim, [batch, seq, 96, 128] with an operand [96] three of them.
class ElementwiseSpace {
public:
  /// An input that lies in memory: it is read along the dims it moves along, and is the same along the others.
  struct Operand {
    unsigned number; // of the op
    mlir::Value tensor;
    llvm::SmallVector<int64_t> axes; // of the tensor, for each loop; -1: none
    llvm::SmallVector<bool> moves;   // for each dim
    int64_t elementBytes;
    bool movesAtAll() const { return llvm::is_contained(moves, true); }
  };

  /// The space of `op`; failure, and why in `obstacle`, where an operand is read in an order that such a space does not
  /// have (a gather, a diagonal, an innermost axis with gaps).
  static mlir::FailureOr<ElementwiseSpace> of(HostContext &context, mlir::linalg::GenericOp op, std::string &obstacle);

  llvm::ArrayRef<SymbolicDim> dims() const { return sizes; }
  llvm::ArrayRef<Operand> operands() const { return inputs; }
  /// Makes dims of the last one: its size / `width`, and `width`, which divides it.
  void splitLast(int64_t width);

  /// The operand as a tensor with the dims of this space, of extent 1 where it does not move, made before `op`.
  mlir::Value view(HostContext &context, const Operand &operand) const;
  /// The type of a result with the dims of this space.
  mlir::RankedTensorType resultType(mlir::Type element) const;
  /// `flat`, a tensor of the type above, as result `number` of the op, made before `op`.
  mlir::Value restore(HostContext &context, mlir::Value flat, unsigned number) const;

private:
  using Loops = llvm::SmallVector<int64_t>;

  explicit ElementwiseSpace(mlir::linalg::GenericOp op) : op(op) {}
  std::string addOperand(HostContext &context, mlir::OpOperand &operand);
  void join();
  bool joins(int64_t outer, int64_t inner) const;

  mlir::linalg::GenericOp op;
  llvm::SmallVector<SymbolicDim> extents; // of the loops, in the order of the result's axes
  llvm::SmallVector<int64_t> placeOf;     // of a loop of the op in that order
  llvm::SmallVector<Operand> inputs;
  llvm::SmallVector<llvm::SmallVector<SymbolicDim>> strides; // of each input, for each loop
  llvm::SmallVector<llvm::SmallVector<SymbolicDim>> spans;   // the same: strides times its own extents
  llvm::SmallVector<llvm::SmallVector<bool>> movesAlong;     // the same: whether it moves
  llvm::SmallVector<Loops> groups;                           // loops of a dim
  llvm::SmallVector<SymbolicDim> sizes;
  int64_t lastWidth = 0; // of what splitLast made
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_ELEMENTWISESPACE_H
