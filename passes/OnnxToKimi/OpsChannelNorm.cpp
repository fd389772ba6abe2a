//===- OpsChannelNorm.cpp - BatchNormalization and its kin, LpNormalization
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static LogicalResult inferSame(InferContext &c) {
  if (!isa<FloatType>(c.in(0).elementType)) {
    return c.fail("its elements must be floating-point numbers");
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

/// The inputs behind the first are vectors.
static LogicalResult checkVectors(InferContext &c) {
  for (unsigned i = 1; i < c.numInputs(); ++i) {
    if (c.has(i) && c.in(i).rank() != 1) {
      return c.fail("input " + Twine(i) + " must have one axis, that of the channels");
    }
  }
  return success();
}

static LogicalResult inferChannels(InferContext &c) {
  if (failed(checkVectors(c))) {
    return failure();
  }
  return c.in(0).rank() < 2 ? c.fail("its input must have a batch and channels") : inferSame(c);
}

static LogicalResult inferBatchNorm(InferContext &c) {
  if (c.node.getInt("training_mode", 0) != 0) {
    return c.fail("training_mode is not supported");
  }
  return inferChannels(c);
}

static Value toSingle(OpBuilder &b, Location loc, Value element) {
  return castElement(b, loc, element, element.getType(), b.getF32Type());
}

/// `vector` [C] along axis 1 of a tensor of rank `rank`.
static Tensor alongChannels(BuildContext &c, const Tensor &vector, size_t rank) {
  Shape spread(rank, SymbolicDim(1));
  spread[1] = vector.shape[0];
  return c.reshape(vector, spread);
}

/// 1 / sqrt(variance + eps)
static Value inverseDeviation(OpBuilder &b, Location loc, Value variance, double eps) {
  Type single = b.getF32Type();
  Value shifted = arith::AddFOp::create(b, loc, variance, scalarConstant(b, loc, single, eps));
  Value root = math::SqrtOp::create(b, loc, shifted);
  return arith::DivFOp::create(b, loc, scalarConstant(b, loc, single, 1.0), root);
}

/// Inputs: x, scale, bias, mean, variance.
static LogicalResult buildBatchNorm(BuildContext &c) {
  Tensor x = c.input(0);
  double eps = c.node.getFloat("epsilon", 1e-5);
  SmallVector<Tensor> inputs{x};
  for (unsigned i = 1; i < 5; ++i) {
    inputs.push_back(alongChannels(c, c.input(i), x.shape.size()));
  }
  c.give(c.map(inputs, x.shape, x.type, [&](OpBuilder &b, Location loc, ValueRange e) {
    SmallVector<Value> v;
    for (Value element : e) {
      v.push_back(toSingle(b, loc, element));
    }
    Value centred = arith::SubFOp::create(b, loc, v[0], v[3]);
    Value factor = arith::MulFOp::create(b, loc, inverseDeviation(b, loc, v[4], eps), v[1]);
    Value scaled = arith::MulFOp::create(b, loc, centred, factor);
    return castElement(b, loc, arith::AddFOp::create(b, loc, scaled, v[2]), b.getF32Type(), x.type);
  }));
  return success();
}

/// (x - mean) / deviation over `axes`, then times and plus the tensors that are given.
static Tensor normalise(BuildContext &c, const Tensor &x, ArrayRef<int64_t> axes, double eps, ArrayRef<Tensor> affine) {
  Tensor mean =
      meanOf(c, {x}, x, axes, [](OpBuilder &b, Location loc, ValueRange e) { return toSingle(b, loc, e[0]); });
  Tensor variance = meanOf(c, {x, mean}, x, axes, [](OpBuilder &b, Location loc, ValueRange e) -> Value {
    Value centred = arith::SubFOp::create(b, loc, toSingle(b, loc, e[0]), e[1]);
    return arith::MulFOp::create(b, loc, centred, centred);
  });
  SmallVector<Tensor> inputs{x, mean, variance};
  inputs.append(affine.begin(), affine.end());
  return c.map(inputs, x.shape, x.type, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value centred = arith::SubFOp::create(b, loc, toSingle(b, loc, e[0]), e[1]);
    Value result = arith::MulFOp::create(b, loc, centred, inverseDeviation(b, loc, e[2], eps));
    if (!affine.empty()) {
      result = arith::MulFOp::create(b, loc, result, toSingle(b, loc, e[3]));
      result = arith::AddFOp::create(b, loc, result, toSingle(b, loc, e[4]));
    }
    return castElement(b, loc, result, b.getF32Type(), x.type);
  });
}

static SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(first, rank));
}

