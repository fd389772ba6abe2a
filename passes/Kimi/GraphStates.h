//===- GraphStates.h - states that a graph takes in and gives out itself
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_GRAPHSTATES_H
#define KIMI_PASSES_KIMI_GRAPHSTATES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace kimi {

/// An argument that holds a state before the tokens of a step, and the result that is the same state after them.
struct GraphState {
  unsigned argument;
  unsigned result;
  /// present = concat(past, rows) along `axis`; null and -1 where the state has a fixed size.
  mlir::tensor::ConcatOp concat;
  int64_t axis = -1;

  bool grows() const { return axis >= 0; }
};

/// The name of argument `argument` in the file, or "arg" and its number.
mlir::StringAttr argumentName(mlir::func::FuncOp func, unsigned argument);
/// What `kimi.dims` says of axis `axis` of argument `argument`: a name, a number, or null.
mlir::Attribute argumentDim(mlir::func::FuncOp func, unsigned argument, int64_t axis);

/// Lets Concats and extents of arguments read these themselves, not a cast or a Concat of one tensor.
void readArgumentsDirectly(mlir::func::FuncOp func);

/// The states that `func` carries, by argument:
///   - caches: read by extents and by one Concat in front of new rows, whose result is returned;
///   - states of fixed size: what a mixer takes as its state, through casts and reshapes, where what the mixer makes of
///     it is returned with the same type; and arguments called "past..." beside a result of the same type that is
///     called "present..." and otherwise the same.
/// `batchName`: the name of the batch of the token ids (null: unknown); a state of fixed size may vary in its batch
/// only. Failure, with a remark, where two arguments claim one result or two results one argument.
mlir::FailureOr<llvm::SmallVector<GraphState>> findGraphStates(mlir::func::FuncOp func, mlir::Attribute batchName);

/// Failure, with a remark at the mixer, where a mixer of `func` sees what comes from `ids` but takes no state (a
/// `!kimi.state` argument) in: a step would forget what came before.
mlir::LogicalResult checkMixersKeepStates(mlir::func::FuncOp func, mlir::BlockArgument ids);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_GRAPHSTATES_H
