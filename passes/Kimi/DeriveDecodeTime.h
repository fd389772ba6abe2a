//===- DeriveDecodeTime.h - where time runs in a function from tokens to logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_DERIVEDECODETIME_H
#define KIMI_PASSES_KIMI_DERIVEDECODETIME_H

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>

namespace kimi {

/// Follows the token axis from the token ids to the results of a function of `T` tokens, and finds what has to change
/// so that the function can be run over T new tokens after `past` others: the mixers, and whatever counts positions.
class TimeAnalysis {
public:
  /// `ids` is the argument of token ids and `axis` its token axis; `steps` are all the `index` values that are T.
  TimeAnalysis(mlir::BlockArgument ids, int64_t axis, llvm::ArrayRef<mlir::Value> steps);

  /// Also an argument with one entry for each token (position ids).
  void addTokenArgument(mlir::BlockArgument argument, int64_t axis);
  /// A key-padding mask: one entry for each token seen, past ones included, along `axis`.
  void addKeyArgument(mlir::BlockArgument argument, int64_t axis);
  /// Walks the function. Failure, with a remark at the op in the way, where tokens mix outside of mixers.
  mlir::LogicalResult run(mlir::func::FuncOp func);

  /// The mixers that see the sequence, in order.
  llvm::SmallVector<MixerOpInterface> mixers;
  /// `linalg.index` ops that count tokens: they are to count from `past`.
  llvm::SmallVector<mlir::linalg::IndexOp> positions;
  /// Slices [0, T) of tables: they are to begin at `past`. The axis beside each.
  llvm::SmallVector<std::pair<mlir::tensor::ExtractSliceOp, int64_t>> tableSlices;
  /// Ops on key-padding masks, whose extent T is to be the number of all tokens seen.
  llvm::SmallVector<mlir::Operation *> keyOps;

private:
  /// How a value depends on the tokens: not at all, one entry a token along an axis, on the last token only, or one
  /// entry a token seen so far along an axis.
  enum class Kind { Free, Time, Last, Key };
  struct Mark {
    Kind kind = Kind::Free;
    int64_t axis = -1;
  };

  Mark markOf(mlir::Value value) const { return marks.lookup(value); }
  void setTime(mlir::Value value, int64_t axis) { marks[value] = {Kind::Time, axis}; }
  bool isSteps(mlir::OpFoldResult extent) const;
  /// The extent of `axis` of `tensor`, as far as its definition says; null where it does not.
  mlir::OpFoldResult extentOf(mlir::Value tensor, int64_t axis) const;
  /// The axes of `tensor` that are as long as the sequence.
  llvm::SmallVector<int64_t> stepAxes(mlir::Value tensor) const;
  mlir::LogicalResult obstacle(mlir::Operation *op, const llvm::Twine &why) const;

  mlir::LogicalResult visit(mlir::Operation *op);
  /// Ops on key-padding masks: elementwise ops, casts, and reshapes that keep the axis whole.
  mlir::LogicalResult visitKeys(mlir::Operation *op);
  mlir::LogicalResult visitMixer(MixerOpInterface op);
  mlir::LogicalResult visitStructured(mlir::linalg::LinalgOp op);
  mlir::LogicalResult visitBody(mlir::linalg::LinalgOp op, std::optional<unsigned> timeLoop);
  mlir::LogicalResult visitExpand(mlir::tensor::ExpandShapeOp op);
  mlir::LogicalResult visitCollapse(mlir::tensor::CollapseShapeOp op);
  mlir::LogicalResult visitSlice(mlir::tensor::ExtractSliceOp op);
  mlir::LogicalResult visitConcat(mlir::tensor::ConcatOp op);
  /// Ops that treat the rows of operand 0 alike: all axes but `rowAxis` (counted from the back; 0 is none).
  mlir::LogicalResult visitRowwise(mlir::Operation *op, int64_t rowAxis);
  /// The same where several operands run along the tokens, all on one axis.
  mlir::LogicalResult visitTogether(mlir::Operation *op, int64_t rowAxis);

  llvm::DenseSet<mlir::Value> steps;
  /// Index values computed from T.
  llvm::DenseSet<mlir::Value> derived;
  llvm::DenseMap<mlir::Value, Mark> marks;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMI_DERIVEDECODETIME_H
