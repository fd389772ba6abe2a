//===- Raiser.cpp - what the raising passes share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Raiser.h"
#include "mlir/IR/BuiltinOps.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// New nodes are written in this opset of the default domain.
static constexpr int64_t kOpset = 17;

Raiser::Raiser(func::FuncOp func) : func(func), shapes(func), rewriter(func.getContext()) {}

unsigned Raiser::forEachNode(llvm::function_ref<LogicalResult(NodeOp)> raise) {
  SmallVector<NodeOp> nodes;
  for (Block &block : func.getBody()) {
    llvm::append_range(nodes, block.getOps<NodeOp>());
  }
  unsigned count = 0;
  for (NodeOp node : nodes) {
    if (node->use_empty()) {
      continue;
    }
    rewriter.setInsertionPoint(node);
    count += succeeded(raise(node));
  }
  return count;
}

void Raiser::finish() {
  for (Block &block : func.getBody()) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (isOpTriviallyDead(&op)) {
        rewriter.eraseOp(&op);
      }
    }
    if (auto ret = dyn_cast<func::ReturnOp>(block.back())) {
      func.setType(FunctionType::get(func.getContext(), func.getArgumentTypes(), ret.getOperandTypes()));
    }
  }
}

Value Raiser::strip(Value value) const {
  while (auto node = value ? value.getDefiningOp<NodeOp>() : NodeOp()) {
    Value input = node.getInput(0);
    if (!node.getDomain().empty() || !input || cast<OpResult>(value).getResultNumber() != 0) {
      return value;
    }
    StringRef type = node.getOpType();
    bool nothing = type == "Identity" || (type == "Concat" && node.getInputs().size() == 1);
    if (type == "Dropout") {
      Value training = node.getInput(2);
      nothing = !training || scalar(training) == 0.0;
    } else if (type == "Cast" || type == "CastLike") {
      Type from = shapes.of(input).elementType;
      nothing = from && from == shapes.of(value).elementType;
    } else if (type == "Expand") {
      nothing = sameShape(input, value);
    } else if (isReshape(node)) {
      // A chain of reshapes that comes back to the shape it began with.
      for (NodeOp next = node; isReshape(next) && !nothing; next = input.getDefiningOp<NodeOp>()) {
        input = next.getInput(0);
        nothing = sameShape(input, value);
      }
    }
    if (!nothing) {
      return value;
    }
    value = input;
  }
  return value;
}

NodeOp Raiser::node(Value value, StringRef opType) const {
  if (!value) {
    return {};
  }
  auto node = strip(value).getDefiningOp<NodeOp>();
  if (!node || !node.is(opType)) {
    return {};
  }
  // Before opset 13 the axis was 1 by default, and stood for all axes from it on: the same only for the last.
  bool isFlat = opType == "Softmax" && node.getVersion() < 13;
  int64_t axis = isFlat ? node.getInt("axis", 1) : -1;
  return axis == -1 || axis == rank(node.getInput(0)) - 1 ? node : NodeOp();
}

std::optional<double> Raiser::scalar(Value value) const {
  if (!value) {
    return std::nullopt;
  }
  if (std::optional<double> known = shapes.splat(value)) {
    return known;
  }
  const ValueInfo &info = shapes.of(value);
  if (info.content && info.content->size() == 1) {
    if (std::optional<int64_t> known = info.content->front().getConstant()) {
      return static_cast<double>(*known);
    }
  }
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || !node.getDomain().empty() || !node.getInput(0)) {
    return std::nullopt;
  }
  StringRef type = node.getOpType();
  static constexpr StringLiteral kUnary[] = {"Identity", "Cast",      "CastLike", "Sqrt",    "Reciprocal",
                                             "Neg",      "Unsqueeze", "Squeeze",  "Reshape", "Expand"};
  if (llvm::is_contained(kUnary, type)) {
    std::optional<double> x = scalar(node.getInput(0));
    if (!x) {
      return std::nullopt;
    }
    if (type == "Sqrt") {
      return std::sqrt(*x);
    }
    if (type == "Reciprocal") {
      return 1.0 / *x;
    }
    if ((type == "Cast" || type == "CastLike") && !isa_and_nonnull<FloatType>(info.elementType)) {
      return std::trunc(*x);
    }
    return type == "Neg" ? -*x : *x;
  }
  static constexpr StringLiteral kBinary[] = {"Add", "Sub", "Mul", "Div", "Pow"};
  if (!llvm::is_contained(kBinary, type) || !node.getInput(1) || !isa_and_nonnull<FloatType>(info.elementType)) {
    return std::nullopt;
  }
  std::optional<double> a = scalar(node.getInput(0));
  std::optional<double> b = a ? scalar(node.getInput(1)) : std::nullopt;
  if (!b) {
    return std::nullopt;
  }
  return type == "Add"   ? *a + *b
         : type == "Sub" ? *a - *b
         : type == "Mul" ? *a * *b
         : type == "Div" ? *a / *b
                         : std::pow(*a, *b);
}

std::optional<std::pair<Value, double>> Raiser::withScalar(NodeOp node) const {
  Value a = node.getInput(0);
  Value b = node.getInput(1);
  if (!a || !b) {
    return std::nullopt;
  }
  if (std::optional<double> c = scalar(b)) {
    return std::make_pair(a, *c);
  }
  if (std::optional<double> c = scalar(a)) {
    return std::make_pair(b, *c);
  }
  return std::nullopt;
}

NodeOp Raiser::onlyUser(Value value) const {
  NodeOp only;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    auto node = dyn_cast<NodeOp>(user);
    bool readsTypeOnly = node && node.is("CastLike") && use.getOperandNumber() == 1;
    if (isOpTriviallyDead(user) || readsTypeOnly) {
      continue;
    }
    if (!node || (only && only != node)) {
      return {};
    }
    only = node;
  }
  return only;
}

