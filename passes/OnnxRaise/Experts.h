//===- Experts.h - what raising gathers of a mixture of experts
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_EXPERTS_H
#define KIMI_PASSES_ONNXRAISE_EXPERTS_H

#include "passes/OnnxRaise/Raiser.h"

namespace kimi::onnx {

/// A mixture being gathered. Matrices are [E, out, in] (or one expert's [out, in] where several are gathered).
struct Experts {
  RouterOp router;
  /// The rows of the tokens: [.., D], as many rows as the router has.
  mlir::Value tokens;
  mlir::Value w1, w3, w2;
  /// swiglu or situ_glu of one expert, whose activation all have.
  mlir::Operation *glu = nullptr;
};

/// A matrix as the right (or left) side of a product: the weight, and whether it is stored [.., in, out].
struct ExpertMatrix {
  mlir::Value weight;
  bool transpose = false;
};

/// The weight behind `value`, the right side of x . W: [.., in, out], seen through a transpose of its last two axes.
ExpertMatrix rightSide(const Raiser &raiser, mlir::Value value);
/// `matrix` as [.., out, in].
mlir::Value oriented(Raiser &raiser, mlir::Location loc, const ExpertMatrix &matrix);

/// The gate and the value that a kimi.swiglu or kimi.situ_glu multiplies; false for another op.
bool gluOperands(mlir::Operation *op, mlir::Value &gate, mlir::Value &up);
/// The same activation with the same constants.
bool sameActivation(mlir::Operation *a, mlir::Operation *b);

/// The router whose indices (or weights) `value` holds, seen through reshapes, casts and clamps to the range of
/// experts; null for another value.
RouterOp routerOfIndices(const Raiser &raiser, mlir::Value value);
RouterOp routerOfWeights(const Raiser &raiser, mlir::Value value);

/// The sum over stacked experts of their outputs, all computed, times a dense mask of weights.
mlir::LogicalResult matchMasked(Raiser &raiser, NodeOp root, Experts &experts);
/// The sum over a token's experts of products with gathered matrices.
mlir::LogicalResult matchGathered(Raiser &raiser, NodeOp root, Experts &experts);
/// The sum, as a chain of Add, over every expert, each with its own matrices and weight.
mlir::LogicalResult matchUnrolled(Raiser &raiser, NodeOp root, Experts &experts);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_EXPERTS_H
