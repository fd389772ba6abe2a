//===- NarrowPrecision.cpp - weights and activations in bf16 or f16
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two walks over each function. Backwards: which values some kernel would rather read narrow ("wanted"), seen through
// views and elementwise ops. Forwards: each op gets operands of the types it takes, and what it makes of them is
// rounded where it is wanted narrow. Arithmetic stays fp32: bodies widen what they read and round what they yield.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/FloatCasts.h"
#include "passes/Kimi/LoadTime.h"
#include "passes/Kimi/Passes.h"
#include "passes/Kimi/Reference.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kimi {
#define GEN_PASS_DEF_NARROWPRECISION
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

Type elementOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getElementType() : Type();
}

/// A tensor of fp32, the only kind that is narrowed.
bool isWide(Value value) {
  Type element = elementOf(value);
  return element && element.isF32();
}

/// One result, each element of which is computed from one place of each input.
bool isElementwise(linalg::GenericOp op) {
  return op.getNumResults() == 1 && op.hasPureTensorSemantics() && op.getNumParallelLoops() == op.getNumLoops() &&
         !op.payloadUsesValueFromOperand(op.getDpsInitOperand(0));
}

/// Whether `op` does nothing but cast its input from elements of one type to another.
bool isCast(linalg::GenericOp op, Type from, Type to) {
  return (castOf<arith::ExtFOp>(op) || castOf<arith::TruncFOp>(op)) && elementOf(op.getDpsInputs()[0]) == from &&
         elementOf(op->getResult(0)) == to;
}

/// Ops that work in fp32 inside and give a tensor of the type of their first operand.
bool isRowwise(Operation *op) { return isa<LayerNormOp, RmsNormOp, GeluOp, L2NormOp>(op); }

/// The leading operands of an op that have one element type, which the result has too; 0 where it is no such op.
unsigned twinsOf(Operation *op) {
  return isa<SwigluOp, SituGluOp, GatedRmsNormOp>(op) ? 2
         : isa<AttnResOp>(op)                         ? cast<AttnResOp>(op).getSources().size()
                                                      : 0;
}

class Narrowing {
public:
  Narrowing(func::FuncOp func, FloatType type) : func(func), type(type) {}

  void run() {
    SmallVector<Operation *> ops;
    for (Operation &op : func.getBody().front()) {
      ops.push_back(&op);
    }
    narrowStates();
    for (Operation *op : llvm::reverse(ops)) {
      findWanted(op);
    }
    for (Operation *op : ops) {
      rewrite(op);
    }
  }

  unsigned weights = 0, activations = 0, states = 0, casts = 0;

private:
  bool isNarrow(Value value) const { return narrowed.contains(value); }
  bool isWanted(Value value) const { return wanted.contains(value); }

  /// States with one row a token hold rows that kernels gave out; matrix states hold sums and stay fp32.
  void narrowStates() {
    SmallVector<Type> inputs(func.getArgumentTypes());
    for (BlockArgument argument : func.getArguments()) {
      auto state = dyn_cast<StateType>(argument.getType());
      if (!state || state.getGrows() < 0 || !state.getShape().getElementType().isF32()) {
        continue;
      }
      auto shape = RankedTensorType::get(state.getShape().getShape(), type);
      argument.setType(StateType::get(func.getContext(), shape, state.getGrows()));
      inputs[argument.getArgNumber()] = argument.getType();
      ++states;
    }
    func.setType(FunctionType::get(func.getContext(), inputs, func.getResultTypes()));
  }

  bool isNarrowState(Value state) const { return cast<StateType>(state.getType()).getShape().getElementType() == type; }

  //===--------------------------------------------------------------------===//
  // Backwards: what is wanted narrow
  //===--------------------------------------------------------------------===//

