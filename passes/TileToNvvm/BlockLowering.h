//===- BlockLowering.h - the tile ops of one kernel as the work of one thread
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_BLOCKLOWERING_H
#define KIMI_PASSES_TILETONVVM_BLOCKLOWERING_H

#include "passes/TileToNvvm/BlockEmitter.h"
#include "passes/TileToNvvm/LowerAsync.h"
#include "passes/TileToNvvm/MemoryBox.h"
#include "passes/TileToNvvm/MmaKind.h"
#include <memory>
#include <variant>

namespace kimi {

/// A fragment: an array of the thread's own, indexed by constants only, so that LLVM makes registers of it.
struct Fragment {
  mlir::Value array; ///< !llvm.ptr
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  tile::LayoutAttr layout;
  std::unique_ptr<tile::RegisterTable> registers;
};

/// What registers of a warp hold of 16 rows times `columns` elements, from (row, column) of the warp's part on.
struct Strip {
  /// Rows and bytes of a row that a warp passes through its shared memory at a time.
  static constexpr int64_t rows = 16, rowBytes = 128;
  /// A row that is stored shifted: what is left of the strip before stands ahead of it. Neighbouring rows start in
  /// other banks.
  static constexpr int64_t leftBytes = 32, shiftedRowBytes = leftBytes + rowBytes + 16;

  int64_t row, column, columns = 0;
  llvm::SmallVector<int64_t> registers;
};

/// What a memref operand of a tile op stands for.
using TileOperand = std::variant<Fragment *, MemoryBox>;

/// Lowers the tile ops of a kernel one after the other; each is replaced by code in front of it.
class BlockLowering {
public:
  BlockLowering(tile::KernelOp kernel, int64_t sm);
  /// Lowers the whole kernel. Errors are emitted at the op concerned.
  mlir::LogicalResult run();

private:
  using Values = llvm::SmallVector<mlir::Value>;

  // The kernel's memory (BlockLowering.cpp)
  mlir::LogicalResult makeTiles();
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::FailureOr<GlobalBuffer *> globalBuffer(mlir::Value memref);
  /// What `memref` stands for; an error at `op` where that cannot be told.
  mlir::FailureOr<TileOperand> operand(mlir::Operation *op, mlir::Value memref);
  /// As above, of a memref that is no fragment: the box of `extents` from `offsets` along `dims` of it.
  mlir::FailureOr<MemoryBox> box(mlir::Operation *op, mlir::Value memref, llvm::ArrayRef<mlir::OpFoldResult> offsets,
                                 llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> extents, bool checked);
  mlir::Value sharedPointer(int64_t offset);
  /// Tells the barrier analysis that all threads access these tiles next.
  void access(llvm::ArrayRef<const MemoryBox *> reads, llvm::ArrayRef<const MemoryBox *> writes);
  void accessBytes(mlir::ArrayRef<int64_t> reads, mlir::ArrayRef<int64_t> writes); ///< pairs of offset and bytes
  /// A tile of scratch memory behind the kernel's tiles, used between barriers.
  const SharedTile &scratch(mlir::MemRefType type);

