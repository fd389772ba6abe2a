//===- MemoryBox.h - a box of shared or global memory that the threads of a block access together
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_MEMORYBOX_H
#define KIMI_PASSES_TILETONVVM_MEMORYBOX_H

#include "passes/TileToNvvm/BlockEmitter.h"

namespace kimi {

/// A global buffer: what a kernel argument describes.
struct GlobalBuffer {
  mlir::Value pointer; ///< !llvm.ptr<1>, of element [0, .., 0]
  mlir::Type element;
  llvm::SmallVector<mlir::OpFoldResult> sizes, strides; ///< static, or i64 values
  int64_t align = 1;                                    ///< of the pointer and of dynamic strides, bytes
  bool readOnly = false;                                ///< nothing in the kernel writes it
};

/// A tile in shared memory.
struct SharedTile {
  mlir::MemRefType type;
  SharedLayout layout;
  mlir::Value pointer; ///< !llvm.ptr<3>, of its first byte
  int64_t offset = 0;  ///< of its first byte, from the start of the block's shared memory
  int64_t bytes = 0;   ///< that it may touch from there (all copies of a pipelined buffer)
};

/// Elements [offsets + along the dims] of a buffer or a shared tile, with the checks that keep accesses within it.
class MemoryBox {
public:
  /// Dim i of the box runs along dim `dims[i]` of the buffer, from `offsets` on. With `checked`, elements outside of
  /// the buffer are guarded by `predicate` (unless they cannot occur).
  MemoryBox(BlockEmitter &e, const GlobalBuffer &buffer, llvm::ArrayRef<mlir::OpFoldResult> offsets,
            llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> extents, bool checked);
  MemoryBox(BlockEmitter &e, const SharedTile &tile, llvm::ArrayRef<mlir::OpFoldResult> offsets,
            llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> extents, bool checked);

  mlir::Type element() const { return elementType; }
  llvm::ArrayRef<int64_t> shape() const { return extents; }
  bool isShared() const { return shared; }
  /// Nothing in the kernel writes it.
  bool isReadOnly() const { return readOnly; }
  const SharedTile &tile() const { return *shared; }
  /// The dim along which elements follow each other in memory, or -1.
  int64_t contiguousDim() const { return contiguous; }
  /// How many elements along the contiguous dim may be accessed at once, from a coordinate that is a multiple of it.
  int64_t vectorElements() const { return vector; }

  /// The address of the element at `coords`.
  mlir::Value pointer(llvm::ArrayRef<Coord> coords);
  /// Whether it lies within the buffer; null where it always does.
  mlir::Value predicate(llvm::ArrayRef<Coord> coords);

  /// `count` elements from `coords` on along the contiguous dim; `pad` (null: zero) stands in for those outside.
  llvm::SmallVector<mlir::Value> load(llvm::ArrayRef<Coord> coords, int64_t count, mlir::FloatAttr pad = {});
  /// The same bytes as they lie in memory, zeros outside.
  mlir::Value loadRaw(llvm::ArrayRef<Coord> coords, int64_t count);
  void store(llvm::ArrayRef<Coord> coords, llvm::ArrayRef<mlir::Value> values, mlir::Value condition = {});
  void storeRaw(llvm::ArrayRef<Coord> coords, mlir::Value raw, int64_t count, mlir::Value condition = {});

private:
  void check(llvm::ArrayRef<mlir::OpFoldResult> offsets, llvm::ArrayRef<mlir::OpFoldResult> sizes,
             llvm::ArrayRef<int64_t> dims);
  bool isInside(mlir::OpFoldResult offset, mlir::OpFoldResult size, int64_t extent, bool &low, bool &high);

  BlockEmitter &e;
  mlir::Type elementType;
  llvm::SmallVector<int64_t> extents;
  const SharedTile *shared = nullptr;
  bool readOnly = false;
  int64_t contiguous = -1, vector = 1;
  // global: the address of the box, and how far apart its elements are along each dim
  mlir::Value origin;
  llvm::SmallVector<mlir::OpFoldResult> strides;
  // shared: where the box stands in the tile, and which dim of the tile each of its dims is
  llvm::SmallVector<Coord> tileOffsets;
  llvm::SmallVector<int64_t> tileDims;
  // per dim, i32: coordinates must be below `limits` and not below `floors`; null: always so
  llvm::SmallVector<mlir::Value> limits, floors;
  mlir::Value within; ///< i1: the dims that the box does not run along; null: always
};

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_MEMORYBOX_H
