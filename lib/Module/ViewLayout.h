//===- ViewLayout.h - tensors as strided views of buffers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_VIEWLAYOUT_H
#define KIMI_LIB_MODULE_VIEWLAYOUT_H

#include "lib/Module/HostScalars.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kimi {

/// Where the elements of a tensor are: element i of the tensor is element offset + sum_k i_k*strides[k] of `base`.
/// `base` is a tensor with a buffer of its own (row-major), or a state. All counts are in elements.
struct ViewLayout {
  mlir::Value base;
  SymbolicDim offset;
  llvm::SmallVector<SymbolicDim> sizes, strides;

  /// True where the view is known to be the elements in row-major order without gaps, starting at the base.
  bool isDense() const;
  /// True where neighbours along the last axis are known to be neighbours in memory.
  bool isInnermostContiguous() const;
  /// The buffer type a kernel sees: every stride that is a constant is static.
  mlir::MemRefType memrefType(mlir::Type elementType) const;
};

/// Row-major strides of `sizes`.
llvm::SmallVector<SymbolicDim> rowMajorStrides(llvm::ArrayRef<SymbolicDim> sizes);

/// Folds views: extract_slice, expand_shape, collapse_shape, transpose, broadcast, cast and state_view become offsets,
/// sizes and strides.
class ViewLayouts {
public:
  explicit ViewLayouts(HostScalars &scalars) : scalars(scalars) {}
  /// Failure where a collapse_shape joins axes that are not one run of memory; a copy is then needed.
  mlir::FailureOr<ViewLayout> of(mlir::Value tensor);
  /// The buffer that `tensor` is a view of; a reshape that needs a copy counts as a view too.
  static mlir::Value base(mlir::Value tensor);
  /// The layout of the whole buffer of a state for `batch` sequences.
  ViewLayout ofState(mlir::Value state, const SymbolicDim &batch);

private:
  HostScalars &scalars;
};

} // namespace kimi

#endif // KIMI_LIB_MODULE_VIEWLAYOUT_H