  // Registers (Registers.cpp)
  mlir::Value get(const Fragment &fragment, int64_t index);
  void set(Fragment &fragment, int64_t index, mlir::Value value);
  Values getAll(const Fragment &fragment);
  /// Coordinates of a thread's element.
  llvm::SmallVector<Coord> coordsOf(tile::LayoutAttr layout, int64_t index, unsigned rank,
                                    llvm::ArrayRef<Coord> origin = {});
  /// The elements of a box, from `origin` on, that a thread holds under `layout` (of `shape`), register by register.
  /// Dims in which the box has extent 1 are broadcast. `count` registers from `first` on (-1: all); vectors start at
  /// multiples of kVectorRegisters.
  Values read(MemoryBox &box, tile::LayoutAttr layout, llvm::ArrayRef<int64_t> shape, mlir::FloatAttr pad = {},
              llvm::ArrayRef<Coord> origin = {}, int64_t first = 0, int64_t count = -1);
  static constexpr int64_t kVectorRegisters = 16;
  void write(MemoryBox &box, tile::LayoutAttr layout, llvm::ArrayRef<mlir::Value> values,
             llvm::ArrayRef<Coord> origin = {});
  /// The elements of a fragment that a thread holds under `layout` of `shape` (dims of extent 1 of the fragment are
  /// broadcast); through shared memory where the fragment's own layout differs.
  Values readFragment(mlir::Operation *op, Fragment &fragment, tile::LayoutAttr layout, llvm::ArrayRef<int64_t> shape);
  void writeFragment(mlir::Operation *op, Fragment &fragment, tile::LayoutAttr layout,
                     llvm::ArrayRef<mlir::Value> values);
  /// Reads or writes whichever it is.
  Values readOperand(mlir::Operation *op, TileOperand &operand, tile::LayoutAttr layout, llvm::ArrayRef<int64_t> shape);
  void writeOperand(mlir::Operation *op, TileOperand &operand, tile::LayoutAttr layout,
                    llvm::ArrayRef<mlir::Value> values);
  /// How many consecutive registers are neighbours along `dim` and may be moved as one vector.
  int64_t vectorOf(tile::LayoutAttr layout, unsigned rank, int64_t dim, int64_t limit);
  /// Runs `fn` for pieces of a tile that is in no registers: pieces of `shape` under a layout that spreads over all
  /// threads, `vector` elements along `fastest` beside each other; `origin` is where the piece starts.
  using PieceFn = llvm::function_ref<void(tile::LayoutAttr, llvm::ArrayRef<int64_t>, llvm::ArrayRef<Coord>)>;
  void pieces(llvm::ArrayRef<int64_t> shape, int64_t fastest, int64_t vector, PieceFn fn);

