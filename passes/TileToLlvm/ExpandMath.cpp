//===- ExpandMath.cpp - exp, log, tanh, erf and their kin as arithmetic
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything is in fp32, on scalars and vectors alike, without branches, so that loops of scalars stay open to LLVM's
// vectoriser. Clamps are written as compare and select in the order that lets NaN through. exp and log are those of the
// Cephes library, tanh and erf the rational minimax functions of Eigen.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToLlvm/Passes.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

namespace kimi {
#define GEN_PASS_DEF_TILEEXPANDMATH
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
using Predicate = arith::CmpFPredicate;

/// Emits fp32 arithmetic of one shape (a scalar or a vector).
class Emitter {
public:
  Emitter(OpBuilder &b, Location loc, Type shape) : b(b), loc(loc), shape(shape) {}

  Value f(double value) { return constant(b.getF32FloatAttr(static_cast<float>(value))); }
  Value i(int32_t value) { return constant(b.getI32IntegerAttr(value)); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, loc, x, y, z); }
  Value addInt(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value subInt(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, int32_t n) { return arith::ShLIOp::create(b, loc, x, i(n)); }
  Value shiftRight(Value x, int32_t n) { return arith::ShRSIOp::create(b, loc, x, i(n)); }
  Value bitAnd(Value x, int32_t mask) { return arith::AndIOp::create(b, loc, x, i(mask)); }
  Value bitOr(Value x, int32_t mask) { return arith::OrIOp::create(b, loc, x, i(mask)); }
  Value toBits(Value x) { return arith::BitcastOp::create(b, loc, like(b.getI32Type()), x); }
  Value toFloat(Value x) { return arith::BitcastOp::create(b, loc, like(b.getF32Type()), x); }
  Value fromInt(Value x) { return arith::SIToFPOp::create(b, loc, like(b.getF32Type()), x); }
  Value compare(Predicate predicate, Value x, Value y) { return arith::CmpFOp::create(b, loc, predicate, x, y); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }

  /// x within [low, high]; NaN stays NaN.
  Value clamp(Value x, double low, double high) {
    x = select(compare(Predicate::OGT, x, f(high)), f(high), x);
    return select(compare(Predicate::OLT, x, f(low)), f(low), x);
  }

  /// Horner's rule, coefficients from the highest power down.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = f(coefficients.front());
    for (double coefficient : coefficients.drop_front()) {
      result = fma(result, x, f(coefficient));
    }
    return result;
  }

  /// e^x = 2^n e^r with |r| <= ln(2) / 2.
  Value exp(Value x) {
    x = clamp(x, -104.0, 89.0);
    // Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits.
    Value magic = f(12582912.0);
    Value shifted = fma(x, f(1.44269504088896341), magic);
    Value n = sub(shifted, magic);
    Value r = fma(n, f(-0.693359375), x);
    r = fma(n, f(2.12194440e-4), r);
    Value p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5});
    p = add(fma(p, mul(r, r), r), f(1.0));
    // 2^n in two factors: n reaches from -150 (results below the normal range) to 128 (infinity).
    Value exponent = subInt(toBits(shifted), toBits(magic));
    Value half = shiftRight(exponent, 1);
    auto power = [&](Value e) { return toFloat(shiftLeft(addInt(e, i(127)), 23)); };
    return mul(mul(p, power(half)), power(subInt(exponent, half)));
  }

  /// log(x) = e log(2) + log(m) with m in [sqrt(1/2), sqrt(2)).
  Value log(Value x) {
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
    Value infinity = f(std::numeric_limits<double>::infinity());
    result = select(compare(Predicate::OEQ, x, infinity), infinity, result);
    result = select(compare(Predicate::OEQ, x, f(0.0)), f(-std::numeric_limits<double>::infinity()), result);
    return select(compare(Predicate::ULT, x, f(0.0)), f(std::numeric_limits<double>::quiet_NaN()), result);
  }

  /// An odd function x P(x^2) / Q(x^2).
  Value rational(Value x, ArrayRef<double> p, ArrayRef<double> q) {
    Value square = mul(x, x);
    return div(mul(x, polynomial(square, p)), polynomial(square, q));
  }

  Value tanh(Value x) {
    return rational(clamp(x, -7.99881172180175781, 7.99881172180175781),
                    {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                     1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03},
                    {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03});
  }

  Value erf(Value x) {
    return rational(clamp(x, -4.0, 4.0),
                    {-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
                     -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02},
                    {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
                     -1.42647390514189e-02});
  }

  /// Kahan: the rounding error of u = 1 + x cancels in x / (u - 1).
  Value log1p(Value x) {
    Value u = add(x, f(1.0));
    Value logU = log(u);
    Value result = mul(logU, div(x, sub(u, f(1.0))));
    Value infinity = f(std::numeric_limits<double>::infinity());
    result = select(compare(Predicate::OEQ, u, infinity), logU, result);
    return select(compare(Predicate::OEQ, u, f(1.0)), x, result);
  }

  Value expm1(Value x) {
    Value u = exp(x);
    Value result = mul(sub(u, f(1.0)), div(x, log(u)));
    Value infinity = f(std::numeric_limits<double>::infinity());
    result = select(compare(Predicate::OEQ, u, infinity), u, result);
    result = select(compare(Predicate::OLT, u, f(1e-8)), f(-1.0), result);
    return select(compare(Predicate::OEQ, u, f(1.0)), x, result);
  }

private:
  Type like(Type element) {
    auto vector = dyn_cast<VectorType>(shape);
    return vector ? VectorType::get(vector.getShape(), element) : element;
  }

  Value constant(TypedAttr scalar) {
    if (auto vector = dyn_cast<ShapedType>(like(scalar.getType()))) {
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, Attribute(scalar)));
    }
    return arith::ConstantOp::create(b, loc, scalar);
  }

  OpBuilder &b;
  Location loc;
  Type shape;
};

struct TileExpandMath : kimi::impl::TileExpandMathBase<TileExpandMath> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (op->getNumResults() == 1 && op->getNumOperands() == 1 &&
          getElementTypeOrSelf(op->getResult(0).getType()).isF32()) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      OpBuilder b(op);
      Type type = op->getResult(0).getType();
      Value x = op->getOperand(0);
      Emitter e(b, op->getLoc(), type);
      Value result = llvm::TypeSwitch<Operation *, Value>(op)
                         .Case([&](math::ExpOp) { return e.exp(x); })
                         .Case([&](math::Exp2Op) { return e.exp(e.mul(x, e.f(0.693147180559945309))); })
                         .Case([&](math::LogOp) { return e.log(x); })
                         .Case([&](math::TanhOp) { return e.tanh(x); })
                         .Case([&](math::ErfOp) { return e.erf(x); })
                         .Case([&](math::Log1pOp) { return e.log1p(x); })
                         .Case([&](math::ExpM1Op) { return e.expm1(x); })
                         .Default([](Operation *) { return Value(); });
      if (result) {
        op->getResult(0).replaceAllUsesWith(result);
        op->erase();
      }
    }
  }
};
} // namespace
