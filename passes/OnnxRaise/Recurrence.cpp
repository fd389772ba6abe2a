//===- Recurrence.cpp - what the body of a Scan computes, as sums of products over named axes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Recurrence.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// Names of axes
//===----------------------------------------------------------------------===//

int AxisNames::make(const SymbolicDim &extent) {
  if (extent.is(1)) {
    return kOne;
  }
  int name = static_cast<int>(names.size());
  names.push_back({extent, name, {}});
  return name;
}

int AxisNames::find(int name) const {
  while (name != kOne && names[name].parent != name) {
    name = names[name].parent;
  }
  return name;
}

bool AxisNames::unify(int a, int b) {
  a = find(a);
  b = find(b);
  if (a == b || a == kOne || b == kOne) {
    return a == b;
  }
  const SymbolicDim &x = names[a].extent, &y = names[b].extent;
  if (x.isConstant() && y.isConstant() && x != y) {
    return false;
  }
  if (!names[a].parts.empty() && !names[b].parts.empty()) {
    if (names[a].parts.size() != names[b].parts.size()) {
      return false;
    }
    for (auto [p, q] : llvm::zip_equal(names[a].parts, names[b].parts)) {
      if (!unify(p, q)) {
        return false;
      }
    }
  }
  if (names[a].parts.empty()) {
    names[a].parts = names[b].parts;
  }
  if (!x.isConstant()) {
    names[a].extent = names[b].extent;
  }
  names[b].parent = a;
  return true;
}

int AxisNames::merge(ArrayRef<int> parts) {
  SymbolicDim extent(1);
  for (int part : parts) {
    extent = extent * this->extent(part);
  }
  int name = make(extent);
  if (name != kOne) {
    names[name].parts.assign(parts.begin(), parts.end());
  }
  return name;
}

//===----------------------------------------------------------------------===//
// Sums of products
//===----------------------------------------------------------------------===//

bool Recurrence::dependsOn(const Factor &factor, int name) const {
  if (factor.kind == Factor::Kind::Argument) {
    return llvm::any_of(arguments[factor.argument], [&](int axis) {
      return names.find(axis) == names.find(name) ||
             (axis != AxisNames::kOne && llvm::is_contained(names.parts(axis), names.find(name)));
    });
  }
  return llvm::any_of(factor.inner, [&](const Product &product) {
    return llvm::any_of(product.factors, [&](const FactorRef &inner) { return dependsOn(*inner, name); });
  });
}

bool Recurrence::same(const Factor &a, const Factor &b) const {
  if (a.kind != b.kind) {
    return false;
  }
  if (a.kind == Factor::Kind::Argument) {
    return a.argument == b.argument;
  }
  return (a.kind != Factor::Kind::Contract || names.find(a.label) == names.find(b.label)) && same(a.inner, b.inner);
}

/// Whether each element of `a` has its own equal in `b`, in any order.
template <typename Range, typename Equal>
static bool sameUnordered(const Range &a, const Range &b, Equal equal) {
  if (a.size() != b.size()) {
    return false;
  }
  SmallVector<bool> taken(b.size(), false);
  for (const auto &x : a) {
    bool found = false;
    for (size_t i = 0; i < b.size() && !found; ++i) {
      if (!taken[i] && equal(x, b[i])) {
        taken[i] = found = true;
      }
    }
    if (!found) {
      return false;
    }
  }
  return true;
}

bool Recurrence::same(const Sum &a, const Sum &b) const {
  return sameUnordered(a, b, [&](const Product &x, const Product &y) {
    return x.scale == y.scale && sameUnordered(x.factors, y.factors, [&](const FactorRef &f, const FactorRef &g) {
             return f == g || same(*f, *g);
           });
  });
}

static FactorRef makeFactor(Factor::Kind kind, Sum inner, int label = 0) {
  auto factor = std::make_shared<Factor>();
  factor->kind = kind;
  factor->inner = std::move(inner);
  factor->label = label;
  return factor;
}

/// `sum` as one product.
static Product asProduct(const Sum &sum) {
  if (sum.size() == 1) {
    return sum.front();
  }
  Product product;
  product.factors.push_back(makeFactor(Factor::Kind::Paren, sum));
  return product;
}

Sum Recurrence::multiply(const Sum &a, const Sum &b) const {
  Product x = asProduct(a), y = asProduct(b);
  x.scale *= y.scale;
  x.factors.append(y.factors);
  return {x};
}

