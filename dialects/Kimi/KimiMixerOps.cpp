//===- KimiMixerOps.cpp - verifiers, shapes and steps of the token mixers
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

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

LogicalResult StateType::verify(function_ref<InFlightDiagnostic()> emitError, RankedTensorType shape, int64_t grows) {
  if (grows < -1 || grows >= shape.getRank()) {
    return emitError() << "[S1] state of " << shape << " grows on axis " << grows << "; expected an axis in [0, "
                       << shape.getRank() << "), or -1 for a state of fixed size";
  }
  if (grows >= 0 && !shape.isDynamicDim(grows)) {
    return emitError() << "[S2] state of " << shape << " grows on axis " << grows
                       << ", whose extent is static; expected '?' there";
  }
  return success();
}

LogicalResult StateLengthOp::verify() {
  if (getState().getType().getGrows() < 0) {
    return emitOpError("[L1] asks for the length of a state of fixed size: ") << getState().getType();
  }
  return success();
}

LogicalResult StateViewOp::verify() {
  StateType state = getState().getType();
  RankedTensorType result = tensorType(getResult());
  if (result.getElementType() != state.getShape().getElementType() || !fitsState(result, state)) {
    return emitOpError("[V1] gives ") << result << ", which is no view of a state of " << state.getShape();
  }
  if (getSizes().size() != static_cast<size_t>(result.getNumDynamicDims())) {
    return emitOpError("[V2] has ") << getSizes().size() << " sizes, but the result has " << result.getNumDynamicDims()
                                    << " dynamic dims";
  }
  return success();
}

LogicalResult CacheAppendOp::verify() {
  StateType state = getState().getType();
  RankedTensorType shape = state.getShape(), rows = tensorType(getRows()), result = tensorType(getResult());
  if (state.getGrows() < 0) {
    return emitOpError("[C1] appends to a state of fixed size: ") << state;
  }
  if (rows.getElementType() != shape.getElementType() || result.getElementType() != shape.getElementType()) {
    return emitOpError("[C2] has rows of ") << rows.getElementType() << " and a result of " << result.getElementType()
                                            << ", but the state holds " << shape.getElementType();
  }
  if (!fitsState(rows, state)) {
    return emitOpError("[C3] has rows of shape ")
           << text(rows.getShape()) << ", which differ from the state's " << text(shape.getShape())
           << " on more than axis " << state.getGrows();
  }
  if (!fitsState(result, state)) {
    return emitOpError("[C4] has a result of shape ")
           << text(result.getShape()) << ", which differs from the state's " << text(shape.getShape())
           << " on more than axis " << state.getGrows();
  }
  return success();
}

LogicalResult CacheAppendOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  Location loc = getLoc();
  SmallVector<OpFoldResult> shape = sameShape(b, loc, getResult(), getRows());
  int64_t axis = getState().getType().getGrows();
  if (tensorType(getResult()).isDynamicDim(axis)) {
    Value extent = getValueOrCreateConstantIndexOp(b, loc, tensor::getMixedSize(b, loc, getRows(), axis));
    shape[axis] = arith::AddIOp::create(b, loc, getPast(), extent).getResult();
  }
  dims.push_back(std::move(shape));
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::verify() {
  RankedTensorType q = tensorType(getQ()), k = tensorType(getK()), v = tensorType(getV()),
                   result = tensorType(getResult());
  for (auto [name, type] : {std::pair("q", q), {"k", k}, {"v", v}, {"the result", result}}) {
    if (type.getRank() != 4 || !isa<FloatType>(type.getElementType())) {
      return emitOpError("[A1] ") << name << " has type " << type
                                  << "; expected a tensor [batch, heads, tokens, channels] of floats";
    }
  }
  int64_t heads = q.getDimSize(1), kvHeads = k.getDimSize(1);
  if (!ShapedType::isDynamic(heads) && !ShapedType::isDynamic(kvHeads) && (kvHeads == 0 || heads % kvHeads != 0)) {
    return emitOpError("[A2] q has ") << heads << " heads, which is not a multiple of k's " << kvHeads << " heads";
  }
  if (!compatible(kvHeads, v.getDimSize(1))) {
    return emitOpError("[A3] k has ") << kvHeads << " heads and v has " << v.getDimSize(1);
  }
  if (!compatible(q.getDimSize(3), k.getDimSize(3))) {
    return emitOpError("[A4] q has heads of ") << q.getDimSize(3) << " channels and k of " << k.getDimSize(3);
  }
  if (!compatible(k.getDimSize(2), v.getDimSize(2))) {
    return emitOpError("[A5] k has ") << k.getDimSize(2) << " rows and v has " << v.getDimSize(2);
  }
  if (!compatible(q.getDimSize(0), k.getDimSize(0)) || !compatible(q.getDimSize(0), v.getDimSize(0))) {
    return emitOpError("[A6] q, k and v have batches of ")
           << text(q.getDimSize(0)) << ", " << text(k.getDimSize(0)) << " and " << text(v.getDimSize(0));
  }
  int64_t expected[] = {q.getDimSize(0), heads, q.getDimSize(2), v.getDimSize(3)};
  if (!compatible(result.getShape(), expected) ||
      (result.getElementType() != q.getElementType() && !result.getElementType().isF32())) {
    return emitOpError("[A7] gives ") << result << "; expected " << text(expected) << " of " << q.getElementType()
                                      << " or f32 ([batch, q's heads, q's tokens, v's channels])";
  }
  int64_t full[] = {q.getDimSize(0), heads, q.getDimSize(2), k.getDimSize(2)};
  if (failed(verifyAttentionMask(*this, getMask(), full, "[A8]", "[A9]"))) {
    return failure();
  }
  return verifyScores(*this, getScale(), getSoftcap(), "[A10]");
}

