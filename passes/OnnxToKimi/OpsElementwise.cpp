//===- OpsElementwise.cpp - arithmetic, comparison, logic, selection
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

/// Division of ONNX truncates toward zero.
static Host hostDiv(NodeOp, Dims x) {
  std::optional<int64_t> a = x[0].getConstant(), b = x[1].getConstant();
  if (a && b) {
    return *b == 0 ? Host() : *b == -1 ? Host(SymbolicDim(0) - x[0]) : Host(SymbolicDim(*a / *b));
  }
  if (std::optional<SymbolicDim> exact = SymbolicDim::divideExactly(x[0], x[1])) {
    return exact;
  }
  if (x[0].isKnownNonNegative() && x[1].isKnownNonNegative()) {
    return SymbolicDim::floorDiv(x[0], x[1]);
  }
  return std::nullopt;
}

static Host hostMod(NodeOp node, Dims x) {
  if (x[1].is(0)) {
    return std::nullopt;
  }
  if (node.getInt("fmod", 0) == 0) {
    return SymbolicDim::mod(x[0], x[1]);
  }
  std::optional<int64_t> a = x[0].getConstant(), b = x[1].getConstant();
  return a && b ? Host(*b == -1 ? 0 : *a % *b) : Host();
}

static Host hostPow(NodeOp, Dims x) {
  std::optional<int64_t> exponent = x[1].getConstant();
  if (!exponent || *exponent < 0 || *exponent > 62) {
    return std::nullopt;
  }
  SymbolicDim result(1);
  for (int64_t i = 0; i < *exponent; ++i) {
    result = result * x[0];
  }
  return result;
}

static SymbolicDim truth(const SymbolicDim &x) { return SymbolicDim(1) - SymbolicDim::eq(x, 0); }

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

template <typename FloatOp, typename IntOp>
static Value arithmetic(ScalarContext &s, ValueRange x) {
  return s.isFloat() ? FloatOp::create(s.b, s.loc, x[0], x[1]).getResult()
                     : IntOp::create(s.b, s.loc, x[0], x[1]).getResult();
}

template <typename FloatOp, typename SignedOp, typename UnsignedOp>
static Value bySign(ScalarContext &s, ValueRange x) {
  return s.isUnsigned() ? UnsignedOp::create(s.b, s.loc, x[0], x[1]).getResult() : arithmetic<FloatOp, SignedOp>(s, x);
}

/// A divisor that neither traps nor overflows: 1 in place of 0 (and, for signed integers, of -1).
static Value safeDivisor(ScalarContext &s, Value divisor) {
  auto is = [&](int64_t value) -> Value {
    return arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::eq, divisor,
                                 integerConstant(s.b, s.loc, divisor.getType(), value));
  };
  Value bad = is(0);
  if (!s.isUnsigned()) {
    bad = arith::OrIOp::create(s.b, s.loc, bad, is(-1));
  }
  return arith::SelectOp::create(s.b, s.loc, bad, integerConstant(s.b, s.loc, divisor.getType(), 1), divisor);
}

/// Truncates toward zero; x / 0 is x, for want of a better answer.
static Value emitDiv(ScalarContext &s, ValueRange x) {
  if (s.isFloat()) {
    return arith::DivFOp::create(s.b, s.loc, x[0], x[1]);
  }
  Value divisor = safeDivisor(s, x[1]);
  if (s.isUnsigned()) {
    return arith::DivUIOp::create(s.b, s.loc, x[0], divisor);
  }
  Value quotient = arith::DivSIOp::create(s.b, s.loc, x[0], divisor);
  Value zero = integerConstant(s.b, s.loc, x[0].getType(), 0),
        minusOne = integerConstant(s.b, s.loc, x[0].getType(), -1);
  Value negated = arith::SubIOp::create(s.b, s.loc, zero, x[0]);
  Value byMinusOne = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::eq, x[1], minusOne);
  return arith::SelectOp::create(s.b, s.loc, byMinusOne, negated, quotient);
}

