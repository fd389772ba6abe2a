//===- ScheduleMemo.cpp - kernels of ops that are alike are written once
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/ScheduleMemo.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kimi/LoadTime.h"

using namespace mlir;
using namespace kimi;

namespace {
/// The text of all that kernels of an op depend on. Attributes and types are unique in their context: their addresses
/// stand for them. Values are numbered in the order in which they are met.
class Key {
public:
  explicit Key(HostContext &context) : context(context) {}

  /// False where something is met of which the kernels may depend in another way.
  bool add(Operation *op) {
    addPointer(op->getBlock());
    if (!addOperation(*op)) {
      return false;
    }
    for (Value result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type) {
        return false;
      }
      addDims(context.scalars.shape(result));
    }
    return true;
  }

  const std::string &str() const { return text; }
  /// The values from outside of the op.
  ArrayRef<Value> getOutside() const { return outside; }

private:
  void addPointer(const void *pointer) { text += std::to_string(reinterpret_cast<uintptr_t>(pointer)) + ' '; }

  void addDims(ArrayRef<SymbolicDim> dims) {
    for (const SymbolicDim &dim : dims) {
      text += dim.str();
      text += ',';
    }
    text += ';';
  }

  bool addOperation(Operation &op) {
    addPointer(op.getName().getAsOpaquePointer());
    addPointer(op.getAttrDictionary().getAsOpaquePointer());
    for (Value operand : op.getOperands()) {
      if (!addValue(operand)) {
        return false;
      }
    }
    for (Value result : op.getResults()) {
      addPointer(result.getType().getAsOpaquePointer());
      numbers.try_emplace(result, numbers.size());
    }
    for (Region &region : op.getRegions()) {
      text += '{';
      for (Block &block : region) {
        for (BlockArgument argument : block.getArguments()) {
          addPointer(argument.getType().getAsOpaquePointer());
          numbers.try_emplace(argument, numbers.size());
        }
        for (Operation &inner : block) {
          if (inner.getNumSuccessors() != 0 || !addOperation(inner)) {
            return false;
          }
        }
      }
      text += '}';
    }
    return true;
  }

  bool addValue(Value value) {
    auto [it, inserted] = numbers.try_emplace(value, numbers.size());
    text += '%' + std::to_string(it->second) + ' ';
    return !inserted || describe(value);
  }

  /// A value from outside, met for the first time.
  bool describe(Value value) {
    outside.push_back(value);
    addPointer(value.getType().getAsOpaquePointer());
    Attribute constant;
    if (matchPattern(value, m_Constant(&constant))) { // a kernel may have it in place of an argument
      addPointer(constant.getAsOpaquePointer());
    } else if (value.getType().isIntOrIndex()) {
      SymbolicDim dim = context.scalars.of(value);
      addDims(dim);
      return context.scalars.isComputable(dim);
    } else if (!isa<RankedTensorType>(value.getType())) {
      return false;
    }
    if (!isa<RankedTensorType>(value.getType())) {
      return true;
    }
    if (auto fill = value.getDefiningOp<linalg::FillOp>()) {
      text += "fill ";
      if (!addValue(fill.getInputs()[0])) {
        return false;
      }
    }
    FailureOr<ViewLayout> layout = context.layouts.of(value);
    if (failed(layout)) {
      return false;
    }
    addDims(layout->offset);
    addDims(layout->sizes);
    addDims(layout->strides);
    text += isLoadTimeValue(value) ? 'w' : 'x';
    return true;
  }

  HostContext &context;
  std::string text;
  llvm::DenseMap<Value, unsigned> numbers;
  SmallVector<Value> outside;
};

/// Whether `written` uses nothing but what a copy replaces (`mapped`), scalars, and the function's arguments.
bool isClosed(ArrayRef<Operation *> written, const llvm::DenseSet<Value> &mapped) {
  llvm::SmallPtrSet<Operation *, 32> own(written.begin(), written.end());
  auto known = [&](Operation *top, Value value) {
    if (mapped.contains(value) || value.getType().isIntOrIndex()) {
      return true;
    }
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      return isa<func::FuncOp>(parent) || top->isAncestor(parent);
    }
    Operation *source = value.getDefiningOp();
    return own.contains(source) || top->isProperAncestor(source);
  };
  for (Operation *op : written) {
    WalkResult result = op->walk([&](Operation *inner) {
      bool all = llvm::all_of(inner->getOperands(), [&](Value value) { return known(op, value); });
      return all ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (result.wasInterrupted()) {
      return false;
    }
  }
  return true;
}
} // namespace

LogicalResult ScheduleMemo::schedule(Operation *op, llvm::function_ref<LogicalResult()> write) {
  Key key(context);
  bool isKeyed = key.add(op);
  if (isKeyed) {
    if (auto it = entries.find(key.str()); it != entries.end()) {
      copy(it->second, key.getOutside(), op);
      return success();
    }
  }
  Operation *before = op->getPrevNode();
  size_t dead = context.dead.size();
  if (failed(write())) {
    return failure();
  }
  if (!isKeyed || context.dead.size() != dead + 1 || context.dead.back() != op) {
    return success();
  }
  Entry entry{op->getLoc(), SmallVector<Value>(key.getOutside()), {}, context.replacements};
  Operation *next = before ? before->getNextNode() : &op->getBlock()->front();
  for (; next != op; next = next->getNextNode()) {
    entry.written.push_back(next);
  }
  llvm::DenseSet<Value> mapped(entry.outside.begin(), entry.outside.end());
  if (isClosed(entry.written, mapped)) {
    entries.try_emplace(key.str(), std::move(entry));
  }
  return success();
}

void ScheduleMemo::copy(const Entry &entry, ArrayRef<Value> outside, Operation *op) {
  OpBuilder b(op);
  IRMapping mapping;
  for (auto [from, to] : llvm::zip_equal(entry.outside, outside)) {
    mapping.map(from, to);
  }
  for (Operation *written : entry.written) {
    b.clone(*written, mapping)->walk([&](Operation *copied) {
      if (copied->getLoc() == entry.loc) {
        copied->setLoc(op->getLoc());
      }
    });
  }
  SmallVector<Value> results;
  for (Value result : entry.results) {
    results.push_back(mapping.lookupOrDefault(result));
  }
  context.replace(op, results);
}
