//===- OpsLoss.cpp - NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// x: [N, C, d...], target: [N, d...]; the loss is of target's shape, or a scalar.
static LogicalResult inferLoss(InferContext &c) {
  if (c.in(0).rank() < 2 || c.in(1).rank() != c.in(0).rank() - 1) {
    return c.fail("its target must have the axes of its input but the second");
  }
  Shape expected(c.shape(0));
  expected.erase(expected.begin() + 1);
  if (failed(c.same(c.shape(1), expected, "the extents of target and input")) ||
      failed(c.hasPositions(c.shape(0)[1], c.shape(1)))) {
    return failure();
  }
  if (c.has(2) && failed(c.same(c.shape(2), {c.shape(0)[1]}, "the extents of weight and of the classes"))) {
    return failure();
  }
  StringRef reduction = c.node.getString("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    return c.fail("reduction '" + reduction + "' is unknown");
  }
  c.setOut(ValueInfo(c.in(0).elementType, reduction == "none" ? c.shape(1) : Shape()));
  c.setOut(1, ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

static Value addElements(OpBuilder &b, Location loc, Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }

/// loss[n, d] = -w[t] x[n, t, d] with t = target[n, d], 0 where t is ignored; `mean` divides by the sum of the weights.
static void giveLoss(BuildContext &c, const Tensor &x, const Tensor &target) {
  Type wide = accumulatorType(x.type);
  Value source = c.value(x), weight = c.has(2) ? c.value(c.input(2)) : Value(), classes = c.index(x.shape[1]);
  std::optional<int64_t> ignored;
  if (c.node.getOnnxAttr("ignore_index")) {
    ignored = c.node.getInt("ignore_index", 0);
  }
  // The weight of a target and its class.
  auto choose = [&](OpBuilder &b, Location loc, Value at) {
    Value position = clampPosition(b, loc, at, /*isUnsigned=*/false, classes);
    Value one = scalarConstant(b, loc, wide, 1.0);
    Value scale = weight ? widenElement(b, loc, c.read(b, loc, weight, {position})) : one;
    if (ignored) {
      Value skip = integerConstant(b, loc, at.getType(), *ignored);
      Value counts = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, at, skip);
      scale = arith::SelectOp::create(b, loc, counts, scale, scalarConstant(b, loc, wide, 0.0));
    }
    return std::make_pair(scale, position);
  };
  Tensor terms = c.mapIndexed({target}, target.shape, wide,
                              [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) -> Value {
                                auto [scale, position] = choose(b, loc, e[0]);
                                SmallVector<Value> from(at);
                                from.insert(from.begin() + 1, position);
                                Value element = widenElement(b, loc, c.read(b, loc, source, from));
                                Value zero = scalarConstant(b, loc, wide, 0.0);
                                // An ignored class may be outside of all, and its element infinite.
                                Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, scale, zero);
                                Value product = arith::MulFOp::create(b, loc, scale, element);
                                Value loss = arith::SubFOp::create(b, loc, zero, product);
                                return arith::SelectOp::create(b, loc, none, zero, loss);
                              });
  StringRef reduction = c.node.getString("reduction", "mean");
  if (reduction == "none") {
    return c.give(c.cast(terms, x.type));
  }
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < target.rank(); ++axis) {
    axes.push_back(axis);
  }
  Value zero = c.constant(wide, 0.0);
  Tensor total = c.reduce(
      {terms}, target.shape, axes, wide, zero, [](OpBuilder &, Location, ValueRange e) { return e[0]; }, addElements);
  if (reduction == "mean") {
    Tensor weights = c.reduce(
        {target}, target.shape, axes, wide, zero,
        [&](OpBuilder &b, Location loc, ValueRange e) { return choose(b, loc, e[0]).first; }, addElements);
    total = c.map({total, weights}, {}, wide, [](OpBuilder &b, Location loc, ValueRange e) -> Value {
      return arith::DivFOp::create(b, loc, e[0], e[1]);
    });
  }
  c.give(c.cast(total, x.type));
}

static LogicalResult buildNegativeLogLikelihood(BuildContext &c) {
  giveLoss(c, c.input(0), c.input(1));
  return success();
}

static LogicalResult buildSoftmaxCrossEntropy(BuildContext &c) {
  Tensor x = c.input(0);
  Value scores = c.value(x);
  Value logs = SoftmaxOp::create(c.b, c.loc, scores.getType(), scores, /*axis=*/1, /*log=*/true);
  Tensor probabilities = c.wrap(logs, x.shape, x.type);
  giveLoss(c, probabilities, c.input(1));
  if (c.wants(1)) {
    c.give(1, probabilities);
  }
  return success();
}

void kimi::onnx::registerLossOps(OpTable &table) {
  table.add("NegativeLogLikelihoodLoss", 12, inferLoss, buildNegativeLogLikelihood);
  table.add("SoftmaxCrossEntropyLoss", 12, inferLoss, buildSoftmaxCrossEntropy);
}
