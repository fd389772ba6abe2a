//===- SymbolicShapes.cpp - what is known of every value of an ONNX graph
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/SymbolicShapes.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/OnnxToKimi/OpTable.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// Integer inputs of at most this many elements may be read on the host (a Reshape's target that is a graph input).
static constexpr int64_t kMaxRuntimeElements = 16;

//===----------------------------------------------------------------------===//
// ValueInfo
//===----------------------------------------------------------------------===//

bool ValueInfo::isHost() const {
  if (!content) {
    return false;
  }
  return llvm::none_of(*content, [](const SymbolicDim &dim) { return dim.hasRuntime(); });
}

std::optional<SmallVector<int64_t>> ValueInfo::constants() const {
  return content ? staticShape(*content) : std::nullopt;
}

RankedTensorType kimi::onnx::tensorType(ArrayRef<SymbolicDim> shape, Type elementType) {
  SmallVector<int64_t> extents;
  for (const SymbolicDim &dim : shape) {
    std::optional<int64_t> constant = dim.getConstant();
    extents.push_back(constant && *constant >= 0 ? *constant : ShapedType::kDynamic);
  }
  return RankedTensorType::get(extents, elementType);
}

SymbolicDim kimi::onnx::elementCount(ArrayRef<SymbolicDim> shape) {
  SymbolicDim count(1);
  for (const SymbolicDim &dim : shape) {
    count = count * dim;
  }
  return count;
}

Type ValueInfo::type() const {
  if (!elementType) {
    return {};
  }
  return shape ? Type(tensorType(*shape, elementType)) : Type(UnrankedTensorType::get(elementType));
}

