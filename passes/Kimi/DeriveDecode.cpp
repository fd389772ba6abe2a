//===- DeriveDecode.cpp - --kimi-derive-decode
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/Kimi/DeriveDecodeRoles.h"
#include "passes/Kimi/DeriveDecodeTime.h"
#include "passes/Kimi/GraphStates.h"
#include "passes/Kimi/Passes.h"
#include "llvm/ADT/BitVector.h"

namespace kimi {
#define GEN_PASS_DEF_DERIVEDECODE
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// The `tensor.dim` ops of axis `axis` of `argument`.
SmallVector<tensor::DimOp> dimsOf(Value argument, int64_t axis) {
  SmallVector<tensor::DimOp> dims;
  for (Operation *user : argument.getUsers()) {
    auto dim = dyn_cast<tensor::DimOp>(user);
    if (dim && dim.getConstantIndex() == axis) {
      dims.push_back(dim);
    }
  }
  return dims;
}

/// The axes of arguments that carry the same named dim as axis `axis` of `argument`.
SmallVector<std::pair<BlockArgument, int64_t>> sameDims(func::FuncOp func, unsigned argument, int64_t axis) {
  SmallVector<std::pair<BlockArgument, int64_t>> found = {{func.getArgument(argument), axis}};
  auto name = dyn_cast_or_null<StringAttr>(argumentDim(func, argument, axis));
  if (!name || name.getValue().empty()) {
    return found;
  }
  for (BlockArgument other : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(other.getType());
    for (int64_t i = 0; type && other.getArgNumber() != argument && i < type.getRank(); ++i) {
      if (argumentDim(func, other.getArgNumber(), i) == name) {
        found.emplace_back(other, i);
      }
    }
  }
  return found;
}

struct DeriveDecodePass : kimi::impl::DeriveDecodeBase<DeriveDecodePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto main = symbols.lookup<func::FuncOp>("main");
    if (!main || main.isExternal() || symbols.lookup("prefill") || symbols.lookup("decode")) {
      return;
    }
    Builder b(&getContext());
    main->setAttr("kimi.entry", b.getStringAttr("main"));
    Roles roles = findRoles(main);
    if (!roles.tokenIds) {
      main.emitRemark("no decode entry is derived: no argument holds token ids (integers that look up a table)");
      return;
    }
    annotateRoles(main, roles);
    main->setAttr("kimi.step_dim", b.getDenseI64ArrayAttr({static_cast<int64_t>(*roles.tokenIds), roles.tokenAxis}));
    if (roles.maxContext) {
      module->setAttr("kimi.max_context", b.getI64IntegerAttr(*roles.maxContext));
    }
    auto idsType = cast<RankedTensorType>(main.getArgument(*roles.tokenIds).getType());
    auto step = cast<func::FuncOp>(main->clone());
    readArgumentsDirectly(step);
    Attribute batch = roles.tokenAxis == 1 ? argumentDim(step, *roles.tokenIds, 0) : Attribute();
    FailureOr<SmallVector<GraphState>> states = findGraphStates(step, batch);
    bool anyNumber = idsType.isDynamicDim(roles.tokenAxis);
    if (failed(states) || (!anyNumber && (states->empty() || idsType.getDimSize(roles.tokenAxis) != 1))) {
      if (!anyNumber) {
        main.emitRemark() << "no decode entry is derived: the graph is made for exactly "
                          << idsType.getDimSize(roles.tokenAxis) << " tokens; export it with a dynamic sequence";
      }
      step->erase();
      return;
    }
    dropRequirements(step, roles, *states);
    step.setName(anyNumber ? "prefill" : "decode");
    symbols.insert(step);
    step->setAttr("kimi.entry", step.getNameAttr());
    if (failed(states->empty() ? addStates(step, roles) : takeStates(step, roles, *states))) {
      symbols.erase(step);
      return;
    }
    if (!anyNumber) {
      return; // a graph of one token, with its states: what comes before is fed token by token
    }
    auto decode = cast<func::FuncOp>(step->clone());
    decode.setName("decode");
    symbols.insert(decode);
    decode->setAttr("kimi.entry", b.getStringAttr("decode"));
    fixSteps(decode, roles);
  }

  void dropRequirements(func::FuncOp func, const Roles &roles, ArrayRef<GraphState> states);
  LogicalResult takeStates(func::FuncOp func, const Roles &roles, ArrayRef<GraphState> states);
  FailureOr<Value> extentElsewhere(func::FuncOp func, const Roles &roles, ArrayRef<GraphState> states,
                                   unsigned argument, int64_t axis);
  void takeFixed(func::FuncOp func, const GraphState &state, ArrayRef<Value> sizes);
  void takeCache(func::FuncOp func, const GraphState &state, Value past);
  LogicalResult addStates(func::FuncOp func, const Roles &roles);
  void fixSteps(func::FuncOp func, const Roles &roles);
};

