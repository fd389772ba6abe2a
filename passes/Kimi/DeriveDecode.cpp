//===- DeriveDecode.cpp - --kimi-derive-decode
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/Kimi/DeriveDecodeRoles.h"
#include "passes/Kimi/DeriveDecodeTime.h"
#include "passes/Kimi/Passes.h"
#include "llvm/ADT/BitVector.h"

namespace kimi {
#define GEN_PASS_DEF_DERIVEDECODE
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// A cache that the graph takes in and gives out: present = concat(past, rows).
struct CacheArgument {
  unsigned argument;
  unsigned result;
  tensor::ConcatOp concat;
  int64_t axis;
};

StringAttr nameOf(func::FuncOp func, unsigned argument) {
  auto name = func.getArgAttrOfType<StringAttr>(argument, "kimi.name");
  return name ? name : StringAttr::get(func.getContext(), "arg" + Twine(argument));
}

Attribute dimName(func::FuncOp func, unsigned argument, int64_t axis) {
  auto dims = func.getArgAttrOfType<ArrayAttr>(argument, "kimi.dims");
  return dims && axis < static_cast<int64_t>(dims.size()) ? dims[axis] : Attribute();
}

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
  auto name = dyn_cast_or_null<StringAttr>(dimName(func, argument, axis));
  if (!name || name.getValue().empty()) {
    return found;
  }
  for (BlockArgument other : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(other.getType());
    for (int64_t i = 0; type && other.getArgNumber() != argument && i < type.getRank(); ++i) {
      if (dimName(func, other.getArgNumber(), i) == name) {
        found.emplace_back(other, i);
      }
    }
  }
  return found;
}

/// Lets Concats and extents of arguments read these themselves, not a cast or a Concat of one tensor.
void readArgumentsDirectly(func::FuncOp func) {
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

/// The caches among the arguments: read by extents and by one Concat in front of new rows, whose result is returned.
SmallVector<CacheArgument> findCaches(func::FuncOp func) {
  SmallVector<CacheArgument> caches;
  for (BlockArgument argument : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !isa<FloatType>(type.getElementType()) || type.getRank() < 3) {
      continue;
    }
    tensor::ConcatOp concat;
    bool other = false;
    for (Operation *user : argument.getUsers()) {
      if (auto found = dyn_cast<tensor::ConcatOp>(user); found && !concat) {
        concat = found;
      } else if (!isa<tensor::DimOp>(user)) {
        other = true;
      }
    }
    if (!concat || other || concat.getInputs().size() != 2 || concat.getInputs()[0] != argument ||
        concat.getInputs()[1] == argument) {
      continue;
    }
    int64_t axis = static_cast<int64_t>(concat.getDim());
    std::optional<unsigned> result;
    SmallVector<Value> present = {concat.getResult()};
    for (Operation *user : concat.getResult().getUsers()) {
      if (auto cast = dyn_cast<tensor::CastOp>(user)) {
        present.push_back(cast.getResult());
      }
    }
    for (Value value : present) {
      for (OpOperand &use : value.getUses()) {
        if (isa<func::ReturnOp>(use.getOwner())) {
          result = use.getOperandNumber();
        }
      }
    }
    if (result && type.isDynamicDim(axis)) {
      caches.push_back({argument.getArgNumber(), *result, concat, axis});
    }
  }
  return caches;
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
    if (!idsType.isDynamicDim(roles.tokenAxis)) {
      main.emitRemark() << "no decode entry is derived: the graph is made for exactly "
                        << idsType.getDimSize(roles.tokenAxis) << " tokens; export it with a dynamic sequence";
      return;
    }
    auto prefill = cast<func::FuncOp>(main->clone());
    prefill.setName("prefill");
    symbols.insert(prefill);
    prefill->setAttr("kimi.entry", b.getStringAttr("prefill"));
    readArgumentsDirectly(prefill);
    bool cached = !findCaches(prefill).empty();
    if (failed(cached ? takeCaches(prefill, roles) : addCaches(prefill, roles))) {
      symbols.erase(prefill);
      return;
    }
    auto decode = cast<func::FuncOp>(prefill->clone());
    decode.setName("decode");
    symbols.insert(decode);
    decode->setAttr("kimi.entry", b.getStringAttr("decode"));
    fixSteps(decode, roles);
  }

  LogicalResult takeCaches(func::FuncOp func, const Roles &roles);
  LogicalResult addCaches(func::FuncOp func, const Roles &roles);
  void fixSteps(func::FuncOp func, const Roles &roles);
};

