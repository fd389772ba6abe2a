//===- SplitRoles.cpp - a kernel as a producer and consumers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both roles are copies of the kernel's body. They agree on where each pipeline stands because both follow the same
// control flow: its position (slot and parity) travels through the loops around it as two more values.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/WarpSpecialize.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::hopper;

/// Registers of a thread of the producer and of the consumers. All threads start with the same number; none where that
/// is all they can use. Blocks that share a multiprocessor do with a producer of one warp, which leaves the consumers
/// as much as it could give them back.
static SmallVector<int64_t, 2> registersFor(KernelPlan &plan) {
  constexpr int64_t file = 64 * 1024, unit = 8, most = 255, mostAsked = 240;
  auto shared = plan.kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kBlocksPerSm);
  int64_t consumers = 128 * plan.groups, threads = consumers + 128;
  int64_t start = file / threads / unit * unit;
  if (start >= most / unit * unit || (shared && shared.getInt() > 1)) {
    return {};
  }
  int64_t producer = plan.groups == 3 ? 32 : 40;
  int64_t consumer = (start * threads - producer * 128) / consumers / unit * unit;
  return {producer, std::min(consumer, mostAsked)};
}

static Value number(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

/// Whether the producer repeats `op`: it computes something, and changes no memory.
static bool producerRepeats(Operation *op) {
  if (isMemoryEffectFree(op)) {
    return true;
  }
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  return effects && op->getNumResults() > 0 && effects.onlyHasEffect<MemoryEffects::Read>();
}

namespace {
/// Emits one role's copy of the kernel.
class RoleEmitter {
public:
  RoleEmitter(KernelPlan &plan, bool producer, IRMapping map) : plan(plan), producer(producer), map(std::move(map)) {}

  void emitKernel(OpBuilder &b, Block &body, llvm::function_ref<bool(Operation *)> skip) {
    for (PipelinePlan &pipeline : plan.pipelines) {
      Value zero = number(b, pipeline.op.getLoc(), 0);
      positions[pipeline.op] = {zero, zero};
    }
    emitBlock(b, body, skip);
  }

private:
  using Skip = llvm::function_ref<bool(Operation *)>;

  void emitBlock(OpBuilder &b, Block &block, Skip skip) {
    ProductScheduler scheduler(nullptr, {}, map);
    for (Operation &op : block.without_terminator()) {
      if (skip(&op)) {
        continue;
      }
      if (producer) {
        emitForProducer(b, op, skip);
      } else if (!scheduler.visit(b, &op)) {
        emitForConsumer(b, op, skip);
        scheduler.emitted(b, &op);
      }
    }
    if (!producer) {
      scheduler.finish(b);
    }
  }

  void emitForProducer(OpBuilder &b, Operation &op, Skip skip) {
    if (auto pipeline = dyn_cast<tile::PipelineOp>(op)) {
      emitLoads(b, *plan.find(pipeline));
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      emitLoop(b, loop, skip);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      emitBranch(b, branch, skip);
    } else if (op.getNumRegions() == 0 && producerRepeats(&op)) {
      b.clone(op, map);
    }
  }

  void emitForConsumer(OpBuilder &b, Operation &op, Skip skip) {
    if (auto pipeline = dyn_cast<tile::PipelineOp>(op)) {
      emitCompute(b, *plan.find(pipeline));
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      emitLoop(b, loop, skip);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      emitBranch(b, branch, skip);
    } else {
      emitPlain(b, op);
    }
  }

  /// An op of the consumers as it is; what it stored to tiles of the matrix units becomes visible to them.
  void emitPlain(OpBuilder &b, Operation &op) {
    IRMapping inner = map; // what stands inside is new with each copy
    map.map(op.getResults(), b.clone(op, inner)->getResults());
    bool stores = false;
    op.walk([&](Operation *inner) {
      Value target;
      if (auto load = dyn_cast<tile::LoadOp>(inner)) {
        target = load.getTile();
      } else if (auto mapOp = dyn_cast<tile::MapOp>(inner)) {
        target = mapOp.getOut();
      } else if (auto fill = dyn_cast<tile::FillOp>(inner)) {
        target = fill.getTile();
      }
      stores |= target && plan.operands.contains(target);
    });
    if (stores) {
      tile::AsyncFenceOp::create(b, op.getLoc());
    }
  }

  SmallVector<PipelinePlan *> pipelinesIn(Operation *op) {
    SmallVector<PipelinePlan *> result;
    op->walk([&](tile::PipelineOp pipeline) { result.push_back(plan.find(pipeline)); });
    return result;
  }

  /// The positions of `pipelines` as values, two each.
  SmallVector<Value> positionsOf(ArrayRef<PipelinePlan *> pipelines) {
    SmallVector<Value> values;
    for (PipelinePlan *pipeline : pipelines) {
      Position position = positions.lookup(pipeline->op);
      values.append({position.slot, position.parity});
    }
    return values;
  }
  void setPositions(ArrayRef<PipelinePlan *> pipelines, ValueRange values) {
    for (auto [index, pipeline] : llvm::enumerate(pipelines)) {
      positions[pipeline->op] = {values[2 * index], values[2 * index + 1]};
    }
  }

  SmallVector<Value> mapped(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return map.lookupOrDefault(value); });
  }

  void emitLoop(OpBuilder &b, scf::ForOp loop, Skip skip) {
    SmallVector<PipelinePlan *> inside = pipelinesIn(loop);
    if (producer && inside.empty() && loop.getNumResults() == 0) {
      return;
    }
    unsigned own = loop.getNumResults();
    SmallVector<Value> inits = mapped(loop.getInitArgs());
    llvm::append_range(inits, positionsOf(inside));
    auto copy = scf::ForOp::create(b, loop.getLoc(), mapped({loop.getLowerBound()})[0],
                                   mapped({loop.getUpperBound()})[0], mapped({loop.getStep()})[0], inits);
    if (loop.getNumResults() == 0 && inside.empty()) {
      copy.getBody()->getTerminator()->erase(); // the builder has made one
    }
    map.map(loop.getInductionVar(), copy.getInductionVar());
    for (unsigned i = 0; i < own; ++i) {
      map.map(loop.getRegionIterArgs()[i], copy.getRegionIterArgs()[i]);
      map.map(loop.getResult(i), copy.getResult(i));
    }
    setPositions(inside, copy.getRegionIterArgs().drop_front(own));
    OpBuilder inner = OpBuilder::atBlockEnd(copy.getBody());
    emitBlock(inner, *loop.getBody(), skip);
    SmallVector<Value> yields = mapped(loop.getYieldedValues());
    llvm::append_range(yields, positionsOf(inside));
    scf::YieldOp::create(inner, loop.getLoc(), yields);
    setPositions(inside, copy.getResults().drop_front(own));
  }

  void emitBranch(OpBuilder &b, scf::IfOp branch, Skip skip) {
    SmallVector<PipelinePlan *> inside = pipelinesIn(branch);
    if (producer && inside.empty() && branch.getNumResults() == 0) {
      return;
    }
    unsigned own = branch.getNumResults();
    SmallVector<Value> before = positionsOf(inside);
    SmallVector<Type> types(branch.getResultTypes());
    types.append(before.size(), b.getI32Type());
    bool hasElse = !branch.getElseRegion().empty() || !types.empty();
    auto copy = scf::IfOp::create(b, branch.getLoc(), types, mapped({branch.getCondition()})[0],
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
    for (auto [from, to] : llvm::zip(branch->getRegions(), copy->getRegions())) {
      if (to.empty()) {
        continue;
      }
      setPositions(inside, before);
      OpBuilder inner = OpBuilder::atBlockEnd(&to.front());
      SmallVector<Value> yields;
      if (!from.empty()) {
        emitBlock(inner, from.front(), skip);
        yields = mapped(from.front().getTerminator()->getOperands());
      }
      llvm::append_range(yields, positionsOf(inside));
      scf::YieldOp::create(inner, branch.getLoc(), yields);
    }
    for (unsigned i = 0; i < own; ++i) {
      map.map(branch.getResult(i), copy.getResult(i));
    }
    setPositions(inside, copy.getResults().drop_front(own));
  }

  /// The position one stage on.
  Position advance(OpBuilder &b, PipelinePlan &pipeline, Position position) {
    Location loc = pipeline.op.getLoc();
    Value next = arith::AddIOp::create(b, loc, position.slot, number(b, loc, 1));
    Value wraps =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, next, number(b, loc, pipeline.op.getStages()));
    Value other = arith::XOrIOp::create(b, loc, position.parity, number(b, loc, 1));
    return {arith::SelectOp::create(b, loc, wraps, number(b, loc, 0), next),
            arith::SelectOp::create(b, loc, wraps, other, position.parity)};
  }

  /// The loop over a pipeline's iterations around `emit`; leaves the position behind it in `positions`.
  void emitPipelineLoop(OpBuilder &b, PipelinePlan &pipeline,
                        llvm::function_ref<void(OpBuilder &, Position, Value)> emit) {
    tile::PipelineOp op = pipeline.op;
    SmallVector<Value> inits = positionsOf({&pipeline});
    auto loop = scf::ForOp::create(b, op.getLoc(), mapped({op.getLower()})[0], mapped({op.getUpper()})[0],
                                   mapped({op.getStep()})[0], inits);
    Position position{loop.getRegionIterArgs()[0], loop.getRegionIterArgs()[1]};
    OpBuilder inner = OpBuilder::atBlockEnd(loop.getBody());
    emit(inner, position, loop.getInductionVar());
    Position next = advance(inner, pipeline, position);
    scf::YieldOp::create(inner, op.getLoc(), ValueRange{next.slot, next.parity});
    setPositions({&pipeline}, loop.getResults());
  }

  void emitLoads(OpBuilder &b, PipelinePlan &pipeline) {
    emitPipelineLoop(b, pipeline, [&](OpBuilder &b, Position position, Value variable) {
      Block &loads = pipeline.op.getLoads().front();
      map.map(loads.getArgument(0), variable);
      Location loc = pipeline.op.getLoc();
      Value free = arith::XOrIOp::create(b, loc, position.parity, number(b, loc, 1));
      llvm::DenseSet<unsigned> opened;
      for (Operation &op : loads) {
        auto load = dyn_cast<tile::LoadOp>(op);
        if (!load) {
          b.clone(op, map);
          continue;
        }
        unsigned index = pipeline.groupOf.lookup(load.getTile());
        BufferGroup &group = pipeline.groups[index];
        if (opened.insert(index).second) {
          tile::BarrierWaitOp::create(b, loc, group.empty, position.slot, free);
          tile::BarrierExpectOp::create(b, loc, group.full, position.slot, group.bytes);
        }
        tile::LoadAsyncOp::create(b, op.getLoc(), pipeline.stagedOf.lookup(load.getTile()), position.slot,
                                  map.lookupOrDefault(load.getSource()), mapped(load.getOffsets()), load.getDims(),
                                  group.full, pipeline.multicast.contains(load.getTile()));
      }
    });
  }

  /// One iteration of the computation.
  void emitIteration(OpBuilder &b, PipelinePlan &pipeline, ProductScheduler &scheduler, Value variable) {
    Block &compute = pipeline.op.getCompute().front();
    map.map(compute.getArgument(0), variable);
    auto never = [](Operation *) { return false; };
    for (Operation &inner : compute) {
      if (!scheduler.visit(b, &inner)) {
        emitForConsumer(b, inner, never);
        scheduler.emitted(b, &inner);
      }
    }
    scheduler.finish(b);
  }

  void emitCompute(OpBuilder &b, PipelinePlan &pipeline) {
    tile::PipelineOp op = pipeline.op;
    Value lower = mapped({op.getLower()})[0], upper = mapped({op.getUpper()})[0];
    if (tile::MmaOp delayed = ProductScheduler::delayable(pipeline)) {
      emitDelayed(b, pipeline, delayed, lower, upper);
      return;
    }
    bool defers = ProductScheduler::defers(pipeline);
    emitPipelineLoop(b, pipeline, [&](OpBuilder &b, Position position, Value variable) {
      ProductScheduler scheduler(&pipeline, position, map);
      if (defers) {
        scheduler.continued = arith::CmpIOp::create(b, op.getLoc(), arith::CmpIPredicate::ne, variable, lower);
      }
      emitIteration(b, pipeline, scheduler, variable);
    });
    if (defers) {
      Value any = arith::CmpIOp::create(b, op.getLoc(), arith::CmpIPredicate::slt, lower, upper);
      ProductScheduler::drain(b, pipeline, positions.lookup(op), map, any);
    }
  }

  /// The first iteration without the delayed product, the others with that of the one before, then the last one's.
  void emitDelayed(OpBuilder &outer, PipelinePlan &pipeline, tile::MmaOp delayed, Value lower, Value upper) {
    tile::PipelineOp op = pipeline.op;
    Location loc = op.getLoc();
    Position start = positions.lookup(op);
    Value any = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::slt, lower, upper);
    SmallVector<Type> types(2, outer.getI32Type());
    auto branch = scf::IfOp::create(outer, loc, types, any, /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder none = OpBuilder::atBlockEnd(branch.elseBlock());
    scf::YieldOp::create(none, loc, ValueRange{start.slot, start.parity});

    OpBuilder b = OpBuilder::atBlockEnd(branch.thenBlock());
    ProductScheduler first(&pipeline, start, map);
    first.takesTurns = plan.groups > 1;
    first.delay(delayed, std::nullopt);
    emitIteration(b, pipeline, first, lower);
    Position second = advance(b, pipeline, start);
    Value step = mapped({op.getStep()})[0];
    Value from = arith::AddIOp::create(b, loc, lower, step);
    auto loop =
        scf::ForOp::create(b, loc, from, upper, step, ValueRange{second.slot, second.parity, start.slot, start.parity});
    OpBuilder inner = OpBuilder::atBlockEnd(loop.getBody());
    ValueRange carried = loop.getRegionIterArgs();
    Position position{carried[0], carried[1]};
    ProductScheduler scheduler(&pipeline, position, map);
    scheduler.takesTurns = plan.groups > 1;
    scheduler.delay(delayed, Position{carried[2], carried[3]});
    emitIteration(inner, pipeline, scheduler, loop.getInductionVar());
    Position next = advance(inner, pipeline, position);
    scf::YieldOp::create(inner, loc, ValueRange{next.slot, next.parity, position.slot, position.parity});
    Position end{loop.getResult(0), loop.getResult(1)}, last{loop.getResult(2), loop.getResult(3)};
    ProductScheduler tail(&pipeline, end, map);
    tail.delay(delayed, last);
    tail.finishDelayed(b);
    scf::YieldOp::create(b, loc, ValueRange{end.slot, end.parity});
    setPositions({&pipeline}, branch.getResults());
  }

  KernelPlan &plan;
  bool producer;
  IRMapping map;
  llvm::DenseMap<Operation *, Position> positions;
};
} // namespace