/// What is required of the extents of states and of the mask is settled by how a step is made.
void DeriveDecodePass::dropRequirements(func::FuncOp func, const Roles &roles, ArrayRef<GraphState> states) {
  llvm::BitVector gone(func.getNumArguments());
  for (const GraphState &state : states) {
    gone.set(state.argument);
  }
  if (roles.attentionMask) {
    gone.set(*roles.attentionMask);
  }
  for (auto require : llvm::make_early_inc_range(func.getBody().front().getOps<RequireOp>())) {
    SetVector<Operation *> slice;
    if (failed(getBackwardSlice(require.getOperation(), &slice))) {
      continue;
    }
    slice.insert(require);
    bool drop = llvm::any_of(slice, [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        auto argument = dyn_cast<BlockArgument>(operand);
        return argument && argument.getOwner() == &func.getBody().front() && gone.test(argument.getArgNumber());
      });
    });
    if (!drop) {
      continue;
    }
    require.erase();
    slice.remove(require);
    for (Operation *op : llvm::reverse(slice.getArrayRef())) {
      if (isOpTriviallyDead(op)) {
        op->erase();
      }
    }
  }
}

/// The extent of axis `axis` of a state (its batch), read from an argument that stays a tensor.
FailureOr<Value> DeriveDecodePass::extentElsewhere(func::FuncOp func, const Roles &roles, ArrayRef<GraphState> states,
                                                   unsigned argument, int64_t axis) {
  BlockArgument source;
  int64_t sourceAxis = 0;
  for (const std::pair<BlockArgument, int64_t> &other : sameDims(func, argument, axis)) {
    unsigned number = other.first.getArgNumber();
    if (llvm::none_of(states, [&](const GraphState &state) { return state.argument == number; })) {
      std::tie(source, sourceAxis) = other;
      break;
    }
  }
  if (!source && axis == 0 && roles.tokenAxis == 1) {
    source = func.getArgument(*roles.tokenIds); // Concat joins the rows of the same batch
  }
  if (!source) {
    func.emitRemark() << "no decode entry is derived: extent " << axis << " of '"
                      << argumentName(func, argument).getValue() << "' is given by no other argument";
    return failure();
  }
  OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
  return tensor::DimOp::create(b, func.getLoc(), source, sourceAxis).getResult();
}

/// A state of fixed size: what reads the argument reads the state, what the result holds is written to it.
void DeriveDecodePass::takeFixed(func::FuncOp func, const GraphState &state, ArrayRef<Value> sizes) {
  Block &block = func.getBody().front();
  BlockArgument argument = func.getArgument(state.argument);
  auto type = cast<RankedTensorType>(argument.getType());
  // As late as can be, and the write as early: the kernel between them then works in place.
  Operation *first = block.getTerminator();
  for (Operation *user : argument.getUsers()) {
    Operation *top = block.findAncestorOpInBlock(*user);
    first = top->isBeforeInBlock(first) ? top : first;
  }
  OpBuilder b(first);
  argument.setType(StateType::get(&getContext(), type, -1));
  Value read = StateReadOp::create(b, func.getLoc(), type, argument, sizes);
  argument.replaceAllUsesExcept(read, read.getDefiningOp());
  Value next = block.getTerminator()->getOperand(state.result);
  Operation *last = next.getDefiningOp() ? next.getDefiningOp() : read.getDefiningOp();
  for (Operation *user : read.getUsers()) {
    Operation *top = block.findAncestorOpInBlock(*user);
    last = top != block.getTerminator() && last->isBeforeInBlock(top) ? top : last;
  }
  b.setInsertionPointAfter(last);
  if (next.getType() != type) {
    next = tensor::CastOp::create(b, next.getLoc(), type, next);
  }
  StateWriteOp::create(b, next.getLoc(), next, argument);
}

/// A cache: its Concat becomes an append.
void DeriveDecodePass::takeCache(func::FuncOp func, const GraphState &state, Value past) {
  tensor::ConcatOp concat = state.concat;
  OpBuilder b(concat);
  Value whole = CacheAppendOp::create(b, concat.getLoc(), concat.getType(), func.getArgument(state.argument),
                                      concat.getInputs()[1], past);
  concat.getResult().replaceAllUsesWith(whole);
  concat->erase();
}

