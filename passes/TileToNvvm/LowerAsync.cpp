//===- LowerAsync.cpp - roles, barriers, bulk copies and wgmma from tile ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/LowerAsync.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/Hopper.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Wgmma.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::hopper;

constexpr int64_t kWarpGroup = 128, kWarp = 32;
/// The named barrier of the first warpgroup's turn; those of the others follow.
constexpr int64_t kFirstTurnBarrier = 2;

static Value number(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

static bool isFragment(Value value) {
  auto space = dyn_cast_or_null<tile::SpaceKindAttr>(cast<MemRefType>(value.getType()).getMemorySpace());
  return space && space.getValue() == tile::SpaceKind::fragment;
}

AsyncLowering::AsyncLowering(tile::KernelOp kernel, TileStorage &storage, Value thread)
    : kernel(kernel), storage(storage), thread(thread), threads(kernel.getThreads().value_or(kWarpGroup)) {
  if (auto blocks = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kCluster)) {
    cluster = blocks.getInt();
  }
  if (auto known = kernel->getAttrOfType<ArrayAttr>(kernel_attrs::kTensorMaps)) {
    llvm::append_range(maps, known);
  }
}

bool AsyncLowering::handles(Operation *op) {
  return isa<tile::RolesOp, tile::RoleEndOp, tile::BarrierInitOp, tile::BarrierWaitOp, tile::BarrierArriveOp,
             tile::BarrierExpectOp, tile::LoadAsyncOp, tile::MmaAsyncOp, tile::MmaWaitOp, tile::AsyncFenceOp,
             tile::TurnWaitOp, tile::TurnPassOp>(op);
}

LogicalResult AsyncLowering::lower(Operation *op) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tile::MmaAsyncOp product) { return lowerProduct(product); })
      .Case([&](tile::RolesOp roles) {
        lowerRoles(roles);
        return success();
      })
      .Case([&](tile::BarrierInitOp init) {
        lowerInit(init);
        return success();
      })
      .Case([&](tile::BarrierWaitOp wait) {
        emitBarrierWait(b, loc, barrierAt(b, loc, wait.getBarriers(), wait.getSlot()), wait.getParity());
        return success();
      })
      .Case([&](tile::BarrierArriveOp arrive) {
        lowerArrive(arrive);
        return success();
      })
      .Case([&](tile::BarrierExpectOp expect) {
        emitBarrierExpect(b, loc, barrierAt(b, loc, expect.getBarriers(), expect.getSlot()), expect.getBytes());
        return success();
      })
      .Case([&](tile::LoadAsyncOp load) {
        lowerLoad(load);
        return success();
      })
      .Case([&](tile::MmaWaitOp wait) {
        lowerWait(wait);
        return success();
      })
      .Case<tile::TurnWaitOp, tile::TurnPassOp>([&](Operation *turn) {
        lowerTurn(turn, isa<tile::TurnWaitOp>(turn));
        return success();
      })
      .Case([&](tile::AsyncFenceOp) {
        emitAsyncProxyFence(b, loc);
        return success();
      })
      .Default(success()); // the end of a role
}