LogicalResult AttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  SmallVector<OpFoldResult> shape;
  for (int64_t i = 0; i < 4; ++i) {
    shape.push_back(resultExtent(b, getLoc(), getResult(), i, i == 3 ? getV() : getQ(), i));
  }
  dims.push_back(std::move(shape));
  return success();
}

/// The cache of `rows`: [B, Hkv, S, D]: any batch, growing along S.
static StateType cacheOf(Value rows) {
  RankedTensorType type = tensorType(rows);
  auto shape = llvm::to_vector(type.getShape());
  shape[0] = shape[2] = ShapedType::kDynamic;
  return StateType::get(rows.getContext(), RankedTensorType::get(shape, type.getElementType()), 2);
}

SmallVector<MixerState> AttentionOp::getMixerStates() { return {{"key", cacheOf(getK())}, {"value", cacheOf(getV())}}; }

int64_t AttentionOp::getTimeAxis(unsigned index) { return index < 3 ? 2 : -1; }

int64_t AttentionOp::getResultTimeAxis() { return 2; }

OpOperand *AttentionOp::getStateOperand(unsigned index) { return &getOperation()->getOpOperand(1 + index); }

std::string AttentionOp::getStepwiseObstacle() {
  if (!getCausal()) {
    return "attention is not causal: earlier tokens read later ones";
  }
  for (Value rows : {getK(), getV()}) {
    RankedTensorType type = tensorType(rows);
    if (type.isDynamicDim(1) || type.isDynamicDim(3)) {
      return "the number of heads or of their channels is not known at compile time";
    }
  }
  if (!compatible(tensorType(getQ()).getDimSize(2), tensorType(getK()).getDimSize(2))) {
    return "attention has " + text(tensorType(getQ()).getDimSize(2)) + " queries but " +
           text(tensorType(getK()).getDimSize(2)) + " keys: a past is among its inputs already";
  }
  return "";
}

FailureOr<Value> AttentionOp::buildStep(OpBuilder &b, ValueRange states, Value past) {
  if (states.size() != 2 || !getStepwiseObstacle().empty()) {
    return failure();
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(*this);
  SmallVector<Value, 2> whole;
  Value fresh[] = {getK(), getV()};
  for (auto [rows, state] : llvm::zip_equal(fresh, states)) {
    auto shape = llvm::to_vector(tensorType(rows).getShape());
    shape[2] = ShapedType::kDynamic;
    auto type = RankedTensorType::get(shape, tensorType(rows).getElementType());
    whole.push_back(CacheAppendOp::create(b, getLoc(), type, state, rows, past));
  }
  auto step = cast<AttentionOp>(b.clone(*getOperation()));
  step.getKMutable().assign(whole[0]);
  step.getVMutable().assign(whole[1]);
  return step.getResult();
}
