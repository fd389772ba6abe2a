//===- BlockAsync.cpp - asynchronous ops among the tile ops of a kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/TileToNvvm/BlockLowering.h"

using namespace mlir;
using namespace kimi;

/// The tiles of a BlockLowering.
class BlockLowering::Storage : public hopper::TileStorage {
public:
  explicit Storage(BlockLowering &lowering) : lowering(lowering) {}

  Value sharedPointer(OpBuilder &, Location, Value tile) override { return lowering.tiles.at(tile)->pointer; }
  tile::LayoutAttr layoutOf(Value fragment) override { return lowering.fragments.at(fragment)->layout; }

  SmallVector<Value> loadRegisters(OpBuilder &b, Location, Value fragment) override {
    OpBuilder::InsertionGuard guard(lowering.builder);
    lowering.builder.restoreInsertionPoint(b.saveInsertionPoint());
    return lowering.getAll(*lowering.fragments.at(fragment));
  }
  void storeRegisters(OpBuilder &b, Location, Value fragment, ValueRange values) override {
    OpBuilder::InsertionGuard guard(lowering.builder);
    lowering.builder.restoreInsertionPoint(b.saveInsertionPoint());
    for (auto [index, value] : llvm::enumerate(values)) {
      lowering.set(*lowering.fragments.at(fragment), index, value);
    }
  }

private:
  BlockLowering &lowering;
};

LogicalResult BlockLowering::lowerAsync(Operation *op) {
  if (!async) {
    storage = std::make_unique<Storage>(*this);
    async = std::make_unique<hopper::AsyncLowering>(kernel, *storage, e.thread());
  }
  // Stages have barriers of their own; other tiles are written by the threads.
  SmallVector<int64_t> reads;
  auto addReads = [&](tile::MmaAsyncOp product) {
    for (Value operand : {product.getA(), product.getB()}) {
      auto tile = tiles.find(operand);
      if (tile != tiles.end() && tile->second->type.getRank() == 2) {
        reads.append({tile->second->offset, tile->second->bytes});
      }
    }
  };
  if (auto product = dyn_cast<tile::MmaAsyncOp>(op)) {
    addReads(product);
  } else if (isa<tile::TurnWaitOp>(op)) {
    // The warpgroups must not have to meet within a turn.
    for (Operation *next = op->getNextNode(); next && !isa<tile::TurnPassOp>(next); next = next->getNextNode()) {
      if (auto product = dyn_cast<tile::MmaAsyncOp>(next)) {
        addReads(product);
      }
    }
  }
  if (!reads.empty()) {
    accessBytes(reads, {});
  }
  return async->lower(op);
}