void AsyncLowering::lowerRoles(tile::RolesOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  // Registers change hands between whole warpgroups.
  kernel.setThreads(threads + (op.getRegisters().empty() ? kWarp : kWarpGroup));
  kernel->setAttr(kernel_attrs::kConsumers, b.getI64IntegerAttr(threads));
  // Barriers have been initialised above.
  emitBarrierInitFence(b, loc);
  if (cluster > 1) {
    emitClusterBarrier(b, loc, /*relaxed=*/true);
  } else {
    NVVM::Barrier0Op::create(b, loc);
  }
  ArrayRef<int64_t> registers = op.getRegisters();
  if (!registers.empty() && !kernel->hasAttr(kernel_attrs::kBlocksPerSm)) {
    // ptxas ignores changes of the count where it may choose the one at entry.
    kernel->setAttr(kernel_attrs::kBlocksPerSm, b.getI64IntegerAttr(1));
  }
  auto fill = [](Block *to, Region &from) {
    Block::OpListType &ops = from.front().getOperations();
    to->getOperations().splice(Block::iterator(to->getTerminator()), ops, ops.begin(), std::prev(ops.end()));
  };
  Value fetches = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, thread, number(b, loc, threads));
  auto roles = scf::IfOp::create(b, loc, fetches, /*withElseRegion=*/true);
  b.setInsertionPointToStart(roles.thenBlock());
  if (!registers.empty()) {
    emitSetMaxRegisters(b, loc, registers[0], /*increase=*/false);
  }
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, thread, number(b, loc, threads));
  auto producer = scf::IfOp::create(b, loc, first, /*withElseRegion=*/false);
  fill(producer.thenBlock(), op.getProducer());
  fetching = producer.thenBlock();
  b.setInsertionPointToStart(roles.elseBlock());
  if (!registers.empty()) {
    emitSetMaxRegisters(b, loc, registers[1], /*increase=*/true);
  }
  // Through a shuffle, so that it is known to be the same in all lanes and addresses stay in uniform registers.
  Value group = arith::ShRUIOp::create(b, loc, thread, number(b, loc, 7));
  warpGroup = NVVM::ShflOp::create(b, loc, b.getI32Type(), number(b, loc, -1), group, number(b, loc, 0),
                                   number(b, loc, kWarp - 1), NVVM::ShflKind::idx, UnitAttr());
  bool turns = op.getConsumer().walk([](tile::TurnWaitOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (turns) { // as if the last warpgroup had just had its turn: the first one is next
    Value last =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warpGroup, number(b, loc, threads / kWarpGroup - 1));
    auto branch = scf::IfOp::create(b, loc, last, /*withElseRegion=*/false);
    OpBuilder inner = OpBuilder::atBlockBegin(branch.thenBlock());
    emitNamedBarrierArrive(inner, loc, number(inner, loc, kFirstTurnBarrier), 2 * kWarpGroup);
  }
  fill(roles.elseBlock(), op.getConsumer());
  if (cluster > 1) { // no block leaves while others may still write to it, or arrive at its barriers
    b.setInsertionPointAfter(roles);
    emitClusterBarrier(b, loc, /*relaxed=*/false);
  }
}

Value AsyncLowering::barrierAt(OpBuilder &b, Location loc, Value barriers, Value slot) {
  return emitSharedAddress(b, loc, storage.sharedPointer(b, loc, barriers), 0, slot, kBarrierBytes);
}

void AsyncLowering::lowerInit(tile::BarrierInitOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, thread, number(b, loc, 0));
  auto branch = scf::IfOp::create(b, loc, first, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  Value base = storage.sharedPointer(b, loc, op.getBarriers());
  for (int64_t i = 0, e = cast<MemRefType>(op.getBarriers().getType()).getDimSize(0); i < e; ++i) {
    emitBarrierInit(b, loc, emitSharedAddress(b, loc, base, i * kBarrierBytes), op.getArrivals());
  }
}

void AsyncLowering::lowerArrive(tile::BarrierArriveOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  NVVM::SyncWarpOp::create(b, loc, number(b, loc, -1)); // its lanes have read what they read
  Value lane = arith::AndIOp::create(b, loc, thread, number(b, loc, kWarp - 1));
  // With a cluster, each of the first lanes arrives at one of its blocks.
  Value chosen =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, lane, number(b, loc, op.getCluster() ? cluster : 1));
  auto branch = scf::IfOp::create(b, loc, chosen, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  Value barrier = barrierAt(b, loc, op.getBarriers(), op.getSlot());
  if (op.getCluster()) {
    emitClusterArrive(b, loc, barrier, lane);
  } else {
    emitBarrierArrive(b, loc, barrier);
  }
}

int64_t AsyncLowering::tensorMap(int64_t arg, ArrayRef<int64_t> box, int64_t swizzle, int64_t elementBytes) {
  Builder b(kernel.getContext());
  Attribute map = b.getDictionaryAttr(
      {b.getNamedAttr("arg", b.getI64IntegerAttr(arg)), b.getNamedAttr("box", b.getDenseI64ArrayAttr(box)),
       b.getNamedAttr("dims", b.getDenseI64ArrayAttr(llvm::to_vector(llvm::seq<int64_t>(0, box.size())))),
       b.getNamedAttr("element_size", b.getI64IntegerAttr(elementBytes)),
       b.getNamedAttr("swizzle", b.getI64IntegerAttr(swizzle))});
  auto found = llvm::find(maps, map);
  int64_t index = found - maps.begin();
  if (found == maps.end()) {
    maps.push_back(map);
    kernel->setAttr(kernel_attrs::kTensorMaps, b.getArrayAttr(maps));
    if (fetching) {
      OpBuilder at = OpBuilder::atBlockBegin(fetching);
      Type pointer = LLVM::LLVMPointerType::get(b.getContext());
      emitTensorMapPrefetch(at, kernel.getLoc(), tile::TensorMapOp::create(at, kernel.getLoc(), pointer, index));
    }
  }
  return index;
}

