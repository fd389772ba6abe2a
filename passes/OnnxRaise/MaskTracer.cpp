//===- MaskTracer.cpp - what a mask is at given indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/MaskTracer.h"
#include "passes/OnnxRaise/StoredWeight.h"
#include <limits>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;
using Kind = Formula::Kind;

/// Graphs deeper than this are not followed.
static constexpr unsigned kMaxDepth = 400;

static std::string textOf(const std::vector<FormulaRef> &indices) {
  std::string text;
  for (const FormulaRef &index : indices) {
    text += index->text + ";";
  }
  return text;
}

bool MaskTracer::isBool(Value value) {
  Type type = raiser.shapes.of(value).elementType;
  return type && type.isInteger(1);
}

FormulaRef MaskTracer::element(Value value, double number) {
  return isBool(value) ? formulas.boolean(number != 0.0) : formulas.number(number);
}

FormulaRef MaskTracer::trace(Value value, const std::vector<FormulaRef> &indices) {
  value = raiser.strip(value);
  auto key = std::make_pair(value.getAsOpaquePointer(), textOf(indices));
  if (auto it = cache.find(key); it != cache.end()) {
    return it->second;
  }
  FormulaRef result;
  if (raiser.rank(value) == static_cast<int64_t>(indices.size()) && depth < kMaxDepth) {
    ++depth;
    result = traceUncached(value, indices);
    --depth;
  }
  if (!result) {
    result = formulas.load(value, indices);
  }
  cache.emplace(key, result);
  return result;
}

FormulaRef MaskTracer::traceBroadcast(Value value, ArrayRef<SymbolicDim> extents, const Indices &indices) {
  const auto *dims = raiser.shape(value);
  if (!dims || dims->size() > indices.size()) {
    return {};
  }
  size_t shift = indices.size() - dims->size();
  Indices own;
  for (size_t axis = 0; axis < dims->size(); ++axis) {
    if ((*dims)[axis].is(1)) {
      own.push_back(formulas.integer(0));
    } else if ((*dims)[axis] == extents[shift + axis] || assumeCovered((*dims)[axis]) == extents[shift + axis]) {
      own.push_back(indices[shift + axis]);
    } else {
      return {}; // an extent that may be 1 at run time
    }
  }
  return trace(value, own);
}

FormulaRef MaskTracer::traceUncached(Value value, const Indices &indices) {
  if (FormulaRef known = traceContent(value, indices)) {
    return known;
  }
  if (FormulaRef known = traceStored(value, indices)) {
    return known;
  }
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || !node.getDomain().empty() || !node.getInput(0) || cast<OpResult>(value).getResultNumber() != 0) {
    return {};
  }
  for (Value input : node.getInputs()) {
    if (!input.getDefiningOp<NoneOp>() && raiser.rank(input) < 0) {
      return {};
    }
  }
  using Tracer = FormulaRef (MaskTracer::*)(NodeOp, const Indices &);
  for (Tracer tracer : {&MaskTracer::traceElementwise, &MaskTracer::traceView, &MaskTracer::traceSlice,
                        &MaskTracer::traceConcat, &MaskTracer::traceGather, &MaskTracer::traceGenerator}) {
    if (FormulaRef known = (this->*tracer)(node, indices)) {
      return known;
    }
  }
  return {};
}

/// Elements known on the host, and tensors all of whose elements are equal.
FormulaRef MaskTracer::traceContent(Value value, const Indices &indices) {
  const ValueInfo &info = raiser.shapes.of(value);
  auto asElement = [&](const SymbolicDim &dim) {
    FormulaRef number = formulas.integer(dim);
    return isBool(value) ? formulas.toBool(number) : number;
  };
  if (info.content && !info.content->empty()) {
    if (llvm::all_equal(*info.content)) {
      return asElement(info.content->front());
    }
    int64_t flat = 0;
    bool constant = true;
    for (auto [index, dim] : llvm::zip(indices, *info.shape)) {
      std::optional<double> at = index->constant();
      std::optional<int64_t> extent = dim.getConstant();
      if (!at || !extent || *at < 0 || *at >= *extent) {
        constant = false;
        break;
      }
      flat = flat * *extent + static_cast<int64_t>(*at);
    }
    if (constant && flat < static_cast<int64_t>(info.content->size())) {
      return asElement((*info.content)[flat]);
    }
    // a + i * b
    if (indices.size() == 1 && indices[0]->kind == Kind::Int && info.content->size() >= 2 && !isBool(value)) {
      SymbolicDim step = (*info.content)[1] - (*info.content)[0];
      for (size_t i = 2; i < info.content->size(); ++i) {
        if ((*info.content)[i] - (*info.content)[i - 1] != step) {
          return {};
        }
      }
      return formulas.integer(info.content->front() + indices[0]->dim * step);
    }
    return {};
  }
  std::optional<double> splat = raiser.scalar(value);
  return splat ? element(value, *splat) : FormulaRef();
}

