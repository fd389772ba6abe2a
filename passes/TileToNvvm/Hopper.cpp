//===- Hopper.cpp - barriers, bulk copies and roles as NVVM ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/Hopper.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kimi;

static Value constant(OpBuilder &b, Location loc, int64_t value) {
  return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value hopper::emitSharedAddress(OpBuilder &b, Location loc, Value base, int64_t offset, Value index, int64_t stride) {
  Type byte = b.getI8Type();
  Value address = base;
  if (offset != 0) {
    address = LLVM::GEPOp::create(b, loc, base.getType(), byte, address, ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  }
  if (index) {
    Value step = LLVM::MulOp::create(b, loc, index, constant(b, loc, stride));
    address = LLVM::GEPOp::create(b, loc, base.getType(), byte, address, ArrayRef<LLVM::GEPArg>{step});
  }
  return address;
}

void hopper::emitBarrierInit(OpBuilder &b, Location loc, Value barrier, int64_t arrivals) {
  NVVM::MBarrierInitOp::create(b, loc, barrier, constant(b, loc, arrivals), Value());
}

void hopper::emitBarrierInitFence(OpBuilder &b, Location loc) { NVVM::FenceMbarrierInitOp::create(b, loc); }

void hopper::emitBarrierWait(OpBuilder &b, Location loc, Value barrier, Value parity) {
  // The hint is how long the hardware may suspend the thread before it looks again, in nanoseconds.
  NVVM::MBarrierTryWaitParityOp::create(b, loc, barrier, parity, constant(b, loc, 10000000));
}

void hopper::emitBarrierArrive(OpBuilder &b, Location loc, Value barrier) {
  NVVM::MBarrierArriveOp::create(b, loc, Type(), barrier, Value(), NVVM::MemScopeKind::CTA, /*relaxed=*/false);
}

/// Pointers into the shared memory of a cluster's blocks.
static Type clusterPointer(OpBuilder &b) {
  return LLVM::LLVMPointerType::get(b.getContext(), unsigned(NVVM::NVVMMemorySpace::SharedCluster));
}

void hopper::emitClusterArrive(OpBuilder &b, Location loc, Value barrier, Value rank) {
  // What it releases are reads by the matrix units, which have been waited for. A release over the cluster would be a
  // fence over the whole device, in every step of the pipeline.
  Value remote = NVVM::MapaOp::create(b, loc, clusterPointer(b), barrier, rank);
  NVVM::MBarrierArriveOp::create(b, loc, Type(), remote, Value(), NVVM::MemScopeKind::CTA, /*relaxed=*/false);
}

void hopper::emitClusterBarrier(OpBuilder &b, Location loc, bool relaxed) {
  if (relaxed) {
    NVVM::ClusterArriveRelaxedOp::create(b, loc, UnitAttr());
  } else {
    NVVM::ClusterArriveOp::create(b, loc, UnitAttr());
  }
  NVVM::ClusterWaitOp::create(b, loc, UnitAttr());
}

void hopper::emitBarrierExpect(OpBuilder &b, Location loc, Value barrier, int64_t bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(b, loc, Type(), barrier, constant(b, loc, bytes), NVVM::MemScopeKind::CTA,
                                         /*relaxed=*/false, Value());
}

void hopper::emitTensorLoad(OpBuilder &b, Location loc, Value shared, Value map, ValueRange coordinates, Value barrier,
                            Value multicast) {
  // The form with a destination in the cluster needs PTX 8.0, the one in the block 8.6.
  Value target = LLVM::AddrSpaceCastOp::create(b, loc, clusterPointer(b), shared);
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      b, loc, target, map, coordinates, barrier, /*im2colOffsets=*/ValueRange(), multicast, /*l2CacheHint=*/Value(),
      NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false, NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
}

void hopper::emitTensorStore(OpBuilder &b, Location loc, Value map, Value shared, ValueRange coordinates) {
  NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(b, loc, map, shared, coordinates, /*l2CacheHint=*/Value(),
                                                     NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
}

void hopper::emitStoreCommit(OpBuilder &b, Location loc) { NVVM::CpAsyncBulkCommitGroupOp::create(b, loc); }

void hopper::emitStoreWait(OpBuilder &b, Location loc, int64_t pending, bool read) {
  NVVM::CpAsyncBulkWaitGroupOp::create(b, loc, static_cast<uint32_t>(pending), read ? b.getUnitAttr() : UnitAttr());
}

void hopper::emitTensorMapPrefetch(OpBuilder &b, Location loc, Value map) {
  NVVM::PrefetchOp::create(b, loc, NVVM::PrefetchCacheLevelAttr(), NVVM::CacheEvictionPriorityAttr(), map, Value(),
                           /*tensormap=*/b.getUnitAttr(), UnitAttr(), UnitAttr());
}

void hopper::emitAsyncProxyFence(OpBuilder &b, Location loc) {
  NVVM::FenceProxyOp::create(b, loc, NVVM::ProxyKindAttr::get(b.getContext(), NVVM::ProxyKind::async_shared),
                             NVVM::SharedSpaceAttr::get(b.getContext(), NVVM::SharedSpace::shared_cta));
}

void hopper::emitNamedBarrier(OpBuilder &b, Location loc, Value id, int64_t threads) {
  NVVM::BarrierOp::create(b, loc, TypeRange(), id, constant(b, loc, threads), NVVM::BarrierReductionAttr(), Value());
}

void hopper::emitNamedBarrier(OpBuilder &b, Location loc, int64_t id, int64_t threads) {
  emitNamedBarrier(b, loc, constant(b, loc, id), threads);
}

void hopper::emitNamedBarrierArrive(OpBuilder &b, Location loc, Value id, int64_t threads) {
  NVVM::BarrierArriveOp::create(b, loc, id, constant(b, loc, threads));
}

void hopper::emitSetMaxRegisters(OpBuilder &b, Location loc, int64_t registers, bool increase) {
  NVVM::SetMaxRegisterOp::create(b, loc, static_cast<uint32_t>(registers),
                                 increase ? NVVM::SetMaxRegisterAction::increase
                                          : NVVM::SetMaxRegisterAction::decrease);
}

Value hopper::emitElect(OpBuilder &b, Location loc) {
  return NVVM::ElectSyncOp::create(b, loc, b.getI1Type(), Value());
}

void hopper::emitGridControl(OpBuilder &b, Location loc, StringRef instruction) {
  LLVM::InlineAsmOp::create(b, loc, TypeRange(), ValueRange(), instruction, "~{memory}", /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
                            ArrayAttr());
}
