//===- KimiDeltaOps.cpp - verifiers, shapes and steps of mixers with a state of fixed size
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

static bool isFloats(Value value, int64_t rank) {
  RankedTensorType type = tensorType(value);
  return type.getRank() == rank && isa<FloatType>(type.getElementType());
}

/// The state of a mixer with `shape`: any batch, of fixed size.
static StateType fixedState(RankedTensorType type) {
  auto shape = llvm::to_vector(type.getShape());
  shape[0] = ShapedType::kDynamic;
  return StateType::get(type.getContext(), RankedTensorType::get(shape, type.getElementType()), -1);
}

/// `op` (at b) with its initial state, the operand of `initial`, read from `state`, and its result `next` written
/// there.
static void stepInPlace(OpBuilder &b, Operation *op, MutableOperandRange initial, Value next, Value state) {
  Location loc = op->getLoc();
  RankedTensorType type = tensorType(next), shape = cast<StateType>(state.getType()).getShape();
  SmallVector<Value> sizes;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (shape.isDynamicDim(axis)) {
      OpBuilder before(op);
      OpFoldResult size = axis == 0 ? tensor::getMixedSize(before, loc, op->getOperand(0), 0)
                                    : OpFoldResult(before.getIndexAttr(type.getDimSize(axis)));
      sizes.push_back(getValueOrCreateConstantIndexOp(before, loc, size));
    }
  }
  OpBuilder before(op);
  initial.assign(StateReadOp::create(before, loc, shape, state, sizes).getResult());
  b.setInsertionPointAfter(op);
  StateWriteOp::create(b, loc, next, state);
}

//===----------------------------------------------------------------------===//
// Delta rule
//===----------------------------------------------------------------------===//

int64_t DeltaRuleOp::getStateHeads() {
  return std::max(tensorType(getK()).getDimSize(1), tensorType(getV()).getDimSize(1));
}

int64_t DeltaRuleOp::getResultHeads() { return std::max(tensorType(getQ()).getDimSize(1), getStateHeads()); }

/// Errors [DR2] and [DR5] unless `gate` is [B, H', T] or, where it may have `channels` (else 0), [B, H', T, channels].
static LogicalResult verifyGate(DeltaRuleOp op, Value gate, StringRef name, const int64_t *channels) {
  if (!gate) {
    return success();
  }
  RankedTensorType q = tensorType(op.getQ()), type = tensorType(gate);
  SmallVector<int64_t> expected{q.getDimSize(0), op.getStateHeads(), q.getDimSize(2)};
  int64_t heads = type.getRank() >= 2 ? type.getDimSize(1) : ShapedType::kDynamic;
  SmallVector<int64_t> shape = expected;
  shape[1] = heads;
  if (channels && type.getRank() == 4) {
    shape.push_back(*channels);
  }
  if (!isa<FloatType>(type.getElementType()) || ShapedType::isDynamic(heads) || !compatible(type.getShape(), shape)) {
    InFlightDiagnostic diag = op.emitOpError("[DR5] ")
                              << name << " has type " << type << "; expected floats of shape " << text(expected);
    if (channels) {
      expected.push_back(*channels);
      diag << " or " << text(expected);
    }
    return diag << " (or with fewer heads)";
  }
  if (heads == 0 || op.getStateHeads() % heads != 0) {
    return op.emitOpError("[DR2] ") << name << " has " << heads << " heads, which do not divide the state's "
                                    << op.getStateHeads() << " heads";
  }
  return success();
}

/// [B, H, Dk, Dv(+1)].
static SmallVector<int64_t> stateShape(DeltaRuleOp op) {
  RankedTensorType q = tensorType(op.getQ()), v = tensorType(op.getV());
  int64_t width = v.getDimSize(3);
  if (op.getNormalize() && !ShapedType::isDynamic(width)) {
    ++width;
  }
  return {q.getDimSize(0), op.getStateHeads(), q.getDimSize(3), width};
}

