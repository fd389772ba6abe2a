//===- Formula.h - the value of one tensor element as a formula of its indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_FORMULA_H
#define KIMI_PASSES_ONNXRAISE_FORMULA_H

#include "lib/Support/SymbolicDim.h"
#include "mlir/IR/Value.h"
#include <memory>
#include <vector>

namespace kimi::onnx {

struct Formula;
using FormulaRef = std::shared_ptr<const Formula>;

/// A scalar: an integer polynomial over dims and index variables, a constant, a truth value made of comparisons of such
/// polynomials, a choice, or something unknown. Two formulas with the same text are the same value.
struct Formula {
  enum class Kind { Int, Real, Bool, AtLeastZero, IsZero, And, Or, Not, Select, Load, Unknown };
  Kind kind;
  SymbolicDim dim;              // Int: the value; AtLeastZero, IsZero: what is tested
  double real = 0.0;            // Real; Bool: 1 or 0
  mlir::Value tensor;           // Load: the tensor read
  std::vector<FormulaRef> args; // Load: the indices; Select: condition, then, else
  std::string text;

  bool isBool(bool value) const { return kind == Kind::Bool && (real != 0.0) == value; }
  /// The number, where it is constant.
  std::optional<double> constant() const;
};

/// Index variables and their extents: variable `name` runs over [0, extent).
class Formulas {
public:
  /// A new index variable over [0, extent).
  SymbolicDim variable(const std::string &name, const SymbolicDim &extent);
  /// True where dim >= 0 for all values of dims (>= 0) and of the index variables.
  bool isNonNegative(SymbolicDim dim) const;

  FormulaRef integer(const SymbolicDim &dim) const;
  FormulaRef number(double value) const;
  FormulaRef boolean(bool value) const;
  FormulaRef atLeastZero(const SymbolicDim &dim) const;
  FormulaRef isZero(const SymbolicDim &dim) const;
  FormulaRef negate(const FormulaRef &a) const;
  FormulaRef both(const FormulaRef &a, const FormulaRef &b) const;
  FormulaRef either(const FormulaRef &a, const FormulaRef &b) const;
  /// The choice between two numbers or two truth values.
  FormulaRef select(const FormulaRef &cond, const FormulaRef &a, const FormulaRef &b) const;
  /// The element of `tensor` at `indices`, of which nothing more is known.
  FormulaRef load(mlir::Value tensor, std::vector<FormulaRef> indices) const;
  FormulaRef unknown(const std::string &name, std::vector<FormulaRef> args) const;

  /// Arithmetic and comparison by ONNX name: Add, Sub, Mul, Min, Max; Less, LessOrEqual, Greater, GreaterOrEqual,
  /// Equal.
  FormulaRef binary(llvm::StringRef op, const FormulaRef &a, const FormulaRef &b) const;
  FormulaRef toBool(const FormulaRef &a) const;
  FormulaRef toNumber(const FormulaRef &a) const;

private:
  std::map<std::string, SymbolicDim> extents;
};

/// `dim` with `by` in place of the named dim `name`; nullopt where that cannot be written.
std::optional<SymbolicDim> substitute(const SymbolicDim &dim, const std::string &name, const SymbolicDim &by);

/// `dim` with x in place of every min(x, N) of a constant N of 2 or more: what an extent cut from a stored table of N
/// rows is as long as the table covers it.
SymbolicDim assumeCovered(const SymbolicDim &dim);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_FORMULA_H
