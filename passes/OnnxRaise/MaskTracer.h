//===- MaskTracer.h - what a mask is at given indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_MASKTRACER_H
#define KIMI_PASSES_ONNXRAISE_MASKTRACER_H

#include "passes/OnnxRaise/Formula.h"
#include "passes/OnnxRaise/Raiser.h"

namespace kimi::onnx {

/// Follows one element of a tensor back through the graph: which formula of its indices is it? Sound: what it cannot
/// follow is a load of the tensor, never a guess.
class MaskTracer {
public:
  /// `modelDir` is where stored weights are read to recognise a triangular one; empty: they are not read.
  MaskTracer(const Raiser &raiser, std::string modelDir) : raiser(raiser), modelDir(std::move(modelDir)) {}

  Formulas formulas;

  /// The element of `value` at `indices` (one for each axis, Int formulas where they are known).
  FormulaRef trace(mlir::Value value, const std::vector<FormulaRef> &indices);
  /// The element of `value`, broadcast to `extents` (aligned on the right), at `indices`; null where the broadcast is
  /// not certain.
  FormulaRef traceBroadcast(mlir::Value value, llvm::ArrayRef<SymbolicDim> extents,
                            const std::vector<FormulaRef> &indices);

private:
  using Indices = std::vector<FormulaRef>;
  FormulaRef traceUncached(mlir::Value value, const Indices &indices);
  FormulaRef traceContent(mlir::Value value, const Indices &indices);
  FormulaRef traceStored(mlir::Value value, const Indices &indices);
  FormulaRef traceElementwise(NodeOp node, const Indices &indices);
  FormulaRef traceView(NodeOp node, const Indices &indices);
  std::optional<Indices> matchExtents(mlir::Value source, llvm::ArrayRef<SymbolicDim> out, const Indices &indices);
  FormulaRef traceSlice(NodeOp node, const Indices &indices);
  FormulaRef traceConcat(NodeOp node, const Indices &indices);
  FormulaRef traceGather(NodeOp node, const Indices &indices);
  FormulaRef traceGenerator(NodeOp node, const Indices &indices);
  /// `index` counted from the front of an axis of `extent`; null where its sign is not known.
  FormulaRef fromFront(const FormulaRef &index, const SymbolicDim &extent);
  /// `number` as an element of the type of `value`.
  FormulaRef element(mlir::Value value, double number);
  bool isBool(mlir::Value value);

  const Raiser &raiser;
  std::string modelDir;
  std::map<std::pair<void *, std::string>, FormulaRef> cache;
  unsigned depth = 0;
  unsigned fresh = 0;
};

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_MASKTRACER_H
