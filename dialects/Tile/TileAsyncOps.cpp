//===- TileAsyncOps.cpp - verifiers of roles, barriers and asynchronous ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constraint ids in the messages are those of the op descriptions in TileAsyncOps.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"

using namespace mlir;
using namespace kimi::tile;

static bool isIn(Type type, SpaceKind space) {
  auto memref = dyn_cast<MemRefType>(type);
  auto attribute = memref ? dyn_cast_or_null<SpaceKindAttr>(memref.getMemorySpace()) : SpaceKindAttr();
  return attribute && attribute.getValue() == space;
}

LogicalResult RolesOp::verify() {
  for (int64_t count : getRegisters()) {
    if (count % 8 != 0 || count < 24 || count > 256) {
      return emitOpError("[O1] gives a thread ") << count << " registers; counts are multiples of 8 in 24 to 256";
    }
  }
  if (!getRegisters().empty() && getRegisters().size() != 2) {
    return emitOpError("[O1] has ") << getRegisters().size() << " register counts; it has two roles, or leaves them be";
  }
  if (!isa<KernelOp>((*this)->getParentOp())) {
    return emitOpError("[O2] stands inside '")
           << (*this)->getParentOp()->getName() << "'; it stands at the top of a tile.kernel";
  }
  return success();
}

static LogicalResult verifyBarriers(Operation *op, Value barriers) {
  auto type = dyn_cast<MemRefType>(barriers.getType());
  if (!type || type.getRank() != 1 || !type.hasStaticShape() || !type.getElementType().isInteger(64) ||
      !isIn(type, SpaceKind::shared)) {
    return op->emitOpError("[H1] has barriers of type ")
           << barriers.getType() << "; they are a memref of i64 of rank 1 and static shape in #tile.space<shared>";
  }
  return success();
}

LogicalResult BarrierInitOp::verify() {
  if (getArrivals() < 1 || getArrivals() > 0xfffff) {
    return emitOpError("[H2] waits for ")
           << static_cast<int64_t>(getArrivals()) << " arrivals; 1 to 2^20 - 1 complete a phase";
  }
  return verifyBarriers(*this, getBarriers());
}

LogicalResult BarrierWaitOp::verify() { return verifyBarriers(*this, getBarriers()); }

LogicalResult BarrierArriveOp::verify() { return verifyBarriers(*this, getBarriers()); }

LogicalResult BarrierExpectOp::verify() {
  if (getBytes() < 1 || getBytes() > 0xfffff) {
    return emitOpError("[H3] announces ") << static_cast<int64_t>(getBytes()) << " bytes; a phase counts 1 to 2^20 - 1";
  }
  return verifyBarriers(*this, getBarriers());
}

static bool isSharedAlloc(Value value) {
  return value.getDefiningOp<AllocOp>() && isIn(value.getType(), SpaceKind::shared);
}

LogicalResult LoadAsyncOp::verify() {
  auto tile = dyn_cast<MemRefType>(getTile().getType()), source = dyn_cast<MemRefType>(getSource().getType());
  if (!tile || tile.getRank() != 3 || !isSharedAlloc(getTile())) {
    return emitOpError("[N1] has a tile of type ") << getTile().getType() << "; it is a shared tile.alloc of rank 3";
  }
  auto argument = dyn_cast<BlockArgument>(getSource());
  if (!source || source.getRank() < 2 || source.getRank() > 5 || !argument ||
      !isa<KernelOp>(argument.getOwner()->getParentOp())) {
    return emitOpError("[N2] has a source of type ")
           << getSource().getType() << "; it is an argument of the kernel, a memref of rank 2 to 5";
  }
  int64_t rank = source.getRank();
  if (static_cast<int64_t>(getOffsets().size()) != rank) {
    return emitOpError("[N3] has ") << getOffsets().size() << " offsets for a source of rank " << rank;
  }
  ArrayRef<int64_t> dims = getDims();
  int64_t offset;
  SmallVector<int64_t> strides;
  if (dims.size() != 2 || dims[0] < 0 || dims[0] >= dims[1] || dims[1] != rank - 1 ||
      failed(source.getStridesAndOffset(strides, offset)) || strides.back() != 1) {
    return emitOpError("[N4] has dims [")
           << dims << "] of " << source << "; they are two ascending dims, the last one innermost with stride 1";
  }
  Type element = source.getElementType();
  unsigned width = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  if (tile.getElementType() != element || (width != 16 && width != 32)) {
    return emitOpError("[N5] moves ") << source.getElementType() << " to " << tile.getElementType()
                                      << "; it moves elements of 2 or 4 bytes as they are";
  }
  return verifyBarriers(*this, getBarriers());
}

