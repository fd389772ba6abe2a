//===- LowerPipeline.cpp - tile.pipeline by cp.async
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With S stages, S - 1 iterations are loaded before the loop. Iteration i waits for its own loads, meets the other
// threads at a barrier (all of iteration i - 1 is done: its copies are free), issues the loads of iteration i + S - 1
// into the copies of iteration i - 1, and computes.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "passes/TileToNvvm/BlockLowering.h"

using namespace mlir;
using namespace kimi;

/// One copy: a loop over both regions, whose ops are lowered on their own.
static void toLoop(OpBuilder &b, tile::PipelineOp op) {
  auto loop = scf::ForOp::create(b, op.getLoc(), op.getLower(), op.getUpper(), op.getStep());
  Block *body = loop.getBody();
  for (Region *region : {&op.getLoads(), &op.getCompute()}) {
    region->front().getArgument(0).replaceAllUsesWith(loop.getInductionVar());
    body->getOperations().splice(Block::iterator(body->getTerminator()), region->front().getOperations());
  }
}

Value BlockLowering::copyOf(Value buffer, Value index, int64_t copyBytes) {
  SharedTile &whole = *tiles.find(buffer)->second;
  auto cast = UnrealizedConversionCastOp::create(builder, e.loc, buffer.getType(), buffer);
  auto tile = std::make_unique<SharedTile>(whole);
  tile->pointer = e.pointer(whole.pointer, Coord(e.mul(index, e.i32(copyBytes)), -1));
  tiles[cast.getResult(0)] = std::move(tile);
  copies.push_back(cast);
  return cast.getResult(0);
}

LogicalResult BlockLowering::lowerPipeline(tile::PipelineOp op) {
  int64_t stages = op.getStages();
  if (stages == 1) {
    toLoop(builder, op);
    op.erase();
    return success();
  }
  SmallVector<int64_t> written, copyBytes;
  for (Value buffer : op.getBuffers()) {
    SharedTile &tile = *tiles.find(buffer)->second;
    written.append({tile.offset, tile.bytes});
    copyBytes.push_back(tile.bytes / stages);
  }
  Location loc = op.getLoc();
  Value lower = op.getLower(), upper = op.getUpper(), step = op.getStep();
  std::optional<int64_t> from = getConstantIntValue(lower), to = getConstantIntValue(upper),
                         by = getConstantIntValue(step);
  bool fixed = from && to && by && *by > 0;
  // The last value of k, for what is known about the loads that run ahead.
  std::optional<int64_t> last;
  if (fixed && *to > *from) {
    last = *from + (*to - 1 - *from) / *by * *by;
  }
  auto loads = [&](Value k, Value copy) -> LogicalResult {
    IRMapping mapping;
    mapping.map(op.getLoads().getArgument(0), k);
    for (auto [buffer, bytes] : llvm::zip(op.getBuffers(), copyBytes)) {
      mapping.map(buffer, copyOf(buffer, copy, bytes));
    }
    for (Operation &inner : op.getLoads().front()) {
      Operation *cloned = builder.clone(inner, mapping);
      if (auto load = dyn_cast<tile::LoadOp>(cloned)) {
        e.loc = load.getLoc();
        if (failed(lowerAsyncLoad(load))) {
          return failure();
        }
        load.erase();
        e.loc = loc;
      }
    }
    return success();
  };
  auto ahead = [&](Value base, int64_t rounds) -> Value {
    Value distance =
        builder.createOrFold<arith::MulIOp>(loc, step, arith::ConstantIndexOp::create(builder, loc, rounds));
    return builder.createOrFold<arith::AddIOp>(loc, base, distance);
  };
  auto guarded = [&](Value k, Value copy) -> LogicalResult {
    Value more = builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, k, upper);
    if (std::optional<int64_t> known = getConstantIntValue(more)) {
      return *known != 0 ? loads(k, copy) : success();
    }
    auto branch = scf::IfOp::create(builder, loc, more);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    if (last) {
      k = arith::MinSIOp::create(builder, loc, k, arith::ConstantIndexOp::create(builder, loc, *last));
    }
    return loads(k, copy);
  };

  accessBytes({}, written);
  for (int64_t s = 0; s + 1 < stages; ++s) {
    if (failed(guarded(ahead(lower, s), e.i32(s)))) {
      return failure();
    }
    NVVM::CpAsyncCommitGroupOp::create(builder, loc);
  }
  auto loop = scf::ForOp::create(builder, loc, lower, upper, step, ValueRange{e.i32(0), e.i32(stages - 1)});
  {
    OpBuilder::InsertionGuard guard(builder);
    Block *body = loop.getBody();
    builder.setInsertionPointToStart(body);
    Value k = loop.getInductionVar(), reading = loop.getRegionIterArg(0), filling = loop.getRegionIterArg(1);
    NVVM::CpAsyncWaitGroupOp::create(builder, loc, stages - 2);
    NVVM::BarrierOp::create(builder, loc);
    if (failed(guarded(ahead(k, stages - 1), filling))) {
      return failure();
    }
    NVVM::CpAsyncCommitGroupOp::create(builder, loc);
    Block &compute = op.getCompute().front();
    for (auto [buffer, bytes] : llvm::zip(op.getBuffers(), copyBytes)) {
      Value copy = copyOf(buffer, reading, bytes);
      buffer.replaceUsesWithIf(
          copy, [&](OpOperand &use) { return op.getCompute().isAncestor(use.getOwner()->getParentRegion()); });
    }
    compute.getArgument(0).replaceAllUsesWith(k);
    body->getOperations().splice(body->end(), compute.getOperations());
    builder.setInsertionPointToEnd(body);
    auto next = [&](Value copy) {
      Value sum = e.add(copy, e.i32(1));
      Value wraps = e.b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, sum, e.i32(stages));
      return arith::SelectOp::create(builder, loc, wraps, e.i32(0), sum).getResult();
    };
    scf::YieldOp::create(builder, loc, ValueRange{next(reading), next(filling)});
  }
  op.erase();
  return success();
}