/// A graph with states among its arguments: they leave its signature.
LogicalResult DeriveDecodePass::takeStates(func::FuncOp func, const Roles &roles, ArrayRef<GraphState> states) {
  SmallVector<std::pair<tensor::DimOp, Value>> dims;
  SmallVector<SmallVector<Value>> sizes; // of each state of fixed size: its dynamic extents
  for (const GraphState &state : states) {
    BlockArgument argument = func.getArgument(state.argument);
    auto type = cast<RankedTensorType>(argument.getType());
    SmallVector<Value> &own = sizes.emplace_back();
    for (int64_t axis = 0; axis < type.getRank(); ++axis) {
      SmallVector<tensor::DimOp> reads = dimsOf(argument, axis);
      bool isSize = !state.grows() && type.isDynamicDim(axis);
      if (axis == state.axis || (reads.empty() && !isSize)) {
        continue;
      }
      FailureOr<Value> extent = extentElsewhere(func, roles, states, state.argument, axis);
      if (failed(extent)) {
        return failure();
      }
      if (isSize) {
        own.push_back(*extent);
      }
      for (tensor::DimOp read : reads) {
        dims.emplace_back(read, *extent);
      }
    }
  }
  for (auto [read, extent] : dims) {
    read.getResult().replaceAllUsesWith(extent);
    read.erase();
  }
  OpBuilder b(&getContext());
  Value past;
  for (const GraphState &state : states) {
    if (!state.grows()) {
      continue;
    }
    BlockArgument argument = func.getArgument(state.argument);
    auto shape = cast<RankedTensorType>(argument.getType());
    SmallVector<tensor::DimOp> lengths = dimsOf(argument, state.axis);
    argument.setType(StateType::get(&getContext(), shape, state.axis));
    if (!past) {
      b.setInsertionPointToStart(&func.getBody().front());
      past = StateLengthOp::create(b, func.getLoc(), b.getIndexType(), argument);
    }
    for (tensor::DimOp length : lengths) {
      length.getResult().replaceAllUsesWith(past);
      length.erase();
    }
  }
  llvm::BitVector presents(func.getNumResults());
  for (auto [state, own] : llvm::zip(states, sizes)) {
    if (state.grows()) {
      takeCache(func, state, past);
    } else {
      takeFixed(func, state, own);
    }
    auto output = func.getResultAttrOfType<StringAttr>(state.result, "kimi.name");
    func.setArgAttr(state.argument, "kimi.input", argumentName(func, state.argument));
    if (output) {
      func.setArgAttr(state.argument, "kimi.output", output);
    }
    presents.set(state.result);
    ++numStates;
  }
  auto ret = cast<func::ReturnOp>(func.getBody().front().getTerminator());
  SmallVector<Value> kept;
  for (auto [index, value] : llvm::enumerate(ret.getOperands())) {
    if (!presents.test(index)) {
      kept.push_back(value);
    }
  }
  ret.getOperandsMutable().assign(kept);
  func.setType(FunctionType::get(&getContext(), func.getBody().getArgumentTypes(), func.getResultTypes()));
  (void)func.eraseResults(presents);
  for (BlockArgument argument : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (type && isa<FloatType>(type.getElementType()) && !func.getArgAttr(argument.getArgNumber(), "kimi.role")) {
      func.emitRemark() << "input '" << argumentName(func, argument.getArgNumber()).getValue()
                        << "' is asked for at each step: no output of its type is known to be what it becomes";
    }
  }
  return checkMixersKeepStates(func, func.getArgument(*roles.tokenIds));
}

