//===- OpsMath.cpp - functions of one element
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/Elementwise.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

using Dims = ArrayRef<SymbolicDim>;
using Reals = ArrayRef<double>;
using Host = std::optional<SymbolicDim>;

void kimi::onnx::registerMathOps(OpTable &table) {
  auto unary = [&](const char *name, int64_t since, unsigned kinds, RealFn real) {
    ElementwiseOp op{name, since, kinds};
    op.real = std::move(real);
    addElementwise(table, std::move(op));
  };
  unary("Sqrt", 6, kFloat, [](NodeOp, Reals x) { return std::sqrt(x[0]); });
  unary("Exp", 6, kFloat, [](NodeOp, Reals x) { return std::exp(x[0]); });
  unary("Log", 6, kFloat, [](NodeOp, Reals x) { return std::log(x[0]); });
  unary("Neg", 6, kNumber, [](NodeOp, Reals x) { return -x[0]; });
  unary("Abs", 6, kNumber, [](NodeOp, Reals x) { return std::abs(x[0]); });
  unary("Reciprocal", 6, kFloat, [](NodeOp, Reals x) { return 1 / x[0]; });
  unary("Tanh", 6, kFloat, nullptr);
  unary("Sigmoid", 6, kFloat, nullptr);
  unary("Erf", 9, kNumber, nullptr);
  ElementwiseOp isNan{"IsNaN", 9, kFloat, true, true};
  addElementwise(table, isNan);
}
