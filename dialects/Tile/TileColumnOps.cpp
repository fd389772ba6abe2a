//===- TileColumnOps.cpp - verifiers of the ops along the rows of a tile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constraint ids in the messages are those of the op descriptions in TileColumnOps.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"

using namespace mlir;
using namespace kimi::tile;

static LogicalResult verifyTiles(Operation *op, StringRef id, ArrayRef<Value> tiles) {
  for (Value tile : tiles) {
    auto type = dyn_cast<MemRefType>(tile.getType());
    SmallVector<int64_t> strides;
    int64_t offset;
    if (!type || type.getRank() != 2 || !type.hasStaticShape() || !type.getElementType().isF32() ||
        failed(type.getStridesAndOffset(strides, offset))) {
      return op->emitOpError("[") << id << "] works on fp32 tiles of rank 2 and static shape; one is "
                                  << tile.getType();
    }
  }
  return success();
}

static LogicalResult verifyOneShape(Operation *op, StringRef id, Value input, Value out) {
  if (cast<MemRefType>(input.getType()).getShape() != cast<MemRefType>(out.getType()).getShape()) {
    return op->emitOpError("[") << id << "] gives a tile of its input's shape; they are " << input.getType() << " and "
                                << out.getType();
  }
  return success();
}

LogicalResult ScanOp::verify() {
  if (failed(verifyTiles(*this, "N1", {getInput(), getOut()}))) {
    return failure();
  }
  return verifyOneShape(*this, "N2", getInput(), getOut());
}

LogicalResult PickRowsOp::verify() {
  if (failed(verifyTiles(*this, "K1", {getInput(), getOut()})) ||
      failed(verifyOneShape(*this, "K2", getInput(), getOut()))) {
    return failure();
  }
  int64_t rows = cast<MemRefType>(getInput().getType()).getDimSize(0), block = getBlock(), row = getRow();
  if (block < 1 || rows % block != 0 || row < 0 || row >= block) {
    return emitOpError("[K3] picks row ") << row << " of blocks of " << block << " of " << rows
                                          << " rows; blocks divide the rows, and the row is one of a block's";
  }
  return success();
}

LogicalResult SolveOp::verify() {
  if (failed(verifyTiles(*this, "V1", {getA(), getX()}))) {
    return failure();
  }
  auto a = cast<MemRefType>(getA().getType()), x = cast<MemRefType>(getX().getType());
  if (a.getDimSize(0) != a.getDimSize(1) || a.getDimSize(0) != x.getDimSize(0)) {
    return emitOpError("[V2] needs a square matrix of as many rows as x; they are ") << a << " and " << x;
  }
  return success();
}