LogicalResult TensorMapOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  auto maps = kernel ? kernel->getAttrOfType<ArrayAttr>("tile.tensor_maps") : ArrayAttr();
  if (kernel && (!maps || getIndex() >= maps.size())) {
    return emitOpError("[V1] takes map ") << static_cast<int64_t>(getIndex()) << " of the " << (maps ? maps.size() : 0)
                                          << " that kernel '" << kernel.getSymName() << "' lists in tile.tensor_maps";
  }
  return success();
}

LogicalResult MmaAsyncOp::verify() {
  auto acc = dyn_cast<MemRefType>(getAcc().getType()), a = dyn_cast<MemRefType>(getA().getType()),
       b = dyn_cast<MemRefType>(getB().getType());
  if (!acc || acc.getRank() != 2 || !acc.hasStaticShape() || !acc.getElementType().isF32() ||
      !isIn(acc, SpaceKind::fragment)) {
    return emitOpError("[Y1] has an accumulator of type ") << getAcc().getType() << "; it is a fragment of f32, rank 2";
  }
  Type element = a ? a.getElementType() : Type();
  if (!a || !b || element != b.getElementType() || !(element.isF16() || element.isBF16() || element.isF32())) {
    return emitOpError("[Y2] has operands of type ")
           << getA().getType() << " and " << getB().getType() << "; both are of bf16, of f16 or of f32";
  }
  bool aInRegisters = isIn(a, SpaceKind::fragment);
  if (!isSharedAlloc(getB()) || !(isSharedAlloc(getA()) || (aInRegisters && !getTransposeA()))) {
    return emitOpError("[Y3] has operands of type ")
           << a << " and " << b << "; b is a shared tile.alloc, a too, or a fragment";
  }
  for (auto [type, slot] : {std::pair(a, getASlot()), std::pair(b, getBSlot())}) {
    if (type.getRank() != (slot ? 3 : 2)) {
      return emitOpError("[Y5] has an operand of type ") << type << (slot ? " with a slot" : " without a slot")
                                                         << "; operands of rank 3 have one, those of rank 2 none";
    }
  }
  ArrayRef<int64_t> left = a.getShape().take_back(2), right = b.getShape().take_back(2);
  int64_t m = left[getTransposeA()], k = left[!getTransposeA()];
  int64_t n = right[!getTransposeB()], depth = right[getTransposeB()];
  if (m != acc.getDimSize(0) || n != acc.getDimSize(1) || k != depth) {
    return emitOpError("[Y4] adds a product of ") << m << "x" << k << " and " << depth << "x" << n << " to " << acc;
  }
  return success();
}

LogicalResult MmaWaitOp::verify() {
  if (getPending() > 7) {
    return emitOpError("[Y6] leaves ") << static_cast<int64_t>(getPending()) << " groups in flight; 0 to 7";
  }
  return success();
}

static LogicalResult verifyTurn(Operation *op) {
  Region *region = op->getParentRegion();
  auto roles = op->getParentOfType<RolesOp>();
  if (!roles || !roles.getConsumer().isAncestor(region)) {
    return op->emitOpError(
        "[W1] stands outside of consumers; warpgroups take turns in the consumer region of tile.roles");
  }
  return success();
}

LogicalResult TurnWaitOp::verify() { return verifyTurn(*this); }

LogicalResult TurnPassOp::verify() { return verifyTurn(*this); }