LogicalResult DeltaRuleOp::verify() {
  for (auto [name, value] : {std::pair("q", getQ()), {"k", getK()}, {"v", getV()}, {"the result", getResult()}}) {
    if (!isFloats(value, 4) || tensorType(value).isDynamicDim(1)) {
      return emitOpError("[DR1] ")
             << name << " has type " << value.getType()
             << "; expected a tensor [batch, heads, tokens, channels] of floats with static heads";
    }
  }
  RankedTensorType q = tensorType(getQ()), k = tensorType(getK()), v = tensorType(getV()),
                   result = tensorType(getResult());
  int64_t heads = getStateHeads(), queryHeads = q.getDimSize(1);
  for (auto [name, type] : {std::pair("k", k), {"v", v}}) {
    if (type.getDimSize(1) == 0 || heads % type.getDimSize(1) != 0) {
      return emitOpError("[DR2] ") << name << " has " << type.getDimSize(1)
                                   << " heads, which do not divide the state's " << heads << " heads";
    }
  }
  if (queryHeads == 0 || (queryHeads % heads != 0 && heads % queryHeads != 0)) {
    return emitOpError("[DR3] q has ") << queryHeads << " heads and the state " << heads
                                       << "; expected one to divide the other";
  }
  bool agree = compatible(q.getDimSize(3), k.getDimSize(3));
  for (int64_t axis : {0, 2}) {
    agree &= compatible(q.getDimSize(axis), k.getDimSize(axis)) && compatible(q.getDimSize(axis), v.getDimSize(axis));
  }
  if (!agree) {
    return emitOpError("[DR4] q, k and v have shapes ")
           << text(q.getShape()) << ", " << text(k.getShape()) << " and " << text(v.getShape())
           << "; expected one batch and number of tokens, and as many channels in q as in k";
  }
  int64_t keyChannels = q.getDimSize(3), valueChannels = v.getDimSize(3);
  if (failed(verifyGate(*this, getDecay(), "decay", &keyChannels)) ||
      failed(verifyGate(*this, getBeta(), "beta", nullptr)) ||
      failed(verifyGate(*this, getErase(), "erase", &keyChannels)) ||
      failed(verifyGate(*this, getWrite(), "write", &valueChannels))) {
    return failure();
  }
  if (getBeta() && (getErase() || getWrite())) {
    return emitOpError("[DR6] has beta and ")
           << (getErase() ? "erase" : "write") << "; expected beta alone, which is both";
  }
  SmallVector<int64_t> memory = stateShape(*this);
  for (auto [name, value] : {std::pair("initial", getInitial()), {"the final state", getState()}}) {
    if (value && (!tensorType(value).getElementType().isF32() || !compatible(tensorType(value).getShape(), memory))) {
      return emitOpError("[DR7] ") << name << " has type " << value.getType() << "; expected f32 of shape "
                                   << text(memory);
    }
  }
  int64_t expected[] = {q.getDimSize(0), getResultHeads(), q.getDimSize(2), v.getDimSize(3)};
  if (!compatible(result.getShape(), expected) ||
      (result.getElementType() != q.getElementType() && !result.getElementType().isF32())) {
    return emitOpError("[DR8] gives ") << result << "; expected " << text(expected) << " of " << q.getElementType()
                                       << " or f32";
  }
  if (getNormalize() && (erases() || getWrite())) {
    return emitOpError("[DR9] normalises a rule with ") << (getBeta()    ? "beta"
                                                            : getErase() ? "erase"
                                                                         : "write")
                                                        << "; expected linear attention, with or without decay";
  }
  if (!getScale().isFinite() || (getNormalize() && (!getNormalize()->isFinite() || getNormalize()->isNegative()))) {
    return emitOpError("[DR10] has scale ") << getScale().convertToDouble() << " and the epsilon "
                                            << (getNormalize() ? getNormalize()->convertToDouble() : 0.0)
                                            << "; expected finite numbers, and an epsilon of at least 0";
  }
  return success();
}