Sum Recurrence::contract(const Sum &sum, int name) const {
  Product whole = asProduct(sum), inner, outer;
  outer.scale = whole.scale;
  for (const FactorRef &factor : whole.factors) {
    (dependsOn(*factor, name) ? inner : outer).factors.push_back(factor);
  }
  outer.factors.push_back(makeFactor(Factor::Kind::Contract, {inner}, name));
  return {outer};
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

Recurrence::Recurrence(const Raiser &raiser, Block &body) : raiser(raiser) {
  for (BlockArgument argument : body.getArguments()) {
    SmallVector<int> axes;
    if (const auto *shape = raiser.shape(argument)) {
      for (const SymbolicDim &extent : *shape) {
        axes.push_back(names.make(extent));
      }
      auto factor = std::make_shared<Factor>();
      factor->kind = Factor::Kind::Argument;
      factor->argument = argument.getArgNumber();
      Product product;
      product.factors.push_back(factor);
      results[argument] = {axes, {product}};
    }
    arguments.push_back(axes);
  }
  for (NodeOp node : body.getOps<NodeOp>()) {
    std::optional<Result> result;
    if (node->getNumResults() == 1 && node.getDomain().empty() && raiser.shape(node.getResult(0))) {
      result = read(node);
    }
    if (result) {
      results[node.getResult(0)] = std::move(*result);
    } else if (unread.empty() && !isOpTriviallyDead(node) && !raiser.shapes.of(node.getResult(0)).isHost()) {
      unread = node.getOpType().str();
    }
  }
}

const Recurrence::Result *Recurrence::of(Value value) const {
  auto it = results.find(value);
  return it == results.end() ? nullptr : &it->second;
}

std::optional<Recurrence::Result> Recurrence::operand(Value value) {
  if (!value) {
    return std::nullopt;
  }
  if (const Result *known = of(value)) {
    return *known;
  }
  std::optional<double> number = raiser.scalar(value);
  if (!number || raiser.rank(value) < 0) {
    return std::nullopt;
  }
  Product product;
  product.scale = *number;
  return Result{SmallVector<int>(raiser.rank(value), AxisNames::kOne), {product}};
}

std::optional<SmallVector<int>> Recurrence::broadcast(ArrayRef<int> a, ArrayRef<int> b) {
  SmallVector<int> axes(std::max(a.size(), b.size()), AxisNames::kOne);
  for (size_t i = 1; i <= axes.size(); ++i) {
    int x = i <= a.size() ? a[a.size() - i] : AxisNames::kOne, y = i <= b.size() ? b[b.size() - i] : AxisNames::kOne;
    if (x != AxisNames::kOne && y != AxisNames::kOne && !names.unify(x, y)) {
      return std::nullopt;
    }
    axes[axes.size() - i] = x != AxisNames::kOne ? x : y;
  }
  return axes;
}

std::optional<Recurrence::Result> Recurrence::multiply(const Result &a, const Result &b) {
  std::optional<SmallVector<int>> axes = broadcast(a.axes, b.axes);
  if (!axes) {
    return std::nullopt;
  }
  return Result{*axes, multiply(a.sum, b.sum)};
}

std::optional<Recurrence::Result> Recurrence::matmul(const Result &a, const Result &b) {
  if (a.axes.size() < 2 || b.axes.size() < 2) {
    return std::nullopt;
  }
  int left = a.axes.back(), right = b.axes[b.axes.size() - 2];
  if (left != right && !names.unify(left, right)) {
    return std::nullopt;
  }
  std::optional<SmallVector<int>> axes =
      broadcast(ArrayRef<int>(a.axes).drop_back(2), ArrayRef<int>(b.axes).drop_back(2));
  if (!axes) {
    return std::nullopt;
  }
  axes->push_back(a.axes[a.axes.size() - 2]);
  axes->push_back(b.axes.back());
  Sum product = multiply(a.sum, b.sum);
  return Result{*axes, left == AxisNames::kOne ? product : contract(product, left)};
}

std::optional<Recurrence::Result> Recurrence::reduceSum(NodeOp node, const Result &x) {
  std::optional<SmallVector<int64_t>> axes = reducedAxes(raiser, node);
  if (!axes || axes->empty()) {
    return std::nullopt;
  }
  Result result{{}, x.sum};
  for (auto [axis, name] : llvm::enumerate(x.axes)) {
    if (!llvm::is_contained(*axes, static_cast<int64_t>(axis))) {
      result.axes.push_back(name);
      continue;
    }
    if (name != AxisNames::kOne) {
      result.sum = contract(result.sum, name);
    }
    if (node.getInt("keepdims", 1) != 0) {
      result.axes.push_back(AxisNames::kOne);
    }
  }
  return result;
}

/// Axes of extent 1 come and go; the others stay, or neighbours are merged.
std::optional<Recurrence::Result> Recurrence::reshape(const Result &x, ArrayRef<SymbolicDim> shape) {
  SmallVector<int> rest;
  llvm::copy_if(x.axes, std::back_inserter(rest), [](int name) { return name != AxisNames::kOne; });
  Result result{{}, x.sum};
  ArrayRef<int> from = rest;
  for (const SymbolicDim &extent : shape) {
    if (extent.is(1)) {
      result.axes.push_back(AxisNames::kOne);
      continue;
    }
    SymbolicDim product(1);
    size_t count = 0;
    while (count < from.size() && product != extent) {
      product = product * names.extent(from[count++]);
    }
    if (product != extent) {
      return std::nullopt;
    }
    result.axes.push_back(count == 1 ? from.front() : names.merge(from.take_front(count)));
    from = from.drop_front(count);
  }
  return from.empty() ? std::optional(result) : std::nullopt;
}

std::optional<Recurrence::Result> Recurrence::expand(const Result &x, ArrayRef<SymbolicDim> shape) {
  Result result{{}, x.sum};
  if (x.axes.size() > shape.size()) {
    return std::nullopt;
  }
  size_t added = shape.size() - x.axes.size();
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    int name = axis < added ? AxisNames::kOne : x.axes[axis - added];
    result.axes.push_back(name == AxisNames::kOne ? names.make(extent) : name);
  }
  return result;
}

