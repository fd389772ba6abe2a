//===- GateRange.cpp - interval arithmetic on the body of an elementwise op --===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/GateRange.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kimi;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
static constexpr GateRange kAll{-kInfinity, kInfinity};

/// From the products (quotients, ..) of ends; 0 times infinity counts as 0.
static GateRange hull(std::initializer_list<double> ends) {
  GateRange range{kInfinity, -kInfinity};
  for (double end : ends) {
    double value = std::isnan(end) ? 0.0 : end;
    range.least = std::min(range.least, value);
    range.most = std::max(range.most, value);
  }
  return range;
}

static GateRange product(GateRange a, GateRange b) {
  return hull({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
}

/// The range of a scalar within a body, whose arguments may be anything. Bodies are short: no memory is kept.
static GateRange rangeOf(Value value, unsigned depth = 0) {
  constexpr unsigned mostDepth = 16;
  Operation *op = value.getDefiningOp();
  if (!op || depth > mostDepth) {
    return kAll;
  }
  APFloat constant(0.0);
  if (matchPattern(value, m_ConstantFloat(&constant))) {
    double number = constant.convertToDouble();
    return std::isnan(number) ? kAll : GateRange{number, number};
  }
  auto of = [&](unsigned operand) { return rangeOf(op->getOperand(operand), depth + 1); };
  return llvm::TypeSwitch<Operation *, GateRange>(op)
      .Case([&](arith::AddFOp) {
        GateRange a = of(0), b = of(1);
        return GateRange{a.least + b.least, a.most + b.most};
      })
      .Case([&](arith::SubFOp) {
        GateRange a = of(0), b = of(1);
        return GateRange{a.least - b.most, a.most - b.least};
      })
      .Case([&](arith::MulFOp) { return product(of(0), of(1)); })
      .Case([&](arith::DivFOp) {
        GateRange a = of(0), b = of(1);
        return b.least > 0.0 || b.most < 0.0 ? product(a, {1.0 / b.most, 1.0 / b.least}) : kAll;
      })
      .Case([&](arith::NegFOp) {
        GateRange a = of(0);
        return GateRange{-a.most, -a.least};
      })
      .Case([&](arith::MaximumFOp) {
        GateRange a = of(0), b = of(1);
        return GateRange{std::max(a.least, b.least), std::max(a.most, b.most)};
      })
      .Case([&](arith::MinimumFOp) {
        GateRange a = of(0), b = of(1);
        return GateRange{std::min(a.least, b.least), std::min(a.most, b.most)};
      })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](Operation *) { return of(0); })
      .Case([&](math::ExpOp) {
        GateRange a = of(0);
        return GateRange{std::exp(a.least), std::exp(a.most)};
      })
      .Case([&](math::TanhOp) {
        GateRange a = of(0);
        return GateRange{std::tanh(a.least), std::tanh(a.most)};
      })
      .Default([](Operation *) { return kAll; });
}

GateRange kimi::rangeOfElements(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (auto gate = dyn_cast<KdaGateOp>(op)) {
      return {gate.getBound() ? gate.getBound()->convertToDouble() : -kInfinity, 0.0};
    }
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      auto result = cast<OpResult>(tensor);
      return rangeOf(generic.getBody()->getTerminator()->getOperand(result.getResultNumber()));
    }
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp, linalg::TransposeOp>(op)) {
      break;
    }
    tensor = op->getOperand(0);
  }
  return kAll;
}
