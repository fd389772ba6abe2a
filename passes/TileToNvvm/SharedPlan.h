//===- SharedPlan.h - where the tiles of a kernel lie in shared memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_SHAREDPLAN_H
#define KIMI_PASSES_TILETONVVM_SHAREDPLAN_H

#include "dialects/Tile/TileDialect.h"

namespace kimi {

/// Offsets of the shared tiles of a kernel. Tiles that are never in use at the same time share bytes: a tile is in use
/// from the first to the last op of the kernel's body that mentions it, whole loops counting as one op.
class SharedPlan {
public:
  explicit SharedPlan(tile::KernelOp kernel);

  int64_t offset(tile::AllocOp tile) const { return places.lookup(tile).offset; }
  /// How far apart the copies of a pipelined buffer are.
  int64_t copyBytes(tile::AllocOp tile) const { return places.lookup(tile).copyBytes; }
  /// All copies of it.
  int64_t allBytes(tile::AllocOp tile) const { return places.lookup(tile).bytes; }
  int64_t bytes() const { return total; }

private:
  struct Place {
    int64_t offset = 0, bytes = 0, copyBytes = 0;
    int64_t first = 0, last = 0; ///< ops of the body that use it
  };
  llvm::DenseMap<mlir::Operation *, Place> places;
  int64_t total = 0;
};

/// Bytes of shared memory that a block may use on a processor of compute capability `sm`.
int64_t sharedMemoryLimit(int64_t sm);

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_SHAREDPLAN_H
