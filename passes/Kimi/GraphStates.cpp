//===- GraphStates.cpp - states that a graph takes in and gives out itself
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/GraphStates.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kimi;

StringAttr kimi::argumentName(func::FuncOp func, unsigned argument) {
  auto name = func.getArgAttrOfType<StringAttr>(argument, "kimi.name");
  return name ? name : StringAttr::get(func.getContext(), "arg" + Twine(argument));
}

Attribute kimi::argumentDim(func::FuncOp func, unsigned argument, int64_t axis) {
  auto dims = func.getArgAttrOfType<ArrayAttr>(argument, "kimi.dims");
  return dims && axis < static_cast<int64_t>(dims.size()) ? dims[axis] : Attribute();
}

void kimi::readArgumentsDirectly(func::FuncOp func) {
  for (BlockArgument argument : func.getArguments()) {
    for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
      auto concat = dyn_cast<tensor::ConcatOp>(user);
      if (!isa<tensor::CastOp>(user) && !(concat && concat.getInputs().size() == 1)) {
        continue;
      }
      user->getResult(0).replaceUsesWithIf(
          argument, [](OpOperand &use) { return isa<tensor::ConcatOp, tensor::DimOp>(use.getOwner()); });
      if (user->use_empty()) {
        user->erase();
      }
    }
  }
}

namespace {

RankedTensorType floatsOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType()) ? type : RankedTensorType();
}

/// Whether both hold the same elements in the same shape, as far as is known.
bool agree(RankedTensorType a, RankedTensorType b) {
  return a && b && a.getElementType() == b.getElementType() && succeeded(verifyCompatibleShape(a, b));
}

/// The result index at which `value`, or a cast of it, is returned.
std::optional<unsigned> returnedAt(Value value) {
  SmallVector<Value> same = {value};
  for (Operation *user : value.getUsers()) {
    if (auto cast = dyn_cast<tensor::CastOp>(user)) {
      same.push_back(cast.getResult());
    }
  }
  std::optional<unsigned> result;
  for (Value each : same) {
    for (OpOperand &use : each.getUses()) {
      if (isa<func::ReturnOp>(use.getOwner())) {
        result = use.getOperandNumber();
      }
    }
  }
  return result;
}

/// The cache that begins in `argument`, if any.
std::optional<GraphState> findCache(BlockArgument argument) {
  RankedTensorType type = floatsOf(argument);
  if (!type || type.getRank() < 3) {
    return std::nullopt;
  }
  tensor::ConcatOp concat;
  for (Operation *user : argument.getUsers()) {
    if (auto found = dyn_cast<tensor::ConcatOp>(user); found && !concat) {
      concat = found;
    } else if (!isa<tensor::DimOp>(user)) {
      return std::nullopt;
    }
  }
  if (!concat || concat.getInputs().size() != 2 || concat.getInputs()[0] != argument ||
      concat.getInputs()[1] == argument) {
    return std::nullopt;
  }
  auto axis = static_cast<int64_t>(concat.getDim());
  std::optional<unsigned> result = returnedAt(concat.getResult());
  if (!result || !type.isDynamicDim(axis)) {
    return std::nullopt;
  }
  return GraphState{argument.getArgNumber(), *result, concat, axis};
}

/// Ops between a state in the graph's form and in a mixer's: casts of elements or shapes, reshapes, transposes. Their
/// first operand carries the state.
bool carries(Operation *op) {
  if (isa<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
    return true;
  }
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  return structured && structured.getNumDpsInputs() == 1 && op->getNumResults() == 1 &&
         structured.getNumLoops() == structured.getNumParallelLoops();
}

/// The argument that reaches `value` through ops that carry it.
BlockArgument carriedFrom(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!carries(op)) {
      return {};
    }
    value = op->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

/// The results of the function that `value` reaches through ops that carry it.
SmallVector<unsigned> carriedTo(Value value) {
  SmallVector<unsigned> results;
  llvm::SetVector<Value> open;
  open.insert(value);
  for (size_t next = 0; next < open.size(); ++next) {
    for (OpOperand &use : open[next].getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        results.push_back(use.getOperandNumber());
      } else if (carries(user) && use.getOperandNumber() == 0) {
        open.insert(user->getResult(0));
      }
    }
  }
  return results;
}

/// "past_key_values.3.conv" -> "present.3.conv", "past.3.conv" -> "present.3.conv"; empty where it is called otherwise.
std::string presentName(StringRef name) {
  for (StringRef prefix : {"past_key_values", "past"}) {
    if (name.starts_with(prefix)) {
      return ("present" + name.drop_front(prefix.size())).str();
    }
  }
  return "";
}

/// Collects the states of a function; each argument and each result is part of one.
class StateFinder {
public:
  StateFinder(func::FuncOp func, Attribute batchName) : func(func), batchName(batchName) {}

  LogicalResult run() {
    for (BlockArgument argument : func.getArguments()) {
      if (std::optional<GraphState> cache = findCache(argument); cache && failed(add(*cache))) {
        return failure();
      }
    }
    if (failed(findByMixers())) {
      return failure();
    }
    return findByNames();
  }

