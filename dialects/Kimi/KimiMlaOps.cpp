//===- KimiMlaOps.cpp - multi-head latent attention: verifier, shapes, step
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

static bool isFloatsOfRank(Value value, int64_t rank) {
  RankedTensorType type = tensorType(value);
  return type.getRank() == rank && isa<FloatType>(type.getElementType());
}

MlaOp::Extents MlaOp::getExtents() {
  RankedTensorType q = tensorType(getQ()), w = tensorType(getKvB());
  int64_t heads = q.getDimSize(1), shared = getShared() ? tensorType(getShared()).getDimSize(2) : 0;
  int64_t own = q.getDimSize(3) - shared;
  int64_t columns = w.getDimSize(getTranspose() ? 0 : 1);
  return {heads, own, shared, columns / heads - own, w.getDimSize(getTranspose() ? 1 : 0)};
}

LogicalResult MlaOp::verify() {
  RankedTensorType q = tensorType(getQ()), latent = tensorType(getLatent()), w = tensorType(getKvB()),
                   result = tensorType(getResult());
  if (!isFloatsOfRank(getQ(), 4) || !isFloatsOfRank(getResult(), 4)) {
    return emitOpError("[ML1] has q of type ") << q << " and a result of type " << result
                                               << "; expected tensors [batch, heads, tokens, channels] of floats";
  }
  if (!isFloatsOfRank(getLatent(), 3) || (getShared() && !isFloatsOfRank(getShared(), 3))) {
    return emitOpError("[ML1] has latents of type ")
           << (isFloatsOfRank(getLatent(), 3) ? getShared().getType() : latent)
           << "; expected a tensor [batch, tokens, channels] of floats";
  }
  if (!isFloatsOfRank(getKvB(), 2)) {
    return emitOpError("[ML1] has kv_b of type ") << w << "; expected a matrix of floats";
  }
  int64_t shared = getShared() ? tensorType(getShared()).getDimSize(2) : 0;
  if (q.isDynamicDim(1) || q.isDynamicDim(3) || latent.isDynamicDim(2) || ShapedType::isDynamic(shared) ||
      !w.hasStaticShape() || q.getDimSize(1) == 0) {
    return emitOpError("[ML2] has heads, channels or a matrix kv_b of unknown extents: q is ")
           << q << ", the latent " << latent << ", kv_b " << w;
  }
  Extents e = getExtents();
  int64_t columns = w.getDimSize(getTranspose() ? 0 : 1);
  if (latent.getDimSize(2) != e.rank) {
    return emitOpError("[ML3] has latents of ") << latent.getDimSize(2) << " channels, but kv_b has " << e.rank
                                                << " rows" << (getTranspose() ? " (it is transposed)" : "");
  }
  if (e.own < 1 || e.values < 1 || columns % e.heads != 0) {
    return emitOpError("[ML3] has ") << e.heads << " heads with " << q.getDimSize(3) << " channels of q, of which "
                                     << e.shared << " are shared, but kv_b has " << columns
                                     << " columns; expected heads * (own channels + value channels), each at least 1";
  }
  bool fits = compatible(q.getDimSize(0), latent.getDimSize(0));
  if (getShared()) {
    RankedTensorType rows = tensorType(getShared());
    fits &= compatible(rows.getDimSize(0), latent.getDimSize(0)) && compatible(rows.getDimSize(0), q.getDimSize(0)) &&
            compatible(rows.getDimSize(1), latent.getDimSize(1)) && rows.getElementType() == latent.getElementType();
  }
  if (!fits) {
    return emitOpError("[ML4] has q ") << q << ", latents " << latent << " and shared rows "
                                       << (getShared() ? getShared().getType() : Type(latent))
                                       << ", which differ in batch, rows or element type";
  }
  int64_t expected[] = {q.getDimSize(0), e.heads, q.getDimSize(2), e.values};
  if (!compatible(result.getShape(), expected) ||
      (result.getElementType() != q.getElementType() && !result.getElementType().isF32())) {
    return emitOpError("[ML5] gives ") << result << "; expected " << text(expected) << " of " << q.getElementType()
                                       << " or f32 ([batch, heads, tokens, value channels])";
  }
  int64_t full[] = {q.getDimSize(0), e.heads, q.getDimSize(2), latent.getDimSize(1)};
  if (failed(verifyAttentionMask(*this, getMask(), full, "[ML6]", "[ML7]"))) {
    return failure();
  }
  return verifyScores(*this, getScale(), getSoftcap(), "[ML8]");
}

LogicalResult MlaOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  SmallVector<OpFoldResult> shape;
  for (int64_t i = 0; i < 3; ++i) {
    shape.push_back(resultExtent(b, getLoc(), getResult(), i, getQ(), i));
  }
  shape.push_back(b.getIndexAttr(getExtents().values));
  dims.push_back(std::move(shape));
  return success();
}

SmallVector<MixerState> MlaOp::getMixerStates() {
  Extents e = getExtents();
  int64_t shape[] = {ShapedType::kDynamic, ShapedType::kDynamic, e.rank + e.shared};
  auto rows = RankedTensorType::get(shape, tensorType(getLatent()).getElementType());
  return {{"latent", StateType::get(getContext(), rows, 1)}};
}

int64_t MlaOp::getTimeAxis(unsigned index) {
  Value operand = getOperand(index);
  return operand == getQ() ? 2 : operand == getLatent() || operand == getShared() ? 1 : -1;
}

int64_t MlaOp::getResultTimeAxis() { return 2; }

/// Of a graph that carries its latents itself: the shared part comes from the same rows.
OpOperand *MlaOp::getStateOperand(unsigned) { return &getLatentMutable(); }

std::string MlaOp::getStepwiseObstacle() {
  if (!getCausal()) {
    return "attention is not causal: earlier tokens read later ones";
  }
  int64_t queries = tensorType(getQ()).getDimSize(2), keys = tensorType(getLatent()).getDimSize(1);
  if (!compatible(queries, keys)) {
    return "attention has " + text(queries) + " queries but " + text(keys) +
           " latents: a past is among its inputs already";
  }
  return "";
}

FailureOr<Value> MlaOp::buildStep(OpBuilder &b, ValueRange states, Value past) {
  if (states.size() != 1 || !getStepwiseObstacle().empty()) {
    return failure();
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(*this);
  Location loc = getLoc();
  Extents e = getExtents();
  Value rows = getLatent();
  if (getShared()) {
    rows = tensor::ConcatOp::create(b, loc, 2, ValueRange{getLatent(), getShared()});
  }
  auto type = tensorType(rows);
  auto all =
      RankedTensorType::get({type.getDimSize(0), ShapedType::kDynamic, type.getDimSize(2)}, type.getElementType());
  Value whole = CacheAppendOp::create(b, loc, all, states[0], rows, past);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, whole), steps(3, b.getIndexAttr(1));
  auto channels = [&](int64_t first, int64_t count) -> Value {
    SmallVector<OpFoldResult> offsets(3, b.getIndexAttr(0));
    offsets[2] = b.getIndexAttr(first);
    sizes[2] = b.getIndexAttr(count);
    return tensor::ExtractSliceOp::create(b, loc, whole, offsets, sizes, steps);
  };
  auto step = cast<MlaOp>(b.clone(*getOperation()));
  b.setInsertionPoint(step);
  step.getLatentMutable().assign(getShared() ? channels(0, e.rank) : whole);
  if (getShared()) {
    step.getSharedMutable().assign(channels(e.rank, e.shared));
  }
  return step.getResult();
}
