//===- MaskAnalysis.cpp - what an attention mask means
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/MaskAnalysis.h"
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;
using Kind = Formula::Kind;

MaskAnalysis::MaskAnalysis(Raiser &raiser, MaskTracer &tracer, ArrayRef<SymbolicDim> extents)
    : raiser(raiser), tracer(tracer), extents(extents) {
  static constexpr StringLiteral kAxes[] = {"__b", "__h", "__i", "__j"};
  for (auto [axis, extent] : llvm::zip(kAxes, extents)) {
    // The extent is part of the name: the tracer remembers formulas across attentions.
    std::string name = (axis + "<" + extent.str() + ">").str();
    SymbolicDim index = extent.is(1) ? SymbolicDim(0) : tracer.formulas.variable(name, extent);
    indices.push_back(tracer.formulas.integer(index));
  }
}

FormulaRef MaskAnalysis::formulaOf(Value value) { return tracer.traceBroadcast(value, extents, indices); }

bool MaskAnalysis::settle(const FormulaRef &formula) {
  if (formula->isBool(true)) {
    return true;
  }
  SymbolicDim bottomRight = indices[2]->dim - indices[3]->dim + extents[3] - extents[2];
  if (formula->kind == Kind::AtLeastZero && formula->dim == bottomRight) {
    causal = true;
    return true;
  }
  return false;
}

void MaskAnalysis::addVisible(Value value, bool inverted) {
  value = raiser.strip(value);
  FormulaRef formula = formulaOf(value);
  if (formula) {
    formula = tracer.formulas.toBool(formula);
    formula = inverted ? tracer.formulas.negate(formula) : formula;
    if (settle(formula)) {
      return;
    }
  }
  auto node = value.getDefiningOp<NodeOp>();
  if (node && node.getDomain().empty()) {
    StringRef name = node.getOpType();
    Type inputType = node.getInput(0) ? raiser.shapes.of(node.getInput(0)).elementType : Type();
    bool ofBools = inputType && inputType.isInteger(1);
    if (ofBools && (name == "Expand" || name == "Cast")) {
      return addVisible(node.getInput(0), inverted);
    }
    if (name == "Not") {
      return addVisible(node.getInput(0), !inverted);
    }
    bool conjunction = name == (inverted ? "Or" : "And") || name == (inverted ? "BitwiseOr" : "BitwiseAnd");
    if (ofBools && conjunction && node.getInput(1)) {
      addVisible(node.getInput(0), inverted);
      return addVisible(node.getInput(1), inverted);
    }
  }
  visible.push_back({value, inverted, formula});
}

void MaskAnalysis::addAdditive(Value value) {
  value = raiser.strip(value);
  if (FormulaRef formula = formulaOf(value)) {
    if (formula->constant() == 0.0) {
      return;
    }
    if (formula->kind == Kind::Select) {
      std::optional<double> yes = formula->args[1]->constant();
      std::optional<double> no = formula->args[2]->constant();
      if (yes == 0.0 && no && *no <= kMasked && settle(formula->args[0])) {
        return;
      }
      if (no == 0.0 && yes && *yes <= kMasked && settle(tracer.formulas.negate(formula->args[0]))) {
        return;
      }
    }
  }
  auto node = value.getDefiningOp<NodeOp>();
  StringRef name = node && node.getDomain().empty() ? node.getOpType() : "";
  if (name == "Expand") {
    return addAdditive(node.getInput(0));
  }
  if (name == "Add" && node.getInput(0) && node.getInput(1)) {
    addAdditive(node.getInput(0));
    return addAdditive(node.getInput(1));
  }
  if (name == "Where" && node.getInput(1) && node.getInput(2)) {
    std::optional<double> yes = raiser.scalar(node.getInput(1));
    std::optional<double> no = raiser.scalar(node.getInput(2));
    if (no && *no <= kMasked) {
      addVisible(node.getInput(0), /*inverted=*/false);
      return addAdditive(node.getInput(1));
    }
    if (yes && *yes <= kMasked) {
      addVisible(node.getInput(0), /*inverted=*/true);
      return addAdditive(node.getInput(2));
    }
  }
  if (name == "Mul") { // (1 - seen) * masked
    auto scaled = raiser.withScalar(node);
    NodeOp sub = scaled && scaled->second <= kMasked ? raiser.node(scaled->first, "Sub") : NodeOp();
    NodeOp seen = sub && raiser.scalar(sub.getInput(0)) == 1.0 ? raiser.node(sub.getInput(1), "Cast") : NodeOp();
    Type type = seen ? raiser.shapes.of(seen.getInput(0)).elementType : Type();
    if (type && type.isInteger(1)) {
      return addVisible(seen.getInput(0), /*inverted=*/false);
    }
  }
  additive.push_back(value);
}

