//===- ProductScheduler.cpp - asynchronous products and the waits they need
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products complete in the order they are issued, so a wait names how many may stay in flight. A pipeline whose results
// only grow (nothing but products touches them in its computation) leaves an iteration's products in flight until the
// first product of the next one is issued: the matrix units never run dry while a warpgroup waits for its buffers.
// Where the last product's operand is made by the threads from the first one's result (attention), it is issued an
// iteration later, behind the next first product: the matrix units multiply by values while the threads exponentiate
// scores.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/TileToNvvm/WarpSpecialize.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::hopper;

static Value number(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

static bool isFragment(Value value) {
  auto type = dyn_cast<MemRefType>(value.getType());
  auto space = type ? dyn_cast_or_null<tile::SpaceKindAttr>(type.getMemorySpace()) : tile::SpaceKindAttr();
  return space && space.getValue() == tile::SpaceKind::fragment;
}

static SmallVector<Value, 2> fragmentsOf(tile::MmaOp op) {
  SmallVector<Value, 2> fragments{op.getAcc()};
  if (isFragment(op.getA())) {
    fragments.push_back(op.getA());
  }
  return fragments;
}

static bool touches(Operation *op, ArrayRef<Value> fragments) {
  return op
      ->walk([&](Operation *inner) {
        return llvm::any_of(inner->getOperands(), [&](Value v) { return llvm::is_contained(fragments, v); })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The slot before `slot`.
static Value previousSlot(OpBuilder &b, Location loc, Value slot, int64_t stages) {
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, slot, number(b, loc, 0));
  Value less = arith::SubIOp::create(b, loc, slot, number(b, loc, 1));
  return arith::SelectOp::create(b, loc, first, number(b, loc, stages - 1), less);
}

/// Arrives at the empty barriers of the groups that no product of the last iteration has released; if `condition`.
static void releasePrevious(OpBuilder &b, PipelinePlan &pipeline, Value slot, Value condition) {
  Location loc = pipeline.op.getLoc();
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value last = previousSlot(b, loc, slot, pipeline.op.getStages());
  for (BufferGroup &group : pipeline.groups) {
    tile::BarrierArriveOp::create(b, loc, group.empty, last, group.multicast);
  }
}

bool ProductScheduler::defers(PipelinePlan &pipeline) {
  Block &compute = pipeline.op.getCompute().front();
  SmallVector<Value> fragments;
  for (auto product : compute.getOps<tile::MmaOp>()) {
    if (isFragment(product.getA())) {
      return false; // the next iteration overwrites it
    }
    fragments.push_back(product.getAcc());
  }
  return llvm::none_of(compute, [&](Operation &op) { return !isa<tile::MmaOp>(op) && touches(&op, fragments); });
}

void ProductScheduler::drain(OpBuilder &b, PipelinePlan &pipeline, Position position, IRMapping &map, Value any) {
  SmallVector<Value> fragments;
  for (auto product : pipeline.op.getCompute().getOps<tile::MmaOp>()) {
    Value acc = map.lookupOrDefault(product.getAcc());
    if (!llvm::is_contained(fragments, acc)) {
      fragments.push_back(acc);
    }
  }
  tile::MmaWaitOp::create(b, pipeline.op.getLoc(), 0, fragments);
  releasePrevious(b, pipeline, position.slot, any);
}

/// Waits until the buffers that `op` reads are there.
void ProductScheduler::awaitBuffers(OpBuilder &b, Operation *op) {
  if (!pipeline) {
    return;
  }
  for (Value operand : op->getOperands()) {
    auto group = pipeline->groupOf.find(operand);
    if (group != pipeline->groupOf.end() && awaited.insert(group->second).second) {
      Position at = positionOf(group->second);
      tile::BarrierWaitOp::create(b, op->getLoc(), pipeline->groups[group->second].full, at.slot, at.parity);
    }
  }
}

/// Gives an op that is no product views of the stage it reads.
void ProductScheduler::viewBuffers(OpBuilder &b, Operation *op) {
  if (!pipeline) {
    return;
  }
  for (Value operand : op->getOperands()) {
    Value staged = pipeline->stagedOf.lookup(operand);
    if (!staged || !pipeline->groupOf.count(operand)) {
      continue;
    }
    auto shape = cast<MemRefType>(operand.getType()).getShape();
    Value slot = arith::IndexCastOp::create(b, op->getLoc(), b.getIndexType(), position.slot);
    SmallVector<OpFoldResult> offsets{slot, b.getIndexAttr(0), b.getIndexAttr(0)}, steps(3, b.getIndexAttr(1)),
        sizes{b.getIndexAttr(1), b.getIndexAttr(shape[0]), b.getIndexAttr(shape[1])};
    auto type =
        memref::SubViewOp::inferRankReducedResultType(shape, cast<MemRefType>(staged.getType()), offsets, sizes, steps);
    map.map(
        operand,
        memref::SubViewOp::create(b, op->getLoc(), cast<MemRefType>(type), staged, offsets, sizes, steps).getResult());
  }
}

/// Releases the buffers that nothing in this iteration reads any more.
void ProductScheduler::releaseDone(OpBuilder &b) {
  if (!pipeline || continued) {
    return;
  }
  for (unsigned index = 0; index < pipeline->groups.size(); ++index) {
    BufferGroup &group = pipeline->groups[index];
    bool isRead = llvm::any_of(inFlight, [&](Product &product) {
      return llvm::is_contained(group.buffers, product.op.getA()) ||
             llvm::is_contained(group.buffers, product.op.getB());
    });
    if (!isRead && done.contains(group.lastReader) && released.insert(index).second) {
      tile::BarrierArriveOp::create(b, group.lastReader->getLoc(), group.empty, positionOf(index).slot,
                                    group.multicast);
    }
  }
}

/// Waits for the oldest `count` products in flight.
void ProductScheduler::waitThrough(OpBuilder &b, size_t count) {
  if (count == 0) {
    return;
  }
  SmallVector<Value> fragments;
  for (const Product &product : ArrayRef<Product>(inFlight).take_front(count)) {
    for (Value fragment : product.fragments) {
      if (!llvm::is_contained(fragments, mapped(fragment))) {
        fragments.push_back(mapped(fragment));
      }
    }
  }
  tile::MmaWaitOp::create(b, inFlight[count - 1].op.getLoc(), inFlight.size() - count, fragments);
  inFlight.erase(inFlight.begin(), inFlight.begin() + count);
  releaseDone(b);
}

bool ProductScheduler::visit(OpBuilder &b, Operation *op) {
  auto product = dyn_cast<tile::MmaOp>(op);
  size_t due = 0;
  for (auto [index, flying] : llvm::enumerate(inFlight)) {
    ArrayRef<Value> fragments = flying.fragments;
    // A product may follow another one into the same accumulator, but not read it as its a. Others must not touch what
    // it reads, but for buffers of the pipeline, which have barriers.
    SmallVector<Value> tiles(fragments);
    for (Value operand : {flying.op.getA(), flying.op.getB()}) {
      if (!pipeline || !pipeline->groupOf.count(operand)) {
        tiles.push_back(operand);
      }
    }
    bool conflict = product ? llvm::is_contained(fragments, product.getA()) ||
                                  llvm::is_contained(fragments.drop_front(), product.getAcc())
                            : touches(op, tiles);
    if (conflict) {
      due = index + 1;
    }
  }
  if (product && product == delayed) {
    return true;
  }
  waitThrough(b, due);
  awaitBuffers(b, op);
  if (!product) {
    viewBuffers(b, op);
    return false;
  }
  bool isFirst = done.empty() || llvm::none_of(done, [](Operation *other) { return isa<tile::MmaOp>(other); });
  bool turns = isFirst && delayed && takesTurns;
  if (turns) {
    tile::TurnWaitOp::create(b, op->getLoc());
  }
  issue(b, product);
  if (isFirst && delayed && previous) {
    awaitBuffers(b, delayed);
    issue(b, delayed);
  }
  if (turns) {
    tile::TurnPassOp::create(b, op->getLoc());
  }
  if (continued && deferredPending) {
    tile::MmaWaitOp::create(b, op->getLoc(), 1, ValueRange());
    releasePrevious(b, *pipeline, position.slot, continued);
    deferredPending = false;
  }
  return true;
}

void ProductScheduler::issue(OpBuilder &b, tile::MmaOp product) {
  auto groupOf = [&](Value operand) -> std::optional<unsigned> {
    bool buffered = pipeline && pipeline->groupOf.count(operand);
    return buffered ? std::optional(pipeline->groupOf.lookup(operand)) : std::nullopt;
  };
  Value operands[2] = {product.getA(), product.getB()}, tiles[2], slots[2];
  for (auto [index, operand] : llvm::enumerate(operands)) {
    std::optional<unsigned> group = groupOf(operand);
    tiles[index] = group ? pipeline->stagedOf.lookup(operand) : mapped(operand);
    slots[index] = group ? positionOf(*group).slot : Value();
  }
  tile::MmaAsyncOp::create(b, product.getLoc(), mapped(product.getAcc()), tiles[0], slots[0], tiles[1], slots[1],
                           /*transpose_a=*/false, product.getTransposeB());
  inFlight.push_back({product, fragmentsOf(product)});
  done.insert(product);
}

tile::MmaOp ProductScheduler::delayable(PipelinePlan &pipeline) {
  Block &compute = pipeline.op.getCompute().front();
  auto last = compute.empty() ? tile::MmaOp() : dyn_cast<tile::MmaOp>(compute.back());
  if (!last || !isFragment(last.getA()) || !pipeline.groupOf.count(last.getB())) {
    return {};
  }
  BufferGroup &group = pipeline.groups[pipeline.groupOf.lookup(last.getB())];
  bool alone = llvm::all_of(group.buffers, [&](Value buffer) {
    return llvm::all_of(buffer.getUsers(),
                        [&](Operation *user) { return user->getBlock() != &compute || user == last; });
  });
  if (!alone) {
    return {};
  }
  // Up to the first product nothing may touch what the delayed one works on.
  SmallVector<Value, 2> fragments = fragmentsOf(last);
  for (Operation &op : compute) {
    if (&op == last || touches(&op, fragments)) {
      return {};
    }
    if (isa<tile::MmaOp>(op)) {
      return last;
    }
  }
  return {};
}

void ProductScheduler::delay(tile::MmaOp product, std::optional<Position> before) {
  delayed = product;
  delayedGroup = pipeline->groupOf.lookup(product.getB());
  previous = before;
}

void ProductScheduler::finishDelayed(OpBuilder &b) {
  awaitBuffers(b, delayed);
  issue(b, delayed);
  waitThrough(b, inFlight.size());
}

void ProductScheduler::emitted(OpBuilder &b, Operation *op) {
  done.insert(op);
  releaseDone(b);
}

void ProductScheduler::finish(OpBuilder &b) {
  if (!continued) {
    waitThrough(b, inFlight.size());
  }
}
