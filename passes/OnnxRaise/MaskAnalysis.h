//===- MaskAnalysis.h - what an attention mask means
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_MASKANALYSIS_H
#define KIMI_PASSES_ONNXRAISE_MASKANALYSIS_H

#include "passes/OnnxRaise/MaskTracer.h"

namespace kimi::onnx {

/// At or below this value a score is as good as minus infinity.
constexpr double kMasked = -1e4;

/// Gathers the mask terms of one attention of scores [B, H, T, S] and sorts them by meaning: terms that hold everywhere
/// vanish, `j <= i + (S - T)` is causal, the others are kept.
class MaskAnalysis {
public:
  MaskAnalysis(Raiser &raiser, MaskTracer &tracer, llvm::ArrayRef<SymbolicDim> extents);

  /// A truth value per score: the key is seen where it is true (false, if `inverted`).
  void addVisible(mlir::Value value, bool inverted);
  /// A number added to the score.
  void addAdditive(mlir::Value value);

  bool isCausal() const { return causal; }
  /// The terms kept, as one tensor of rank 4: boolean where all of them are, else f32. Null where none is left. `k` is
  /// [B, Hkv, S, D].
  mlir::Value build(mlir::Location loc, mlir::Value k);

private:
  struct Visible {
    mlir::Value value;
    bool inverted;
    FormulaRef formula; // may be null
  };
  /// True where the term is settled: always true, or causal.
  bool settle(const FormulaRef &formula);
  FormulaRef formulaOf(mlir::Value value);
  mlir::Value buildVisible(mlir::Location loc, const Visible &term, mlir::Value k);
  mlir::Value buildKeyPadding(mlir::Location loc, const Visible &term, mlir::Value k);
  mlir::Value buildTerms(mlir::Location loc, mlir::Value k);

  Raiser &raiser;
  MaskTracer &tracer;
  llvm::SmallVector<SymbolicDim> extents;
  std::vector<FormulaRef> indices;
  bool causal = false;
  llvm::SmallVector<Visible> visible;
  llvm::SmallVector<mlir::Value> additive;
};

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_MASKANALYSIS_H
