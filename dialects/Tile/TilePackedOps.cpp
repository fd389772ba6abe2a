//===- TilePackedOps.cpp - verifiers of the ops on packed numbers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constraint ids in the messages are those of the op descriptions in TilePackedOps.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"

using namespace mlir;
using namespace kimi::tile;

LogicalResult DequantizeOp::verify() {
  auto codes = cast<MemRefType>(getCodes().getType()), scales = cast<MemRefType>(getScales().getType()),
       out = cast<MemRefType>(getOut().getType());
  auto isByte = [](Type element) { return element.isInteger(8); };
  auto isFloat = [](Type element) { return element.isBF16() || element.isF16() || element.isF32(); };
  auto check = [&](MemRefType type, llvm::function_ref<bool(Type)> isKnown) -> LogicalResult {
    SmallVector<int64_t> strides;
    int64_t offset;
    if (type.getRank() == 2 && type.hasStaticShape() && isKnown(type.getElementType()) &&
        succeeded(type.getStridesAndOffset(strides, offset))) {
      return success();
    }
    return emitOpError("[Q1] reads tiles of i8 and writes one of bf16, f16 or f32, of rank 2 and static shape; one is ")
           << type;
  };
  if (failed(check(codes, isByte)) || failed(check(scales, isByte)) || failed(check(out, isFloat))) {
    return failure();
  }
  int64_t rows = out.getDimSize(0), columns = out.getDimSize(1);
  if (columns % 32 != 0 || codes.getShape() != ArrayRef<int64_t>({rows, columns / 2}) ||
      scales.getShape() != ArrayRef<int64_t>({rows, columns / 32})) {
    return emitOpError(
               "[Q2] writes [N, K] from codes [N, K / 2] and scales [N, K / 32], K being a multiple of 32; they are ")
           << codes << ", " << scales << " and " << out;
  }
  return success();
}
