//===- FunctionBuilder.cpp - dims as values, host values as tensors
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

// A requirement is told of by the first node that has it.
static constexpr StringLiteral kNodePrefix = "node '", kNodeSuffix = "': ";

static StringRef dimText(Attribute dim) {
  auto name = dyn_cast_or_null<StringAttr>(dim);
  return name ? name.getValue() : StringRef();
}

Type kimi::onnx::storageType(Type type) {
  return isNarrow(type) ? IntegerType::get(type.getContext(), 8) : weightType(type);
}

Type kimi::onnx::weightType(Type type) {
  auto integer = dyn_cast_or_null<IntegerType>(type);
  return integer && !integer.isSignless() ? IntegerType::get(type.getContext(), integer.getWidth()) : type;
}

Value kimi::onnx::scalarConstant(OpBuilder &b, Location loc, Type type, double value) {
  if (auto floating = dyn_cast<FloatType>(type)) {
    APFloat number(value);
    bool lost = false;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    return arith::ConstantOp::create(b, loc, FloatAttr::get(floating, number));
  }
  return integerConstant(b, loc, type, static_cast<int64_t>(value));
}

Value kimi::onnx::integerConstant(OpBuilder &b, Location loc, Type type, int64_t value) {
  if (type.isIndex()) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  APInt word = APInt(64, static_cast<uint64_t>(value)).sextOrTrunc(type.getIntOrFloatBitWidth());
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, word));
}

FunctionBuilder::FunctionBuilder(func::FuncOp func, SymbolicShapes &shapes)
    : shapes(shapes), b(func.getContext()), func(func), entryMarker(&func.getBody().front().front()),
      entryLoc(func.getLoc()) {
  for (auto require : func.getBody().front().getOps<RequireOp>()) {
    entryMarker = require->getNextNode(); // what was required first is looked at first
    required.insert(require.getMessage().split(kNodeSuffix).second.str());
  }
  b.setInsertionPoint(entryMarker);
  for (BlockArgument argument : func.getArguments()) {
    converted_[argument] = argument;
  }
}

void FunctionBuilder::storeArguments() {
  for (BlockArgument argument : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    Type element = type ? type.getElementType() : Type();
    if (element && storageType(element) != element) {
      argument.setType(type.clone(storageType(element)));
    }
    if (element && isUnsignedStorage(element)) {
      func.setArgAttr(argument.getArgNumber(), "kimi.unsigned", b.getUnitAttr());
    }
  }
}

//===----------------------------------------------------------------------===//
// Dims
//===----------------------------------------------------------------------===//

bool FunctionBuilder::isLate(const SymbolicDim &dim) {
  return llvm::any_of(dim.leaves(), [&](const SymbolicDim::Leaf &leaf) {
    const DimSource *source = shapes.source(leaf.name);
    return source && !isa<BlockArgument>(source->value);
  });
}

Value FunctionBuilder::dim(const SymbolicDim &dim) {
  auto known = dims.find(dim.str());
  if (known != dims.end()) {
    return known->second;
  }
  // Everything that follows from the arguments is computed at the entry; an extent that only an op of unknown shape
  // gives, where it is first used.
  OpBuilder entry(entryMarker);
  OpBuilder &at = isLate(dim) ? b : entry;
  Value total;
  auto add = [&](Value term) { total = total ? arith::AddIOp::create(at, entryLoc, total, term).getResult() : term; };
  for (const auto &[monomial, coefficient] : dim.terms()) {
    if (monomial.empty()) {
      continue;
    }
    Value product;
    for (const auto &[key, power] : monomial) {
      Value factor = atom(at, dim, key);
      for (int i = 0; i < power; ++i) {
        product = product ? arith::MulIOp::create(at, entryLoc, product, factor).getResult() : factor;
      }
    }
    if (coefficient != 1) {
      product = arith::MulIOp::create(at, entryLoc, product, this->dim(SymbolicDim(coefficient)));
    }
    add(product);
  }
  auto constant = dim.terms().find(SymbolicDim::Monomial());
  if (!total) {
    int64_t number = constant == dim.terms().end() ? 0 : constant->second;
    total = arith::ConstantIndexOp::create(entry, entryLoc, number);
  } else if (constant != dim.terms().end()) {
    add(this->dim(SymbolicDim(constant->second)));
  }
  dims[dim.str()] = total;
  return total;
}

