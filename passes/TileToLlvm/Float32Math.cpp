//===- Float32Math.cpp - exp, log, tanh, erf and their kin of fp32
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/MathCode.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;

/// Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits.
static constexpr double kMagic = 12582912.0;

/// e^x = 2^n e^r with |r| <= ln(2) / 2.
Value Float32Math::exp(Value x) {
  x = clamp(x, -104.0, 89.0);
  Value shifted = fma(x, f(1.44269504088896341), f(kMagic));
  Value n = sub(shifted, f(kMagic));
  Value r = fma(n, f(-0.693359375), x);
  return scaledExp(fma(n, f(2.12194440e-4), r), shifted);
}

Value Float32Math::exp2(Value x) {
  x = clamp(x, -150.0, 129.0);
  Value shifted = add(x, f(kMagic));
  return scaledExp(mul(sub(x, sub(shifted, f(kMagic))), f(0.693147180559945309)), shifted);
}

Value Float32Math::scaledExp(Value r, Value shifted) {
  Value p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5});
  p = add(fma(p, mul(r, r), r), f(1.0));
  // 2^n in two factors: n reaches from -150 (results below the normal range) to 128 (infinity).
  Value exponent = subInt(toBits(shifted), toBits(f(kMagic)));
  Value half = shiftRight(exponent, 1);
  auto power = [&](Value e) { return toFloat(shiftLeft(addInt(e, i(127)), 23)); };
  return mul(mul(p, power(half)), power(subInt(exponent, half)));
}

/// log(x) = e log(2) + log(m) with m in [sqrt(1/2), sqrt(2)).
Value Float32Math::log(Value x) {
  Value tiny = compare(Predicate::OLT, x, f(std::numeric_limits<float>::min()));
  Value scaled = select(tiny, mul(x, f(8388608.0)), x);
  Value bits = toBits(scaled);
  Value e = fromInt(subInt(shiftRight(bits, 23), i(126)));
  e = select(tiny, sub(e, f(23.0)), e);
  Value m = toFloat(bitOr(bitAnd(bits, 0x007fffff), 0x3f000000));
  Value small = compare(Predicate::OLT, m, f(0.707106781186547524));
  e = select(small, sub(e, f(1.0)), e);
  m = sub(select(small, add(m, m), m), f(1.0));
  Value z = mul(m, m);
  Value p = polynomial(m, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                           -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Value y = mul(mul(p, m), z);
  y = fma(e, f(-2.12194440e-4), y);
  y = fma(z, f(-0.5), y);
  Value result = fma(e, f(0.693359375), add(m, y));
  result = select(compare(Predicate::OEQ, x, infinity()), infinity(), result);
  result = select(compare(Predicate::OEQ, x, f(0.0)), f(-std::numeric_limits<double>::infinity()), result);
  return select(compare(Predicate::ULT, x, f(0.0)), nan(), result);
}

/// An odd function x P(x^2) / Q(x^2).
Value Float32Math::rational(Value x, ArrayRef<double> p, ArrayRef<double> q) {
  Value square = mul(x, x);
  return quotient(mul(x, polynomial(square, p)), polynomial(square, q));
}

Value Float32Math::tanh(Value x) {
  return rational(clamp(x, -7.99881172180175781, 7.99881172180175781),
                  {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                   1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03},
                  {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03});
}

Value Float32Math::erf(Value x) {
  return rational(clamp(x, -4.0, 4.0),
                  {-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
                   -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02},
                  {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
                   -1.42647390514189e-02});
}

/// Kahan: the rounding error of u = 1 + x cancels in x / (u - 1).
Value Float32Math::log1p(Value x) {
  Value u = add(x, f(1.0));
  Value logU = log(u);
  Value result = mul(logU, div(x, sub(u, f(1.0))));
  result = select(compare(Predicate::OEQ, u, infinity()), logU, result);
  return select(compare(Predicate::OEQ, u, f(1.0)), x, result);
}

Value Float32Math::expm1(Value x) {
  Value u = exp(x);
  Value result = mul(sub(u, f(1.0)), div(x, log(u)));
  result = select(compare(Predicate::OEQ, u, infinity()), u, result);
  result = select(compare(Predicate::OLT, u, f(1e-8)), f(-1.0), result);
  return select(compare(Predicate::OEQ, u, f(1.0)), x, result);
}

Value Float32Math::expand(Operation *op) {
  if (op->getNumOperands() != 1) {
    return {};
  }
  Value x = op->getOperand(0);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return exp(x); })
      .Case([&](math::Exp2Op) { return exp2(x); })
      .Case([&](math::LogOp) { return log(x); })
      .Case([&](math::TanhOp) { return tanh(x); })
      .Case([&](math::ErfOp) { return erf(x); })
      .Case([&](math::Log1pOp) { return log1p(x); })
      .Case([&](math::ExpM1Op) { return expm1(x); })
      .Default([](Operation *) { return Value(); });
}