static Value makeShared(OpBuilder &b, Location loc, ArrayRef<int64_t> shape, Type element) {
  auto space = tile::SpaceKindAttr::get(b.getContext(), tile::SpaceKind::shared);
  return tile::AllocOp::create(b, loc, MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space));
}

/// The staged tiles and the barriers of every pipeline.
static void makeBuffers(OpBuilder &b, KernelPlan &plan) {
  for (PipelinePlan &pipeline : plan.pipelines) {
    Location loc = pipeline.op.getLoc();
    int64_t stages = pipeline.op.getStages();
    for (Value buffer : pipeline.op.getBuffers()) {
      auto type = cast<MemRefType>(buffer.getType());
      SmallVector<int64_t, 3> shape{stages};
      llvm::append_range(shape, type.getShape());
      pipeline.stagedOf[buffer] = makeShared(b, loc, shape, type.getElementType());
    }
    int64_t warps = plan.kernel.getThreads().value_or(0) / 32;
    for (BufferGroup &group : pipeline.groups) {
      group.full = makeShared(b, loc, {stages}, b.getI64Type());
      group.empty = makeShared(b, loc, {stages}, b.getI64Type());
      tile::BarrierInitOp::create(b, loc, group.full, 1);
      tile::BarrierInitOp::create(b, loc, group.empty, group.multicast ? warps * plan.cluster : warps);
    }
  }
}