LogicalResult BlockLowering::lowerAsyncLoad(tile::LoadOp op) {
  SmallVector<OpFoldResult> offsets(op.getOffsets().begin(), op.getOffsets().end());
  auto type = cast<MemRefType>(op.getTile().getType());
  FailureOr<MemoryBox> source = box(op, op.getSource(), offsets, op.getDims(), type.getShape(), /*checked=*/true);
  if (failed(source)) {
    return failure();
  }
  FailureOr<TileOperand> target = operand(op, op.getTile());
  if (failed(target)) {
    return failure();
  }
  auto &tile = std::get<MemoryBox>(*target);
  int64_t dim = source->contiguousDim(), size = elementBytes(tile.element());
  int64_t vector = std::min(source->vectorElements(), tile.vectorElements());
  std::string obstacle;
  if (source->isShared()) {
    obstacle = "its source is in shared memory";
  } else if (source->element() != tile.element()) {
    obstacle = "it converts elements";
  } else if (!op.getPad().isPosZero()) {
    obstacle = "it pads with a value that is not zero";
  } else if (dim < 0 || dim != tile.contiguousDim()) {
    obstacle = "it transposes";
  } else if (vector * size < 4) {
    obstacle = "addresses are multiples of " + std::to_string(vector * size) +
               " bytes only as far as is known; cp.async moves 4, 8 or 16";
  }
  if (!obstacle.empty()) {
    op.emitRemark() << "is copied through registers, not by cp.async: " << obstacle;
    return copyIn(op, *source, tile);
  }
  pieces(type.getShape(), dim, vector, [&](tile::LayoutAttr layout, ArrayRef<int64_t> shape, ArrayRef<Coord> origin) {
    unsigned rank = shape.size();
    int64_t count = vectorOf(layout, rank, dim, vector), bytes = count * size;
    bool wide = bytes >= 4;
    Value owner = e.place(layout, rank).owner;
    for (int64_t r = 0; r < layout.registerCount(); r += count) {
      SmallVector<Coord> coords = coordsOf(layout, r, rank, origin);
      if (!wide) { // a tile whose rows are too short
        tile.storeRaw(coords, source->loadRaw(coords, count), count, owner);
        continue;
      }
      Value to = tile.pointer(coords), at = source->pointer(coords), holds = source->predicate(coords);
      Value length =
          holds ? arith::SelectOp::create(builder, e.loc, holds, e.i32(bytes), e.i32(0)).getResult() : Value();
      auto modifier = bytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
      auto copy = [&] { NVVM::CpAsyncOp::create(builder, e.loc, to, at, bytes, modifier, length); };
      if (!owner) {
        copy();
        continue;
      }
      auto branch = scf::IfOp::create(builder, e.loc, owner);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.thenBlock());
      copy();
    }
  });
  return success();
}