  SmallVector<GraphState> states;

private:
  LogicalResult add(GraphState state) {
    auto [argument, isFirst] = resultOf.try_emplace(state.argument, state.result);
    auto [result, isOnly] = argumentOf.try_emplace(state.result, state.argument);
    if (!isFirst && !isOnly && argument->second == state.result) {
      return success(); // the same pair again
    }
    if (!isFirst || !isOnly) {
      func.emitRemark() << "no decode entry is derived: it is not clear which state of input '"
                        << argumentName(func, state.argument).getValue() << "' and output " << state.result
                        << " belong together: one of them is also part of another state";
      return failure();
    }
    states.push_back(state);
    return success();
  }

  /// Whether a state of fixed size can be of this type: only its batch may vary.
  bool isFixed(BlockArgument argument) const {
    RankedTensorType type = floatsOf(argument);
    if (!type || type.getRank() < 2 || type.getNumDynamicDims() > 1) {
      return false;
    }
    for (int64_t axis = 0; axis < type.getRank(); ++axis) {
      Attribute name = argumentDim(func, argument.getArgNumber(), axis);
      if (type.isDynamicDim(axis) && axis != 0 && (!name || name != batchName)) {
        return false;
      }
    }
    return true;
  }

  LogicalResult findByMixers() {
    auto ret = cast<func::ReturnOp>(func.getBody().front().getTerminator());
    for (Operation &op : func.getBody().front()) {
      auto mixer = dyn_cast<MixerOpInterface>(op);
      for (unsigned i = 0, n = mixer ? mixer.getMixerStates().size() : 0; i < n; ++i) {
        OpOperand *taken = mixer.getStateOperand(i);
        Value given = mixer.getStateResult(i);
        BlockArgument argument = taken && given ? carriedFrom(taken->get()) : BlockArgument();
        if (!argument || !isFixed(argument)) {
          continue;
        }
        for (unsigned result : carriedTo(given)) {
          if (agree(floatsOf(argument), floatsOf(ret.getOperand(result))) &&
              failed(add({argument.getArgNumber(), result, {}, -1}))) {
            return failure();
          }
        }
      }
    }
    return success();
  }

  LogicalResult findByNames() {
    auto ret = cast<func::ReturnOp>(func.getBody().front().getTerminator());
    for (BlockArgument argument : func.getArguments()) {
      std::string wanted = presentName(argumentName(func, argument.getArgNumber()).getValue());
      if (wanted.empty() || resultOf.contains(argument.getArgNumber()) || !isFixed(argument)) {
        continue;
      }
      for (unsigned result = 0; result < func.getNumResults(); ++result) {
        auto name = func.getResultAttrOfType<StringAttr>(result, "kimi.name");
        if (name && name.getValue() == wanted && agree(floatsOf(argument), floatsOf(ret.getOperand(result))) &&
            failed(add({argument.getArgNumber(), result, {}, -1}))) {
          return failure();
        }
      }
    }
    return success();
  }

  func::FuncOp func;
  Attribute batchName;
  llvm::DenseMap<unsigned, unsigned> resultOf, argumentOf;
};

} // namespace

FailureOr<SmallVector<GraphState>> kimi::findGraphStates(func::FuncOp func, Attribute batchName) {
  StateFinder finder(func, batchName);
  if (failed(finder.run())) {
    return failure();
  }
  llvm::sort(finder.states, [](const GraphState &a, const GraphState &b) { return a.argument < b.argument; });
  return finder.states;
}

LogicalResult kimi::checkMixersKeepStates(func::FuncOp func, BlockArgument ids) {
  // What depends on the tokens, and what holds a state. A mixer's result mixes both; no state is seen through it.
  llvm::DenseSet<Value> fromTokens = {ids}, fromStates;
  for (Operation &op : func.getBody().front()) {
    bool seesTokens = false, seesState = false;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        seesTokens |= fromTokens.contains(operand);
        seesState |= fromStates.contains(operand) || isa<StateType>(operand.getType());
      }
    });
    auto mixer = dyn_cast<MixerOpInterface>(op);
    if (mixer && seesTokens) {
      for (auto [i, state] : llvm::enumerate(mixer.getMixerStates())) {
        OpOperand *taken = mixer.getStateOperand(i);
        // Keys that have nothing to do with the tokens (another model's) are the same in each step.
        bool isForeign = taken && !mixer.getStateResult(i) && !fromTokens.contains(taken->get());
        if (taken && (fromStates.contains(taken->get()) || isForeign)) {
          continue;
        }
        op.emitRemark()
            << "no decode entry is derived: other states are among the inputs of the graph, but this mixer's '"
            << state.name << "' is not; a step would forget what came before";
        return failure();
      }
    }
    for (Value result : op.getResults()) {
      if (seesTokens || seesState) {
        fromTokens.insert(result);
      }
      if (seesState && !mixer && isa<RankedTensorType>(result.getType())) { // not the number of tokens held
        fromStates.insert(result);
      }
    }
  }
  return success();
}