LogicalResult DeltaRuleOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  Location loc = getLoc();
  Value q = getQ(), v = getV();
  dims.push_back({resultExtent(b, loc, getResult(), 0, q, 0), b.getIndexAttr(getResultHeads()),
                  resultExtent(b, loc, getResult(), 2, q, 2), resultExtent(b, loc, getResult(), 3, v, 3)});
  OpFoldResult width = resultExtent(b, loc, getState(), 3, v, 3);
  if (getNormalize() && tensorType(getState()).isDynamicDim(3)) {
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    width = arith::AddIOp::create(b, loc, getValueOrCreateConstantIndexOp(b, loc, width), one).getResult();
  }
  dims.push_back({resultExtent(b, loc, getState(), 0, q, 0), b.getIndexAttr(getStateHeads()),
                  resultExtent(b, loc, getState(), 2, q, 3), width});
  return success();
}

SmallVector<MixerState> DeltaRuleOp::getMixerStates() { return {{"memory", fixedState(tensorType(getState()))}}; }

int64_t DeltaRuleOp::getTimeAxis(unsigned index) {
  unsigned initial = getODSOperandIndexAndLength(7).first;
  return index < initial ? 2 : -1;
}

int64_t DeltaRuleOp::getResultTimeAxis() { return 2; }

OpOperand *DeltaRuleOp::getStateOperand(unsigned) {
  return getInitial() ? &getOperation()->getOpOperand(getODSOperandIndexAndLength(7).first) : nullptr;
}

Value DeltaRuleOp::getStateResult(unsigned) { return getState(); }

std::string DeltaRuleOp::getStepwiseObstacle() {
  if (getInitial()) {
    return "the delta rule starts from a state that is among its inputs already";
  }
  if (!getState().use_empty()) {
    return "the final state of the delta rule is used in the graph";
  }
  if (tensorType(getState()).isDynamicDim(2) || tensorType(getState()).isDynamicDim(3)) {
    return "the number of channels of a head is not known at compile time";
  }
  return "";
}

FailureOr<Value> DeltaRuleOp::buildStep(OpBuilder &b, ValueRange states, Value) {
  if (states.size() != 1 || !getStepwiseObstacle().empty()) {
    return failure();
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(*this);
  auto step = cast<DeltaRuleOp>(b.clone(*getOperation()));
  stepInPlace(b, step, step.getInitialMutable(), step.getState(), states[0]);
  return step.getResult();
}

//===----------------------------------------------------------------------===//
// Causal convolution
//===----------------------------------------------------------------------===//

LogicalResult CausalConvOp::verify() {
  for (auto [name, value] : {std::pair("x", getX()), {"the result", getResult()}, {"the window", getWindow()}}) {
    if (!isFloats(value, 3)) {
      return emitOpError("[CC1] ") << name << " has type " << value.getType()
                                   << "; expected a tensor [batch, channels, tokens] of floats";
    }
  }
  RankedTensorType x = tensorType(getX()), weight = tensorType(getWeight()), result = tensorType(getResult());
  if (!isFloats(getWeight(), 2) || weight.isDynamicDim(1) || weight.getDimSize(1) == 0 ||
      !compatible(weight.getDimSize(0), x.getDimSize(1))) {
    return emitOpError("[CC2] weight has type ")
           << weight << "; expected floats [" << text(x.getDimSize(1)) << ", K] with a static K of at least 1";
  }
  if (getBias() && (!isFloats(getBias(), 1) || !compatible(tensorType(getBias()).getDimSize(0), x.getDimSize(1)))) {
    return emitOpError("[CC3] bias has type ")
           << getBias().getType() << "; expected floats of shape [" << text(x.getDimSize(1)) << "]";
  }
  int64_t window[] = {x.getDimSize(0), x.getDimSize(1), weight.getDimSize(1) - 1};
  for (auto [name, value] : {std::pair("past", getPast()), {"the window", getWindow()}}) {
    if (value && (!isFloats(value, 3) || !compatible(tensorType(value).getShape(), window))) {
      return emitOpError("[CC4] ") << name << " has type " << value.getType() << "; expected floats of shape "
                                   << text(window);
    }
  }
  if (!compatible(result.getShape(), x.getShape()) ||
      (result.getElementType() != x.getElementType() && !result.getElementType().isF32())) {
    return emitOpError("[CC5] gives ") << result << "; expected " << text(x.getShape()) << " of " << x.getElementType()
                                       << " or f32";
  }
  return success();
}

LogicalResult CausalConvOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  Location loc = getLoc();
  dims.push_back(sameShape(b, loc, getResult(), getX()));
  dims.push_back({resultExtent(b, loc, getWindow(), 0, getX(), 0), resultExtent(b, loc, getWindow(), 1, getX(), 1),
                  b.getIndexAttr(tensorType(getWeight()).getDimSize(1) - 1)});
  return success();
}