/// A graph without states: each mixer gets states, positions are counted from what the states hold.
LogicalResult DeriveDecodePass::addStates(func::FuncOp func, const Roles &roles) {
  BlockArgument ids = func.getArgument(*roles.tokenIds);
  BlockArgument mask = roles.attentionMask ? func.getArgument(*roles.attentionMask) : BlockArgument();
  SmallVector<std::pair<BlockArgument, int64_t>> tokenAxes = sameDims(func, *roles.tokenIds, roles.tokenAxis);
  // The tokens are counted on the ids: a mask covers the past as well.
  OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
  Value axisValue = arith::ConstantIndexOp::create(b, func.getLoc(), roles.tokenAxis);
  Value count = tensor::DimOp::create(b, func.getLoc(), ids, axisValue);
  SmallVector<Value> steps = {count};
  for (auto [argument, axis] : tokenAxes) {
    for (tensor::DimOp dim : dimsOf(argument, axis)) {
      if (argument == mask) {
        dim.getResult().replaceAllUsesWith(count);
      } else {
        steps.push_back(dim.getResult());
      }
    }
  }
  TimeAnalysis analysis(ids, roles.tokenAxis, steps);
  for (auto [argument, axis] : tokenAxes) {
    if (argument == mask) {
      analysis.addKeyArgument(argument, axis);
      auto dims =
          SmallVector<Attribute>(func.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "kimi.dims").getValue());
      dims[axis] = b.getStringAttr("past + " + cast<StringAttr>(dims[axis]).getValue());
      func.setArgAttr(argument.getArgNumber(), "kimi.dims", b.getArrayAttr(dims));
    } else if (argument != ids) {
      analysis.addTokenArgument(argument, axis);
    }
  }
  if (failed(analysis.run(func))) {
    return failure();
  }
  if (analysis.mixers.empty()) {
    func.emitRemark("no decode entry is derived: there is no token mixer, so tokens do not depend on each other");
    return failure();
  }
  Builder attrs(&getContext());
  SmallVector<SmallVector<Value>> states;
  for (auto [layer, mixer] : llvm::enumerate(analysis.mixers)) {
    SmallVector<Value> &own = states.emplace_back();
    for (const MixerState &state : mixer.getMixerStates()) {
      auto name = attrs.getNamedAttr("kimi.name", attrs.getStringAttr(Twine(layer) + "." + state.name));
      unsigned index = func.getNumArguments();
      if (failed(func.insertArgument(index, state.type, attrs.getDictionaryAttr(name), mixer->getLoc()))) {
        return failure();
      }
      own.push_back(func.getArgument(index));
      ++numStates;
    }
  }
  b.setInsertionPointToStart(&func.getBody().front());
  Value past;
  for (const SmallVector<Value> &own : states) {
    for (Value state : own) {
      if (!past && cast<StateType>(state.getType()).getGrows() >= 0) {
        past = StateLengthOp::create(b, func.getLoc(), b.getIndexType(), state);
      }
    }
  }
  if (!past) {
    func.emitRemark("no decode entry is derived: no state grows, so the number of tokens seen is not known");
    return failure();
  }
  for (auto [mixer, own] : llvm::zip(analysis.mixers, states)) {
    b.setInsertionPoint(mixer);
    FailureOr<Value> step = mixer.buildStep(b, own, past);
    if (failed(step)) {
      mixer->emitRemark("no decode entry is derived: the mixer gives no stepwise form");
      return failure();
    }
    mixer->getResult(0).replaceAllUsesWith(*step);
    mixer->erase();
    ++numMixers;
  }
  Value seen;
  for (Operation *op : analysis.keyOps) {
    if (!seen) {
      b.setInsertionPointAfterValue(count);
      seen = tensor::DimOp::create(b, func.getLoc(), mask, axisValue);
    }
    for (OpOperand &operand : op->getOpOperands()) {
      if (llvm::is_contained(steps, operand.get())) {
        operand.set(seen);
      } else if (auto empty = operand.get().getDefiningOp<tensor::EmptyOp>()) {
        b.setInsertionPoint(op);
        auto own = cast<tensor::EmptyOp>(b.clone(*empty));
        for (OpOperand &extent : own->getOpOperands()) {
          if (llvm::is_contained(steps, extent.get())) {
            extent.set(seen);
          }
        }
        operand.set(own.getResult());
      }
    }
  }
  for (linalg::IndexOp index : analysis.positions) {
    b.setInsertionPointAfter(index);
    Value position = arith::AddIOp::create(b, index.getLoc(), index.getResult(), past);
    index.getResult().replaceAllUsesExcept(position, position.getDefiningOp());
  }
  for (auto [slice, axis] : analysis.tableSlices) {
    if (int64_t rows = slice.getSourceType().getDimSize(axis); !ShapedType::isDynamic(rows)) {
      auto known = getOperation()->getAttrOfType<IntegerAttr>("kimi.max_context");
      int64_t context = known ? std::min(known.getInt(), rows) : rows;
      getOperation()->setAttr("kimi.max_context", attrs.getI64IntegerAttr(context));
    }
    SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
    offsets[axis] = past;
    b.setInsertionPoint(slice);
    Value moved = tensor::ExtractSliceOp::create(b, slice.getLoc(), slice.getType(), slice.getSource(), offsets,
                                                 slice.getMixedSizes(), slice.getMixedStrides());
    slice.getResult().replaceAllUsesWith(moved);
    slice.erase();
  }
  if (count.use_empty()) {
    count.getDefiningOp()->erase();
    if (axisValue.use_empty()) {
      axisValue.getDefiningOp()->erase();
    }
  }
  return success();
}

/// The same function for one token: every extent that counts the new tokens is 1.
void DeriveDecodePass::fixSteps(func::FuncOp func, const Roles &roles) {
  OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
  Value one = arith::ConstantIndexOp::create(b, func.getLoc(), 1);
  for (auto [argument, axis] : sameDims(func, *roles.tokenIds, roles.tokenAxis)) {
    for (tensor::DimOp dim : dimsOf(argument, axis)) {
      dim.getResult().replaceAllUsesWith(one);
      dim.erase();
    }
  }
}

} // namespace