/// A constant or weight that is lower-triangular in its last two axes.
FormulaRef MaskTracer::traceStored(Value value, const Indices &indices) {
  size_t rank = indices.size();
  if (rank < 2 || indices[rank - 1]->kind != Kind::Int || indices[rank - 2]->kind != Kind::Int ||
      !value.getDefiningOp() || !isa<onnx::ConstantOp, WeightRefOp>(value.getDefiningOp())) {
    return {};
  }
  std::optional<Triangle> triangle = readTriangle(value, raiser.shapes.constant(value), modelDir);
  if (!triangle) {
    return {};
  }
  FormulaRef below = formulas.atLeastZero(indices[rank - 2]->dim - indices[rank - 1]->dim);
  return formulas.select(below, element(value, triangle->below), element(value, triangle->above));
}

FormulaRef MaskTracer::traceElementwise(NodeOp node, const Indices &indices) {
  static constexpr StringLiteral kNames[] = {
      "Not",        "Cast",      "And",       "Or",   "Where", "Add",         "Sub",     "Mul",
      "Min",        "Max",       "Equal",     "Less", "Neg",   "LessOrEqual", "Greater", "GreaterOrEqual",
      "BitwiseAnd", "BitwiseOr", "BitwiseNot"};
  StringRef name = node.getOpType();
  if (!llvm::is_contained(kNames, name)) {
    return {};
  }
  const auto *extents = raiser.shape(node.getResult(0));
  std::vector<FormulaRef> args;
  for (Value input : node.getInputs()) {
    FormulaRef arg = extents ? traceBroadcast(input, *extents, indices) : FormulaRef();
    if (!arg) {
      return {};
    }
    args.push_back(arg);
  }
  Value result = node.getResult(0);
  if (name == "Cast") {
    if (isBool(result)) {
      return formulas.toBool(args[0]);
    }
    FormulaRef number = formulas.toNumber(args[0]);
    bool toInteger = !isa_and_nonnull<FloatType>(raiser.shapes.of(result).elementType);
    if (toInteger && number->kind == Kind::Real) {
      return formulas.number(std::trunc(number->real));
    }
    bool narrow = !toInteger && raiser.shapes.of(result).elementType.getIntOrFloatBitWidth() < 32;
    if ((toInteger && number->kind == Kind::Load) || (narrow && number->kind == Kind::Int && !number->constant())) {
      return formulas.unknown(toInteger ? "int" : "rounded", {number});
    }
    return number;
  }
  if (name == "Neg") {
    return formulas.binary("Sub", formulas.integer(0), args[0]);
  }
  if (name == "Where" && args.size() == 3) {
    return formulas.select(args[0], args[1], args[2]);
  }
  if (name.starts_with("Bitwise")) {
    if (!isBool(result)) {
      return {};
    }
    name = name.drop_front(StringRef("Bitwise").size());
  }
  if (name == "Not") {
    return formulas.negate(args[0]);
  }
  if (args.size() != 2) {
    return {};
  }
  if (name == "And" || name == "Or") {
    return name == "And" ? formulas.both(args[0], args[1]) : formulas.either(args[0], args[1]);
  }
  bool areReals = isa_and_nonnull<FloatType>(raiser.shapes.of(node.getInput(0)).elementType);
  if (name == "Equal" && areReals && (args[0]->kind == Kind::Load || args[0]->kind == Kind::Unknown)) {
    return {}; // NaN differs from itself
  }
  if (name == "Equal" && isBool(node.getInput(0))) {
    return args[0]->text == args[1]->text ? formulas.boolean(true) : FormulaRef();
  }
  return formulas.binary(name, args[0], args[1]);
}

