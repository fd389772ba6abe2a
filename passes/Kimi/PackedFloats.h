//===- PackedFloats.h - MXFP4 weights, element by element
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_PACKEDFLOATS_H
#define KIMI_PASSES_KIMI_PACKEDFLOATS_H

#include "dialects/Kimi/KimiDialect.h"
#include "lib/Support/PackedNumbers.h"
#include "mlir/IR/Builders.h"

namespace kimi {

/// The bytes of a tensor of f4E2M1FN or f8E8M0FNU elements, as `packedBytes` (dialects/Kimi/Shapes.h) types them: of a
/// weight its bytes in the file, of a constant a constant. Null where `tensor` is neither, or has no whole bytes.
mlir::Value bytesOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tensor);

/// A matrix, or a stack of them, as the scalar code of a kernel reads it: a float tensor by element, or MXFP4 bytes and
/// the scales along the last axis.
struct StoredMatrix {
  mlir::Value elements; // floats, or bytes where `scales` is there
  mlir::Value scales;   // bytes; may be null

  /// The element at `indices`, as f32; along the last axis `block` elements share a scale.
  mlir::Value read(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<mlir::Value> indices,
                   int64_t block = 32) const;
};

/// `matrix` with `scales` (null for floats) as stored; failure where its bytes cannot be had.
mlir::FailureOr<StoredMatrix> storedMatrix(mlir::OpBuilder &b, mlir::Location loc, mlir::Value matrix,
                                           mlir::Value scales);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_PACKEDFLOATS_H