/// A named dim by its name, an unnamed one by the input that has it.
std::string FunctionBuilder::describe(const SymbolicDim &dim) {
  std::set<SymbolicDim::Leaf> leaves = dim.leaves();
  const DimSource *source = leaves.size() == 1 ? shapes.source(leaves.begin()->name) : nullptr;
  auto argument =
      source && dim.str() == leaves.begin()->name ? dyn_cast<BlockArgument>(source->value) : BlockArgument();
  if (!argument) {
    return dim.str();
  }
  for (StringRef dialect : {"onnx.", "kimi."}) {
    unsigned number = argument.getArgNumber();
    auto name = func.getArgAttrOfType<StringAttr>(number, (dialect + "name").str());
    auto dims = func.getArgAttrOfType<ArrayAttr>(number, (dialect + "dims").str());
    bool named = dims && source->axis < static_cast<int64_t>(dims.size()) && !dimText(dims[source->axis]).empty();
    if (name && !named) {
      return ("axis " + Twine(source->axis) + " of input '" + name.getValue() + "'").str();
    }
  }
  return dim.str();
}

void FunctionBuilder::require(const Requirement &requirement) {
  auto [node, left, kind, right] = requirement;
  if (left == right) {
    return;
  }
  std::string message = describe(left);
  switch (kind) {
  case RequireKind::equal:
    message += " and " + describe(right) + " must be equal";
    break;
  case RequireKind::broadcast:
    message += " and " + describe(right) + " must be equal, or one of them 1";
    break;
  case RequireKind::at_most:
    message += " must not be more than " + describe(right);
    break;
  }
  if (!required.insert(message).second) {
    return;
  }
  OpBuilder entry(entryMarker);
  OpBuilder &at = isLate(left) || isLate(right) ? b : entry;
  Value a = dim(left), c = dim(right);
  RequireOp::create(at, node.getLoc(), a, c, kind, (kNodePrefix + node.getNodeName() + kNodeSuffix + message).str());
}

Value FunctionBuilder::condition(OpBuilder &at, const SymbolicDim &dim) {
  return arith::CmpIOp::create(at, entryLoc, arith::CmpIPredicate::ne, this->dim(dim), this->dim(0));
}