/// Expand, Transpose and everything that only adds or drops axes of extent 1.
FormulaRef MaskTracer::traceView(NodeOp node, const Indices &indices) {
  Value input = node.getInput(0);
  StringRef name = node.getOpType();
  const auto *in = raiser.shape(input);
  const auto *out = raiser.shape(node.getResult(0));
  if (!in || !out) {
    return {};
  }
  if (name == "Expand") {
    return traceBroadcast(input, *out, indices);
  }
  if (name == "Transpose") {
    std::optional<SmallVector<int64_t>> perm = node.getInts("perm");
    Indices own(indices.size());
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      int64_t from = perm ? (*perm)[axis] : static_cast<int64_t>(indices.size() - 1 - axis);
      if (from < 0 || from >= static_cast<int64_t>(own.size())) {
        return {};
      }
      own[from] = indices[axis];
    }
    return llvm::is_contained(own, nullptr) ? FormulaRef() : trace(input, own);
  }
  // A chain of reshapes that ends where only extents of 1 differ from where it began.
  while (isReshape(node)) {
    Value source = node.getInput(0);
    if (std::optional<Indices> own = matchExtents(source, *out, indices)) {
      return trace(source, *own);
    }
    node = source.getDefiningOp<NodeOp>();
  }
  return {};
}

/// The indices into `source` where its extents other than 1 are those of `out`, in order.
std::optional<MaskTracer::Indices> MaskTracer::matchExtents(Value source, ArrayRef<SymbolicDim> out,
                                                            const Indices &indices) {
  const auto *in = raiser.shape(source);
  if (!in) {
    return std::nullopt;
  }
  std::vector<std::pair<SymbolicDim, FormulaRef>> kept;
  for (auto [dim, index] : llvm::zip(out, indices)) {
    if (!dim.is(1)) {
      kept.emplace_back(dim, index);
    }
  }
  Indices own;
  size_t next = 0;
  for (const SymbolicDim &dim : *in) {
    if (dim.is(1)) {
      own.push_back(formulas.integer(0));
      continue;
    }
    if (next >= kept.size() || kept[next].first != dim) {
      return std::nullopt;
    }
    own.push_back(kept[next++].second);
  }
  return next == kept.size() ? std::optional(own) : std::nullopt;
}

FormulaRef MaskTracer::traceSlice(NodeOp node, const Indices &indices) {
  if (!node.is("Slice")) {
    return {};
  }
  const auto *dims = raiser.shape(node.getInput(0));
  auto numbers = [&](StringRef attr, unsigned input) -> std::optional<SmallVector<SymbolicDim>> {
    if (std::optional<SmallVector<int64_t>> ints = node.getInts(attr)) {
      return SmallVector<SymbolicDim>(ints->begin(), ints->end());
    }
    Value value = node.getInput(input);
    const ValueInfo *info = value ? &raiser.shapes.of(value) : nullptr;
    return info && info->content ? std::optional(SmallVector<SymbolicDim>(*info->content)) : std::nullopt;
  };
  auto starts = numbers("starts", 1);
  auto axes = numbers("axes", 3);
  auto steps = numbers("steps", 4);
  if (!starts || !dims || (node.getInput(3) && !axes) || (node.getInput(4) && !steps)) {
    return {};
  }
  Indices own = indices;
  for (size_t i = 0; i < starts->size(); ++i) {
    std::optional<int64_t> axis = axes ? (*axes)[i].getConstant() : std::optional<int64_t>(i);
    if (!axis) {
      return {};
    }
    int64_t at = *axis < 0 ? *axis + static_cast<int64_t>(dims->size()) : *axis;
    if (at < 0 || at >= static_cast<int64_t>(own.size()) || own[at]->kind != Kind::Int) {
      return {};
    }
    SymbolicDim step = steps ? (*steps)[i] : SymbolicDim(1);
    if (!step.getConstant() || *step.getConstant() < 1) {
      return {};
    }
    SymbolicDim start = (*starts)[i];
    const SymbolicDim &extent = (*dims)[at];
    std::optional<int64_t> constant = start.getConstant();
    if (constant && *constant < -(int64_t(1) << 40)) {
      start = 0; // from the first, whatever the extent
    } else if (constant == -1) {
      start = extent - 1; // an extent of 0 leaves nothing to index
    } else if (!start.isKnownNonNegative()) {
      SymbolicDim fromFront = start + extent;
      if (!(SymbolicDim(-1) - start).isKnownNonNegative() || !fromFront.isKnownNonNegative()) {
        return {};
      }
      start = fromFront;
    }
    own[at] = formulas.integer(start + own[at]->dim * step);
  }
  return trace(node.getInput(0), own);
}