/// A graph with a cache among its arguments: each becomes a state, its Concat an append.
LogicalResult DeriveDecodePass::takeCaches(func::FuncOp func, const Roles &roles) {
  SmallVector<CacheArgument> caches = findCaches(func);
  OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
  Location loc = func.getLoc();
  // Fixed extents of a state (its batch) are read from an argument that stays a tensor.
  SmallVector<std::pair<tensor::DimOp, Value>> dims;
  for (const CacheArgument &cache : caches) {
    BlockArgument argument = func.getArgument(cache.argument);
    for (int64_t axis = 0; axis < cast<RankedTensorType>(argument.getType()).getRank(); ++axis) {
      SmallVector<tensor::DimOp> reads = dimsOf(argument, axis);
      if (axis == cache.axis || reads.empty()) {
        continue;
      }
      BlockArgument source;
      int64_t sourceAxis = 0;
      for (const std::pair<BlockArgument, int64_t> &other : sameDims(func, cache.argument, axis)) {
        unsigned number = other.first.getArgNumber();
        if (llvm::none_of(caches, [&](const CacheArgument &c) { return c.argument == number; })) {
          std::tie(source, sourceAxis) = other;
          break;
        }
      }
      if (!source && axis == 0 && roles.tokenAxis == 1) {
        source = func.getArgument(*roles.tokenIds); // Concat joins the rows of the same batch
      }
      if (!source) {
        func.emitRemark() << "no decode entry is derived: extent " << axis << " of '"
                          << nameOf(func, cache.argument).getValue() << "' is given by no other argument";
        return failure();
      }
      Value extent = tensor::DimOp::create(b, loc, source, sourceAxis);
      for (tensor::DimOp read : reads) {
        dims.emplace_back(read, extent);
      }
    }
  }
  for (auto [read, extent] : dims) {
    read.getResult().replaceAllUsesWith(extent);
    read.erase();
  }
  SmallVector<Type> argumentTypes(func.getArgumentTypes());
  Value past;
  for (const CacheArgument &cache : caches) {
    BlockArgument argument = func.getArgument(cache.argument);
    auto shape = cast<RankedTensorType>(argument.getType());
    auto state = StateType::get(&getContext(), shape, cache.axis);
    SmallVector<tensor::DimOp> lengths = dimsOf(argument, cache.axis);
    argument.setType(state);
    argumentTypes[cache.argument] = state;
    if (!past) {
      b.setInsertionPointToStart(&func.getBody().front());
      past = StateLengthOp::create(b, loc, b.getIndexType(), argument);
    }
    for (tensor::DimOp length : lengths) {
      length.getResult().replaceAllUsesWith(past);
      length.erase();
    }
  }
  llvm::BitVector presents(func.getNumResults());
  for (CacheArgument &cache : caches) {
    BlockArgument argument = func.getArgument(cache.argument);
    b.setInsertionPoint(cache.concat);
    Value whole = CacheAppendOp::create(b, cache.concat.getLoc(), cache.concat.getType(), argument,
                                        cache.concat.getInputs()[1], past);
    cache.concat.getResult().replaceAllUsesWith(whole);
    cache.concat->erase();
    auto output = func.getResultAttrOfType<StringAttr>(cache.result, "kimi.name");
    func.setArgAttr(cache.argument, "kimi.input", nameOf(func, cache.argument));
    if (output) {
      func.setArgAttr(cache.argument, "kimi.output", output);
    }
    presents.set(cache.result);
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
  func.setType(FunctionType::get(&getContext(), argumentTypes, func.getResultTypes()));
  (void)func.eraseResults(presents);
  return success();
}

/// A graph without a cache: each mixer gets states, positions are counted from what the states hold.
LogicalResult DeriveDecodePass::addCaches(func::FuncOp func, const Roles &roles) {
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
