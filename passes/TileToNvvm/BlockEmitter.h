//===- BlockEmitter.h - arithmetic, addresses and memory accesses of one thread
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_BLOCKEMITTER_H
#define KIMI_PASSES_TILETONVVM_BLOCKEMITTER_H

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/Builders.h"
#include "passes/TileToNvvm/SharedLayout.h"
#include <map>

namespace kimi {

/// A coordinate or a byte offset: a run-time i32 and a constant.
struct Coord {
  mlir::Value dynamic; ///< i32; null for 0
  int64_t bits = 0;    ///< which bits `dynamic` may have set; -1: any
  int64_t fixed = 0;

  Coord() = default;
  Coord(int64_t fixed) : fixed(fixed) {}
  Coord(mlir::Value dynamic, int64_t bits) : dynamic(dynamic), bits(bits) {}

  /// The largest power of two (up to `limit`) that divides it at run time.
  int64_t alignment(int64_t limit) const;
};

/// The first element that a thread holds under a layout, and whether the thread is the first of those that hold it.
struct ThreadPlace {
  llvm::SmallVector<Coord> base;     ///< of the thread's first element
  llvm::SmallVector<Coord> warpBase; ///< of the first element of its warp
  mlir::Value owner;                 ///< i1; null where no two threads hold the same elements
  mlir::Value laneOwner;             ///< the same within a warp
};

/// Emits scalar code at the insertion point of `b`. Offsets and coordinates are i32, global addresses 64 bits.
class BlockEmitter {
public:
  /// `start` is the kernel's entry block, `threads` its size of a block.
  BlockEmitter(mlir::OpBuilder &b, mlir::Block &start, int64_t threads);
  /// Removes what only served the construction.
  void finish();

  mlir::OpBuilder &b;
  mlir::Location loc;
  const int64_t threads;
  int64_t warps() const { return threads / 32; }

  mlir::Value thread() const { return threadId; } ///< i32, 0 .. threads - 1
  mlir::Value lane() const { return laneId; }
  mlir::Value warp() const { return warpId; }

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value boolean(bool value);
  mlir::Value f32(double value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, int64_t y); ///< of a value that is not negative
  mlir::Value rem(mlir::Value x, int64_t y);
  mlir::Value less(mlir::Value x, mlir::Value y); ///< signed
  /// Conjunction; null stands for true.
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value toI64(mlir::Value value); ///< from i32 (sign extended) or index
  mlir::Value toI32(mlir::Value value); ///< from i64 or index
  mlir::Value toIndex(mlir::Value value);

  Coord add(const Coord &x, const Coord &y);
  Coord scale(const Coord &x, int64_t factor);
  mlir::Value value(const Coord &x); ///< i32
  /// An index value of a kernel as a coordinate.
  Coord coord(mlir::OpFoldResult index);

  /// What a thread holds under `layout`; computed once, at the start of the kernel.
  const ThreadPlace &place(tile::LayoutAttr layout, unsigned rank);
  /// The digits of the lane and the warp along `dim`, without those of registers.
  mlir::Value digit(mlir::Value id, int64_t prefix, int64_t extent);

  /// Runs `fn` with the insertion point at the start of the kernel.
  void atStart(llvm::function_ref<void()> fn);

  /// The byte of an element of a shared tile: `row` of its flattened leading dims, `column` in bytes.
  Coord sharedOffset(const SharedLayout &layout, Coord row, Coord column);
  mlir::Value pointer(mlir::Value base, const Coord &bytes);

  /// Memory accesses move `bytes` (1, 2, 4, 8 or 16, the alignment of the address) as integers: i8, i16, i32 or a
  /// vector of i32.
  mlir::Type rawType(int64_t bytes);
  mlir::Value load(mlir::Value pointer, int64_t bytes, bool invariant = false);
  void store(mlir::Value raw, mlir::Value pointer, int64_t bytes);
  /// A load from global memory where `predicate` holds, zeros elsewhere.
  mlir::Value loadIf(mlir::Value predicate, mlir::Value pointer, int64_t bytes, bool invariant);
  void storeIf(mlir::Value predicate, mlir::Value raw, mlir::Value pointer, int64_t bytes);
  /// Elements of a raw value, and back.
  llvm::SmallVector<mlir::Value> unpack(mlir::Value raw, mlir::Type element);
  mlir::Value pack(llvm::ArrayRef<mlir::Value> elements);
  /// Floating point values as `type`; neighbours are narrowed in pairs.
  llvm::SmallVector<mlir::Value> convert(llvm::ArrayRef<mlir::Value> values, mlir::Type type);

  /// x combined with y as a reduction does.
  mlir::Value combine(tile::ReduceKind kind, mlir::Value x, mlir::Value y);
  /// The f32 of the lane whose id differs in the bits of `mask`.
  mlir::Value exchange(mlir::Value x, int64_t mask);

  /// A loop from 0 to `count` by 1 over an i32; `fn` emits its body.
  void loop(int64_t count, llvm::function_ref<void(mlir::Value)> fn);
  /// The same, carrying values from one round to the next; returns the last ones.
  llvm::SmallVector<mlir::Value>
  loop(int64_t count, mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> fn);

private:
  mlir::Block &start;
  mlir::Operation *anchor; ///< what belongs at the start of the kernel stands before it
  mlir::Value threadId, laneId, warpId;
  std::map<std::pair<const void *, unsigned>, ThreadPlace> places;
};

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_BLOCKEMITTER_H
