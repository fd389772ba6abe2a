//===- FloatCasts.h - generics that only convert floats, and views
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_FLOATCASTS_H
#define KIMI_PASSES_KIMI_FLOATCASTS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace kimi {

/// `op`, where it is a generic that does `Cast` (arith.extf, arith.truncf) to each element of its operand, and nothing
/// else; null otherwise.
template <typename Cast>
mlir::linalg::GenericOp castOf(mlir::Operation *op) {
  auto generic = mlir::dyn_cast_or_null<mlir::linalg::GenericOp>(op);
  if (!generic || generic.getNumDpsInputs() != 1 || generic->getNumResults() != 1 ||
      generic.getNumParallelLoops() != generic.getNumLoops() ||
      !mlir::isa<mlir::RankedTensorType>(generic.getInputs()[0].getType()) ||
      !llvm::all_of(generic.getIndexingMapsArray(), [](mlir::AffineMap map) { return map.isIdentity(); })) {
    return {};
  }
  mlir::Block &body = *generic.getBody();
  auto cast = body.getTerminator()->getOperand(0).template getDefiningOp<Cast>();
  return cast && cast.getIn() == body.getArgument(0) ? generic : mlir::linalg::GenericOp();
}

/// Whether the result of `op` (may be null) has the elements of operand 0, moved.
bool isView(mlir::Operation *op);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_FLOATCASTS_H
