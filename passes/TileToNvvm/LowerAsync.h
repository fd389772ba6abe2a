//===- LowerAsync.h - asynchronous tile ops to NVVM
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_LOWERASYNC_H
#define KIMI_PASSES_TILETONVVM_LOWERASYNC_H

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/Builders.h"

namespace kimi::hopper {

/// How the tiles of a kernel are held: what the lowering of the kernel's other ops knows.
class TileStorage {
public:
  virtual ~TileStorage() = default;
  /// The first byte of a shared tile.alloc, a !llvm.ptr<3>.
  virtual mlir::Value sharedPointer(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tile) = 0;
  virtual tile::LayoutAttr layoutOf(mlir::Value fragment) = 0;
  /// This thread's values of a fragment, in the order of its layout's registers.
  virtual llvm::SmallVector<mlir::Value> loadRegisters(mlir::OpBuilder &b, mlir::Location loc,
                                                       mlir::Value fragment) = 0;
  virtual void storeRegisters(mlir::OpBuilder &b, mlir::Location loc, mlir::Value fragment,
                              mlir::ValueRange values) = 0;
};

/// Lowers the ops of TileAsyncOps.td in one kernel whose other tile ops are, or will be, lowered over its `threads`.
class AsyncLowering {
public:
  /// `thread` is the thread's number in the block, i32.
  AsyncLowering(tile::KernelOp kernel, TileStorage &storage, mlir::Value thread);

  static bool handles(mlir::Operation *op);
  /// Emits what replaces `op`, in front of it; to be called for the ops of the kernel in order, a `tile.roles` before
  /// what it holds (which moves). Adds the kernel's tensor maps to `tile.tensor_maps`; for roles, adds the producer's
  /// warpgroup to `threads` and notes `tile.consumers`. Failure, with an error at the op: a layout is not that of
  /// wgmma.
  mlir::LogicalResult lower(mlir::Operation *op);

private:
  void lowerRoles(tile::RolesOp op);
  void lowerInit(tile::BarrierInitOp op);
  void lowerArrive(tile::BarrierArriveOp op);
  void lowerLoad(tile::LoadAsyncOp op);
  mlir::LogicalResult lowerProduct(tile::MmaAsyncOp op);
  void lowerWait(tile::MmaWaitOp op);
  /// Waits at the named barrier of a warpgroup, or arrives at the next one's.
  void lowerTurn(mlir::Operation *op, bool waits);

  /// Which warpgroup of the consumers this thread is in, i32.
  mlir::Value groupIndex(mlir::OpBuilder &b, mlir::Location loc);
  mlir::Value barrierAt(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barriers, mlir::Value slot);
  /// The index of a tensor map, new or known, of `box` over the kernel's argument `arg`.
  int64_t tensorMap(int64_t arg, llvm::ArrayRef<int64_t> box, int64_t swizzle, int64_t elementBytes);
  /// The i32 registers of a fragment of 16-bit elements, two a register; and back.
  llvm::SmallVector<mlir::Value> loadPacked(mlir::OpBuilder &b, mlir::Location loc, mlir::Value fragment);
  void storePacked(mlir::OpBuilder &b, mlir::Location loc, mlir::Value fragment, mlir::ValueRange values);

  tile::KernelOp kernel;
  TileStorage &storage;
  mlir::Value thread;
  int64_t threads;                 // of the consumers
  int64_t cluster = 1;             // blocks
  mlir::Value warpGroup;           // of a consumer, i32, the same in all lanes
  mlir::Block *fetching = nullptr; // where the producer starts
  llvm::SmallVector<mlir::Attribute> maps;
};

} // namespace kimi::hopper

#endif // KIMI_PASSES_TILETONVVM_LOWERASYNC_H