FormulaRef MaskTracer::traceConcat(NodeOp node, const Indices &indices) {
  if (!node.is("Concat")) {
    return {};
  }
  int64_t axis = node.getInt("axis", 0);
  axis += axis < 0 ? static_cast<int64_t>(indices.size()) : 0;
  if (axis < 0 || axis >= static_cast<int64_t>(indices.size()) || indices[axis]->kind != Kind::Int) {
    return {};
  }
  struct Piece {
    Value value;
    SymbolicDim start, extent;
  };
  std::vector<Piece> pieces;
  SymbolicDim start(0);
  for (Value input : node.getInputs()) {
    const auto *dims = raiser.shape(input);
    if (!dims || dims->size() != indices.size()) {
      return {};
    }
    pieces.push_back({input, start, (*dims)[axis]});
    start = start + (*dims)[axis];
  }
  const SymbolicDim &index = indices[axis]->dim;
  Indices own = indices;
  for (const Piece &piece : pieces) {
    if (formulas.isNonNegative(index - piece.start) && formulas.isNonNegative(piece.start + piece.extent - 1 - index)) {
      own[axis] = formulas.integer(index - piece.start);
      return trace(piece.value, own);
    }
  }
  // One row beside a piece whose elements are a polynomial of their index: where the row continues the polynomial, so
  // does the whole.
  if (pieces.size() != 2) {
    return {};
  }
  for (bool rowFirst : {true, false}) {
    const Piece &row = pieces[rowFirst ? 0 : 1];
    const Piece &body = pieces[rowFirst ? 1 : 0];
    if (!row.extent.is(1)) {
      continue;
    }
    std::string name = "__c" + std::to_string(fresh++);
    own[axis] = formulas.integer(formulas.variable(name, body.extent));
    FormulaRef inside = trace(body.value, own);
    own[axis] = formulas.integer(0);
    FormulaRef single = trace(row.value, own);
    if (inside->kind != Kind::Int || single->kind != Kind::Int) {
      continue;
    }
    std::optional<SymbolicDim> continued = substitute(inside->dim, name, row.start - body.start);
    std::optional<SymbolicDim> whole = substitute(inside->dim, name, index - body.start);
    if (continued && whole && *continued == single->dim) {
      return formulas.integer(*whole);
    }
  }
  return {};
}

FormulaRef MaskTracer::fromFront(const FormulaRef &index, const SymbolicDim &extent) {
  if (index->kind != Kind::Int) {
    return {};
  }
  if (formulas.isNonNegative(index->dim)) {
    return index;
  }
  return formulas.isNonNegative(SymbolicDim(-1) - index->dim) ? formulas.integer(index->dim + extent) : FormulaRef();
}

