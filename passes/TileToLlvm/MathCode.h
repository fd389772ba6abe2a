//===- MathCode.h - emits the functions of math as arithmetic
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On scalars and vectors alike, without branches, so that loops of scalars stay open to LLVM's vectoriser. Clamps are
// written as compare and select in the order that lets NaN through.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETOLLVM_MATHCODE_H
#define KIMI_PASSES_TILETOLLVM_MATHCODE_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include <limits>

namespace kimi {

/// Arithmetic on values of one type: a float type (f32 or f64), or a vector of it.
class MathCode {
public:
  using Value = mlir::Value;
  using Predicate = mlir::arith::CmpFPredicate;

  MathCode(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type) : b(b), loc(loc), type(type) {}

  Value f(double value);
  Value i(int64_t value);
  Value infinity() { return f(std::numeric_limits<double>::infinity()); }
  Value nan() { return f(std::numeric_limits<double>::quiet_NaN()); }

  Value add(Value x, Value y) { return mlir::arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return mlir::arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return mlir::arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return mlir::arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) { return mlir::arith::NegFOp::create(b, loc, x); }
  Value fma(Value x, Value y, Value z) { return mlir::math::FmaOp::create(b, loc, x, y, z); }
  Value abs(Value x) { return mlir::math::AbsFOp::create(b, loc, x); }
  Value sqrt(Value x) { return mlir::math::SqrtOp::create(b, loc, x); }
  Value floor(Value x) { return mlir::math::FloorOp::create(b, loc, x); }
  Value trunc(Value x) { return mlir::math::TruncOp::create(b, loc, x); }
  Value copySign(Value x, Value sign) { return mlir::math::CopySignOp::create(b, loc, x, sign); }
  Value compare(Predicate predicate, Value x, Value y) { return mlir::arith::CmpFOp::create(b, loc, predicate, x, y); }
  Value select(Value c, Value x, Value y) { return mlir::arith::SelectOp::create(b, loc, c, x, y); }
  Value both(Value c, Value d) { return mlir::arith::AndIOp::create(b, loc, c, d); }
  Value either(Value c, Value d) { return mlir::arith::OrIOp::create(b, loc, c, d); }

  // On the bits: integers as wide as the floats.
  Value addInt(Value x, Value y) { return mlir::arith::AddIOp::create(b, loc, x, y); }
  Value subInt(Value x, Value y) { return mlir::arith::SubIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, int64_t n) { return mlir::arith::ShLIOp::create(b, loc, x, i(n)); }
  Value shiftRight(Value x, int64_t n) { return mlir::arith::ShRSIOp::create(b, loc, x, i(n)); }
  Value bitAnd(Value x, int64_t mask) { return mlir::arith::AndIOp::create(b, loc, x, i(mask)); }
  Value bitOr(Value x, int64_t mask) { return mlir::arith::OrIOp::create(b, loc, x, i(mask)); }
  Value isZero(Value x) { return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::eq, x, i(0)); }
  Value toBits(Value x) { return mlir::arith::BitcastOp::create(b, loc, like(integer()), x); }
  Value toFloat(Value x) { return mlir::arith::BitcastOp::create(b, loc, like(element()), x); }
  Value fromInt(Value x) { return mlir::arith::SIToFPOp::create(b, loc, like(element()), x); }

  /// x within [low, high]; NaN stays NaN.
  Value clamp(Value x, double low, double high);
  /// Horner's rule, coefficients from the highest power down.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);

protected:
  mlir::Type element() const { return mlir::getElementTypeOrSelf(type); }
  mlir::Type integer() const { return b.getIntegerType(element().getIntOrFloatBitWidth()); }
  /// `scalar` in the shape of the values.
  mlir::Type like(mlir::Type scalar) const;
  Value constant(mlir::TypedAttr scalar);

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
};

/// fp32: exp and log are those of the Cephes library, tanh and erf the rational minimax functions of Eigen.
struct Float32Math : MathCode {
  using MathCode::MathCode;
  virtual ~Float32Math() = default;
  Value exp(Value x);
  Value exp2(Value x);
  Value log(Value x);
  Value log1p(Value x);
  Value expm1(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  /// The function of `op` (one operand); null where it is not among these.
  Value expand(mlir::Operation *op);

protected:
  /// x / y in the rational functions; a target may take a quicker one that is off by a few units of the last place.
  virtual Value quotient(Value x, Value y) { return div(x, y); }

private:
  /// 2^n e^r, |r| <= ln(2) / 2, where `shifted` is n + 1.5 * 2^23.
  Value scaledExp(Value r, Value shifted);
  Value rational(Value x, llvm::ArrayRef<double> p, llvm::ArrayRef<double> q);
};

/// fp64: the rational functions of the Cephes library.
struct Float64Math : MathCode {
  using MathCode::MathCode;
  Value exp(Value x);
  Value log(Value x);
  Value log1p(Value x);
  Value expm1(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sin(Value x) { return sinOrCos(x, 0); }
  Value cos(Value x) { return sinOrCos(x, 1); }
  Value tan(Value x) { return div(sin(x), cos(x)); }
  Value atan(Value x);
  Value asin(Value x);
  Value acos(Value x);
  Value sinh(Value x);
  Value cosh(Value x);
  Value asinh(Value x);
  Value acosh(Value x);
  Value atanh(Value x);
  Value pow(Value x, Value y);
  /// x - y trunc(x / y), for values of fp32: their quotient must have less than 2^53.
  Value rem(Value x, Value y);
  /// The function of `op` on `operands`; null where it is not among these.
  Value expand(mlir::Operation *op, mlir::ValueRange operands);

private:
  Value sinOrCos(Value x, int64_t quarter);
};

} // namespace kimi

#endif // KIMI_PASSES_TILETOLLVM_MATHCODE_H
