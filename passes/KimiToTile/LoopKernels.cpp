//===- LoopKernels.cpp - kimi.loops, cache_append and pack_weight as kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/LoopKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/TaskLoop.h"

using namespace mlir;
using namespace kimi;

namespace {
/// `buffer` as the type that the body of a kimi.loops expects; itself where the body only loads, stores and asks
/// extents.
Value asBodyExpects(KernelWriter &writer, Value buffer, BlockArgument argument) {
  bool byElement = llvm::all_of(
      argument.getUsers(), [](Operation *user) { return isa<memref::LoadOp, memref::StoreOp, memref::DimOp>(user); });
  if (byElement || buffer.getType() == argument.getType()) {
    return buffer;
  }
  return memref::CastOp::create(writer.body(), writer.loc(), argument.getType(), buffer);
}
} // namespace

LogicalResult kimi::outlineLoops(HostContext &context, LoopsOp op) {
  KernelWriter writer(context, op);
  OpBuilder &b = writer.body();
  Block &body = op.getBody().front();
  IRMapping mapping;
  unsigned next = 0;
  auto map = [&](Value value) { mapping.map(body.getArgument(next++), value); };
  auto mapBuffer = [&](Value buffer) { map(asBodyExpects(writer, buffer, body.getArgument(next))); };
  for (Value input : op.getInputs()) {
    Value buffer = writer.input(input);
    if (!buffer) {
      writer.abandon();
      return failure();
    }
    mapBuffer(buffer);
  }
  for (Value result : op.getResults()) {
    mapBuffer(writer.result(cast<RankedTensorType>(result.getType()), context.scalars.shape(result)));
  }
  for (Value scalar : op.getScalars()) {
    map(writer.scalar(context.scalars.of(scalar)));
  }
  SymbolicDim tasks(1);
  if (op.getRows()) {
    tasks = context.scalars.of(op.getRows());
    map(tile::BlockIdOp::create(b, writer.loc(), b.getIndexType(), uint64_t(0)));
  }
  // What the body takes from around it: constants that folding has moved out, and host scalars.
  SetVector<Value> outside;
  getUsedValuesDefinedAbove(op.getBody(), outside);
  for (Value value : outside) {
    Operation *source = value.getDefiningOp();
    if (source && source->hasTrait<OpTrait::ConstantLike>()) {
      mapping.map(value, b.clone(*source)->getResult(0));
    } else if (value.getType().isIndex()) {
      mapping.map(value, writer.scalar(context.scalars.of(value)));
    }
  }
  for (Operation &inner : body.without_terminator()) {
    b.clone(inner, mapping)->walk([&](Operation *copy) { copy->setLoc(writer.loc()); });
  }
  auto name = op->getAttrOfType<StringAttr>("kimi.name");
  KernelWriter::Variant variant{writer.finish(name ? "loops_" + name.str() : "loops"), SymbolicDim(1), tasks};
  context.replace(op, writer.dispatch(variant).getResults());
  return success();
}

LogicalResult kimi::outlineAppends(HostContext &context, ArrayRef<CacheAppendOp> appends, int64_t taskWork) {
  CacheAppendOp first = appends.front(); // the rows of all are ready here
  int64_t grows = first.getState().getType().getGrows();
  SmallVector<SymbolicDim> sizes = context.scalars.shape(first.getRows());
  SymbolicDim past = context.scalars.of(first.getPast());
  KernelWriter writer(context, first);
  OpBuilder &b = writer.body();
  Location loc = writer.loc();
  SmallVector<std::pair<Value, Value>> copies;
  for (CacheAppendOp append : appends) {
    Value rows = writer.input(append.getRows());
    if (!rows) {
      writer.abandon();
      return failure();
    }
    copies.emplace_back(rows, Value());
  }
  for (unsigned i = 0; i < appends.size(); ++i) {
    CacheAppendOp append = appends[i];
    copies[i].second = writer.state(append.getState(), sizes.front());
  }
  Value start = writer.scalar(past);
  SmallVector<Value> bounds;
  for (int64_t axis = 0; axis < static_cast<int64_t>(sizes.size()); ++axis) {
    bounds.push_back(writer.extent(copies[0].first, axis));
  }
  TaskLoop tasks(sizes, SymbolicDim(copies.size()), taskWork);
  tasks.build(writer, bounds, [&](ArrayRef<Value> point) {
    SmallVector<Value> target(point);
    target[grows] = arith::AddIOp::create(b, loc, point[grows], start);
    for (auto [rows, state] : copies) {
      Value element = memref::LoadOp::create(b, loc, rows, point);
      memref::StoreOp::create(b, loc, element, state, target);
    }
  });
  std::string stem = copies.size() > 1 ? "append_" + std::to_string(copies.size()) : "append";
  KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), tasks.tasks()};
  writer.dispatch(variant);
  OpBuilder at(first);
  for (CacheAppendOp append : appends) {
    auto type = cast<RankedTensorType>(append.getType());
    SmallVector<Value> dims;
    for (auto [axis, size] : llvm::enumerate(context.scalars.shape(append.getResult()))) {
      if (type.isDynamicDim(axis)) {
        dims.push_back(context.scalars.materialize(at, append.getLoc(), size));
      }
    }
    Value view = StateViewOp::create(at, append.getLoc(), type, append.getState(), dims);
    context.replace(append, view);
  }
  return success();
}

