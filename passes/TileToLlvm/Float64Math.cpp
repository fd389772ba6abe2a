//===- Float64Math.cpp - the functions of fp64
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/MathCode.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;

namespace {
constexpr double kLog2 = 0.693147180559945309417;
constexpr double kHalfPi = 1.57079632679489661923;
/// What pi / 2 has beyond its first 53 bits.
constexpr double kHalfPiRest = 6.12323399573676588614e-17;
/// Adding 1.5 * 2^52 rounds to an integer, which is then found in the low bits.
constexpr double kMagic = 6755399441055744.0;
} // namespace

/// e^x = 2^n e^r, e^r = 1 + 2 r P(r^2) / (Q(r^2) - r P(r^2)) with |r| <= ln(2) / 2.
Value Float64Math::exp(Value x) {
  x = clamp(x, -746.0, 710.0);
  Value magic = f(kMagic);
  Value shifted = fma(x, f(1.4426950408889634073599), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, f(-6.93145751953125e-1), x);
  r = fma(n, f(-1.42860682030941723212e-6), r);
  Value square = mul(r, r);
  Value p =
      mul(r, polynomial(square, {1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1}));
  Value q = polynomial(square, {3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1, 2.0});
  Value result = fma(div(p, sub(q, p)), f(2.0), f(1.0));
  // 2^n in two factors: n reaches from -1076 (results below the normal range) to 1024 (infinity).
  Value exponent = subInt(toBits(shifted), toBits(magic));
  Value half = shiftRight(exponent, 1);
  auto power = [&](Value e) { return toFloat(shiftLeft(addInt(e, i(1023)), 52)); };
  return mul(mul(result, power(half)), power(subInt(exponent, half)));
}

/// log(x) = e log(2) + log(m) with m in [sqrt(1/2), sqrt(2)), log(1 + z) = z - z^2/2 + z^3 P(z) / Q(z).
Value Float64Math::log(Value x) {
  Value tiny = compare(Predicate::OLT, x, f(std::numeric_limits<double>::min()));
  Value scaled = select(tiny, mul(x, f(18014398509481984.0)), x); // 2^54
  Value bits = toBits(scaled);
  Value e = fromInt(subInt(shiftRight(bits, 52), i(1022)));
  e = select(tiny, sub(e, f(54.0)), e);
  Value m = toFloat(bitOr(bitAnd(bits, 0x000fffffffffffff), 0x3fe0000000000000));
  Value small = compare(Predicate::OLT, m, f(0.707106781186547524401));
  e = select(small, sub(e, f(1.0)), e);
  m = sub(select(small, add(m, m), m), f(1.0));
  Value square = mul(m, m);
  Value p = polynomial(m, {1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854,
                           1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666});
  Value q = polynomial(m, {1.0, 1.12873587189167450590e1, 4.52279145837532221105e1, 8.29875266912776603211e1,
                           7.11544750618563894466e1, 2.31251620126765340583e1});
  Value y = mul(m, mul(square, div(p, q)));
  y = fma(e, f(-2.121944400546905827679e-4), y);
  y = fma(square, f(-0.5), y);
  Value result = fma(e, f(0.693359375), add(m, y));
  result = select(compare(Predicate::OEQ, x, infinity()), infinity(), result);
  result = select(compare(Predicate::OEQ, x, f(0.0)), f(-std::numeric_limits<double>::infinity()), result);
  return select(compare(Predicate::ULT, x, f(0.0)), nan(), result);
}

/// Kahan: the rounding error of u = 1 + x cancels in x / (u - 1).
Value Float64Math::log1p(Value x) {
  Value u = add(x, f(1.0));
  Value logU = log(u);
  Value result = mul(logU, div(x, sub(u, f(1.0))));
  result = select(compare(Predicate::OEQ, u, infinity()), logU, result);
  return select(compare(Predicate::OEQ, u, f(1.0)), x, result);
}

Value Float64Math::expm1(Value x) {
  Value u = exp(x);
  Value result = mul(sub(u, f(1.0)), div(x, log(u)));
  result = select(compare(Predicate::OEQ, u, infinity()), u, result);
  result = select(compare(Predicate::OLT, u, f(1e-17)), f(-1.0), result);
  return select(compare(Predicate::OEQ, u, f(1.0)), x, result);
}

/// With t = e^(2|x|) - 1: t / (t + 2), which keeps small x.
Value Float64Math::tanh(Value x) {
  Value t = expm1(mul(clamp(abs(x), 0.0, 22.0), f(2.0)));
  return copySign(div(t, add(t, f(2.0))), x);
}

