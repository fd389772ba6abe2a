//===- HostScalars.h - the scalars and shapes of a host function
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_HOSTSCALARS_H
#define KIMI_LIB_MODULE_HOSTSCALARS_H

#include "lib/Support/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>

namespace kimi {

/// Where a run-time atom of a polynomial comes from.
struct HostAtom {
  enum class Kind {
    InputDim,    // extent of axis `index` of argument `argument`
    InputValue,  // element `index` (row-major) of integer argument `argument`
    StateLength, // tokens held at entry
    Capacity,    // rows of a growing state
    Opaque       // `value`, which the host cannot compute
  };
  Kind kind;
  unsigned argument = 0;
  int64_t index = 0;
  mlir::Value value;
};

/// The index, integer and boolean scalars of a function and the extents of its tensors as polynomials over the extents
/// of its inputs and a few run-time values. Equal extents are equal polynomials, so that layouts can be compared.
/// Booleans are 0 or 1. Results are remembered: while an instance lives, ops may be added but not erased.
class HostScalars {
public:
  explicit HostScalars(mlir::func::FuncOp func);

  SymbolicDim of(mlir::Value scalar);
  SymbolicDim of(mlir::OpFoldResult scalar);
  /// The extents of a tensor.
  llvm::SmallVector<SymbolicDim> shape(mlir::Value tensor);
  /// The number of rows a growing state has room for.
  SymbolicDim capacity();

  /// The atom of that name (a Symbol or Runtime atom); null where there is none.
  const HostAtom *atom(const std::string &name) const;
  /// True for one run-time value or named dim, as it stands.
  static bool isSoleAtom(const SymbolicDim &dim);
  /// False where `dim` depends on a value the host cannot compute.
  bool isComputable(const SymbolicDim &dim) const;
  /// `dim` as an index value, built at the insertion point of `builder`.
  mlir::Value materialize(mlir::OpBuilder &builder, mlir::Location loc, const SymbolicDim &dim);
  /// What materialize writes before `op` is taken again by what it writes there, and before ops that this is told of
  /// later: they stand behind `op`, in the same block.
  void shareBefore(mlir::Operation *op);

private:
  SymbolicDim compute(mlir::Value scalar);
  SymbolicDim computeExtract(mlir::Value scalar);
  llvm::SmallVector<SymbolicDim> computeShape(mlir::Value tensor);
  SymbolicDim argumentDim(mlir::BlockArgument argument, int64_t axis);
  SymbolicDim runtime(const std::string &name, HostAtom atom);
  /// What materialize has written already, by text: an expression may hold an atom many times.
  struct Written {
    std::map<std::string, mlir::Value> atoms, dims;
  };
  mlir::Value materialize(mlir::OpBuilder &builder, mlir::Location loc, const SymbolicDim &dim, Written &written) const;
  mlir::Value materializeAtom(mlir::OpBuilder &builder, mlir::Location loc, const SymbolicDim::Atom &atom,
                              Written &written) const;

  mlir::func::FuncOp func;
  mlir::Operation *sharing = nullptr; // of shareBefore
  Written shared;
  std::map<std::string, HostAtom> atoms;
  llvm::DenseMap<mlir::Value, SymbolicDim> scalars;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<SymbolicDim>> shapes;
  unsigned opaqueCount = 0;
};

/// The single named dim that `dim` is, or an empty string.
std::string plainSymbol(const SymbolicDim &dim);
/// The name in `kimi.dims` of an axis of an argument or result (dictionary of its attributes); empty where unnamed.
std::string dimName(mlir::DictionaryAttr attributes, int64_t axis);

} // namespace kimi

#endif // KIMI_LIB_MODULE_HOSTSCALARS_H