  void findWanted(Operation *op) {
    auto want = [&](Value value) {
      if (value && isWide(value)) {
        wanted.insert(value);
      }
    };
    bool passesOn = op->getNumResults() == 1 && isWanted(op->getResult(0));
    llvm::TypeSwitch<Operation *>(op)
        .Case<LinearOp, HeadLinearOp>([&](auto linear) { want(linear.getX()); })
        .Case([&](FusedLinearOp linear) {
          want(linear.getX());
          llvm::for_each(linear.getExtras(), want);
        })
        .Case([&](AttentionOp attention) {
          want(attention.getQ());
          want(attention.getK());
          want(attention.getV());
        })
        .Case([&](DeltaRuleOp rule) {
          want(rule.getQ());
          want(rule.getK());
          want(rule.getV());
        })
        .Case([&](MoeOp moe) { want(moe.getX()); })
        .Case([&](CacheAppendOp append) {
          if (isNarrowState(append.getState())) {
            want(append.getRows());
          }
        })
        .Case([&](linalg::GenericOp generic) {
          if ((passesOn && isElementwise(generic)) || isCast(generic, Float32Type::get(func.getContext()), type)) {
            llvm::for_each(generic.getDpsInputs(), want);
          }
        })
        .Case([&](tensor::ConcatOp concat) {
          if (passesOn) {
            llvm::for_each(concat.getInputs(), want);
          }
        })
        .Default([&](Operation *) {
          if (passesOn && (isView(op) || isRowwise(op))) {
            want(op->getOperand(0));
          } else if (passesOn) {
            llvm::for_each(op->getOperands().take_front(twinsOf(op)), want);
          }
        });
  }

  //===--------------------------------------------------------------------===//
  // Casts
  //===--------------------------------------------------------------------===//

  /// `value` with elements of type `element`, by a kernel of its own.
  Value convert(Value value, Type element) {
    OpBuilder b(func.getContext());
    b.setInsertionPointAfterValue(value);
    TensorCode code(b, value.getLoc());
    Value result = code.map(code.sizes(value), element,
                            {{value, code.identity(cast<RankedTensorType>(value.getType()).getRank())}},
                            [](OpBuilder &, Location, ValueRange args) { return args[0]; });
    return code.castTo(result, cast<RankedTensorType>(value.getType()).clone(element));
  }

  Value asNarrow(Value value, Operation *user) {
    if (!isWide(value)) {
      return value;
    }
    Value &known = narrowForms[value];
    if (!known) {
      known = convert(value, type);
      narrowed.insert(known);
      if (value.getDefiningOp<WeightRefOp>()) {
        ++weights;
      } else if (!isLoadTimeValue(value)) {
        ++casts;
        user->emitRemark() << "reads an fp32 value that is rounded by a kernel of its own";
      }
    }
    return known;
  }

  Value asWide(Value value) {
    if (!isNarrow(value)) {
      return value;
    }
    Value &known = wideForms[value];
    if (!known) {
      known = convert(value, Float32Type::get(func.getContext()));
      ++casts;
    }
    return known;
  }

  //===--------------------------------------------------------------------===//
  // Forwards: the types
  //===--------------------------------------------------------------------===//

  void setNarrow(Value result) {
    result.setType(cast<RankedTensorType>(result.getType()).clone(type));
    narrowed.insert(result);
    ++activations;
  }

  /// The result is rounded to the narrow type if somebody wants it so.
  void roundIfWanted(Value result) {
    if (isWanted(result)) {
      setNarrow(result);
    }
  }

