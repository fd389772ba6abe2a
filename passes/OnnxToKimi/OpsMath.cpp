//===- OpsMath.cpp - functions of one element
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Elementwise.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

using Dims = ArrayRef<SymbolicDim>;
using Reals = ArrayRef<double>;
using Host = std::optional<SymbolicDim>;

namespace {
/// Formulas over floating-point values, written as they are in the operator's definition.
struct Real {
  ScalarContext &s;
  Value v;

  Real of(Value value) const { return {s, value}; }
  Real constant(double value) const { return {s, s.constant(v, value)}; }
  Real attr(StringRef name, double fallback) const { return constant(s.node.getFloat(name, fallback)); }
  template <typename OpTy>
  Real apply() const {
    return {s, OpTy::create(s.b, s.loc, v)};
  }
  Real operator+(Real o) const { return {s, arith::AddFOp::create(s.b, s.loc, v, o.v)}; }
  Real operator-(Real o) const { return {s, arith::SubFOp::create(s.b, s.loc, v, o.v)}; }
  Real operator*(Real o) const { return {s, arith::MulFOp::create(s.b, s.loc, v, o.v)}; }
  Real operator/(Real o) const { return {s, arith::DivFOp::create(s.b, s.loc, v, o.v)}; }
  Real operator+(double o) const { return *this + constant(o); }
  Real operator-(double o) const { return *this - constant(o); }
  Real operator*(double o) const { return *this * constant(o); }
  Real max(Real o) const { return {s, arith::MaximumFOp::create(s.b, s.loc, v, o.v)}; }
  Real min(Real o) const { return {s, arith::MinimumFOp::create(s.b, s.loc, v, o.v)}; }
  Real neg() const { return apply<arith::NegFOp>(); }
  Real exp() const { return apply<math::ExpOp>(); }
  Real tanh() const { return apply<math::TanhOp>(); }
  Real sigmoid() const { return constant(1.0) / (neg().exp() + 1.0); }
  /// log(exp(x) + 1) without overflow.
  Real softplus() const {
    Real small = apply<math::AbsFOp>().neg().exp();
    return max(constant(0.0)) + small.apply<math::Log1pOp>();
  }
  Value less(Real o) const { return arith::CmpFOp::create(s.b, s.loc, arith::CmpFPredicate::OLT, v, o.v); }
  Real select(Value condition, Real a, Real b) const {
    return {s, arith::SelectOp::create(s.b, s.loc, condition, a.v, b.v)};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Bodies that also take integers
//===----------------------------------------------------------------------===//

static Value emitAbs(ScalarContext &s, ValueRange x) {
  if (s.isFloat()) {
    return math::AbsFOp::create(s.b, s.loc, x[0]);
  }
  return s.isUnsigned() ? x[0] : math::AbsIOp::create(s.b, s.loc, x[0]).getResult();
}

static Value emitNeg(ScalarContext &s, ValueRange x) {
  if (s.isFloat()) {
    return arith::NegFOp::create(s.b, s.loc, x[0]);
  }
  return arith::SubIOp::create(s.b, s.loc, integerConstant(s.b, s.loc, x[0].getType(), 0), x[0]);
}

static Value emitSign(ScalarContext &s, ValueRange x) {
  if (s.isFloat()) {
    Real value{s, x[0]}, zero = value.constant(0.0);
    Real negative = value.select(value.less(zero), value.constant(-1.0), value); // NaN and 0 stay
    return value.select(zero.less(value), value.constant(1.0), negative).v;
  }
  auto number = [&](int64_t v) { return integerConstant(s.b, s.loc, x[0].getType(), v); };
  Value zero = number(0);
  Value isZero = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::eq, x[0], zero);
  Value isNegative = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::slt, x[0], zero);
  Value signedOne =
      s.isUnsigned() ? number(1) : arith::SelectOp::create(s.b, s.loc, isNegative, number(-1), number(1)).getResult();
  return arith::SelectOp::create(s.b, s.loc, isZero, zero, signedOne);
}

static Value emitRelu(ScalarContext &s, ValueRange x) {
  if (s.isFloat()) {
    return arith::MaximumFOp::create(s.b, s.loc, x[0], s.constant(x[0], 0.0));
  }
  return arith::MaxSIOp::create(s.b, s.loc, x[0], integerConstant(s.b, s.loc, x[0].getType(), 0));
}

static Value emitPRelu(ScalarContext &s, ValueRange x) {
  if (s.isFloat()) {
    Real value{s, x[0]};
    return value.select(value.less(value.constant(0.0)), value * value.of(x[1]), value).v;
  }
  if (s.isUnsigned()) {
    return x[0];
  }
  Value zero = integerConstant(s.b, s.loc, x[0].getType(), 0);
  Value negative = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::slt, x[0], zero);
  return arith::SelectOp::create(s.b, s.loc, negative, arith::MulIOp::create(s.b, s.loc, x[0], x[1]), x[0]);
}

