//===- Factors.cpp - products and sums over the last axis, however they are spelled
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Factors.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

bool Factors::take(Value value) {
  auto *it = llvm::find(values, value);
  if (it == values.end()) {
    return false;
  }
  values.erase(it);
  return true;
}

static void flatten(const Raiser &raiser, Value value, ArrayRef<Value> stops, unsigned depth, Factors &product) {
  value = raiser.strip(value);
  if (std::optional<double> c = raiser.scalar(value)) {
    product.constant *= *c;
    return;
  }
  NodeOp mul = raiser.node(value, "Mul");
  NodeOp div = raiser.node(value, "Div");
  NodeOp neg = raiser.node(value, "Neg");
  if (llvm::is_contained(stops, value) || depth == 0 || (!mul && !div && !neg)) {
    product.values.push_back(value);
    return;
  }
  if (neg) {
    product.constant = -product.constant;
    flatten(raiser, neg.getInput(0), stops, depth - 1, product);
    return;
  }
  if (div) {
    std::optional<double> c = raiser.scalar(div.getInput(1));
    if (!c || *c == 0.0) {
      product.values.push_back(value);
      return;
    }
    product.constant /= *c;
    flatten(raiser, div.getInput(0), stops, depth - 1, product);
    return;
  }
  flatten(raiser, mul.getInput(0), stops, depth - 1, product);
  flatten(raiser, mul.getInput(1), stops, depth - 1, product);
}

Factors onnx::factorsOf(const Raiser &raiser, Value value, ArrayRef<Value> stops, unsigned depth) {
  Factors product;
  flatten(raiser, value, stops, depth, product);
  return product;
}

std::optional<double> onnx::coefficientOf(const Raiser &raiser, Value value, Value x) {
  Factors product = factorsOf(raiser, value, {x}, 3);
  return product.values.size() == 1 && product.values.front() == x ? std::optional(product.constant) : std::nullopt;
}

Value onnx::sigmoidInput(const Raiser &raiser, Value value) {
  NodeOp node = raiser.node(value, "Sigmoid");
  return node ? raiser.strip(node.getInput(0)) : Value();
}

Value onnx::swishInput(const Raiser &raiser, Value value) {
  NodeOp node = raiser.node(value, "Swish");
  return node && node.getFloat("alpha", 1.0) == 1.0 ? raiser.strip(node.getInput(0)) : Value();
}

static Value peel(const Raiser &raiser, Value value, bool reshapes, bool casts) {
  value = raiser.strip(value);
  while (auto node = value ? value.getDefiningOp<NodeOp>() : NodeOp()) {
    bool isCast = node.is("Cast") || node.is("CastLike");
    if (!(reshapes && isReshape(node)) && !(casts && isCast)) {
      break;
    }
    value = raiser.strip(node.getInput(0));
  }
  return value;
}

Value onnx::peelReshapes(const Raiser &raiser, Value value) { return peel(raiser, value, true, false); }
Value onnx::peelCasts(const Raiser &raiser, Value value) { return peel(raiser, value, false, true); }
Value onnx::peelViews(const Raiser &raiser, Value value) { return peel(raiser, value, true, true); }

bool onnx::isOverLastAxis(const Raiser &raiser, NodeOp node, bool keepsDim) {
  if (!node || !node.getInput(0) || (node.getInt("keepdims", 1) != 0) != keepsDim) {
    return false;
  }
  std::optional<SmallVector<int64_t>> axes = reducedAxes(raiser, node);
  return axes && axes->size() == 1 && axes->front() == raiser.rank(node.getInput(0)) - 1;
}

bool onnx::isSingleOrNarrow(const Raiser &raiser, Value value) {
  auto type = dyn_cast_or_null<FloatType>(raiser.shapes.of(value).elementType);
  return type && type.getWidth() >= 16 && type.getWidth() <= 32;
}

bool onnx::sameType(const Raiser &raiser, Value a, Value b) {
  Type element = raiser.shapes.of(a).elementType;
  return element && element == raiser.shapes.of(b).elementType && raiser.sameShape(a, b);
}

std::optional<SmallVector<int64_t>> onnx::constantShape(const Raiser &raiser, Value value) {
  const auto *dims = raiser.shape(value);
  if (!dims) {
    return std::nullopt;
  }
  SmallVector<int64_t> extents;
  for (const SymbolicDim &dim : *dims) {
    std::optional<int64_t> known = dim.getConstant();
    if (!known) {
      return std::nullopt;
    }
    extents.push_back(*known);
  }
  return extents;
}