  void rewrite(Operation *op) {
    auto narrowOperand = [&](OpOperand &operand) { operand.set(asNarrow(operand.get(), op)); };
    llvm::TypeSwitch<Operation *>(op)
        .Case<LinearOp, HeadLinearOp>([&](auto linear) {
          narrowOperand(linear.getXMutable());
          narrowOperand(linear.getWMutable());
          roundIfWanted(linear.getResult());
        })
        .Case([&](FusedLinearOp linear) {
          narrowOperand(linear.getXMutable());
          narrowOperand(linear.getWMutable());
          rewriteEpilogue(linear);
        })
        .Case([&](AttentionOp attention) {
          narrowOperand(attention.getQMutable());
          narrowOperand(attention.getKMutable());
          narrowOperand(attention.getVMutable());
          roundIfWanted(attention.getResult());
        })
        .Case([&](DeltaRuleOp rule) {
          narrowOperand(rule.getQMutable());
          narrowOperand(rule.getKMutable());
          narrowOperand(rule.getVMutable());
          roundIfWanted(rule.getResult());
        })
        .Case([&](MoeOp moe) {
          narrowOperand(moe.getXMutable());
          narrowOperand(moe.getW1Mutable());
          narrowOperand(moe.getW3Mutable());
          narrowOperand(moe.getW2Mutable());
          moe.getWeightsMutable().assign(asWide(moe.getWeights()));
          roundIfWanted(moe.getResult());
        })
        .Case<SwigluOp, SituGluOp, GatedRmsNormOp, AttnResOp>([&](Operation *) { rewriteTwins(op); })
        .Case([&](CacheAppendOp append) {
          if (isNarrowState(append.getState())) {
            narrowOperand(append.getRowsMutable());
            setNarrow(append.getResult());
          }
        })
        .Case([&](EmbeddingOp embedding) {
          if (isWanted(embedding.getResult())) {
            narrowOperand(embedding.getTableMutable());
            setNarrow(embedding.getResult());
          }
        })
        .Case([&](linalg::GenericOp generic) { rewriteGeneric(generic); })
        .Case([&](linalg::TransposeOp transpose) {
          if (isNarrow(transpose.getInput())) {
            // It holds a region of its element type: made anew.
            OpBuilder b(transpose);
            auto moved = linalg::TransposeOp::create(b, transpose.getLoc(), transpose.getInput(),
                                                     emptyLike(transpose.getInit()), transpose.getPermutation());
            narrowed.insert(moved->getResult(0));
            ++activations;
            transpose->replaceAllUsesWith(moved);
            transpose->erase();
          }
        })
        .Case([&](tensor::ConcatOp concat) {
          if (llvm::all_of(concat.getInputs(), [&](Value input) { return isNarrow(input); })) {
            setNarrow(concat.getResult());
          } else {
            widenOperands(op);
          }
        })
        .Case<tensor::DimOp, SoftmaxOp>([](Operation *) {})
        .Default([&](Operation *) {
          bool reads = op->getNumOperands() > 0 && isNarrow(op->getOperand(0));
          if (isRowwise(op)) {
            if (reads) {
              roundIfWanted(op->getResult(0));
            }
          } else if (isView(op)) {
            if (reads) {
              setNarrow(op->getResult(0));
            }
          } else if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
            widenLookup(extract);
          } else {
            widenOperands(op);
            widenLookups(op);
          }
        });
  }

  /// Operands of one type: narrow where one of them is.
  void rewriteTwins(Operation *op) {
    auto twins = op->getOpOperands().take_front(twinsOf(op));
    if (llvm::none_of(twins, [&](OpOperand &twin) { return isNarrow(twin.get()); })) {
      return;
    }
    for (OpOperand &twin : twins) {
      twin.set(asNarrow(twin.get(), op));
    }
    roundIfWanted(op->getResult(0));
  }

  void widenOperands(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      operand.set(asWide(operand.get()));
    }
  }

  /// An element that was read from a narrow tensor is widened for whoever uses it.
  void widenLookup(tensor::ExtractOp extract) {
    Type element = elementOf(extract.getTensor());
    if (!isNarrow(extract.getTensor()) || extract.getType() == element) {
      return;
    }
    OpBuilder b(extract->getContext());
    b.setInsertionPointAfter(extract);
    extract.getResult().setType(element);
    auto wide = arith::ExtFOp::create(b, extract.getLoc(), b.getF32Type(), extract.getResult());
    extract.getResult().replaceAllUsesExcept(wide, wide);
  }

  void widenLookups(Operation *op) {
    op->walk([&](tensor::ExtractOp extract) { widenLookup(extract); });
  }

  Value emptyLike(Value init) {
    OpBuilder b(init.getContext());
    b.setInsertionPointAfterValue(init);
    return tensor::EmptyOp::create(b, init.getLoc(), tensor::getMixedSizes(b, init.getLoc(), init), type);
  }

  /// The region reads `argument` as it did before, though its operand is narrow now.
  void widenArgument(BlockArgument argument, Type element) {
    if (argument.getType() == element) {
      return;
    }
    OpBuilder b = OpBuilder::atBlockBegin(argument.getOwner());
    argument.setType(element);
    if (!argument.use_empty()) {
      auto wide = arith::ExtFOp::create(b, argument.getLoc(), b.getF32Type(), argument);
      argument.replaceAllUsesExcept(wide, wide);
    }
  }

  void roundYield(Operation *terminator) {
    OpBuilder b(terminator);
    OpOperand &value = terminator->getOpOperand(0);
    value.set(castFloat(b, terminator->getLoc(), value.get(), type));
  }

  void rewriteEpilogue(FusedLinearOp op) {
    Block &epilogue = op.getEpilogue().front();
    for (auto [index, extra] : llvm::enumerate(op.getExtras())) {
      widenArgument(epilogue.getArgument(index + 1), elementOf(extra));
    }
    if (isWanted(op.getResult())) {
      roundYield(epilogue.getTerminator());
      setNarrow(op.getResult());
    }
  }

  /// Whether `extract`, in the body of a generic, reads a row that an element of an input names (a token's embedding).
  static bool isEmbedding(tensor::ExtractOp extract) {
    SmallVector<Value> open(extract.getIndices());
    while (!open.empty()) {
      Value value = open.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        if (argument.getType().isIntOrIndex() && isa<linalg::GenericOp>(argument.getOwner()->getParentOp())) {
          return true;
        }
      } else if (isa<arith::ArithDialect>(value.getDefiningOp()->getDialect())) {
        llvm::append_range(open, value.getDefiningOp()->getOperands());
      }
    }
    return false;
  }

  /// Casts of the graph itself: what it widens is as well read as it is, what it would round is narrow already.
  bool dropCast(linalg::GenericOp op) {
    Type wide = Float32Type::get(func.getContext());
    Value source = op.getDpsInputs().empty() ? Value() : op.getDpsInputs()[0], result = op->getResults().front();
    if (isCast(op, type, wide)) {
      // The pass may only speak for the users of `source` where all of them are such casts.
      bool always = llvm::all_of(source.getUsers(), [&](Operation *user) {
        auto generic = dyn_cast<linalg::GenericOp>(user);
        return isa<tensor::DimOp>(user) || (generic && isCast(generic, type, wide));
      });
      if (!isNarrow(source) && !always) {
        return false;
      }
      result.replaceAllUsesWith(source);
      narrowed.insert(source);
      wideForms.try_emplace(source, result);
      return true;
    }
    if (isCast(op, wide, type) && isNarrow(source)) {
      result.replaceAllUsesWith(source);
      return true;
    }
    return false;
  }

  void rewriteGeneric(linalg::GenericOp op) {
    if (dropCast(op)) {
      return;
    }
    Value result = op->getResult(0);
    bool isRounded = isElementwise(op) && isWanted(result);
    if (isRounded) {
      op.walk([&](tensor::ExtractOp extract) {
        if (extract.getTensor().getDefiningOp<WeightRefOp>() &&
            cast<RankedTensorType>(extract.getTensor().getType()).getRank() == 2 && isEmbedding(extract)) {
          extract.getTensorMutable().set(asNarrow(extract.getTensor(), op));
        }
      });
    }
    // What is computed from positions or parameters alone (masks, rotary angles) is no activation.
    bool isActivation = llvm::any_of(op.getDpsInputs(), [&](Value input) { return isNarrow(input); });
    op.walk([&](tensor::ExtractOp extract) { isActivation |= isNarrow(extract.getTensor()); });
    for (OpOperand *input : op.getDpsInputOperands()) {
      if (isNarrow(input->get())) {
        widenArgument(op.getMatchingBlockArgument(input), type);
      }
    }
    for (OpOperand &init : op.getDpsInitsMutable()) {
      init.set(asWide(init.get()));
    }
    widenLookups(op);
    if (isRounded && isActivation) {
      OpOperand *init = op.getDpsInitOperand(0);
      op.getMatchingBlockArgument(init).setType(type);
      init->set(emptyLike(init->get()));
      roundYield(op.getBody()->getTerminator());
      setNarrow(result);
    }
  }

  func::FuncOp func;
  FloatType type;
  llvm::DenseSet<Value> wanted;   // fp32 values that a kernel would rather read narrow
  llvm::DenseSet<Value> narrowed; // values that this pass made narrow
  llvm::DenseMap<Value, Value> narrowForms, wideForms;
};

struct NarrowPrecisionPass : kimi::impl::NarrowPrecisionBase<NarrowPrecisionPass> {
  using NarrowPrecisionBase::NarrowPrecisionBase;

  void runOnOperation() override {
    Builder b(&getContext());
    if (type != "bf16" && type != "fp16" && type != "tf32") {
      getOperation().emitError() << "kimi-narrow-precision: there is no type '" << type.getValue()
                                 << "'; types: bf16, fp16, tf32";
      return signalPassFailure();
    }
    getOperation()->setAttr("kimi.precision", b.getStringAttr(type.getValue()));
    if (type == "tf32") {
      return;
    }
    auto narrow = cast<FloatType>(type == "bf16" ? Type(b.getBF16Type()) : Type(b.getF16Type()));
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal() || !func.getBody().hasOneBlock()) {
        continue;
      }
      Narrowing narrowing(func, narrow);
      narrowing.run();
      weights += narrowing.weights;
      activations += narrowing.activations;
      states += narrowing.states;
      casts += narrowing.casts;
    }
  }
};

} // namespace