bool Raiser::isWeight(Value value) const {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  if (!op) {
    return false;
  }
  if (isa<WeightRefOp, ConstantOp>(op)) {
    return true;
  }
  auto node = dyn_cast<NodeOp>(op);
  static constexpr StringLiteral kViews[] = {"Identity",         "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze",
                                             "DequantizeLinear", "Exp",  "Neg"};
  return node && node.getDomain().empty() && node.getInput(0) && llvm::is_contained(kViews, node.getOpType()) &&
         isWeight(node.getInput(0));
}

const SmallVector<SymbolicDim> *Raiser::shape(Value value) const {
  const ValueInfo &info = shapes.of(value);
  return info.shape ? &*info.shape : nullptr;
}

bool Raiser::sameShape(Value a, Value b) const {
  const auto *left = shape(a);
  const auto *right = shape(b);
  return left && right && *left == *right;
}

RankedTensorType Raiser::type(Value value) const {
  const ValueInfo &info = shapes.of(value);
  return info.elementType && info.shape ? dyn_cast_or_null<RankedTensorType>(info.type()) : RankedTensorType();
}

Value Raiser::ranked(Value value) {
  RankedTensorType known = type(value);
  if (!known) {
    return isa<RankedTensorType>(value.getType()) ? value : Value();
  }
  if (value.getDefiningOp<NodeOp>()) {
    value.setType(known);
  }
  return isa<RankedTensorType>(value.getType()) ? value : Value();
}

Value Raiser::create(Location loc, StringRef opType, ValueRange inputs, ArrayRef<NamedAttribute> attrs) {
  Type unknown = UnrankedTensorType::get(rewriter.getF32Type());
  auto node = NodeOp::create(rewriter, loc, TypeRange{unknown}, rewriter.getStringAttr(opType),
                             rewriter.getStringAttr(""), rewriter.getI64IntegerAttr(kOpset),
                             rewriter.getDictionaryAttr(attrs), ArrayAttr(), inputs, /*bodiesCount=*/0);
  shapes.infer(node);
  if (Type known = shapes.of(node.getResult(0)).type()) {
    node.getResult(0).setType(known);
  }
  return node.getResult(0);
}

Value Raiser::constant(Location loc, ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, rewriter.getI64Type());
  auto constant = ConstantOp::create(rewriter, loc, cast<ElementsAttr>(DenseIntElementsAttr::get(type, values)));
  shapes.infer(constant);
  return constant;
}

NamedAttribute Raiser::intAttr(StringRef name, int64_t value) {
  return rewriter.getNamedAttr(name, rewriter.getI64IntegerAttr(value));
}

NamedAttribute Raiser::intsAttr(StringRef name, ArrayRef<int64_t> values) {
  return rewriter.getNamedAttr(name, rewriter.getDenseI64ArrayAttr(values));
}

Value Raiser::padRank(Location loc, Value value, int64_t rank) {
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, std::max<int64_t>(0, rank - this->rank(value))));
  return axes.empty() ? value : create(loc, "Unsqueeze", {value, constant(loc, axes)});
}

Value Raiser::transpose(Location loc, Value value, ArrayRef<int64_t> perm) {
  return create(loc, "Transpose", value, intsAttr("perm", perm));
}

void Raiser::replace(Value from, Value to) {
  shapes.transfer(from, to);
  rewriter.replaceAllUsesWith(from, to);
}

bool onnx::isReshape(NodeOp node) {
  static constexpr StringLiteral kReshapes[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
  return node && node.getDomain().empty() && llvm::is_contained(kReshapes, node.getOpType()) && node.getInput(0);
}

std::optional<SmallVector<int64_t>> onnx::reducedAxes(const Raiser &raiser, NodeOp node) {
  SmallVector<int64_t> axes;
  if (std::optional<SmallVector<int64_t>> attr = node.getInts("axes")) {
    axes = *attr;
  } else if (Value input = node.getInput(1)) {
    const ValueInfo &info = raiser.shapes.of(input);
    if (!info.content) {
      return std::nullopt;
    }
    for (const SymbolicDim &axis : *info.content) {
      std::optional<int64_t> known = axis.getConstant();
      if (!known) {
        return std::nullopt;
      }
      axes.push_back(*known);
    }
  }
  int64_t rank = node.getInput(0) ? raiser.rank(node.getInput(0)) : -1;
  if (rank < 0) {
    return std::nullopt;
  }
  for (int64_t &axis : axes) {
    axis += axis < 0 ? rank : 0;
  }
  return axes;
}

bool onnx::isMeanOfLastAxis(const Raiser &raiser, NodeOp node) {
  if (!node || !node.is("ReduceMean") || node.getInt("keepdims", 1) != 1) {
    return false;
  }
  std::optional<SmallVector<int64_t>> axes = reducedAxes(raiser, node);
  return axes && axes->size() == 1 && axes->front() == raiser.rank(node.getInput(0)) - 1;
}

Value onnx::squaredOf(const Raiser &raiser, Value value) {
  if (NodeOp pow = raiser.node(value, "Pow"); pow && raiser.scalar(pow.getInput(1)) == 2.0) {
    return raiser.strip(pow.getInput(0));
  }
  if (NodeOp mul = raiser.node(value, "Mul"); mul && raiser.strip(mul.getInput(0)) == raiser.strip(mul.getInput(1))) {
    return raiser.strip(mul.getInput(0));
  }
  return {};
}

bool onnx::isClose(double a, double b) { return std::fabs(a - b) <= 1e-3 * std::fabs(b); }