/// What a constant says of itself.
static ValueInfo constantInfo(ElementsAttr elements) {
  ShapedType type = elements.getShapedType();
  Type element = type.getElementType();
  ValueInfo info(element, Shape(type.getShape().begin(), type.getShape().end()));
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  bool isPacked = isa<Float4E2M1FNType, Float8E8M0FNUType>(element); // codes of a weight, never numbers of the graph
  if (!dense || isPacked) {
    return info;
  }
  bool tracked = dense.getNumElements() <= kMaxHostElements;
  if (isa<IntegerType>(element) && tracked) {
    Shape content;
    bool isBool = element.isInteger(1), isUnsigned = element.isUnsignedInteger() || isBool;
    for (const APInt &value : dense.getValues<APInt>()) {
      content.push_back(isUnsigned ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue());
    }
    bool same = !content.empty() && llvm::all_equal(content);
    if (same) {
      info.splat = static_cast<double>(*content.front().getConstant());
    }
    info.content = std::move(content);
  } else if (isa<FloatType>(element) && (dense.isSplat() || tracked) && dense.getNumElements() > 0) {
    auto values = dense.getValues<APFloat>();
    APFloat first = *values.begin();
    bool same = dense.isSplat() || llvm::all_of(values, [&](const APFloat &v) { return v.bitwiseIsEqual(first); });
    if (same) {
      bool lost = false;
      first.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      info.splat = first.convertToDouble();
    }
  }
  return info;
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

SymbolicShapes::SymbolicShapes(func::FuncOp func) {
  if (func.getBody().empty()) {
    return;
  }
  if (auto module = func->getParentOfType<ModuleOp>()) {
    for (auto weight : module.getOps<WeightOp>()) {
      if (auto elements = dyn_cast<DenseElementsAttr>(weight.getSource())) {
        inlineWeights[weight.getSymNameAttr()] = elements;
      }
    }
  }
  readArguments(func);
  readBlock(func.getBody().front());
}

/// True where `dim` is one named dim and nothing else.
static std::optional<std::string> singleSymbol(const SymbolicDim &dim) {
  if (dim.terms().size() != 1 || dim.terms().begin()->second != 1) {
    return std::nullopt;
  }
  const SymbolicDim::Monomial &monomial = dim.terms().begin()->first;
  if (monomial.size() != 1 || monomial.begin()->second != 1) {
    return std::nullopt;
  }
  SymbolicDim::AtomRef atom = dim.atom(monomial.begin()->first);
  return atom->kind == SymbolicDim::AtomKind::Symbol ? std::optional<std::string>(atom->name) : std::nullopt;
}

void SymbolicShapes::readArguments(func::FuncOp func) {
  struct Open {
    Value value;
    int64_t axis;
    SymbolicDim dim;
  };
  SmallVector<Open> open;
  Block &entry = func.getBody().front();
  for (BlockArgument argument : entry.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type) {
      continue;
    }
    auto dims = func.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "onnx.dims");
    ValueInfo info(type.getElementType(), {});
    for (int64_t axis = 0; axis < type.getRank(); ++axis) {
      if (!type.isDynamicDim(axis)) {
        info.shape->push_back(type.getDimSize(axis));
        continue;
      }
      Attribute named = dims && axis < static_cast<int64_t>(dims.size()) ? dims[axis] : Attribute();
      auto name = dyn_cast_or_null<StringAttr>(named);
      bool known = name && !name.getValue().empty();
      SymbolicDim dim =
          known ? SymbolicDim::symbol(name.getValue().str())
                : SymbolicDim::opaque("arg" + std::to_string(argument.getArgNumber()) + "_" + std::to_string(axis));
      info.shape->push_back(dim);
      if (std::optional<std::string> symbol = singleSymbol(dim)) {
        sources.try_emplace(*symbol, DimSource{argument, axis});
      } else {
        open.push_back({argument, axis, dim});
      }
    }
    std::optional<SmallVector<int64_t>> extents = staticShape(*info.shape);
    if (extents && extents->size() <= 1 && isa<IntegerType>(info.elementType) && !info.elementType.isInteger(1)) {
      int64_t count = extents->empty() ? 1 : extents->front();
      if (count <= kMaxRuntimeElements) {
        Shape content;
        for (int64_t i = 0; i < count; ++i) {
          std::string id = "arg" + std::to_string(argument.getArgNumber()) + "[" + std::to_string(i) + "]";
          runtimeSources[id] = {argument, i};
          content.push_back(SymbolicDim::runtime(id));
        }
        info.content = std::move(content);
      }
    }
    infos[argument] = std::move(info);
  }
  // Expressions: solve what has one unknown with coefficient 1 or -1; the rest become dims of their own.
  auto unknowns = [&](const SymbolicDim &dim) {
    std::vector<std::string> missing;
    for (const SymbolicDim::Leaf &leaf : dim.leaves()) {
      if (!sources.count(leaf.name) && !llvm::is_contained(missing, leaf.name)) {
        missing.push_back(leaf.name);
      }
    }
    return missing;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (Open &item : open) {
      std::vector<std::string> missing = unknowns(item.dim);
      if (missing.size() != 1) {
        continue;
      }
      SymbolicDim symbol = SymbolicDim::opaque(missing.front());
      for (int64_t sign : {1, -1}) {
        SymbolicDim rest = item.dim - symbol * SymbolicDim(sign);
        if (unknowns(rest).empty()) {
          sources.emplace(missing.front(), DimSource{item.value, item.axis, sign, rest});
          changed = true;
          break;
        }
      }
    }
  }
  for (Open &item : open) {
    if (!unknowns(item.dim).empty()) {
      std::string name = item.dim.str();
      (*infos[item.value].shape)[item.axis] = SymbolicDim::opaque(name);
      sources.try_emplace(name, DimSource{item.value, item.axis});
    }
  }
}

void SymbolicShapes::readBlock(Block &block) {
  for (Operation &op : block) {
    infer(&op);
  }
}

void SymbolicShapes::infer(Operation *op) {
  if (auto node = dyn_cast<NodeOp>(op)) {
    inferNode(node);
    return;
  }
  if (inferForeign(op)) {
    return;
  }
  for (Value result : op->getResults()) {
    useDeclaredType(result);
  }
}