void AsyncLowering::lowerLoad(tile::LoadAsyncOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto tile = WgmmaOperand::of(cast<MemRefType>(op.getTile().getType()), /*kMajor=*/true);
  auto source = cast<BlockArgument>(op.getSource());
  int64_t rank = cast<MemRefType>(source.getType()).getRank(), rowDim = op.getDims()[0];
  SmallVector<int64_t> box(rank, 1);
  int64_t shares = op.getMulticast() ? cluster : 1;
  box[rowDim] = tile.rows / shares;
  box[rank - 1] = tile.panelColumns();
  int64_t index = tensorMap(source.getArgNumber(), box, tile.layout.panelBytes, tile.layout.elementBytes);
  Value map = tile::TensorMapOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), index);
  Value barrier = barrierAt(b, loc, op.getBarriers(), op.getSlot());
  Value base =
      emitSharedAddress(b, loc, storage.sharedPointer(b, loc, op.getTile()), 0, op.getSlot(), tile.stagePitch());
  SmallVector<Value> coordinates; // innermost first
  for (Value offset : llvm::reverse(op.getOffsets())) {
    coordinates.push_back(arith::IndexCastOp::create(b, loc, b.getI32Type(), offset));
  }
  Value mask;
  if (shares > 1) {
    // This block's share of the rows.
    Value rank = NVVM::ClusterId::create(b, loc, b.getI32Type());
    Value &row = coordinates[coordinates.size() - 1 - rowDim];
    row = arith::AddIOp::create(b, loc, row, arith::MulIOp::create(b, loc, rank, number(b, loc, box[rowDim])));
    base = emitSharedAddress(b, loc, base, 0, rank, box[rowDim] * tile.layout.panelBytes);
    mask = LLVM::ConstantOp::create(b, loc, b.getI16Type(), b.getI16IntegerAttr((1 << cluster) - 1));
  }
  Value column = coordinates.front();
  for (int64_t panel = 0; panel < tile.layout.panels(); ++panel) {
    if (panel > 0) {
      coordinates.front() = arith::AddIOp::create(b, loc, column, number(b, loc, panel * tile.panelColumns()));
    }
    emitTensorLoad(b, loc, emitSharedAddress(b, loc, base, panel * tile.panelPitch()), map, coordinates, barrier, mask);
  }
}

SmallVector<Value> AsyncLowering::loadPacked(OpBuilder &b, Location loc, Value fragment) {
  SmallVector<Value> values = storage.loadRegisters(b, loc, fragment), packed;
  Type element = cast<MemRefType>(fragment.getType()).getElementType();
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    Value pair = LLVM::PoisonOp::create(b, loc, VectorType::get({2}, element));
    for (unsigned half = 0; half < 2; ++half) {
      pair = LLVM::InsertElementOp::create(b, loc, pair, values[i + half], number(b, loc, half));
    }
    packed.push_back(LLVM::BitcastOp::create(b, loc, b.getI32Type(), pair));
  }
  return packed;
}

void AsyncLowering::storePacked(OpBuilder &b, Location loc, Value fragment, ValueRange values) {
  Type element = cast<MemRefType>(fragment.getType()).getElementType();
  SmallVector<Value> halves;
  for (Value value : values) {
    Value pair = LLVM::BitcastOp::create(b, loc, VectorType::get({2}, element), value);
    for (unsigned half = 0; half < 2; ++half) {
      halves.push_back(LLVM::ExtractElementOp::create(b, loc, pair, number(b, loc, half)));
    }
  }
  storage.storeRegisters(b, loc, fragment, halves);
}

