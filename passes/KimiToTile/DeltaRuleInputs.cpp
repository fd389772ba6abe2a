//===- DeltaRuleInputs.cpp - norms and gates that a delta rule's kernel computes itself
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/DeltaRuleInputs.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/FloatCasts.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

static int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

static DeltaRuleInput asItIs(Value operand) {
  DeltaRuleInput input{operand, {}, std::nullopt, {}, {}};
  if (operand) {
    input.axes.resize(rankOf(operand));
    std::iota(input.axes.begin(), input.axes.end(), 0u);
  }
  return input;
}

/// Behind moves and conversions of single readers: the value that `operand` (with `input.axes`) is made from.
static Value behindMoves(DeltaRuleInput &input) {
  Value value = input.tensor;
  while (value.hasOneUse()) {
    Operation *source = value.getDefiningOp();
    if (auto transpose = dyn_cast_or_null<linalg::TransposeOp>(source)) {
      SmallVector<unsigned> axes(input.axes.size());
      for (auto [place, from] : llvm::enumerate(transpose.getPermutation())) {
        axes[from] = input.axes[place];
      }
      input.axes = axes;
      value = transpose.getInput();
    } else if (auto extents = dyn_cast_or_null<tensor::CastOp>(source)) {
      value = extents.getSource();
    } else if (castOf<arith::TruncFOp>(source) || castOf<arith::ExtFOp>(source)) {
      value = cast<linalg::GenericOp>(source).getInputs()[0];
    } else {
      break;
    }
    input.makers.push_back(source);
  }
  return value;
}

static bool isReadable(HostContext &context, Value tensor) {
  return isa<FloatType>(cast<RankedTensorType>(tensor.getType()).getElementType()) &&
         succeeded(context.layouts.of(tensor));
}

/// The rows of which `operand`, [B, H', T, D], is the L2 norm.
static DeltaRuleInput normalised(HostContext &context, Value operand) {
  DeltaRuleInput input = asItIs(operand);
  Value source = behindMoves(input);
  auto norm = source.getDefiningOp<L2NormOp>();
  if (!norm || !source.hasOneUse() || input.axes.back() != 3 || !isReadable(context, norm.getX())) {
    return asItIs(operand);
  }
  input.tensor = norm.getX();
  input.eps = norm.getEps().convertToFloat();
  input.makers.push_back(norm);
  return input;
}

/// Whether each element that `op` makes is a function of one element at most of each operand, which a kernel can read.
static bool isFormula(HostContext &context, linalg::GenericOp op) {
  AffineMap result = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (op->getNumResults() != 1 || op.getNumParallelLoops() != op.getNumLoops() || !result.isIdentity() ||
      op.payloadUsesValueFromOperand(op.getDpsInitOperand(0)) || op.hasIndexSemantics()) {
    return false;
  }
  bool elementwise = llvm::all_of(op.getBody()->without_terminator(), [](Operation &inner) {
    return OpTrait::hasElementwiseMappableTraits(&inner) || inner.hasTrait<OpTrait::ConstantLike>();
  });
  return elementwise && llvm::all_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
           Value value = operand->get();
           if (!op.payloadUsesValueFromOperand(operand)) {
             return true;
           }
           return isa<RankedTensorType>(value.getType()) &&
                  op.getMatchingIndexingMap(operand).isProjectedPermutation() && isReadable(context, value);
         });
}

/// The formula of the gates `operand`, [B, H', T] or [B, H', T, D].
static DeltaRuleInput gates(HostContext &context, Value operand) {
  DeltaRuleInput input = asItIs(operand);
  if (!operand) {
    return input;
  }
  Value source = behindMoves(input);
  auto formula = source.getDefiningOp<linalg::GenericOp>();
  if (!formula || !source.hasOneUse() || !isFormula(context, formula)) {
    return asItIs(operand);
  }
  input.tensor = Value();
  input.formula = formula;
  input.makers.push_back(formula);
  return input;
}

DeltaRuleInputs::DeltaRuleInputs(DeltaRuleOp op)
    : q(asItIs(op.getQ())), k(asItIs(op.getK())), decay(asItIs(op.getDecay())), beta(asItIs(op.getBeta())),
      erase(asItIs(op.getErase())), write(asItIs(op.getWrite())) {}

DeltaRuleInputs DeltaRuleInputs::computed(HostContext &context, DeltaRuleOp op) {
  DeltaRuleInputs inputs(op);
  inputs.q = normalised(context, op.getQ());
  inputs.k = normalised(context, op.getK());
  inputs.decay = gates(context, op.getDecay());
  inputs.beta = gates(context, op.getBeta());
  inputs.erase = gates(context, op.getErase());
  inputs.write = gates(context, op.getWrite());
  return inputs;
}

SmallVector<Operation *> DeltaRuleInputs::makers() const {
  SmallVector<Operation *> ops;
  for (const DeltaRuleInput *input : {&q, &k, &decay, &beta, &erase, &write}) {
    ops.append(input->makers.rbegin(), input->makers.rend());
  }
  return ops;
}