void SymbolicShapes::useDeclaredType(Value value) {
  auto shaped = dyn_cast<ShapedType>(value.getType());
  if (!shaped) {
    return;
  }
  ValueInfo info;
  if (!isa<NoneType>(shaped.getElementType())) {
    info.elementType = shaped.getElementType();
  }
  if (shaped.hasRank()) {
    info.shape.emplace();
    for (int64_t axis = 0; axis < shaped.getRank(); ++axis) {
      if (!shaped.isDynamicDim(axis)) {
        info.shape->push_back(shaped.getDimSize(axis));
        continue;
      }
      std::string symbol = "unknown" + std::to_string(fresh++);
      sources[symbol] = DimSource{value, axis};
      info.shape->push_back(SymbolicDim::opaque(symbol));
    }
  }
  infos[value] = std::move(info);
}

void SymbolicShapes::inferNode(NodeOp node) {
  auto giveUp = [&](const Twine &why) {
    reasons[node] = why.str();
    for (Value result : node->getResults()) {
      useDeclaredType(result);
    }
  };
  const OpEntry *entry = OpTable::get().lookup(node.getDomain(), node.getOpType(), node.getVersion());
  if (!entry) {
    giveUp(OpTable::get().whyUnsupported(node.getDomain(), node.getOpType(), node.getVersion()));
    return;
  }
  for (Value input : node.getInputs()) {
    if (!input.getDefiningOp<NoneOp>() && !of(input).isRanked()) {
      giveUp("");
      return;
    }
  }
  if (node.is("If")) {
    inferIf(node);
    return;
  }
  if (node.is("Scan")) {
    inferScan(node);
    return;
  }
  InferContext context(node, *this);
  if (failed(entry->infer(context))) {
    giveUp(context.reason.empty() ? "its shape cannot be inferred" : context.reason);
    return;
  }
  for (auto [index, info] : llvm::enumerate(context.outs)) {
    for (auto [axis, dim] : llvm::enumerate(info.shape.value_or(Shape{}))) {
      if (dim.getConstant().value_or(0) < 0) {
        giveUp("its output " + Twine(index) + " would have an extent of " + Twine(*dim.getConstant()) + " in axis " +
               Twine(axis));
        return;
      }
    }
  }
  if (!context.requirements.empty()) {
    required[node] = context.requirements;
  }
  for (auto [result, info] : llvm::zip(node->getResults(), context.outs)) {
    if (!info.isRanked()) {
      // An output this compiler does not give (a training-only one): its declared type must do.
      useDeclaredType(result);
      continue;
    }
    std::optional<SmallVector<int64_t>> constants = info.constants();
    if (constants && !constants->empty() && llvm::all_equal(*constants)) {
      info.splat = static_cast<double>(constants->front());
    }
    // An extent that the file declares as a constant is one, whatever else it may be in doubt of (min(1, seq)).
    auto declared = dyn_cast<RankedTensorType>(result.getType());
    if (declared && declared.getRank() == info.rank()) {
      for (auto [dim, extent] : llvm::zip(*info.shape, declared.getShape())) {
        if (!ShapedType::isDynamic(extent) && !dim.isConstant()) {
          required[node].push_back({node, dim, RequireKind::equal, extent});
          dim = extent;
        }
      }
    }
    infos[result] = std::move(info);
  }
}

//===----------------------------------------------------------------------===//
// Ops of other dialects
//===----------------------------------------------------------------------===//

