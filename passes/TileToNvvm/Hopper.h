//===- Hopper.h - emission of barriers, bulk copies and roles of sm_90
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pointers to shared memory are !llvm.ptr<3>, tensor maps generic !llvm.ptr (kernel parameters), counts and parities
// i32.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_HOPPER_H
#define KIMI_PASSES_TILETONVVM_HOPPER_H

#include "mlir/IR/Builders.h"

namespace kimi::hopper {

/// Bytes of an mbarrier object.
constexpr int64_t kBarrierBytes = 8;

/// base + offset + index * stride, in bytes (`index` i32, may be null).
mlir::Value emitSharedAddress(mlir::OpBuilder &b, mlir::Location loc, mlir::Value base, int64_t offset,
                              mlir::Value index = {}, int64_t stride = 0);

/// An mbarrier that completes a phase after `arrivals` arrivals (and the bytes it was told to expect). One thread.
void emitBarrierInit(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, int64_t arrivals);
/// Makes initialised barriers visible to the copy engine and the cluster; a barrier of the block is due after it.
void emitBarrierInitFence(mlir::OpBuilder &b, mlir::Location loc);
/// Returns when the phase of `parity` (0 for the first, 1 for the second, ...) is complete. A fresh barrier counts as
/// having completed a phase of parity 1.
void emitBarrierWait(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, mlir::Value parity);
void emitBarrierArrive(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier);
/// Arrives at the same barrier of block `rank` (i32) of the cluster.
void emitClusterArrive(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, mlir::Value rank);
/// One arrival, and `bytes` more for the copy engine to deliver in this phase.
void emitBarrierExpect(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, int64_t bytes);

/// cp.async.bulk.tensor of one box to shared memory; the barrier counts its bytes. One thread. `coordinates` are i32,
/// innermost first; `multicast` (i16 mask of the cluster's blocks) may be null.
void emitTensorLoad(mlir::OpBuilder &b, mlir::Location loc, mlir::Value shared, mlir::Value map,
                    mlir::ValueRange coordinates, mlir::Value barrier, mlir::Value multicast = {});
/// The reverse; elements outside the tensor are not written. Complete after emitStoreWait.
void emitTensorStore(mlir::OpBuilder &b, mlir::Location loc, mlir::Value map, mlir::Value shared,
                     mlir::ValueRange coordinates);
/// Makes the stores issued since the last commit a group.
void emitStoreCommit(mlir::OpBuilder &b, mlir::Location loc);
/// Waits until at most `pending` groups of stores are in flight: until they have read their shared memory (`read`), or
/// until their writes are visible.
void emitStoreWait(mlir::OpBuilder &b, mlir::Location loc, int64_t pending, bool read);
/// Fetches a tensor map into the descriptor cache.
void emitTensorMapPrefetch(mlir::OpBuilder &b, mlir::Location loc, mlir::Value map);

/// Orders this thread's ordinary accesses to shared memory before later ones of the copy engine and of wgmma.
void emitAsyncProxyFence(mlir::OpBuilder &b, mlir::Location loc);
/// bar.sync id, threads: a barrier of a part of the block. id (i32) 1 to 15 (0 is the whole block's), threads a
/// multiple of 32.
void emitNamedBarrier(mlir::OpBuilder &b, mlir::Location loc, mlir::Value id, int64_t threads);
void emitNamedBarrier(mlir::OpBuilder &b, mlir::Location loc, int64_t id, int64_t threads);
/// bar.arrive id, threads: arrives there without waiting.
void emitNamedBarrierArrive(mlir::OpBuilder &b, mlir::Location loc, mlir::Value id, int64_t threads);
/// Changes the registers of this warpgroup's threads: a multiple of 8 in 24 to 256; all its warps must come by.
void emitSetMaxRegisters(mlir::OpBuilder &b, mlir::Location loc, int64_t registers, bool increase);
/// i1: true for one thread of the warp, which is converged here.
mlir::Value emitElect(mlir::OpBuilder &b, mlir::Location loc);
/// All threads of all blocks of the cluster meet. `relaxed`: what they did before needs no order (barriers that were
/// initialised have a fence of their own); otherwise it is complete, accesses to each other's memory too.
void emitClusterBarrier(mlir::OpBuilder &b, mlir::Location loc, bool relaxed);
/// `instruction`, which holds griddepcontrol.wait (returns when the grids before this one are complete and their writes
/// visible) or griddepcontrol.launch_dependents (the next grid may start). As inline assembly that touches memory: the
/// op of the NVVM dialect says that it touches none, and loads could be moved across the wait.
void emitGridControl(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef instruction);

} // namespace kimi::hopper

#endif // KIMI_PASSES_TILETONVVM_HOPPER_H