/// The remainder has the sign of the divisor, or of the dividend with `fmod`.
static Value emitMod(ScalarContext &s, ValueRange x) {
  bool dividendSign = s.node.getInt("fmod", 0) != 0;
  if (s.isUnsigned()) {
    return arith::RemUIOp::create(s.b, s.loc, x[0], safeDivisor(s, x[1]));
  }
  if (s.isFloat()) {
    Value rest = arith::RemFOp::create(s.b, s.loc, x[0], x[1]);
    if (dividendSign) {
      return rest;
    }
    Value zero = s.constant(rest, 0.0);
    Value restNegative = arith::CmpFOp::create(s.b, s.loc, arith::CmpFPredicate::OLT, rest, zero);
    Value divisorNegative = arith::CmpFOp::create(s.b, s.loc, arith::CmpFPredicate::OLT, x[1], zero);
    Value differ = arith::XOrIOp::create(s.b, s.loc, restNegative, divisorNegative);
    Value nonZero = arith::CmpFOp::create(s.b, s.loc, arith::CmpFPredicate::ONE, rest, zero);
    Value moved = arith::AddFOp::create(s.b, s.loc, rest, x[1]);
    return arith::SelectOp::create(s.b, s.loc, arith::AndIOp::create(s.b, s.loc, differ, nonZero), moved, rest);
  }
  Value rest = arith::RemSIOp::create(s.b, s.loc, x[0], safeDivisor(s, x[1]));
  if (dividendSign) {
    return rest;
  }
  Value zero = integerConstant(s.b, s.loc, rest.getType(), 0);
  Value mixed = arith::XOrIOp::create(s.b, s.loc, rest, x[1]);
  Value differ = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::slt, mixed, zero);
  Value nonZero = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::ne, rest, zero);
  Value moved = arith::AddIOp::create(s.b, s.loc, rest, x[1]);
  return arith::SelectOp::create(s.b, s.loc, arith::AndIOp::create(s.b, s.loc, differ, nonZero), moved, rest);
}

/// x ** y; small constant powers are products. Integers go through f64, exact up to 2^53.
static Value emitPow(ScalarContext &s, ValueRange x) {
  if (!s.isFloat()) {
    Type wide = s.b.getF64Type();
    Value base = castElement(s.b, s.loc, x[0], s.types[0], wide);
    Value exponent = castElement(s.b, s.loc, x[1], isa<FloatType>(x[1].getType()) ? x[1].getType() : s.types[1], wide);
    return castElement(s.b, s.loc, math::PowFOp::create(s.b, s.loc, base, exponent), wide, s.types[0]);
  }
  auto constant = x[1].getDefiningOp<arith::ConstantOp>();
  std::optional<double> power;
  if (constant) {
    if (auto real = dyn_cast<FloatAttr>(constant.getValue())) {
      power = real.getValueAsDouble();
    } else if (auto whole = dyn_cast<IntegerAttr>(constant.getValue())) {
      power = static_cast<double>(whole.getInt());
    }
  }
  auto times = [&](Value a, Value b) -> Value { return arith::MulFOp::create(s.b, s.loc, a, b); };
  if (power == 1.0) {
    return x[0];
  }
  if (power == 2.0) {
    return times(x[0], x[0]);
  }
  if (power == 3.0) {
    return times(times(x[0], x[0]), x[0]);
  }
  if (power == 0.5) {
    return math::SqrtOp::create(s.b, s.loc, x[0]);
  }
  Type from = isa<FloatType>(x[1].getType()) ? x[1].getType() : s.types[1];
  Value exponent = castElement(s.b, s.loc, x[1], from, x[0].getType());
  return math::PowFOp::create(s.b, s.loc, x[0], exponent);
}

static EmitFn comparison(arith::CmpFPredicate real, arith::CmpIPredicate whole, arith::CmpIPredicate natural) {
  return [=](ScalarContext &s, ValueRange x) -> Value {
    if (s.isFloat()) {
      return arith::CmpFOp::create(s.b, s.loc, real, x[0], x[1]);
    }
    return arith::CmpIOp::create(s.b, s.loc, s.isUnsigned() ? natural : whole, x[0], x[1]);
  };
}

template <typename OpTy>
static Value emitBits(ScalarContext &s, ValueRange x) {
  return OpTy::create(s.b, s.loc, x[0], x[1]);
}