bool SymbolicShapes::inferForeign(Operation *op) {
  if (op->getNumResults() == 0) {
    return true;
  }
  Value result = op->getResult(0);
  if (auto constant = dyn_cast<onnx::ConstantOp>(op)) {
    infos[result] = constantInfo(constant.getValue());
    return true;
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto elements = dyn_cast<ElementsAttr>(constant.getValue())) {
      infos[result] = constantInfo(elements);
      return true;
    }
    return false;
  }
  if (auto reference = dyn_cast<WeightRefOp>(op)) {
    if (DenseElementsAttr elements = this->constant(result)) {
      infos[result] = constantInfo(elements);
      return true;
    }
    return false;
  }
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (!type) {
    return false;
  }
  auto shapeOf = [&](Value value) -> const Shape * {
    const ValueInfo &info = of(value);
    return info.shape ? &*info.shape : nullptr;
  };
  auto give = [&](Shape shape) {
    if (static_cast<int64_t>(shape.size()) != type.getRank()) {
      return false;
    }
    infos[result] = ValueInfo(type.getElementType(), std::move(shape));
    return true;
  };
  if (isa<LayerNormOp, RmsNormOp, SoftmaxOp, GeluOp, SwigluOp, SituGluOp, L2NormOp, KdaGateOp, GatedRmsNormOp,
          AttnResOp, AttnResMergeOp, DequantizeOp, tensor::CastOp, tensor::BitcastOp>(op)) {
    const Shape *x = shapeOf(op->getOperand(0));
    return x && give(*x);
  }
  if (auto linear = dyn_cast<LinearOp>(op)) {
    const Shape *x = shapeOf(linear.getX()), *w = shapeOf(linear.getW());
    if (!x || !w || x->empty() || w->size() != 2) {
      return false;
    }
    Shape shape = *x;
    shape.back() = (*w)[linear.getTranspose() ? 0 : 1];
    return give(shape);
  }
  if (auto router = dyn_cast<RouterOp>(op)) {
    const Shape *logits = shapeOf(router.getLogits());
    if (!logits || logits->size() != 2) {
      return false;
    }
    Shape shape = {logits->front(), SymbolicDim(static_cast<int64_t>(router.getTop()))};
    infos[router.getWeights()] = ValueInfo(Float32Type::get(op->getContext()), shape);
    return give(shape);
  }
  if (auto moe = dyn_cast<MoeOp>(op)) {
    const Shape *x = shapeOf(moe.getX()), *w2 = shapeOf(moe.getW2());
    if (!x || !w2 || x->size() != 2 || w2->size() != 3) {
      return false;
    }
    return give({x->front(), (*w2)[1]});
  }
  if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
    const Shape *ids = shapeOf(embedding.getIds()), *table = shapeOf(embedding.getTable());
    if (!ids || !table || table->size() != 2) {
      return false;
    }
    Shape shape = *ids;
    shape.push_back(table->back());
    return give(shape);
  }
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    const Shape *q = shapeOf(attention.getQ()), *v = shapeOf(attention.getV());
    if (!q || !v || q->size() != 4 || v->size() != 4) {
      return false;
    }
    return give({(*q)[0], (*q)[1], (*q)[2], (*v)[3]});
  }
  if (auto mla = dyn_cast<MlaOp>(op)) {
    const Shape *q = shapeOf(mla.getQ());
    return q && q->size() == 4 && give({(*q)[0], (*q)[1], (*q)[2], SymbolicDim(mla.getExtents().values)});
  }
  if (auto linear = dyn_cast<HeadLinearOp>(op)) {
    const Shape *x = shapeOf(linear.getX()), *w = shapeOf(linear.getW());
    return x && w && x->size() == 4 && w->size() == 3 && give({(*x)[0], (*x)[1], (*x)[2], w->back()});
  }
  if (auto delta = dyn_cast<DeltaRuleOp>(op)) {
    const Shape *q = shapeOf(delta.getQ()), *v = shapeOf(delta.getV());
    if (!q || !v || q->size() != 4 || v->size() != 4) {
      return false;
    }
    SymbolicDim width = (*v)[3];
    Shape memory = {(*q)[0], delta.getStateHeads(), (*q)[3], width + SymbolicDim(delta.getNormalize() ? 1 : 0)};
    Shape shape = {(*q)[0], delta.getResultHeads(), (*q)[2], width};
    // Entering one result may move what is known of the others.
    infos[delta.getState()] = ValueInfo(cast<RankedTensorType>(delta.getState().getType()).getElementType(), memory);
    return give(std::move(shape));
  }
  if (auto bank = dyn_cast<AttnResBankOp>(op)) {
    const Shape *source = shapeOf(bank.getSources().front());
    if (!source || source->empty()) {
      return false;
    }
    Shape sums = *source, statistics = *source;
    statistics.back() = SymbolicDim(2);
    for (auto [results, shape] : {std::pair(bank.getStatistics(), statistics), {bank.getSums(), sums}}) {
      for (Value value : results) {
        infos[value] = ValueInfo(cast<RankedTensorType>(value.getType()).getElementType(), shape);
      }
    }
    return true;
  }
  if (auto conv = dyn_cast<CausalConvOp>(op)) {
    const Shape *x = shapeOf(conv.getX()), *weight = shapeOf(conv.getWeight());
    if (!x || !weight || x->size() != 3 || weight->size() != 2) {
      return false;
    }
    Shape window = {(*x)[0], (*x)[1], (*weight)[1] - SymbolicDim(1)}, shape = *x;
    auto windowType = cast<RankedTensorType>(conv.getWindow().getType());
    infos[conv.getWindow()] = ValueInfo(windowType.getElementType(), std::move(window));
    return give(std::move(shape));
  }
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    const Shape *x = shapeOf(transpose.getInput());
    if (!x || x->size() != transpose.getPermutation().size()) {
      return false;
    }
    Shape shape;
    for (int64_t axis : transpose.getPermutation()) {
      shape.push_back((*x)[axis]);
    }
    return give(shape);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    const Shape *x = shapeOf(collapse.getSrc());
    if (!x) {
      return false;
    }
    Shape shape;
    for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
      SymbolicDim product(1);
      for (int64_t axis : group) {
        product = product * (*x)[axis];
      }
      shape.push_back(product);
    }
    return give(shape);
  }
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    const Shape *first = shapeOf(concat.getInputs().front());
    if (!first) {
      return false;
    }
    Shape shape = *first;
    int64_t axis = static_cast<int64_t>(concat.getDim());
    for (Value input : concat.getInputs().drop_front()) {
      const Shape *next = shapeOf(input);
      if (!next) {
        return false;
      }
      shape[axis] = shape[axis] + (*next)[axis];
    }
    return give(shape);
  }
  if (auto destination = dyn_cast<DestinationStyleOpInterface>(op)) {
    OpOperand *init = destination.getDpsInitOperand(0);
    if (const Shape *shape = shapeOf(init->get())) {
      return give(*shape);
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

const ValueInfo &SymbolicShapes::of(Value value) const {
  static const ValueInfo unknown;
  auto it = infos.find(value);
  return it == infos.end() ? unknown : it->second;
}

void SymbolicShapes::transfer(Value from, Value to) {
  auto it = infos.find(from);
  if (it == infos.end()) {
    return;
  }
  ValueInfo info = it->second;
  infos[to] = std::move(info);
  for (auto &[name, source] : sources) {
    if (source.value == from) {
      source.value = to;
    }
  }
}

void SymbolicShapes::set(Value value, ValueInfo info) { infos[value] = std::move(info); }

ArrayRef<Requirement> SymbolicShapes::requirements(NodeOp node) const {
  auto it = required.find(node);
  return it == required.end() ? ArrayRef<Requirement>() : ArrayRef<Requirement>(it->second);
}

std::optional<double> SymbolicShapes::splat(Value value) const { return of(value).splat; }

DenseElementsAttr SymbolicShapes::constant(Value value) const {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<onnx::ConstantOp>(op)) {
    return dyn_cast<DenseElementsAttr>(constant.getValue());
  }
  if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op)) {
    return dyn_cast<DenseElementsAttr>(constant.getValue());
  }
  if (auto reference = dyn_cast_or_null<WeightRefOp>(op)) {
    return inlineWeights.lookup(reference.getWeightAttr().getAttr());
  }
  return {};
}

StringRef SymbolicShapes::whyUnknown(NodeOp node) const {
  auto it = reasons.find(node);
  return it == reasons.end() ? StringRef() : StringRef(it->second);
}

const DimSource *SymbolicShapes::source(const std::string &name) const {
  auto it = sources.find(name);
  return it == sources.end() ? nullptr : &it->second;
}

std::optional<std::pair<Value, int64_t>> SymbolicShapes::runtimeSource(const std::string &name) const {
  auto it = runtimeSources.find(name);
  return it == runtimeSources.end() ? std::nullopt : std::optional(it->second);
}