FormulaRef MaskTracer::traceGather(NodeOp node, const Indices &indices) {
  Value data = node.getInput(0);
  Value where = node.getInput(1);
  const auto *dims = raiser.shape(data);
  const auto *whereDims = where ? raiser.shape(where) : nullptr;
  if (!dims || !whereDims) {
    return {};
  }
  Indices own;
  if (node.is("Gather")) {
    int64_t axis = node.getInt("axis", 0);
    axis += axis < 0 ? static_cast<int64_t>(dims->size()) : 0;
    size_t inner = whereDims->size();
    if (axis < 0 || axis >= static_cast<int64_t>(dims->size()) || indices.size() != dims->size() - 1 + inner) {
      return {};
    }
    FormulaRef at =
        fromFront(trace(where, Indices(indices.begin() + axis, indices.begin() + axis + inner)), (*dims)[axis]);
    if (!at) {
      return {};
    }
    own.assign(indices.begin(), indices.begin() + axis);
    own.push_back(at);
    own.insert(own.end(), indices.begin() + axis + inner, indices.end());
    return trace(data, own);
  }
  if (!node.is("GatherND") || node.getInt("batch_dims", 0) != 0 || whereDims->empty()) {
    return {};
  }
  std::optional<int64_t> depthOfIndex = whereDims->back().getConstant();
  size_t outer = whereDims->size() - 1;
  if (!depthOfIndex || *depthOfIndex < 1 || *depthOfIndex > static_cast<int64_t>(dims->size()) ||
      indices.size() < outer) {
    return {};
  }
  for (int64_t i = 0; i < *depthOfIndex; ++i) {
    Indices at(indices.begin(), indices.begin() + outer);
    at.push_back(formulas.integer(i));
    FormulaRef index = fromFront(trace(where, at), (*dims)[i]);
    if (!index) {
      return {};
    }
    own.push_back(index);
  }
  own.insert(own.end(), indices.begin() + outer, indices.end());
  return trace(data, own);
}

FormulaRef MaskTracer::traceGenerator(NodeOp node, const Indices &indices) {
  auto scalarInput = [&](unsigned index) -> FormulaRef {
    Value value = node.getInput(index);
    return value && raiser.rank(value) == 0 ? trace(value, {}) : FormulaRef();
  };
  if (node.is("Range")) {
    FormulaRef start = scalarInput(0);
    FormulaRef delta = scalarInput(2);
    return start && delta ? formulas.binary("Add", start, formulas.binary("Mul", indices[0], delta)) : FormulaRef();
  }
  if (node.is("ConstantOfShape")) {
    auto value = dyn_cast_or_null<DenseElementsAttr>(node.getOnnxAttr("value"));
    if (!value) {
      return node.getOnnxAttr("value") ? FormulaRef() : formulas.number(0);
    }
    if (!value.isSplat()) {
      return {};
    }
    Type type = value.getElementType();
    if (isa<FloatType>(type)) {
      APFloat number = value.getSplatValue<APFloat>();
      bool lost = false;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      return formulas.number(number.convertToDouble());
    }
    if (!isa<IntegerType>(type)) {
      return {};
    }
    APInt number = value.getSplatValue<APInt>();
    return element(node.getResult(0), type.isInteger(1) ? number.getZExtValue() : number.getSExtValue());
  }
  if (node.is("Trilu") && indices.size() >= 2) {
    FormulaRef shift = node.getInput(1) ? scalarInput(1) : formulas.integer(0);
    const FormulaRef &row = indices[indices.size() - 2];
    const FormulaRef &column = indices.back();
    if (!shift || shift->kind != Kind::Int || row->kind != Kind::Int || column->kind != Kind::Int) {
      return {};
    }
    SymbolicDim below = row->dim + shift->dim - column->dim;
    bool upper = node.getInt("upper", 1) != 0;
    FormulaRef kept = formulas.atLeastZero(upper ? SymbolicDim(0) - below : below);
    return formulas.select(kept, trace(node.getInput(0), indices), element(node.getResult(0), 0.0));
  }
  if (node.is("CumSum")) {
    FormulaRef axisFormula = scalarInput(1);
    const auto *dims = raiser.shape(node.getInput(0));
    std::optional<double> axis = axisFormula ? axisFormula->constant() : std::nullopt;
    if (!axis || !dims || node.getInt("exclusive", 0) != 0 || node.getInt("reverse", 0) != 0) {
      return {};
    }
    int64_t at = static_cast<int64_t>(*axis) + (*axis < 0 ? static_cast<int64_t>(dims->size()) : 0);
    if (at < 0 || at >= static_cast<int64_t>(indices.size())) {
      return {};
    }
    Indices own = indices;
    own[at] = formulas.integer(formulas.variable("__c" + std::to_string(fresh++), (*dims)[at]));
    FormulaRef each = trace(node.getInput(0), own);
    std::optional<double> constant = each->kind == Kind::Int ? each->constant() : std::nullopt;
    return constant ? formulas.binary("Mul", each, formulas.binary("Add", indices[at], formulas.integer(1)))
                    : FormulaRef();
  }
  return {};
}