static Value emitNot(ScalarContext &s, ValueRange x) {
  return arith::XOrIOp::create(s.b, s.loc, x[0], integerConstant(s.b, s.loc, x[0].getType(), -1));
}

/// A shift by the width or more gives 0.
static Value emitShift(ScalarContext &s, ValueRange x) {
  Type type = x[0].getType();
  Value width = integerConstant(s.b, s.loc, type, type.getIntOrFloatBitWidth());
  Value zero = integerConstant(s.b, s.loc, type, 0);
  Value inside = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::ult, x[1], width);
  Value by = arith::SelectOp::create(s.b, s.loc, inside, x[1], zero);
  Value shifted = s.node.getString("direction", "LEFT") == "LEFT"
                      ? arith::ShLIOp::create(s.b, s.loc, x[0], by).getResult()
                      : arith::ShRUIOp::create(s.b, s.loc, x[0], by).getResult();
  return arith::SelectOp::create(s.b, s.loc, inside, shifted, zero);
}

static Value emitMean(ScalarContext &s, ValueRange x) {
  return arith::DivFOp::create(s.b, s.loc, x[0], s.constant(x[0], static_cast<double>(s.node.getInputs().size())));
}

void kimi::onnx::registerElementwiseOps(OpTable &table) {
  using Real = arith::CmpFPredicate;
  using Whole = arith::CmpIPredicate;
  auto add = [&](ElementwiseOp op) { addElementwise(table, std::move(op)); };
  auto binary = [&](const char *name, int64_t since, unsigned kinds, EmitFn emit, HostFn host, RealFn real) {
    ElementwiseOp op{name, since, kinds};
    op.emit = std::move(emit);
    op.host = std::move(host);
    op.real = std::move(real);
    add(std::move(op));
  };
  auto compare = [&](const char *name, int64_t since, unsigned kinds, EmitFn emit, HostFn host, RealFn real) {
    ElementwiseOp op{name, since, kinds, /*toBool=*/true, /*exact=*/true};
    op.emit = std::move(emit);
    op.host = std::move(host);
    op.real = std::move(real);
    add(std::move(op));
  };

  binary(
      "Add", 7, kNumber, arithmetic<arith::AddFOp, arith::AddIOp>, [](NodeOp, Dims x) -> Host { return x[0] + x[1]; },
      [](NodeOp, Reals x) { return x[0] + x[1]; });
  binary(
      "Sub", 7, kNumber, arithmetic<arith::SubFOp, arith::SubIOp>, [](NodeOp, Dims x) -> Host { return x[0] - x[1]; },
      [](NodeOp, Reals x) { return x[0] - x[1]; });
  binary(
      "Mul", 7, kNumber, arithmetic<arith::MulFOp, arith::MulIOp>, [](NodeOp, Dims x) -> Host { return x[0] * x[1]; },
      [](NodeOp, Reals x) { return x[0] * x[1]; });
  binary("Div", 7, kNumber, emitDiv, hostDiv, [](NodeOp, Reals x) { return x[0] / x[1]; });
  binary("Mod", 10, kNumber, emitMod, hostMod, [](NodeOp, Reals x) { return std::fmod(x[0], x[1]); });
  binary("Pow", 7, kNumber, emitPow, hostPow, [](NodeOp, Reals x) { return std::pow(x[0], x[1]); });

  compare(
      "Equal", 7, kAnyElement, comparison(Real::OEQ, Whole::eq, Whole::eq),
      [](NodeOp, Dims x) -> Host { return SymbolicDim::eq(x[0], x[1]); },
      [](NodeOp, Reals x) { return x[0] == x[1] ? 1.0 : 0.0; });
  compare(
      "Less", 7, kNumber, comparison(Real::OLT, Whole::slt, Whole::ult),
      [](NodeOp, Dims x) -> Host { return SymbolicDim::lt(x[0], x[1]); },
      [](NodeOp, Reals x) { return x[0] < x[1] ? 1.0 : 0.0; });
  compare(
      "LessOrEqual", 12, kNumber, comparison(Real::OLE, Whole::sle, Whole::ule),
      [](NodeOp, Dims x) -> Host { return SymbolicDim::le(x[0], x[1]); },
      [](NodeOp, Reals x) { return x[0] <= x[1] ? 1.0 : 0.0; });
  compare(
      "Greater", 7, kNumber, comparison(Real::OGT, Whole::sgt, Whole::ugt),
      [](NodeOp, Dims x) -> Host { return SymbolicDim::lt(x[1], x[0]); },
      [](NodeOp, Reals x) { return x[0] > x[1] ? 1.0 : 0.0; });
  compare(
      "GreaterOrEqual", 12, kNumber, comparison(Real::OGE, Whole::sge, Whole::uge),
      [](NodeOp, Dims x) -> Host { return SymbolicDim::le(x[1], x[0]); },
      [](NodeOp, Reals x) { return x[0] >= x[1] ? 1.0 : 0.0; });
  compare("And", 7, kBool, emitBits<arith::AndIOp>, [](NodeOp, Dims x) -> Host { return x[0] * x[1]; }, nullptr);
  compare(
      "Or", 7, kBool, emitBits<arith::OrIOp>, [](NodeOp, Dims x) -> Host { return x[0] + x[1] - x[0] * x[1]; },
      nullptr);
  compare(
      "Xor", 7, kBool, emitBits<arith::XOrIOp>,
      [](NodeOp, Dims x) -> Host { return x[0] + x[1] - x[0] * x[1] * SymbolicDim(2); }, nullptr);
  compare("Not", 1, kBool, emitNot, [](NodeOp, Dims x) -> Host { return SymbolicDim(1) - x[0]; }, nullptr);

  ElementwiseOp where{"Where", 9, kAnyElement};
  where.exact = true;
  where.emit = [](ScalarContext &s, ValueRange x) -> Value {
    return arith::SelectOp::create(s.b, s.loc, x[0], x[1], x[2]);
  };
  where.typeInput = 1;
  where.host = [](NodeOp, Dims x) -> Host { return SymbolicDim::select(truth(x[0]), x[1], x[2]); };
  where.real = [](NodeOp, Reals x) { return x[0] != 0 ? x[1] : x[2]; };
  add(std::move(where));

  auto fold = [&](const char *name, unsigned kinds, bool exact, EmitFn emit, HostFn host, RealFn real) {
    ElementwiseOp op{name, 6, kinds};
    op.exact = exact;
    op.variadic = true;
    op.emit = std::move(emit);
    op.host = std::move(host);
    op.real = std::move(real);
    return op;
  };
  add(fold(
      "Max", kNumber, true, bySign<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>,
      [](NodeOp, Dims x) -> Host { return SymbolicDim::max(x[0], x[1]); },
      [](NodeOp, Reals x) { return std::isnan(x[0]) || x[0] > x[1] ? x[0] : x[1]; }));
  add(fold(
      "Min", kNumber, true, bySign<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>,
      [](NodeOp, Dims x) -> Host { return SymbolicDim::min(x[0], x[1]); },
      [](NodeOp, Reals x) { return std::isnan(x[0]) || x[0] < x[1] ? x[0] : x[1]; }));
  EmitFn plus = arithmetic<arith::AddFOp, arith::AddIOp>;
  add(fold(
      "Sum", kNumber, false, plus, [](NodeOp, Dims x) -> Host { return x[0] + x[1]; },
      [](NodeOp, Reals x) { return x[0] + x[1]; }));
  ElementwiseOp mean = fold("Mean", kFloat, false, plus, nullptr, nullptr);
  mean.finish = emitMean;
  add(std::move(mean));

  auto bits = [&](const char *name, int64_t since, EmitFn emit) {
    ElementwiseOp op{name, since, kInteger};
    op.emit = std::move(emit);
    add(std::move(op));
  };
  bits("BitwiseAnd", 18, emitBits<arith::AndIOp>);
  bits("BitwiseOr", 18, emitBits<arith::OrIOp>);
  bits("BitwiseXor", 18, emitBits<arith::XOrIOp>);
  bits("BitwiseNot", 18, emitNot);
  bits("BitShift", 11, emitShift);
}