static Value emitIsInf(ScalarContext &s, ValueRange x) {
  double infinity = std::numeric_limits<double>::infinity();
  auto equals = [&](double number) -> Value {
    return arith::CmpFOp::create(s.b, s.loc, arith::CmpFPredicate::OEQ, x[0], s.constant(x[0], number));
  };
  Value result = integerConstant(s.b, s.loc, s.b.getI1Type(), 0);
  if (s.node.getInt("detect_positive", 1) != 0) {
    result = equals(infinity);
  }
  if (s.node.getInt("detect_negative", 1) != 0) {
    result = arith::OrIOp::create(s.b, s.loc, result, equals(-infinity));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Clip, Gelu, Shrink
//===----------------------------------------------------------------------===//

static LogicalResult inferSameAsFirst(InferContext &c) {
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

static LogicalResult inferClip(InferContext &c) {
  for (unsigned i : {1u, 2u}) {
    if (!c.has(i)) {
      continue;
    }
    bool isOne =
        c.in(i).rank() <= c.in(0).rank() && llvm::all_of(c.shape(i), [](const SymbolicDim &d) { return d.is(1); });
    if (!isOne || c.in(i).elementType != c.in(0).elementType) {
      return c.fail("min and max must be one number each, of the element type of its input");
    }
  }
  return inferSameAsFirst(c);
}

static LogicalResult buildClip(BuildContext &c) {
  Tensor x = c.input(0);
  SmallVector<Tensor> inputs = {x};
  int low = -1, high = -1;
  for (unsigned i : {1u, 2u}) {
    if (c.has(i)) {
      (i == 1 ? low : high) = static_cast<int>(inputs.size());
      inputs.push_back(c.input(i));
    }
  }
  // Attributes until opset 10, inputs since.
  for (StringRef name : {"min", "max"}) {
    if (c.node.getOnnxAttr(name)) {
      (name == "min" ? low : high) = static_cast<int>(inputs.size());
      inputs.push_back(c.full({}, x.type, c.node.getFloat(name, 0)));
    }
  }
  c.give(c.map(inputs, x.shape, x.type, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value value = e[0];
    auto bound = [&](Value by, bool isMax) -> Value {
      if (x.isFloat()) {
        return isMax ? arith::MaximumFOp::create(b, loc, value, by).getResult()
                     : arith::MinimumFOp::create(b, loc, value, by).getResult();
      }
      if (x.isUnsigned()) {
        return isMax ? arith::MaxUIOp::create(b, loc, value, by).getResult()
                     : arith::MinUIOp::create(b, loc, value, by).getResult();
      }
      return isMax ? arith::MaxSIOp::create(b, loc, value, by).getResult()
                   : arith::MinSIOp::create(b, loc, value, by).getResult();
    };
    value = low < 0 ? value : bound(e[low], true);
    return high < 0 ? value : bound(e[high], false);
  }));
  return success();
}

/// kimi.gelu of `x`, exact or by tanh.
static Tensor gelu(BuildContext &c, const Tensor &x, bool tanh) {
  Value value = c.value(x);
  Value result = GeluOp::create(c.b, c.loc, value.getType(), value, tanh);
  return c.wrap(result, x.shape, x.type);
}

static LogicalResult buildGelu(BuildContext &c) {
  StringRef approximate = c.node.getString("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return c.fail("approximate = '" + approximate + "' is not known; accepted are 'none' and 'tanh'");
  }
  c.give(gelu(c, c.input(0), approximate == "tanh"));
  return success();
}

/// com.microsoft BiasGelu (exact) and FastGelu (tanh): the bias is added first.
static BuildFn biasGelu(bool tanh) {
  return [tanh](BuildContext &c) {
    Tensor x = c.input(0);
    if (c.has(1)) {
      x = c.map({x, c.input(1)}, x.shape, x.type, [](OpBuilder &b, Location loc, ValueRange e) -> Value {
        return arith::AddFOp::create(b, loc, e[0], e[1]);
      });
    }
    c.give(gelu(c, x, tanh));
    return success();
  };
}

static LogicalResult inferFloat(InferContext &c) {
  if (!isKind(c.in(0).elementType, kFloat)) {
    return c.fail("its element type must be a floating-point type");
  }
  return inferSameAsFirst(c);
}

void kimi::onnx::registerMathOps(OpTable &table) {
  auto unary = [&](const char *name, int64_t since, unsigned kinds, EmitFn emit, RealFn real = nullptr,
                   const char *domain = "") {
    ElementwiseOp op{name, since, kinds};
    op.emit = std::move(emit);
    op.real = std::move(real);
    op.domain = domain;
    addElementwise(table, std::move(op));
  };
  auto formula = [&](const char *name, int64_t since, Real (*emit)(Real), const char *domain = "") {
    unary(
        name, since, kFloat, [emit](ScalarContext &s, ValueRange x) { return emit(Real{s, x[0]}).v; }, nullptr, domain);
  };
  unary("Abs", 6, kNumber, emitAbs, [](NodeOp, Reals x) { return std::abs(x[0]); });
  ElementwiseOp neg{"Neg", 6, kNumber};
  neg.emit = emitNeg;
  neg.host = [](NodeOp, Dims x) -> Host { return SymbolicDim(0) - x[0]; };
  neg.real = [](NodeOp, Reals x) { return -x[0]; };
  addElementwise(table, std::move(neg));
  unary("Sign", 9, kNumber, emitSign);
  unary("Relu", 6, kNumber, emitRelu);
  unary("PRelu", 7, kNumber, emitPRelu);
  ElementwiseOp isNan{"IsNaN", 9, kFloat, true, true};
  isNan.emit = [](ScalarContext &s, ValueRange x) -> Value {
    return arith::CmpFOp::create(s.b, s.loc, arith::CmpFPredicate::UNO, x[0], x[0]);
  };
  addElementwise(table, std::move(isNan));
  ElementwiseOp isInf{"IsInf", 10, kFloat, true, true};
  isInf.emit = emitIsInf;
  addElementwise(table, std::move(isInf));

  auto direct = [&](const char *name, int64_t since, auto op, RealFn real = nullptr) {
    using OpTy = decltype(op);
    unary(
        name, since, kFloat, [](ScalarContext &s, ValueRange x) -> Value { return OpTy::create(s.b, s.loc, x[0]); },
        std::move(real));
  };
  direct("Sqrt", 6, math::SqrtOp(), [](NodeOp, Reals x) { return std::sqrt(x[0]); });
  direct("Exp", 6, math::ExpOp(), [](NodeOp, Reals x) { return std::exp(x[0]); });
  direct("Log", 6, math::LogOp(), [](NodeOp, Reals x) { return std::log(x[0]); });
  direct("Erf", 9, math::ErfOp());
  direct("Tanh", 6, math::TanhOp());
  direct("Floor", 6, math::FloorOp(), [](NodeOp, Reals x) { return std::floor(x[0]); });
  direct("Ceil", 6, math::CeilOp(), [](NodeOp, Reals x) { return std::ceil(x[0]); });
  direct("Round", 11, math::RoundEvenOp(), [](NodeOp, Reals x) { return std::nearbyint(x[0]); });
  direct("Sin", 7, math::SinOp());
  direct("Cos", 7, math::CosOp());
  direct("Tan", 7, math::TanOp());
  direct("Asin", 7, math::AsinOp());
  direct("Acos", 7, math::AcosOp());
  direct("Atan", 7, math::AtanOp());
  direct("Sinh", 9, math::SinhOp());
  direct("Cosh", 9, math::CoshOp());
  direct("Asinh", 9, math::AsinhOp());
  direct("Acosh", 9, math::AcoshOp());
  direct("Atanh", 9, math::AtanhOp());
  unary(
      "Reciprocal", 6, kFloat,
      [](ScalarContext &s, ValueRange x) -> Value {
        return arith::DivFOp::create(s.b, s.loc, s.constant(x[0], 1.0), x[0]);
      },
      [](NodeOp, Reals x) { return 1.0 / x[0]; });
  formula("Sigmoid", 6, [](Real x) { return x.sigmoid(); });
  formula("Softplus", 1, [](Real x) { return x.softplus(); });
  formula("Softsign", 1, [](Real x) { return x / (x.apply<math::AbsFOp>() + 1.0); });
  formula("Mish", 18, [](Real x) { return x * x.softplus().tanh(); });
  formula("Swish", 24, [](Real x) { return x * (x * x.attr("alpha", 1.0)).sigmoid(); });
  formula("LeakyRelu", 6, [](Real x) { return x.select(x.less(x.constant(0.0)), x * x.attr("alpha", 0.01), x); });
  formula("Elu", 6,
          [](Real x) { return x.select(x.less(x.constant(0.0)), (x.exp() - 1.0) * x.attr("alpha", 1.0), x); });
  formula("Selu", 6, [](Real x) {
    Real alpha = x.attr("alpha", 1.67326319217681884765625), gamma = x.attr("gamma", 1.05070102214813232421875);
    return gamma * x.select(x.constant(0.0).less(x), x, (x.exp() - 1.0) * alpha);
  });
  formula("Celu", 12, [](Real x) {
    Real alpha = x.attr("alpha", 1.0), zero = x.constant(0.0);
    return x.max(zero) + (((x / alpha).exp() - 1.0) * alpha).min(zero);
  });
  formula("HardSigmoid", 6, [](Real x) {
    return (x * x.attr("alpha", 0.2) + x.attr("beta", 0.5)).min(x.constant(1.0)).max(x.constant(0.0));
  });
  formula("HardSwish", 14,
          [](Real x) { return x * (x * (1.0 / 6.0) + 0.5).min(x.constant(1.0)).max(x.constant(0.0)); });
  formula("ThresholdedRelu", 10, [](Real x) { return x.select(x.attr("alpha", 1.0).less(x), x, x.constant(0.0)); });
  formula("Shrink", 9, [](Real x) {
    Real lambda = x.attr("lambd", 0.5), bias = x.attr("bias", 0.0);
    Real high = x.select(lambda.less(x), x - bias, x.constant(0.0));
    return x.select(x.less(lambda.neg()), x + bias, high);
  });
  table.add("Clip", 6, inferClip, buildClip);
  table.add("Gelu", 20, inferFloat, buildGelu);
  table.addMicrosoft("Gelu", inferFloat, buildGelu);
  table.addMicrosoft("FastGelu", inferFloat, biasGelu(true));
  table.addMicrosoft("BiasGelu", inferFloat, biasGelu(false));
  formula("QuickGelu", 1, [](Real x) { return x * (x * x.attr("alpha", 1.702)).sigmoid(); }, "com.microsoft");
}
