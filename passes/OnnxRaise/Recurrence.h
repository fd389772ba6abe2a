//===- Recurrence.h - what the body of a Scan computes, as sums of products over named axes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_RECURRENCE_H
#define KIMI_PASSES_ONNXRAISE_RECURRENCE_H

#include "passes/OnnxRaise/Raiser.h"
#include <memory>

namespace kimi::onnx {

struct Factor;
using FactorRef = std::shared_ptr<const Factor>;

/// scale * f0 * f1 * ...
struct Product {
  double scale = 1.0;
  llvm::SmallVector<FactorRef> factors;
};
/// The sum of products: what a value of the body is, whatever order its axes have.
using Sum = llvm::SmallVector<Product>;

/// A factor of a product: an argument of the body; exp of a sum; the sum of a product over an axis; a sum of several
/// products.
struct Factor {
  enum class Kind { Argument, Exp, Contract, Paren };
  Kind kind;
  unsigned argument = 0; // of an Argument
  int label = 0;         // of a Contract: the axis
  Sum inner;             // of the others
};

/// The names of axes. Two axes that an elementwise operation pairs, or a product sums over, get one name. Axes of
/// extent 1 have none (kOne): nothing depends on them.
class AxisNames {
public:
  static constexpr int kOne = -1;
  int make(const SymbolicDim &extent);
  int find(int name) const;
  /// Gives both one name; false where their extents are known to differ.
  bool unify(int a, int b);
  const SymbolicDim &extent(int name) const { return names[find(name)].extent; }
  /// The axes that were merged into this one, outermost first; empty for an axis that was not merged.
  llvm::ArrayRef<int> parts(int name) const { return names[find(name)].parts; }
  /// The name of the axis that `parts` are merged into.
  int merge(llvm::ArrayRef<int> parts);

private:
  struct Name {
    SymbolicDim extent;
    int parent;
    llvm::SmallVector<int> parts;
  };
  llvm::SmallVector<Name> names;
};

/// Reads a body, op by op.
class Recurrence {
public:
  struct Result {
    llvm::SmallVector<int> axes; // a name for each axis
    Sum sum;
  };

  Recurrence(const Raiser &raiser, mlir::Block &body);

  /// What `value` of the body is; null where an op on the way is none of those that are understood.
  const Result *of(mlir::Value value) const;
  /// The operator that could not be read first; empty where all could.
  llvm::StringRef obstacle() const { return unread; }
  /// Whether anything in `factor` runs along axis `name`.
  bool dependsOn(const Factor &factor, int name) const;
  bool same(const Sum &a, const Sum &b) const;
  bool same(const Factor &a, const Factor &b) const;

  AxisNames names;
  /// The names of each argument's axes.
  llvm::SmallVector<llvm::SmallVector<int>> arguments;

private:
  std::optional<Result> read(NodeOp node);
  std::optional<Result> operand(mlir::Value value);
  /// The names of the axes of two results broadcast against each other.
  std::optional<llvm::SmallVector<int>> broadcast(llvm::ArrayRef<int> a, llvm::ArrayRef<int> b);
  std::optional<Result> multiply(const Result &a, const Result &b);
  std::optional<Result> matmul(const Result &a, const Result &b);
  std::optional<Result> reduceSum(NodeOp node, const Result &x);
  std::optional<Result> reshape(const Result &x, llvm::ArrayRef<SymbolicDim> shape);
  std::optional<Result> expand(const Result &x, llvm::ArrayRef<SymbolicDim> shape);
  Sum contract(const Sum &sum, int name) const;
  Sum multiply(const Sum &a, const Sum &b) const;

  const Raiser &raiser;
  llvm::DenseMap<mlir::Value, Result> results;
  std::string unread;
};

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_RECURRENCE_H