/// Below 1 x T(x^2) / U(x^2), above 1 - e^(-x^2) P(x) / Q(x).
Value Float64Math::erf(Value x) {
  Value magnitude = abs(x);
  Value square = mul(x, x);
  Value low =
      div(mul(magnitude, polynomial(square, {9.60497373987051638749, 9.00260197203842689217e1, 2.23200534594684319226e3,
                                             7.00332514112805075473e3, 5.55923013010394962768e4})),
          polynomial(square, {1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
                              2.26290000613890934246e4, 4.92673942608635921086e4}));
  Value z = clamp(magnitude, 1.0, 7.0);
  Value p = polynomial(z, {2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
                           4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
                           9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2});
  Value q = polynomial(z, {1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
                           9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
                           1.65666309194161350182e3, 5.57535340817727675546e2});
  Value high = sub(f(1.0), mul(exp(neg(mul(z, z))), div(p, q)));
  Value result = select(compare(Predicate::OLT, magnitude, f(1.0)), low, high);
  result = select(compare(Predicate::UNO, x, x), x, result);
  return copySign(result, x);
}

/// sin(x + quarter pi/2): x = n pi/2 + r with |r| <= pi/4. Exact reduction up to 2^50; beyond, where neighbouring
/// floats are further apart than a period, x counts as 0.
Value Float64Math::sinOrCos(Value x, int64_t quarter) {
  Value far = compare(Predicate::OGE, abs(x), f(1125899906842624.0));
  x = select(far, mul(x, f(0.0)), x); // infinity gives NaN
  Value magic = f(kMagic);
  Value shifted = fma(x, f(1 / kHalfPi), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, f(-kHalfPi), x);
  r = fma(n, f(-kHalfPiRest), r);
  Value square = mul(r, r);
  Value sine = polynomial(square, {1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
                                   -1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1});
  sine = fma(mul(sine, square), r, r);
  Value cosine = polynomial(square, {-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
                                     2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2});
  cosine = fma(mul(square, square), cosine, fma(square, f(-0.5), f(1.0)));
  Value turn = addInt(toBits(shifted), i(quarter)); // the low bits of the magic number are 0
  Value result = select(isZero(bitAnd(turn, 1)), sine, cosine);
  return select(isZero(bitAnd(turn, 2)), result, neg(result));
}

/// Reduced to |z| <= 0.66 by atan(x) = pi/2 - atan(1/x) and atan(x) = pi/4 + atan((x-1)/(x+1)).
Value Float64Math::atan(Value x) {
  Value magnitude = abs(x);
  Value large = compare(Predicate::OGT, magnitude, f(2.41421356237309504880));
  Value medium = compare(Predicate::OGT, magnitude, f(0.66));
  Value z = select(medium, div(sub(magnitude, f(1.0)), add(magnitude, f(1.0))), magnitude);
  z = select(large, div(f(-1.0), magnitude), z);
  Value base = select(large, f(kHalfPi), select(medium, f(kHalfPi / 2), f(0.0)));
  Value rest = select(large, f(kHalfPiRest), select(medium, f(kHalfPiRest / 2), f(0.0)));
  Value square = mul(z, z);
  Value p = polynomial(square, {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
                                -1.228866684490136173410e2, -6.485021904942025371773e1});
  Value q = polynomial(square, {1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
                                4.853903996359136964868e2, 1.945506571482613964425e2});
  Value result = fma(mul(z, square), div(p, q), z);
  return copySign(add(base, add(result, rest)), x);
}

Value Float64Math::asin(Value x) { return atan(div(x, sqrt(mul(sub(f(1.0), x), add(f(1.0), x))))); }

Value Float64Math::acos(Value x) { return mul(f(2.0), atan(sqrt(div(sub(f(1.0), x), add(f(1.0), x))))); }

/// With t = e^|x| - 1: (t + t / (t + 1)) / 2; large arguments in two factors, which reach the end of the range.
Value Float64Math::sinh(Value x) {
  Value magnitude = abs(x);
  Value t = expm1(clamp(magnitude, 0.0, 22.0));
  Value low = mul(f(0.5), add(t, div(t, add(t, f(1.0)))));
  Value half = exp(mul(f(0.5), magnitude));
  Value high = mul(mul(f(0.5), half), half);
  return copySign(select(compare(Predicate::OGT, magnitude, f(22.0)), high, low), x);
}

Value Float64Math::cosh(Value x) {
  Value half = exp(mul(f(0.5), abs(x)));
  Value high = mul(mul(f(0.5), half), half);
  return add(high, div(f(0.25), high));
}

