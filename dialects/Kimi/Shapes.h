//===- Shapes.h - extents that the verifiers and shape functions share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_SHAPES_H
#define KIMI_DIALECTS_KIMI_SHAPES_H

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <string>

namespace kimi {

/// As many tokens as fp32 can number exactly.
constexpr int64_t kMaxVocabulary = int64_t(1) << 24;

/// True unless both extents are static and differ: a dynamic extent is compatible with anything.
inline bool compatible(int64_t a, int64_t b) {
  return a == b || mlir::ShapedType::isDynamic(a) || mlir::ShapedType::isDynamic(b);
}

/// compatible() on every dim; false where the ranks differ.
bool compatible(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// An extent for a message: "768", or "?".
std::string text(int64_t extent);
/// A shape for a message: "[?, 12, 64]".
std::string text(llvm::ArrayRef<int64_t> shape);

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Extent `dim` of `result`, whose type may know it; otherwise that of dim `sourceDim` of `source` (an attribute where
/// it is static, else a tensor.dim).
mlir::OpFoldResult resultExtent(mlir::OpBuilder &b, mlir::Location loc, mlir::Value result, int64_t dim,
                                mlir::Value source, int64_t sourceDim);

/// Shape of a result that has the shape of `source`.
llvm::SmallVector<mlir::OpFoldResult> sameShape(mlir::OpBuilder &b, mlir::Location loc, mlir::Value result,
                                                mlir::Value source);

/// Whether `type` has the extents of the state but for the axis that grows.
bool fitsState(mlir::RankedTensorType type, StateType state);

/// Shapes of results whose dynamic extents are `dynamicExtents`, in order (`result_dims` of an op).
void reifyFromDims(mlir::OpBuilder &b, mlir::ResultRange results, mlir::ValueRange dynamicExtents,
                   mlir::ReifiedRankedShapedTypeDims &dims);

/// Error `[id]` unless there is one value of `dims` for each dynamic extent of `results`.
mlir::LogicalResult verifyResultDims(mlir::Operation *op, llvm::StringRef id, mlir::ResultRange results,
                                     mlir::ValueRange dims);

/// Errors of ids `elementId` and `shapeId` where the mask of an attention (may be null) is not of i1 or floats, or not
/// `full` = [batch, heads, queries, keys] with any but the last extent 1.
mlir::LogicalResult verifyAttentionMask(mlir::Operation *op, mlir::Value mask, llvm::ArrayRef<int64_t> full,
                                        llvm::StringRef elementId, llvm::StringRef shapeId);

/// Error `[id]` unless `scale` and `softcap` of an attention are finite, and `softcap` is at least 0.
mlir::LogicalResult verifyScores(mlir::Operation *op, const llvm::APFloat &scale, const llvm::APFloat &softcap,
                                 llvm::StringRef id);

/// The type of the bytes of a weight of `type`: the same shape with the last extent in bytes, elements i8. Null where
/// the elements are not 4-bit floats (of an even last extent) or f8E8M0FNU.
mlir::RankedTensorType packedBytes(mlir::RankedTensorType type);

} // namespace kimi

#endif // KIMI_DIALECTS_KIMI_SHAPES_H
