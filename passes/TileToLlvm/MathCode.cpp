//===- MathCode.cpp - arithmetic on floats and their bits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/MathCode.h"

using namespace mlir;
using namespace kimi;

Type MathCode::like(Type scalar) const {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? VectorType::get(vector.getShape(), scalar) : scalar;
}

Value MathCode::constant(TypedAttr scalar) {
  if (auto vector = dyn_cast<ShapedType>(like(scalar.getType()))) {
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, Attribute(scalar)));
  }
  return arith::ConstantOp::create(b, loc, scalar);
}

Value MathCode::f(double value) { return constant(b.getFloatAttr(element(), value)); }

Value MathCode::i(int64_t value) { return constant(b.getIntegerAttr(integer(), value)); }

Value MathCode::clamp(Value x, double low, double high) {
  x = select(compare(Predicate::OGT, x, f(high)), f(high), x);
  return select(compare(Predicate::OLT, x, f(low)), f(low), x);
}

Value MathCode::polynomial(Value x, ArrayRef<double> coefficients) {
  Value result = f(coefficients.front());
  for (double coefficient : coefficients.drop_front()) {
    result = fma(result, x, f(coefficient));
  }
  return result;
}
