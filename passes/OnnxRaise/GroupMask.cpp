//===- GroupMask.cpp - the groups of experts that a router keeps
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/GroupMask.h"
#include "passes/OnnxRaise/Factors.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

std::optional<int64_t> onnx::constantTop(const Raiser &raiser, NodeOp topk) {
  Value x = topk.getInput(0), count = topk.getInput(1);
  int64_t axis = topk.getInt("axis", -1);
  if (!x || !count || topk.getInt("largest", 1) == 0 || (axis != -1 && axis != raiser.rank(x) - 1)) {
    return std::nullopt;
  }
  const ValueInfo &info = raiser.shapes.of(count);
  bool isOne = info.content && info.content->size() == 1;
  std::optional<int64_t> known = isOne ? info.content->front().getConstant() : std::nullopt;
  return known && *known > 0 ? known : std::nullopt;
}

namespace {

/// Computes what a mask holds for a group, given whether the group was chosen.
class MaskReader {
public:
  explicit MaskReader(const Raiser &raiser) : raiser(raiser) {}

  /// The TopK whose indices mark the groups, and the groups where the mask was seen as a column: [.., groups, 1].
  NodeOp topk;
  int64_t column = 0;

  std::optional<double> read(Value value, bool chosen, unsigned depth = 16) {
    value = raiser.strip(value);
    if (std::optional<double> constant = value ? raiser.scalar(value) : std::nullopt) {
      return constant;
    }
    auto node = value ? value.getDefiningOp<NodeOp>() : NodeOp();
    if (!node || !node.getDomain().empty() || depth == 0 || !node.getInput(0)) {
      return std::nullopt;
    }
    StringRef type = node.getOpType();
    if (isReshape(node) || type == "Expand" || type == "Cast" || type == "CastLike" || type == "ReduceMax") {
      noteColumn(value);
      return read(node.getInput(0), chosen, depth - 1);
    }
    if (type == "Not") {
      std::optional<double> x = read(node.getInput(0), chosen, depth - 1);
      return x ? std::optional<double>(*x == 0.0) : std::nullopt;
    }
    if (type == "OneHot") {
      return readOneHot(node, chosen);
    }
    if (type == "ScatterElements") {
      bool plain = node.getString("reduction", "none") == "none" && takeIndices(node.getInput(1));
      return plain ? read(node.getInput(chosen ? 2 : 0), chosen, depth - 1) : std::nullopt;
    }
    return readBinary(node, chosen, depth);
  }

private:
  void noteColumn(Value value) {
    const auto *dims = raiser.shape(value);
    if (dims && dims->size() >= 3 && dims->back().is(1)) {
      column = (*dims)[dims->size() - 2].getConstant().value_or(column);
    }
  }

  bool takeIndices(Value value) {
    Value indices = raiser.strip(value);
    auto node = indices.getDefiningOp<NodeOp>();
    if (!node || !node.is("TopK") || cast<OpResult>(indices).getResultNumber() != 1 || (topk && topk != node)) {
      return false;
    }
    topk = node;
    return true;
  }

  std::optional<double> readOneHot(NodeOp node, bool chosen) {
    DenseElementsAttr values = node.getInput(2) ? raiser.shapes.constant(raiser.strip(node.getInput(2))) : nullptr;
    int64_t axis = node.getInt("axis", -1);
    bool isLast = axis == -1 || axis == raiser.rank(node.getResult(0)) - 1;
    if (!isLast || !values || values.getNumElements() != 2 || !isa<FloatType>(values.getElementType()) ||
        !takeIndices(node.getInput(0))) {
      return std::nullopt;
    }
    auto numbers = values.getValues<APFloat>();
    return (*(numbers.begin() + (chosen ? 1 : 0))).convertToDouble();
  }

  std::optional<double> readBinary(NodeOp node, bool chosen, unsigned depth) {
    static constexpr StringLiteral kKnown[] = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Mul"};
    if (!node.getInput(1) || !llvm::is_contained(kKnown, node.getOpType())) {
      return std::nullopt;
    }
    // Zeros of a shape are often made as 0 * x.
    if (node.is("Mul")) {
      auto scaled = raiser.withScalar(node);
      return scaled && scaled->second == 0.0 ? std::optional(0.0) : std::nullopt;
    }
    std::optional<double> x = read(node.getInput(0), chosen, depth - 1), y = read(node.getInput(1), chosen, depth - 1);
    if (!x || !y) {
      return std::nullopt;
    }
    return node.is("Greater")          ? *x > *y
           : node.is("GreaterOrEqual") ? *x >= *y
           : node.is("Less")           ? *x < *y
           : node.is("LessOrEqual")    ? *x <= *y
                                       : *x == *y;
  }

  const Raiser &raiser;
};

/// Whether `values`: [.., groups] are the sums of the `groupTop` largest of `members`: [.., groups, size], which is
/// taken.
Value membersOf(const Raiser &raiser, Value values, int64_t &groupTop) {
  if (NodeOp max = raiser.node(values, "ReduceMax"); max && isOverLastAxis(raiser, max, /*keepsDim=*/false)) {
    groupTop = 1;
    return raiser.strip(max.getInput(0));
  }
  NodeOp sum = raiser.node(values, "ReduceSum");
  Value best = sum && isOverLastAxis(raiser, sum, /*keepsDim=*/false) ? raiser.strip(sum.getInput(0)) : Value();
  NodeOp topk = best ? best.getDefiningOp<NodeOp>() : NodeOp();
  if (!topk || !topk.is("TopK") || cast<OpResult>(best).getResultNumber() != 0) {
    return {};
  }
  groupTop = constantTop(raiser, topk).value_or(0);
  return groupTop == 1 || groupTop == 2 ? raiser.strip(topk.getInput(0)) : Value();
}

} // namespace

std::optional<GroupMask> onnx::matchGroupMask(const Raiser &raiser, Value value) {
  NodeOp where = raiser.node(peelReshapes(raiser, value), "Where");
  const auto *out = raiser.shape(value);
  if (!where || !where.getInput(2) || !out || out->empty()) {
    return std::nullopt;
  }
  std::optional<double> first = raiser.scalar(where.getInput(1)), second = raiser.scalar(where.getInput(2));
  if (first.has_value() == second.has_value()) {
    return std::nullopt;
  }
  MaskReader reader(raiser);
  std::optional<double> chosen = reader.read(where.getInput(0), true), other = reader.read(where.getInput(0), false);
  bool keepsOnTrue = second.has_value();
  if (!chosen || !other || (*chosen != 0.0) != keepsOnTrue || (*other != 0.0) == keepsOnTrue || !reader.topk) {
    return std::nullopt;
  }
  GroupMask mask;
  mask.topk = reader.topk;
  mask.masked = first ? *first : *second;
  mask.keep = constantTop(raiser, reader.topk).value_or(0);
  mask.choice = peelReshapes(raiser, where.getInput(first ? 2 : 1));
  Value members = membersOf(raiser, reader.topk.getInput(0), mask.groupTop);
  const auto *grouped = members ? raiser.shape(members) : nullptr;
  if (!grouped || grouped->size() < 2 || mask.keep < 1 || peelReshapes(raiser, members) != mask.choice ||
      !raiser.sameShape(mask.choice, value)) {
    return std::nullopt;
  }
  std::optional<int64_t> groups = (*grouped)[grouped->size() - 2].getConstant(), size = grouped->back().getConstant();
  if (!groups || !size || reader.column != *groups || !out->back().is(*groups * *size)) {
    return std::nullopt;
  }
  mask.groups = *groups;
  return mask;
}