  // Ops (LowerCopies.cpp, LowerElementwise.cpp, LowerReduce.cpp, LowerMma*.cpp)
  mlir::LogicalResult lowerLoad(tile::LoadOp op);
  // Whole lines between accumulators and global memory (LowerStaged.cpp)
  /// Reserves the warps' shared memory, if a copy of the kernel wants it and there is room.
  void planStaging();
  /// Stores `values`, of the memory's element type, which the threads hold under `layout`, to `memory`, or loads them
  /// from there (zeros outside). False, and nothing done, where that would gain nothing or cannot be.
  bool moveStaged(MemoryBox &memory, tile::LayoutAttr layout, llvm::MutableArrayRef<mlir::Value> values, bool store);
  /// Stores elements of 2 or 4 bytes to rows that start at any of them.
  void storeShifted(MemoryBox &memory, tile::LayoutAttr layout, llvm::ArrayRef<Strip> strips,
                    llvm::ArrayRef<mlir::Value> values);
  /// Copies a box to a shared tile through registers.
  mlir::LogicalResult copyIn(tile::LoadOp op, MemoryBox &source, MemoryBox &tile);
  mlir::LogicalResult lowerStore(tile::StoreOp op);
  mlir::LogicalResult lowerFill(tile::FillOp op);
  mlir::LogicalResult lowerMap(tile::MapOp op);
  /// A reduction under way: what the lanes of this thread's warp have of each element of the result.
  struct Reduction {
    tile::ReduceKind kind;
    tile::LayoutAttr result;
    llvm::SmallVector<int64_t> shape; ///< of the result
    Values sums = {};
    int64_t parts = 1; ///< warps that have a part of an element
    Coord part = {};   ///< this warp's
    int64_t elements() const;
  };
  /// The reductions that `ops` starts with and that can be done together: adjacent, independent of each other.
  llvm::SmallVector<tile::ReduceOp> reductionsFrom(llvm::ArrayRef<mlir::Operation *> ops);
  mlir::LogicalResult lowerReduces(llvm::ArrayRef<tile::ReduceOp> ops);
  /// Combines each of `values` over the lanes that differ in the digits `reduced` says; all of them get the result.
  void reduceLanes(tile::ReduceKind kind, llvm::ArrayRef<tile::LayoutMode> lanes,
                   llvm::function_ref<bool(const tile::LayoutMode &)> reduced, Values &values);
  /// Says that warps that differ in the digits `reduced` says have parts of the same elements.
  void splitOverWarps(Reduction &reduction, llvm::ArrayRef<tile::LayoutMode> warps,
                      llvm::function_ref<bool(const tile::LayoutMode &)> reduced);
  /// Combines the parts of the warps, through scratch memory.
  void reduceWarps(llvm::MutableArrayRef<Reduction> reductions);
  // Rows that depend on rows before them (LowerColumns.cpp)
  /// Reads `input`, has `fn` change the rows of each column that a thread holds, and writes them to `result`.
  using ColumnFn = llvm::function_ref<void(Values &)>;
  mlir::LogicalResult rewriteColumns(mlir::Operation *op, mlir::Value input, mlir::Value result, ColumnFn fn);
  mlir::LogicalResult lowerScan(tile::ScanOp op);
  mlir::LogicalResult lowerPickRows(tile::PickRowsOp op);
  mlir::LogicalResult lowerSolve(tile::SolveOp op);
  mlir::LogicalResult lowerDequantize(tile::DequantizeOp op);
  mlir::LogicalResult lowerPipeline(tile::PipelineOp op);
  /// A load of a pipeline: by cp.async where that can do it.
  mlir::LogicalResult lowerAsyncLoad(tile::LoadOp op);
  /// Copy number `index` (i32) of a pipelined buffer, as a memref that the other lowerings know.
  mlir::Value copyOf(mlir::Value buffer, mlir::Value index, int64_t copyBytes);
  mlir::LogicalResult lowerMma(tile::MmaOp op);
  /// Barriers, bulk copies and asynchronous products (BlockAsync.cpp).
  mlir::LogicalResult lowerAsync(mlir::Operation *op);
  class Storage;
  /// An operand of a product in memory; a fragment is written to scratch memory.
  MemoryBox inMemory(mlir::Operation *op, TileOperand &operand);
  mlir::LogicalResult lowerTensorCore(tile::MmaOp op, Fragment &acc, TileOperand &a, MemoryBox &b);
  mlir::LogicalResult lowerSimt(tile::MmaOp op, Fragment &acc, TileOperand &a, TileOperand &b);
  mlir::LogicalResult lowerSkinny(tile::MmaOp op, Fragment &acc, TileOperand &a, MemoryBox &b);
  /// The same with b in registers.
  mlir::LogicalResult lowerSkinny(tile::MmaOp op, Fragment &acc, TileOperand &a, Fragment &b);
  /// Adds the sums that lanes and warps have of a product of few rows, and then all to `acc`.
  void addShares(tile::MmaOp op, Fragment &acc, tile::LayoutAttr layout, Values &sums);

  tile::KernelOp kernel;
  int64_t sm;
  std::unique_ptr<hopper::TileStorage> storage;
  std::unique_ptr<hopper::AsyncLowering> async;
  mlir::OpBuilder builder;
  BlockEmitter e;
  mlir::Value sharedBase; ///< !llvm.ptr<3>
  llvm::DenseMap<mlir::Value, std::unique_ptr<Fragment>> fragments;
  llvm::DenseMap<mlir::Value, std::unique_ptr<SharedTile>> tiles;
  llvm::DenseMap<mlir::Value, std::unique_ptr<GlobalBuffer>> buffers;
  std::vector<std::unique_ptr<SharedTile>> scratchTiles;
  llvm::SmallVector<mlir::Operation *> copies; ///< what copyOf made
  int64_t tileBytes = 0, scratchBytes = 0;
  int64_t stagingOffset = -1;  ///< of the warps' own shared memory, from the start of the block's; -1: there is none
  int64_t stagingRowBytes = 0; ///< there, of each of a warp's 16 rows
};

} // namespace kimi

#endif // KIMI_PASSES_TILETONVVM_BLOCKLOWERING_H