/// log(1 + |x| + x^2 / (1 + sqrt(x^2 + 1))), or log(2 |x|) where x^2 is too large.
Value Float64Math::asinh(Value x) {
  Value magnitude = abs(x);
  Value large = compare(Predicate::OGT, magnitude, f(268435456.0));
  Value safe = select(large, f(1.0), magnitude);
  Value square = mul(safe, safe);
  Value low = log1p(add(safe, div(square, add(f(1.0), sqrt(add(square, f(1.0)))))));
  Value high = add(log(magnitude), f(kLog2));
  return copySign(select(large, high, low), x);
}

/// With t = x - 1: log(1 + t + sqrt(2 t + t^2)), or log(2 x).
Value Float64Math::acosh(Value x) {
  Value large = compare(Predicate::OGT, x, f(268435456.0));
  Value t = sub(select(large, f(2.0), x), f(1.0));
  Value low = log1p(add(t, sqrt(fma(t, t, add(t, t)))));
  Value result = select(large, add(log(x), f(kLog2)), low);
  return select(compare(Predicate::OLT, x, f(1.0)), nan(), result);
}

Value Float64Math::atanh(Value x) {
  Value magnitude = abs(x);
  Value ratio = div(add(magnitude, magnitude), sub(f(1.0), magnitude));
  return copySign(mul(f(0.5), log1p(ratio)), x);
}

/// |x|^y = e^(y log|x|); the sign and the ends as C's pow has them.
Value Float64Math::pow(Value x, Value y) {
  Value one = f(1.0), zero = f(0.0);
  Value magnitude = abs(x);
  Value unit = compare(Predicate::OEQ, magnitude, one);
  Value result = exp(select(unit, zero, mul(y, log(magnitude))));
  Value whole = compare(Predicate::OEQ, floor(y), y);
  Value half = mul(y, f(0.5));
  Value odd = both(whole, compare(Predicate::ONE, floor(half), half));
  result = select(both(odd, compare(Predicate::OLT, copySign(one, x), zero)), neg(result), result);
  Value finite = compare(Predicate::OLT, magnitude, infinity());
  Value fraction = both(compare(Predicate::OLT, x, zero), both(finite, compare(Predicate::UNE, floor(y), y)));
  result = select(fraction, nan(), result);
  Value unordered = compare(Predicate::UNO, x, y);
  result = select(unordered, add(x, y), result);
  return select(either(compare(Predicate::OEQ, x, one), compare(Predicate::OEQ, y, zero)), one, result);
}

Value Float64Math::rem(Value x, Value y) {
  Value quotient = trunc(div(x, y));
  Value result = fma(neg(quotient), y, x);
  // A quotient just below an integer may have been rounded to it.
  Value over = compare(Predicate::OLT, mul(result, copySign(f(1.0), x)), f(0.0));
  result = select(over, add(result, copySign(abs(y), x)), result);
  Value unbounded = both(compare(Predicate::OEQ, abs(y), infinity()), compare(Predicate::OLT, abs(x), infinity()));
  return copySign(select(unbounded, x, result), x);
}

Value Float64Math::expand(Operation *op, ValueRange operands) {
  if (operands.empty()) {
    return {};
  }
  Value x = operands[0];
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return exp(x); })
      .Case([&](math::Exp2Op) { return exp(mul(x, f(kLog2))); })
      .Case([&](math::LogOp) { return log(x); })
      .Case([&](math::TanhOp) { return tanh(x); })
      .Case([&](math::ErfOp) { return erf(x); })
      .Case([&](math::Log1pOp) { return log1p(x); })
      .Case([&](math::ExpM1Op) { return expm1(x); })
      .Case([&](math::SinOp) { return sin(x); })
      .Case([&](math::CosOp) { return cos(x); })
      .Case([&](math::TanOp) { return tan(x); })
      .Case([&](math::AsinOp) { return asin(x); })
      .Case([&](math::AcosOp) { return acos(x); })
      .Case([&](math::AtanOp) { return atan(x); })
      .Case([&](math::SinhOp) { return sinh(x); })
      .Case([&](math::CoshOp) { return cosh(x); })
      .Case([&](math::AsinhOp) { return asinh(x); })
      .Case([&](math::AcoshOp) { return acosh(x); })
      .Case([&](math::AtanhOp) { return atanh(x); })
      .Case([&](math::PowFOp) { return pow(x, operands[1]); })
      .Case([&](arith::RemFOp) { return rem(x, operands[1]); })
      .Default([](Operation *) { return Value(); });
}