void kimi::hopper::splitKernel(KernelPlan &plan) {
  Block &body = plan.kernel.getBody().front();
  Location loc = plan.kernel.getLoc();
  llvm::DenseSet<Value> staged;
  for (PipelinePlan &pipeline : plan.pipelines) {
    staged.insert_range(pipeline.op.getBuffers());
  }
  // Tiles, and what both roles compute alike, stay above them.
  llvm::DenseSet<Operation *> above, moved;
  OpBuilder b(&body, body.begin());
  SmallVector<tile::AllocOp> allocs;
  plan.kernel.walk([&](tile::AllocOp alloc) { allocs.push_back(alloc); });
  for (tile::AllocOp alloc : allocs) {
    alloc->moveBefore(&body, b.getInsertionPoint());
    above.insert(alloc);
  }
  SmallVector<Operation *> order;
  for (Operation &op : body.without_terminator()) {
    bool known = llvm::all_of(op.getOperands(),
                              [&](Value v) { return isa<BlockArgument>(v) || above.contains(v.getDefiningOp()); });
    if (above.contains(&op) || (known && op.getNumRegions() == 0 && isMemoryEffectFree(&op))) {
      above.insert(&op);
    } else {
      moved.insert(&op);
      order.push_back(&op);
    }
  }
  b.setInsertionPoint(body.getTerminator());
  makeBuffers(b, plan);
  auto roles = tile::RolesOp::create(b, loc, registersFor(plan));
  for (bool producer : {true, false}) {
    Region &region = producer ? roles.getProducer() : roles.getConsumer();
    OpBuilder inner = OpBuilder::atBlockEnd(&region.emplaceBlock());
    RoleEmitter(plan, producer, IRMapping()).emitKernel(inner, body, [&](Operation *op) {
      return op->getBlock() == &body && !moved.contains(op);
    });
    tile::RoleEndOp::create(inner, loc);
  }
  for (Operation *op : llvm::reverse(order)) {
    op->erase();
  }
  for (Value buffer : staged) {
    buffer.getDefiningOp()->erase();
  }
}