Value FunctionBuilder::atom(OpBuilder &at, const SymbolicDim &dim, const std::string &key) {
  auto known = dims.find(key);
  if (known != dims.end()) {
    return known->second;
  }
  SymbolicDim::AtomRef atom = dim.atom(key);
  SmallVector<Value> operands;
  for (const SymbolicDim &operand : atom->operands) {
    operands.push_back(this->dim(operand));
  }
  // A divisor of 0 (an empty axis) must not trap: the extent it would give is never used.
  auto divisor = [&]() -> Value {
    const SymbolicDim &by = atom->operands[1];
    if (by.isKnownPositive()) {
      return operands[1];
    }
    Value one = this->dim(1);
    if (by.isKnownNonNegative()) {
      return arith::MaxSIOp::create(at, entryLoc, operands[1], one);
    }
    // A step that only the call gives may go down.
    Value isZero = arith::CmpIOp::create(at, entryLoc, arith::CmpIPredicate::eq, operands[1], this->dim(0));
    return arith::SelectOp::create(at, entryLoc, isZero, one, operands[1]);
  };
  Value result;
  switch (atom->kind) {
  case SymbolicDim::AtomKind::Symbol: {
    const DimSource *source = shapes.source(atom->name);
    if (!source) {
      // Cannot happen for a dim of an argument; 0 keeps the IR valid for the verifier to speak.
      result = this->dim(0);
      break;
    }
    Value tensor = converted_.count(source->value) ? converted_[source->value] : source->value;
    result = tensor::DimOp::create(at, entryLoc, tensor, this->dim(source->axis));
    if (!source->rest.is(0)) {
      Value rest = this->dim(source->rest);
      result = source->sign > 0 ? arith::SubIOp::create(at, entryLoc, result, rest).getResult()
                                : arith::SubIOp::create(at, entryLoc, rest, result).getResult();
    }
    break;
  }
  case SymbolicDim::AtomKind::Runtime: {
    auto source = shapes.runtimeSource(atom->name);
    Value tensor = source ? converted_[source->first] : Value();
    if (!tensor) {
      result = this->dim(0);
      break;
    }
    SmallVector<Value> position;
    if (cast<RankedTensorType>(tensor.getType()).getRank() == 1) {
      position.push_back(this->dim(source->second));
    }
    Value element = tensor::ExtractOp::create(at, entryLoc, tensor, position);
    bool isUnsigned = shapes.of(source->first).elementType.isUnsignedInteger();
    result = isUnsigned ? arith::IndexCastUIOp::create(at, entryLoc, at.getIndexType(), element).getResult()
                        : arith::IndexCastOp::create(at, entryLoc, at.getIndexType(), element).getResult();
    break;
  }
  case SymbolicDim::AtomKind::FloorDiv:
    result = arith::FloorDivSIOp::create(at, entryLoc, operands[0], divisor());
    break;
  case SymbolicDim::AtomKind::CeilDiv:
    result = arith::CeilDivSIOp::create(at, entryLoc, operands[0], divisor());
    break;
  case SymbolicDim::AtomKind::Mod: {
    Value by = divisor();
    Value quotient = arith::FloorDivSIOp::create(at, entryLoc, operands[0], by);
    Value whole = arith::MulIOp::create(at, entryLoc, quotient, by);
    result = arith::SubIOp::create(at, entryLoc, operands[0], whole);
    break;
  }
  case SymbolicDim::AtomKind::Product:
    result = arith::MulIOp::create(at, entryLoc, operands[0], operands[1]);
    break;
  case SymbolicDim::AtomKind::Min:
    result = arith::MinSIOp::create(at, entryLoc, operands[0], operands[1]);
    break;
  case SymbolicDim::AtomKind::Max:
    result = arith::MaxSIOp::create(at, entryLoc, operands[0], operands[1]);
    break;
  case SymbolicDim::AtomKind::Eq:
  case SymbolicDim::AtomKind::Lt: {
    auto predicate = atom->kind == SymbolicDim::AtomKind::Eq ? arith::CmpIPredicate::eq : arith::CmpIPredicate::slt;
    Value holds = arith::CmpIOp::create(at, entryLoc, predicate, operands[0], operands[1]);
    result = arith::SelectOp::create(at, entryLoc, holds, this->dim(1), this->dim(0));
    break;
  }
  case SymbolicDim::AtomKind::Select:
    result = arith::SelectOp::create(at, entryLoc, condition(at, atom->operands[0]), operands[1], operands[2]);
    break;
  }
  dims[key] = result;
  return result;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Tensor FunctionBuilder::tensor(Value original) {
  const ValueInfo &info = shapes.of(original);
  Tensor tensor;
  tensor.type = info.elementType;
  if (info.shape) {
    tensor.shape = *info.shape;
  }
  auto built = converted_.find(original);
  if (built != converted_.end()) {
    tensor.value = built->second;
  }
  bool oneElement = info.content && info.content->size() == 1;
  if (info.isHost() && oneElement) {
    tensor.scalar = info.content->front();
  } else if (info.splat && isa_and_nonnull<FloatType>(info.elementType) && !isNarrow(info.elementType)) {
    tensor.splat = info.splat;
  } else if (info.splat && isa_and_nonnull<IntegerType>(info.elementType)) {
    tensor.scalar = SymbolicDim(static_cast<int64_t>(*info.splat));
  }
  if (!tensor.value && !tensor.splat && !tensor.scalar) {
    tensor.value = materialize(original, entryLoc);
  }
  return tensor;
}

Value FunctionBuilder::materialize(const Tensor &tensor, Location loc) {
  if (tensor.value) {
    return tensor.value;
  }
  Type element = storageType(tensor.type);
  RankedTensorType type = tensorType(tensor.shape, element);
  if (elementCount(tensor.shape).is(0)) {
    return tensor::EmptyOp::create(b, loc, type.getShape(), element);
  }
  bool isNumber = tensor.splat || tensor.scalar->isConstant();
  double number = tensor.splat ? *tensor.splat : 0.0;
  if (type.hasStaticShape() && isNumber) {
    TypedAttr attr;
    if (auto floating = dyn_cast<FloatType>(element)) {
      APFloat rounded(number);
      bool lost = false;
      rounded.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      attr = DenseElementsAttr::get(type, ArrayRef<APFloat>(rounded));
    } else {
      uint64_t bits = static_cast<uint64_t>(*tensor.scalar->getConstant());
      APInt word = APInt(64, bits).sextOrTrunc(element.getIntOrFloatBitWidth());
      attr = DenseElementsAttr::get(type, ArrayRef<APInt>(word));
    }
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value scalar;
  if (tensor.splat) {
    scalar = scalarConstant(b, loc, element, number);
  } else if (tensor.scalar->isConstant()) {
    scalar = integerConstant(b, loc, element, *tensor.scalar->getConstant());
  } else {
    scalar = element.isInteger(1) ? condition(b, *tensor.scalar)
                                  : arith::IndexCastOp::create(b, loc, element, dim(*tensor.scalar)).getResult();
  }
  SmallVector<OpFoldResult> extents;
  for (const SymbolicDim &extent : tensor.shape) {
    std::optional<int64_t> constant = extent.getConstant();
    extents.push_back(constant ? OpFoldResult(b.getIndexAttr(*constant)) : OpFoldResult(dim(extent)));
  }
  Value init = tensor::EmptyOp::create(b, loc, extents, element);
  return linalg::FillOp::create(b, loc, scalar, init).getResult(0);
}

Value FunctionBuilder::materialize(Value original, Location loc) {
  auto built = converted_.find(original);
  if (built != converted_.end()) {
    return built->second;
  }
  const ValueInfo &info = shapes.of(original);
  Value result;
  if (DenseElementsAttr elements = shapes.constant(original);
      elements && elements.getNumElements() > 0 && isa_and_nonnull<onnx::ConstantOp>(original.getDefiningOp())) {
    Type element = storageType(elements.getElementType());
    if (isNarrow(elements.getElementType())) {
      elements = unpackNarrow(elements);
    } else if (element != elements.getElementType()) {
      elements = elements.bitcast(element);
    }
    result = arith::ConstantOp::create(b, loc, elements);
  } else if (isa_and_nonnull<onnx::ConstantOp>(original.getDefiningOp()) && info.shape &&
             elementCount(*info.shape).is(0)) {
    Type element = storageType(info.elementType);
    result = tensor::EmptyOp::create(b, loc, tensorType(*info.shape, element).getShape(), element);
  } else if (info.isHost() && info.shape) {
    Type element = storageType(info.elementType);
    RankedTensorType type = tensorType(*info.shape, element);
    if (info.content->empty()) {
      result = tensor::EmptyOp::create(b, loc, type.getShape(), element);
    } else if (std::optional<SmallVector<int64_t>> constants = info.constants()) {
      SmallVector<APInt> words;
      for (int64_t constant : *constants) {
        words.push_back(APInt(64, static_cast<uint64_t>(constant)).sextOrTrunc(element.getIntOrFloatBitWidth()));
      }
      result = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, words));
    } else {
      SmallVector<Value> elements;
      for (const SymbolicDim &item : *info.content) {
        elements.push_back(element.isInteger(1) ? condition(b, item)
                                                : arith::IndexCastOp::create(b, loc, element, dim(item)).getResult());
      }
      result = tensor::FromElementsOp::create(b, loc, type, elements);
    }
  } else if (info.splat && info.shape) {
    Tensor full;
    full.shape = *info.shape;
    full.type = info.elementType;
    if (isa<FloatType>(info.elementType)) {
      full.splat = info.splat;
    } else {
      full.scalar = SymbolicDim(static_cast<int64_t>(*info.splat));
    }
    result = materialize(full, loc);
  } else {
    return original; // Not an onnx-level value: it stands for itself.
  }
  converted_[original] = result;
  return result;
}