/// A term that is mask[b, j] of a matrix: [B, 1, 1, S] straight from it. Null where it is not.
Value MaskAnalysis::buildKeyPadding(Location loc, const Visible &term, Value k) {
  FormulaRef load = term.formula;
  bool inverted = load && load->kind == Kind::Not;
  load = inverted ? load->args[0] : load;
  if (load && load->kind == Kind::Unknown && load->args.size() == 1 && StringRef(load->text).starts_with("bool(")) {
    load = load->args[0];
  }
  if (!load || load->kind != Kind::Load || load->args.size() != 2 || load->args[0]->text != indices[0]->text ||
      load->args[1]->text != indices[3]->text) {
    return {};
  }
  Value matrix = load->tensor;
  const auto *dims = raiser.shape(matrix);
  Type element = raiser.shapes.of(matrix).elementType;
  if (!dims || dims->size() != 2 || (*dims)[0] != extents[0] || !element) {
    return {};
  }
  if ((*dims)[1] != extents[3]) {
    Value keys = raiser.create(loc, "Shape", k, {raiser.intAttr("start", 2), raiser.intAttr("end", 3)});
    matrix = raiser.create(loc, "Slice", {matrix, raiser.constant(loc, 0), keys, raiser.constant(loc, 1)});
  }
  if (!element.isInteger(1)) {
    constexpr int64_t kOnnxBool = 9;
    matrix = raiser.create(loc, "Cast", matrix, raiser.intAttr("to", kOnnxBool));
  }
  if (inverted) {
    matrix = raiser.create(loc, "Not", matrix);
  }
  return raiser.create(loc, "Unsqueeze", {matrix, raiser.constant(loc, {1, 2})});
}

Value MaskAnalysis::buildVisible(Location loc, const Visible &term, Value k) {
  if (Value padding = buildKeyPadding(loc, term, k)) {
    return padding;
  }
  Value value = term.inverted ? raiser.create(loc, "Not", term.value) : term.value;
  return raiser.padRank(loc, value, 4);
}

Value MaskAnalysis::build(Location loc, Value k) {
  Value mask = buildTerms(loc, k);
  const auto *dims = mask ? raiser.shape(mask) : nullptr;
  if (!dims || !dims->back().is(1) || extents[3].is(1)) {
    return mask;
  }
  // One term for all keys of a query: kimi.attention wants it for each.
  Value keys = raiser.create(loc, "Shape", k, {raiser.intAttr("start", 2), raiser.intAttr("end", 3)});
  Value sizes = raiser.create(loc, "Concat", {raiser.constant(loc, {1, 1, 1}), keys}, raiser.intAttr("axis", 0));
  return raiser.create(loc, "Expand", {mask, sizes});
}

Value MaskAnalysis::buildTerms(Location loc, Value k) {
  Value seen;
  for (const Visible &term : visible) {
    Value value = buildVisible(loc, term, k);
    seen = seen ? raiser.create(loc, "And", {seen, value}) : value;
  }
  if (additive.empty()) {
    return seen;
  }
  constexpr int64_t kOnnxFloat = 1;
  Value sum;
  for (Value term : additive) {
    Value value = raiser.padRank(loc, term, 4);
    Type element = raiser.shapes.of(value).elementType;
    if (element && !element.isF32()) {
      value = raiser.create(loc, "Cast", value, raiser.intAttr("to", kOnnxFloat));
    }
    sum = sum ? raiser.create(loc, "Add", {sum, value}) : value;
  }
  if (!seen) {
    return sum;
  }
  auto scalarType = RankedTensorType::get({}, raiser.rewriter.getF32Type());
  auto masked = ConstantOp::create(
      raiser.rewriter, loc,
      cast<ElementsAttr>(DenseElementsAttr::get(scalarType, -std::numeric_limits<float>::infinity())));
  raiser.shapes.infer(masked);
  return raiser.create(loc, "Where", {seen, sum, masked});
}
