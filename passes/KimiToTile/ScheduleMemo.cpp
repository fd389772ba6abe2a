//===- ScheduleMemo.cpp - kernels of ops that are alike are written once
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/ScheduleMemo.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
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
  bool add(const ScheduleGroup &group) {
    text += group.facts;
    text += '\n';
    for (Operation *op : group.ops) {
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
        text += result.use_empty() ? '-' : 'u';
      }
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
    } else if (isa<StateType>(value.getType())) { // its extents are in its type, and the batch is in shapes
      return true;
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
    addLoadTime(value);
    return true;
  }

  /// Launches of weights alone go to load time, and others may read weights ahead of the launches before them: see
  /// KernelWriter::finish.
  void addLoadTime(Value value) {
    if (isLoadTimeValue(value)) {
      bool returned =
          llvm::any_of(ViewLayouts::base(value).getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
      text += returned ? 'r' : 'w';
    } else {
      text += mayBeLaunchedAtLoadTime(value) ? 'l' : 'x';
    }
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

/// Whether `op`, written before an op, computes scalars of nothing but the function's dims, so that those of a later op
/// that is alike have the same values. `mapped`: what that op uses; `own`: what was written before `op`, where this is
/// not so.
bool isSharedScalar(Operation *op, const llvm::DenseSet<Value> &mapped, const llvm::DenseSet<Operation *> &own) {
  bool scalars = op->getNumResults() > 0 && op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
                 llvm::all_of(op->getResultTypes(), [](Type type) { return type.isIntOrIndex(); });
  return scalars && llvm::all_of(op->getOperands(), [&](Value value) {
           if (Operation *source = value.getDefiningOp()) {
             return value.getType().isIntOrIndex() && !own.contains(source);
           }
           return isa<tensor::DimOp>(op) || !mapped.contains(value); // of an argument of the function
         });
}
} // namespace

LogicalResult ScheduleMemo::schedule(Operation *op, const ScheduleGroup &group,
                                     llvm::function_ref<LogicalResult()> write) {
  if (group.ops.empty()) {
    return write();
  }
  Key key(context);
  if (!key.add(group)) {
    return write();
  }
  auto it = entries.find(key.str());
  if (it != entries.end() && it->second.op->isBeforeInBlock(op)) {
    copy(it->second, key.getOutside(), op, group.ops);
    return success();
  }
  Operation *before = op->getPrevNode();
  size_t dead = context.dead.size();
  context.replaced.clear();
  if (failed(write())) {
    return failure();
  }
  if (it == entries.end()) {
    remember(key.str(), {op, SmallVector<Value>(key.getOutside()), {}, {}, {}}, group.ops, before, dead);
  }
  return success();
}

void ScheduleMemo::remember(const std::string &key, Entry entry, ArrayRef<Operation *> group, Operation *before,
                            size_t dead) {
  llvm::SmallDenseMap<Operation *, unsigned> places;
  for (auto [index, op] : llvm::enumerate(group)) {
    places.try_emplace(op, index);
  }
  for (Operation *gone : ArrayRef<Operation *>(context.dead).drop_front(dead)) {
    auto it = places.find(gone);
    if (it == places.end()) {
      return;
    }
    entry.dead.push_back(it->second);
  }
  for (auto [from, to] : context.replaced) {
    auto result = dyn_cast<OpResult>(from);
    auto it = result ? places.find(result.getOwner()) : places.end();
    if (it == places.end()) {
      return;
    }
    entry.replaced.push_back({it->second, result.getResultNumber(), to});
  }
  if (entry.dead.empty()) { // it was left to others
    return;
  }
  llvm::DenseSet<Value> mapped(entry.outside.begin(), entry.outside.end());
  llvm::DenseSet<Operation *> own;
  Operation *next = before ? before->getNextNode() : &entry.op->getBlock()->front();
  for (; next != entry.op; next = next->getNextNode()) {
    if (!isSharedScalar(next, mapped, own)) {
      own.insert(next);
      entry.written.push_back(next);
    }
  }
  if (isClosed(entry.written, mapped)) {
    entries.try_emplace(key, std::move(entry));
  }
}

void ScheduleMemo::copy(const Entry &entry, ArrayRef<Value> outside, Operation *op, ArrayRef<Operation *> group) {
  OpBuilder b(op);
  IRMapping mapping;
  for (auto [from, to] : llvm::zip_equal(entry.outside, outside)) {
    mapping.map(from, to);
  }
  for (Operation *written : entry.written) {
    b.clone(*written, mapping)->walk([&](Operation *copied) {
      if (copied->getLoc() == entry.op->getLoc()) {
        copied->setLoc(op->getLoc());
      }
    });
  }
  for (const Entry::Replaced &replaced : entry.replaced) {
    context.replaceValue(group[replaced.op]->getResult(replaced.result), mapping.lookupOrDefault(replaced.by));
  }
  for (unsigned index : entry.dead) {
    context.dead.push_back(group[index]);
  }
}