LogicalResult AsyncLowering::lowerProduct(tile::MmaAsyncOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto acc = cast<MemRefType>(op.getAcc().getType());
  Type element = cast<MemRefType>(op.getB().getType()).getElementType();
  int64_t rows = acc.getDimSize(0), columns = acc.getDimSize(1), groups = threads / kWarpGroup;
  bool aInRegisters = isFragment(op.getA());
  auto expects = [&](Value fragment) {
    auto shape = cast<MemRefType>(fragment.getType()).getShape();
    return storage.layoutOf(fragment) == tile::wgmmaAccumulatorLayout(b.getContext(), shape[0], shape[1], groups, 1);
  };
  if (rows % (64 * groups) != 0 || columns % 8 != 0 || columns > 256 || !expects(op.getAcc()) ||
      (aInRegisters && !expects(op.getA()))) {
    return op.emitError("has fragments that are not laid out as wgmma's accumulators over ") << groups << " warpgroups";
  }

  auto right = WgmmaOperand::of(cast<MemRefType>(op.getB().getType()), op.getTransposeB());
  auto left = WgmmaOperand::of(cast<MemRefType>(op.getA().getType()), !op.getTransposeA());
  if (const char *reason = right.whyNot(columns)) {
    return op.emitError("cannot read b from shared memory: ") << reason;
  }
  if (const char *reason = aInRegisters ? nullptr : left.whyNot(64)) {
    return op.emitError("cannot read a from shared memory: ") << reason;
  }
  int64_t depth = right.depth(), step = right.step(), blocks = rows / (64 * groups);
  auto address = [&](Value tile, Value slot, const WgmmaOperand &operand) {
    Value base = storage.sharedPointer(b, loc, tile);
    if (slot) {
      base = emitSharedAddress(b, loc, base, 0, slot, operand.stagePitch());
    }
    return LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), base).getResult();
  };
  Value rightStart = emitDescriptor(b, loc, right, address(op.getB(), op.getBSlot(), right));
  Value leftStart;
  SmallVector<Value> leftRegisters;
  if (aInRegisters) {
    leftRegisters = loadPacked(b, loc, op.getA());
  } else {
    Value start = address(op.getA(), op.getASlot(), left);
    if (groups > 1) { // this warpgroup's rows
      Value own = arith::MulIOp::create(b, loc, groupIndex(b, loc), number(b, loc, left.offset(64 * blocks, 0)));
      start = arith::AddIOp::create(b, loc, start, own);
    }
    leftStart = emitDescriptor(b, loc, left, start);
  }

  WgmmaInstruction instruction;
  instruction.type = element.isBF16() ? WgmmaType::bf16 : element.isF16() ? WgmmaType::f16 : WgmmaType::tf32;
  instruction.n = columns;
  instruction.aInRegisters = aInRegisters;
  instruction.aMnMajor = op.getTransposeA();
  instruction.bMnMajor = !op.getTransposeB();
  SmallVector<Value> values = storage.loadRegisters(b, loc, op.getAcc());
  int64_t count = instruction.accumulatorCount();
  emitWgmmaFence(b, loc);
  for (int64_t k = 0; k < depth; k += step) {
    Value rightAt = advanceDescriptor(b, loc, rightStart, right.offset(0, k));
    for (int64_t block = 0; block < blocks; ++block) {
      auto part = llvm::MutableArrayRef<Value>(values).slice(block * count, count);
      SmallVector<Value> a;
      if (aInRegisters) {
        // A block's registers of 16 columns: four, one after the other.
        llvm::append_range(a, ArrayRef<Value>(leftRegisters).slice(block * depth / 4 + k / 4, 4));
      } else {
        a.push_back(advanceDescriptor(b, loc, leftStart, left.offset(64 * block, k)));
      }
      llvm::copy(emitWgmma(b, loc, instruction, part, a, rightAt), part.begin());
    }
  }
  emitWgmmaCommit(b, loc);
  storage.storeRegisters(b, loc, op.getAcc(), values);
  return success();
}

void AsyncLowering::lowerWait(tile::MmaWaitOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  SmallVector<Value> values;
  SmallVector<size_t> counts;
  for (Value fragment : op.getFragments()) {
    bool wide = cast<MemRefType>(fragment.getType()).getElementType().isF32();
    SmallVector<Value> registers = wide ? storage.loadRegisters(b, loc, fragment) : loadPacked(b, loc, fragment);
    counts.push_back(registers.size());
    llvm::append_range(values, registers);
  }
  values = emitWgmmaWait(b, loc, op.getPending(), values);
  ArrayRef<Value> left = values;
  for (auto [fragment, count] : llvm::zip(op.getFragments(), counts)) {
    if (cast<MemRefType>(fragment.getType()).getElementType().isF32()) {
      storage.storeRegisters(b, loc, fragment, left.take_front(count));
    } else {
      storePacked(b, loc, fragment, left.take_front(count));
    }
    left = left.drop_front(count);
  }
}

void AsyncLowering::lowerTurn(Operation *op, bool waits) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  Value group = groupIndex(b, loc);
  if (!waits) {
    Value next = arith::AddIOp::create(b, loc, group, number(b, loc, 1));
    Value wraps = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, next, number(b, loc, threads / kWarpGroup));
    group = arith::SelectOp::create(b, loc, wraps, number(b, loc, 0), next);
  }
  // Two warpgroups come to it: the one whose turn it is, and the one before.
  Value barrier = arith::AddIOp::create(b, loc, group, number(b, loc, kFirstTurnBarrier));
  if (waits) {
    emitNamedBarrier(b, loc, barrier, 2 * kWarpGroup);
  } else {
    emitNamedBarrierArrive(b, loc, barrier, 2 * kWarpGroup);
  }
}

Value AsyncLowering::groupIndex(OpBuilder &b, Location loc) {
  return warpGroup ? warpGroup : arith::ShRUIOp::create(b, loc, thread, number(b, loc, 7)).getResult();
}