static LogicalResult buildInstanceNorm(BuildContext &c) {
  Tensor x = c.input(0);
  size_t rank = x.shape.size();
  c.give(normalise(c, x, axesFrom(2, rank), c.node.getFloat("epsilon", 1e-5),
                   {alongChannels(c, c.input(1), rank), alongChannels(c, c.input(2), rank)}));
  return success();
}

static LogicalResult inferGroupNorm(InferContext &c) {
  int64_t groups = c.node.getInt("num_groups", 0);
  if (c.in(0).rank() < 2 || groups < 1 || !SymbolicDim::divideExactly(c.shape(0)[1], groups)) {
    return c.fail("num_groups must divide the channels");
  }
  return failed(checkVectors(c)) ? failure() : inferSame(c);
}

/// Channels in groups: [N, G, C/G, ...]. Scale and bias are of the channels, before opset 21 of the groups.
static LogicalResult buildGroupNorm(BuildContext &c) {
  Tensor x = c.input(0);
  SymbolicDim groups(c.node.getInt("num_groups", 0)), each = *SymbolicDim::divideExactly(x.shape[1], groups);
  Shape split{x.shape[0], groups, each};
  split.append(x.shape.begin() + 2, x.shape.end());
  SmallVector<Tensor> affine;
  for (unsigned i : {1u, 2u}) {
    Tensor vector = c.input(i);
    Shape spread(split.size(), SymbolicDim(1));
    spread[1] = groups;
    if (vector.shape[0] == x.shape[1]) {
      spread[2] = each;
    }
    affine.push_back(c.reshape(vector, spread));
  }
  Tensor result =
      normalise(c, c.reshape(x, split), axesFrom(2, split.size()), c.node.getFloat("epsilon", 1e-5), affine);
  c.give(c.reshape(result, x.shape));
  return success();
}

static FailureOr<SmallVector<int64_t>> meanAxes(InferContext &c) {
  SmallVector<int64_t> axes = c.node.getInts("axes").value_or(SmallVector<int64_t>{0, 2, 3});
  for (int64_t &axis : axes) {
    FailureOr<int64_t> counted = c.axis(axis, c.in(0).rank());
    if (failed(counted)) {
      return failure();
    }
    axis = *counted;
  }
  llvm::sort(axes);
  axes.erase(llvm::unique(axes), axes.end());
  return axes;
}

/// sqrt(sum(x^2)) or sum(|x|) of the axis, by which its elements are divided.
static LogicalResult inferLpNorm(InferContext &c) {
  int64_t p = c.node.getInt("p", 2);
  if (failed(c.axis(c.node.getInt("axis", -1), c.in(0).rank()))) {
    return failure();
  }
  return p != 1 && p != 2 ? c.fail("p must be 1 or 2") : inferSame(c);
}

static LogicalResult buildLpNorm(BuildContext &c) {
  Tensor x = c.input(0);
  int64_t axis = *c.axis(c.node.getInt("axis", -1), x.rank());
  bool squares = c.node.getInt("p", 2) == 2;
  Type wide = accumulatorType(x.type);
  Tensor sum = c.reduce(
      {x}, x.shape, {axis}, wide, c.constant(wide, 0.0),
      [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
        Value element = widenElement(b, loc, e[0]);
        return squares ? arith::MulFOp::create(b, loc, element, element).getResult()
                       : math::AbsFOp::create(b, loc, element).getResult();
      },
      [](OpBuilder &b, Location loc, Value total, Value term) -> Value {
        return arith::AddFOp::create(b, loc, total, term);
      });
  Shape kept = x.shape;
  kept[axis] = 1;
  c.give(c.map({x, c.reshape(sum, kept)}, x.shape, x.type, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value norm = squares ? math::SqrtOp::create(b, loc, e[1]).getResult() : e[1];
    // A vector of zeros stays one.
    Value zero = scalarConstant(b, loc, wide, 0.0), one = scalarConstant(b, loc, wide, 1.0);
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, norm, zero);
    norm = arith::SelectOp::create(b, loc, none, one, norm);
    return castElement(b, loc, arith::DivFOp::create(b, loc, widenElement(b, loc, e[0]), norm), wide, x.type);
  }));
  return success();
}

void kimi::onnx::registerChannelNormOps(OpTable &table) {
  table.add("BatchNormalization", 9, inferBatchNorm, buildBatchNorm, "inference only");
  table.add("InstanceNormalization", 6, inferChannels, buildInstanceNorm);
  table.add("GroupNormalization", 18, inferGroupNorm, buildGroupNorm);
  table.add("LpNormalization", 1, inferLpNorm, buildLpNorm);
  table.add(
      "MeanVarianceNormalization", 9, [](InferContext &c) { return failed(meanAxes(c)) ? failure() : inferSame(c); },
      [](BuildContext &c) {
        c.give(normalise(c, c.input(0), *meanAxes(c), 1e-9, {}));
        return success();
      });
}