/// Whether something reads `view`, or a view of it, after `write`.
static bool isReadAfter(Value view, Operation *write) {
  return llvm::any_of(view.getUsers(), [&](Operation *user) {
    Operation *top = write->getBlock()->findAncestorOpInBlock(*user);
    if (!top || (write != top && write->isBeforeInBlock(top))) {
      return true;
    }
    bool isView = isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
                      linalg::TransposeOp, linalg::BroadcastOp>(user);
    return isView && isReadAfter(user->getResult(0), write);
  });
}

LogicalResult kimi::outlineStateRead(HostContext &context, StateReadOp op, int64_t taskWork) {
  OpBuilder b(op);
  Value view = StateViewOp::create(b, op.getLoc(), op.getType(), op.getState(), op.getSizes());
  bool stays = llvm::none_of(op.getState().getUsers(), [&](Operation *user) {
    auto write = dyn_cast<StateWriteOp>(user);
    return write && op->isBeforeInBlock(write) && isReadAfter(op.getResult(), write);
  });
  if (stays) {
    context.replace(op, view);
    return success();
  }
  Value copy = copyBefore(context, op, view);
  context.replace(op, copy);
  return outlineGeneric(context, copy.getDefiningOp<linalg::GenericOp>(), taskWork);
}

/// Whether `value` lies in `state` in another order than the state itself: a part of it, or its axes exchanged.
static bool movesWithin(Value value, Value state) {
  bool moves = false;
  while (Operation *op = value.getDefiningOp()) {
    if (auto view = dyn_cast<StateViewOp>(op)) {
      return moves && view.getState() == state;
    }
    if (!isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
             linalg::TransposeOp, linalg::BroadcastOp>(op)) {
      return false;
    }
    moves |= isa<tensor::ExtractSliceOp, linalg::TransposeOp, linalg::BroadcastOp>(op);
    value = op->getOperand(0);
  }
  return false;
}

LogicalResult kimi::outlineStateWrite(HostContext &context, StateWriteOp op, int64_t taskWork) {
  if (movesWithin(op.getValue(), op.getState())) { // the tasks would overwrite what others are to read
    Value copy = copyBefore(context, op, op.getValue());
    op.getValueMutable().assign(copy);
    if (failed(outlineGeneric(context, copy.getDefiningOp<linalg::GenericOp>(), taskWork))) {
      return failure();
    }
  }
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getValue());
  KernelWriter writer(context, op);
  OpBuilder &b = writer.body();
  Value value = writer.input(op.getValue());
  if (!value) {
    writer.abandon();
    return failure();
  }
  Value state = writer.state(op.getState(), sizes.front());
  SmallVector<Value> bounds;
  for (int64_t axis = 0; axis < static_cast<int64_t>(sizes.size()); ++axis) {
    bounds.push_back(writer.extent(value, axis));
  }
  TaskLoop tasks(sizes, SymbolicDim(1), taskWork);
  tasks.build(writer, bounds, [&](ArrayRef<Value> point) {
    Value element = memref::LoadOp::create(b, writer.loc(), value, point);
    memref::StoreOp::create(b, writer.loc(), element, state, point);
  });
  KernelWriter::Variant variant{writer.finish("state_write"), SymbolicDim(1), tasks.tasks()};
  writer.dispatch(variant);
  context.dead.push_back(op);
  return success();
}

LogicalResult kimi::outlinePack(HostContext &context, PackWeightOp op) {
  KernelWriter writer(context, op);
  OpBuilder &b = writer.body();
  Location loc = writer.loc();
  Value w = writer.input(op.getW());
  if (!w) {
    writer.abandon();
    return failure();
  }
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getW());
  int64_t panel = op.getPanel();
  bool transposed = op.getTranspose();
  SymbolicDim rows = sizes[transposed ? 1 : 0], columns = sizes[transposed ? 0 : 1];
  Value packed = writer.result(type, {SymbolicDim::ceilDiv(columns, panel), rows, SymbolicDim(panel)});
  Value k = writer.extent(w, transposed ? 1 : 0), n = writer.extent(w, transposed ? 0 : 1);
  Value zero = writer.constant(0), one = writer.constant(1), lanes = writer.constant(panel);
  Value index = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
  Value first = arith::MulIOp::create(b, loc, index, lanes);
  Value lastColumn = arith::SubIOp::create(b, loc, n, one);
  Value nothing = arith::ConstantOp::create(b, loc, b.getZeroAttr(type.getElementType()));
  buildLoop(b, loc, zero, k, one, [&](Value row) {
    buildLoop(b, loc, zero, lanes, one, [&](Value lane) {
      Value column = arith::AddIOp::create(b, loc, first, lane);
      Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, column, n);
      Value from = arith::MinUIOp::create(b, loc, column, lastColumn);
      Value element = memref::LoadOp::create(b, loc, w, transposed ? ValueRange{from, row} : ValueRange{row, from});
      element = arith::SelectOp::create(b, loc, inside, element, nothing);
      memref::StoreOp::create(b, loc, element, packed, ValueRange{index, row, lane});
    });
  });
  std::string stem = "pack_" + std::to_string(panel) + (transposed ? "_transposed" : "");
  KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), SymbolicDim::ceilDiv(columns, panel)};
  context.replace(op, writer.dispatch(variant).getResults());
  return success();
}
