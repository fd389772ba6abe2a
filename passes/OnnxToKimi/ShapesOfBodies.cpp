//===- ShapesOfBodies.cpp - what is known of the results of If and Scan
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/SymbolicShapes.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

void SymbolicShapes::inferIf(NodeOp node) {
  std::optional<SmallVector<int64_t>> condition;
  if (Value input = node.getInput(0)) {
    condition = of(input).constants();
  }
  StringRef taken = condition && condition->size() == 1 && condition->front() == 0 ? "else_branch" : "then_branch";
  if (!condition || condition->size() != 1 || !node.getRegionNames()) {
    reasons[node] = "its condition must follow from constants";
    for (Value result : node->getResults()) {
      useDeclaredType(result);
    }
    return;
  }
  for (auto [name, region] : llvm::zip(*node.getRegionNames(), node.getBodies())) {
    if (cast<StringAttr>(name).getValue() != taken || region.empty()) {
      continue;
    }
    readBlock(region.front());
    for (auto [result, value] : llvm::zip(node->getResults(), region.front().getTerminator()->getOperands())) {
      ValueInfo info = of(value); // a copy: making room for the result moves what is known
      infos[result] = std::move(info);
    }
    return;
  }
  reasons[node] = "it has no " + taken.str();
}

/// The body sees the states and one slice of each scanned input; the outputs have a slice for each of its runs.
void SymbolicShapes::inferScan(NodeOp node) {
  auto giveUp = [&](const Twine &why) {
    reasons[node] = why.str();
    for (Value result : node->getResults()) {
      useDeclaredType(result);
    }
  };
  int64_t scanned = node.getInt("num_scan_inputs", 0), inputs = static_cast<int64_t>(node.getInputs().size());
  int64_t states = inputs - scanned, outputs = static_cast<int64_t>(node->getNumResults()) - states;
  Region *body = node.getBodies().size() == 1 ? &node.getBodies().front() : nullptr;
  if (scanned < 1 || states < 0 || outputs < 0 || !body || body->empty() || body->getNumArguments() != inputs ||
      body->front().getTerminator()->getNumOperands() != node->getNumResults()) {
    return giveUp("its body does not fit its inputs and outputs");
  }
  auto axisOf = [&](StringRef name, int64_t index, int64_t rank) -> std::optional<int64_t> {
    std::optional<SmallVector<int64_t>> axes = node.getInts(name);
    int64_t axis = axes && index < static_cast<int64_t>(axes->size()) ? (*axes)[index] : 0;
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? std::optional(axis) : std::nullopt;
  };
  std::optional<SymbolicDim> runs;
  for (int64_t i = 0; i < inputs; ++i) {
    const ValueInfo &whole = of(node.getInputs()[i]);
    if (!whole.isRanked()) {
      return giveUp("");
    }
    ValueInfo info(whole.elementType, *whole.shape);
    if (i >= states) {
      std::optional<int64_t> axis = axisOf("scan_input_axes", i - states, whole.rank());
      if (!axis) {
        return giveUp("scan_input_axes names an axis that an input does not have");
      }
      runs = runs ? runs : (*info.shape)[*axis];
      if (*runs != (*info.shape)[*axis]) {
        required[node].push_back({node, *runs, RequireKind::equal, (*info.shape)[*axis]});
      }
      info.shape->erase(info.shape->begin() + *axis);
    }
    infos[body->getArgument(i)] = std::move(info);
  }
  readBlock(body->front());
  for (auto [index, value] : llvm::enumerate(body->front().getTerminator()->getOperands())) {
    int64_t at = static_cast<int64_t>(index);
    Value result = node->getResult(index);
    ValueInfo info = of(at < states ? node.getInputs()[index] : value);
    if (!info.isRanked()) {
      return giveUp("the shape of its body's output " + Twine(index) + " cannot be inferred");
    }
    info = ValueInfo(info.elementType, *info.shape);
    if (at >= states) {
      std::optional<int64_t> axis = axisOf("scan_output_axes", at - states, info.rank() + 1);
      if (!axis) {
        return giveUp("scan_output_axes names an axis that an output does not have");
      }
      info.shape->insert(info.shape->begin() + *axis, *runs);
    }
    infos[result] = std::move(info);
  }
}