SmallVector<MixerState> CausalConvOp::getMixerStates() { return {{"window", fixedState(tensorType(getWindow()))}}; }

int64_t CausalConvOp::getTimeAxis(unsigned index) { return index == 0 ? 2 : -1; }

int64_t CausalConvOp::getResultTimeAxis() { return 2; }

OpOperand *CausalConvOp::getStateOperand(unsigned) {
  return getPast() ? &getOperation()->getOpOperand(getODSOperandIndexAndLength(3).first) : nullptr;
}

Value CausalConvOp::getStateResult(unsigned) { return getWindow(); }

std::string CausalConvOp::getStepwiseObstacle() {
  if (getPast()) {
    return "the convolution starts from a window that is among its inputs already";
  }
  if (!getWindow().use_empty()) {
    return "the last window of the convolution is used in the graph";
  }
  if (tensorType(getWindow()).isDynamicDim(1) || tensorType(getWindow()).isDynamicDim(2)) {
    return "the number of channels of the convolution is not known at compile time";
  }
  return "";
}

FailureOr<Value> CausalConvOp::buildStep(OpBuilder &b, ValueRange states, Value) {
  if (states.size() != 1 || !getStepwiseObstacle().empty()) {
    return failure();
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(*this);
  auto step = cast<CausalConvOp>(b.clone(*getOperation()));
  stepInPlace(b, step, step.getPastMutable(), step.getWindow(), states[0]);
  return step.getResult();
}

//===----------------------------------------------------------------------===//
// States of fixed size
//===----------------------------------------------------------------------===//

/// Errors [<id>1] and [<id>2] unless `value` is all that a state of fixed size holds.
static LogicalResult verifyFixed(Operation *op, StringRef id, Value value, StateType state) {
  if (state.getGrows() >= 0) {
    return op->emitOpError("[") << id << "1] works on the whole of a state that grows: " << state;
  }
  RankedTensorType type = tensorType(value);
  if (type.getElementType() != state.getShape().getElementType() || !fitsState(type, state)) {
    return op->emitOpError("[") << id << "2] has a value of type " << type << ", but the state holds "
                                << state.getShape();
  }
  return success();
}

LogicalResult StateReadOp::verify() {
  if (failed(verifyFixed(*this, "SR", getResult(), getState().getType()))) {
    return failure();
  }
  if (getSizes().size() != static_cast<size_t>(tensorType(getResult()).getNumDynamicDims())) {
    return emitOpError("[SR3] has ") << getSizes().size() << " sizes, but the result has "
                                     << tensorType(getResult()).getNumDynamicDims() << " dynamic dims";
  }
  return success();
}

LogicalResult StateReadOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  reifyFromDims(b, getOperation()->getResults(), getSizes(), dims);
  return success();
}

LogicalResult StateWriteOp::verify() { return verifyFixed(*this, "SW", getValue(), getState().getType()); }