std::optional<Recurrence::Result> Recurrence::read(NodeOp node) {
  StringRef type = node.getOpType();
  std::optional<Result> x = operand(node.getInput(0));
  if (!x) {
    return std::nullopt;
  }
  ArrayRef<SymbolicDim> shape = *raiser.shape(node.getResult(0));
  Type from = raiser.shapes.of(node.getInput(0)).elementType, to = raiser.shapes.of(node.getResult(0)).elementType;
  if (!isa_and_nonnull<FloatType>(from) || !isa_and_nonnull<FloatType>(to)) {
    return std::nullopt;
  }
  if (type == "Identity" || type == "Cast" || type == "CastLike") {
    return x;
  }
  if (isReshape(node)) {
    return reshape(*x, shape);
  }
  if (type == "Expand") {
    return expand(*x, shape);
  }
  if (type == "Transpose") {
    std::optional<SmallVector<int64_t>> perm = node.getInts("perm");
    Result result{{}, x->sum};
    int64_t rank = static_cast<int64_t>(x->axes.size());
    if (perm && static_cast<int64_t>(perm->size()) != rank) {
      return std::nullopt;
    }
    for (int64_t i = 0; i < rank; ++i) {
      int64_t from = perm ? (*perm)[i] : rank - 1 - i;
      if (from < 0 || from >= rank) {
        return std::nullopt;
      }
      result.axes.push_back(x->axes[from]);
    }
    return result;
  }
  if (type == "Exp") {
    Product product;
    product.factors.push_back(makeFactor(Factor::Kind::Exp, x->sum));
    return Result{x->axes, {product}};
  }
  if (type == "Neg") {
    for (Product &product : x->sum) {
      product.scale = -product.scale;
    }
    return x;
  }
  if (type == "ReduceSum") {
    return reduceSum(node, *x);
  }
  std::optional<Result> y = operand(node.getInput(1));
  if (!y) {
    return std::nullopt;
  }
  if (type == "Mul") {
    return multiply(*x, *y);
  }
  if (type == "MatMul") {
    return matmul(*x, *y);
  }
  if (type == "Div") { // by a number
    if (y->sum.size() != 1 || !y->sum.front().factors.empty() || y->sum.front().scale == 0.0) {
      return std::nullopt;
    }
    y->sum.front().scale = 1.0 / y->sum.front().scale;
    return multiply(*x, *y);
  }
  if (type == "Add" || type == "Sub") {
    std::optional<SmallVector<int>> axes = broadcast(x->axes, y->axes);
    if (!axes) {
      return std::nullopt;
    }
    Result result{*axes, x->sum};
    for (Product product : y->sum) {
      product.scale = type == "Sub" ? -product.scale : product.scale;
      result.sum.push_back(product);
    }
    return result;
  }
  return std::nullopt;
}
