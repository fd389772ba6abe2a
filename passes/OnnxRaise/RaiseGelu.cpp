//===- RaiseGelu.cpp - --onnx-raise-gelu
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"
#include "passes/OnnxRaise/Passes.h"
#include <array>
#include <cmath>

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEGELU
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {

constexpr unsigned kDegree = 3;
/// Coefficients of 1, x, x^2, x^3.
using Polynomial = std::array<double, kDegree + 1>;

std::optional<Polynomial> multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product = {};
  for (unsigned i = 0; i <= kDegree; ++i) {
    for (unsigned j = 0; j <= kDegree; ++j) {
      double term = a[i] * b[j];
      if (term == 0.0) {
        continue;
      }
      if (i + j > kDegree) {
        return std::nullopt;
      }
      product[i + j] += term;
    }
  }
  return product;
}

/// `value` as a polynomial in `x` of degree at most 3; nullopt where it is not one. `depth` bounds the search.
std::optional<Polynomial> asPolynomial(const Raiser &raiser, Value value, Value x, unsigned depth = 12) {
  value = raiser.strip(value);
  if (value == x) {
    return Polynomial{0, 1, 0, 0};
  }
  if (std::optional<double> c = raiser.scalar(value)) {
    return Polynomial{*c, 0, 0, 0};
  }
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || !node.getDomain().empty() || node.getInputs().size() != 2 || !node.getInput(0) || !node.getInput(1) ||
      depth == 0) {
    return std::nullopt;
  }
  std::optional<Polynomial> a = asPolynomial(raiser, node.getInput(0), x, depth - 1);
  if (!a) {
    return std::nullopt;
  }
  if (node.is("Pow") || node.is("Div")) {
    std::optional<double> c = raiser.scalar(node.getInput(1));
    if (!c || *c == 0.0) {
      return std::nullopt;
    }
    if (node.is("Div")) {
      return multiply(*a, {1.0 / *c, 0, 0, 0});
    }
    if (*c != 2.0 && *c != 3.0) {
      return std::nullopt;
    }
    std::optional<Polynomial> square = multiply(*a, *a);
    return *c == 2.0 || !square ? square : multiply(*square, *a);
  }
  std::optional<Polynomial> b = asPolynomial(raiser, node.getInput(1), x, depth - 1);
  if (!b) {
    return std::nullopt;
  }
  if (node.is("Mul")) {
    return multiply(*a, *b);
  }
  if (!node.is("Add") && !node.is("Sub")) {
    return std::nullopt;
  }
  for (unsigned i = 0; i <= kDegree; ++i) {
    (*a)[i] += node.is("Add") ? (*b)[i] : -(*b)[i];
  }
  return a;
}

/// For `value` = 1 + f(u): the node f (Erf or Tanh), else null.
NodeOp matchGate(const Raiser &raiser, Value value) {
  NodeOp add = raiser.node(value, "Add");
  auto withOne = add ? raiser.withScalar(add) : std::nullopt;
  if (!withOne || withOne->second != 1.0) {
    return {};
  }
  NodeOp erf = raiser.node(withOne->first, "Erf");
  return erf ? erf : raiser.node(withOne->first, "Tanh");
}

/// Whether u = f's argument is what GELU asks for.
bool isGeluArgument(const Raiser &raiser, NodeOp f, Value x) {
  std::optional<Polynomial> u = asPolynomial(raiser, f.getInput(0), x);
  if (!u || std::fabs((*u)[0]) > 1e-6 || std::fabs((*u)[2]) > 1e-6) {
    return false;
  }
  if (f.is("Erf")) {
    return isClose((*u)[1], M_SQRT1_2) && (*u)[3] == 0.0;
  }
  double slope = std::sqrt(2.0 / M_PI);
  return isClose((*u)[1], slope) && isClose((*u)[3], slope * 0.044715);
}

/// The values under u that could be x: everything that is no constant, nearest first.
void candidates(const Raiser &raiser, Value value, unsigned depth, SmallVectorImpl<Value> &found) {
  value = raiser.strip(value);
  if (raiser.scalar(value) || llvm::is_contained(found, value)) {
    return;
  }
  found.push_back(value);
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || !node.getDomain().empty() || depth == 0) {
    return;
  }
  static constexpr StringLiteral kArithmetic[] = {"Add", "Sub", "Mul", "Div", "Pow"};
  if (llvm::is_contained(kArithmetic, node.getOpType())) {
    for (Value input : node.getInputs()) {
      candidates(raiser, input, depth - 1, found);
    }
  }
}

LogicalResult build(Raiser &raiser, NodeOp root, Value x, bool tanh) {
  Value input = raiser.ranked(x);
  if (!input) {
    return raiser.rewriter.notifyMatchFailure(root, "the input has no known rank");
  }
  Value y = GeluOp::create(raiser.rewriter, root.getLoc(), input.getType(), input, tanh);
  raiser.replace(root.getResult(0), y);
  return success();
}

LogicalResult raiseOperator(Raiser &raiser, NodeOp node) {
  bool microsoft = node.getDomain() == "com.microsoft";
  Value x = node.getInput(0);
  if (!x) {
    return raiser.rewriter.notifyMatchFailure(node, "the input is absent");
  }
  Value bias = microsoft ? node.getInput(1) : Value();
  if (bias) {
    x = raiser.create(node.getLoc(), "Add", {x, bias});
  }
  bool tanh = microsoft ? node.getOpType() == "FastGelu" : node.getString("approximate", "none") == "tanh";
  return build(raiser, node, x, tanh);
}

LogicalResult raiseSpelledOut(Raiser &raiser, NodeOp root) {
  constexpr unsigned kDepth = 3;
  Factors all = factorsOf(raiser, root.getResult(0), {}, kDepth);
  for (Value gate : all.values) {
    NodeOp f = matchGate(raiser, gate);
    if (!f) {
      continue;
    }
    SmallVector<Value> inputs;
    candidates(raiser, f.getInput(0), /*depth=*/6, inputs);
    for (Value x : inputs) {
      Factors product = factorsOf(raiser, root.getResult(0), {x, gate}, kDepth);
      if (product.values.size() == 2 && llvm::is_contained(product.values, x) &&
          llvm::is_contained(product.values, gate) && isClose(product.constant, 0.5) && isGeluArgument(raiser, f, x)) {
        return build(raiser, root, x, f.is("Tanh"));
      }
    }
    return raiser.rewriter.notifyMatchFailure(root, "a product with 1 + erf or 1 + tanh that is no GELU");
  }
  return raiser.rewriter.notifyMatchFailure(root, "no factor is 1 + erf(u) or 1 + tanh(u)");
}

struct OnnxRaiseGeluPass : kimi::impl::OnnxRaiseGeluBase<OnnxRaiseGeluPass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      static constexpr StringLiteral kMicrosoft[] = {"Gelu", "BiasGelu", "FastGelu"};
      if (node.is("Gelu") ||
          (node.getDomain() == "com.microsoft" && llvm::is_contained(kMicrosoft, node.getOpType()))) {
        return raiseOperator(raiser, node);
      }
      return node.is("Mul") || node.is("Div") ? raiseSpelledOut(raiser, node) : failure();
    });
    raiser.finish();
  }
};

} // namespace
