//===- OnnxDialect.cpp - the onnx dialect
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Onnx/OnnxDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace kimi::onnx;

#include "dialects/Onnx/OnnxDialect.cpp.inc"

void OnnxDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Onnx/OnnxOps.cpp.inc"
      >();
}

Operation *OnnxDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  return elements && elements.getType() == type ? ConstantOp::create(builder, loc, elements).getOperation() : nullptr;
}

//===----------------------------------------------------------------------===//
// Attributes on modules, arguments and results
//===----------------------------------------------------------------------===//

static bool isI64(Attribute attr) {
  auto integer = dyn_cast<IntegerAttr>(attr);
  return integer && integer.getType().isSignlessInteger(64);
}

LogicalResult OnnxDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  StringRef name = attr.getName();
  if (name == "onnx.opsets") {
    auto opsets = dyn_cast<DictionaryAttr>(attr.getValue());
    if (!opsets || !llvm::all_of(opsets, [](NamedAttribute entry) { return isI64(entry.getValue()); })) {
      return op->emitError("onnx.opsets is not a dictionary of i64 (D1)");
    }
  } else if (name == "onnx.ir_version") {
    if (!isI64(attr.getValue())) {
      return op->emitError("onnx.ir_version is not an i64 (D1)");
    }
  } else {
    return op->emitError() << "attribute '" << name << "' is unknown to the onnx dialect (D4)";
  }
  return isa<ModuleOp>(op) ? success() : op->emitError() << "attribute '" << name << "' belongs on a module (D1)";
}

/// Checks `onnx.name` and `onnx.dims` of a graph input or output of `type`.
static LogicalResult verifyPort(Operation *op, Type type, NamedAttribute attr) {
  StringRef name = attr.getName();
  if (name == "onnx.name") {
    return isa<StringAttr>(attr.getValue()) ? success() : op->emitError("onnx.name is not a string (D2)");
  }
  if (name != "onnx.dims") {
    return op->emitError() << "attribute '" << name << "' is unknown to the onnx dialect (D4)";
  }
  auto dims = dyn_cast<ArrayAttr>(attr.getValue());
  if (!dims || !llvm::all_of(dims, [](Attribute dim) { return isa<StringAttr>(dim) || isI64(dim); })) {
    return op->emitError("onnx.dims is not an array of strings and i64 (D3)");
  }
  auto tensor = dyn_cast_or_null<RankedTensorType>(type);
  if (tensor && tensor.getRank() != static_cast<int64_t>(dims.size())) {
    return op->emitError("onnx.dims has ") << dims.size() << " entries for " << type << " (D3)";
  }
  return success();
}

LogicalResult OnnxDialect::verifyRegionArgAttribute(Operation *op, unsigned region, unsigned arg, NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  return verifyPort(op, function ? function.getArgumentTypes()[arg] : Type(), attr);
}

LogicalResult OnnxDialect::verifyRegionResultAttribute(Operation *op, unsigned region, unsigned result,
                                                       NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  return verifyPort(op, function ? function.getResultTypes()[result] : Type(), attr);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

//===----------------------------------------------------------------------===//
// NodeOp
//===----------------------------------------------------------------------===//

Value NodeOp::getInput(unsigned index) {
  if (index >= getInputs().size()) {
    return {};
  }
  Value value = getInputs()[index];
  return value.getDefiningOp<NoneOp>() ? Value() : value; // a value of unknown type is `none` too
}

int64_t NodeOp::getInt(StringRef name, int64_t fallback) {
  auto attr = dyn_cast_or_null<IntegerAttr>(getOnnxAttr(name));
  return attr ? attr.getInt() : fallback;
}

double NodeOp::getFloat(StringRef name, double fallback) {
  auto attr = dyn_cast_or_null<FloatAttr>(getOnnxAttr(name));
  return attr ? attr.getValueAsDouble() : fallback;
}

StringRef NodeOp::getString(StringRef name, StringRef fallback) {
  auto attr = dyn_cast_or_null<StringAttr>(getOnnxAttr(name));
  return attr ? attr.getValue() : fallback;
}

std::optional<SmallVector<int64_t>> NodeOp::getInts(StringRef name) {
  auto attr = dyn_cast_or_null<DenseI64ArrayAttr>(getOnnxAttr(name));
  if (!attr) {
    return std::nullopt;
  }
  return llvm::to_vector(attr.asArrayRef());
}

std::string NodeOp::getNodeName() {
  Location loc = getLoc();
  if (auto fused = dyn_cast<FusedLoc>(loc); fused && !fused.getLocations().empty()) {
    loc = fused.getLocations().front();
  }
  if (auto name = dyn_cast<NameLoc>(loc)) {
    return name.getName().str();
  }
  return "";
}

static bool isTensorOrNone(Type type) { return isa<TensorType, NoneType>(type); }

/// The kinds of attribute a node may have.
static bool isNodeAttribute(Attribute attr) {
  if (auto integer = dyn_cast<IntegerAttr>(attr)) {
    return integer.getType().isSignlessInteger(64);
  }
  if (auto number = dyn_cast<FloatAttr>(attr)) {
    return number.getType().isF32();
  }
  if (auto array = dyn_cast<ArrayAttr>(attr)) {
    return llvm::all_of(array, [](Attribute element) { return isa<StringAttr>(element); });
  }
  return isa<StringAttr, DenseI64ArrayAttr, DenseF32ArrayAttr, ElementsAttr, TypeAttr>(attr);
}

LogicalResult NodeOp::verify() {
  if (getOpType().empty()) {
    return emitOpError("has an empty op_type (N1)");
  }
  if (static_cast<int64_t>(getVersion()) < 1) {
    return emitOpError("has version ") << static_cast<int64_t>(getVersion()) << ", which is less than 1 (N1)";
  }
  size_t named = getRegionNames() ? getRegionNames()->size() : 0;
  if (named != getBodies().size()) {
    return emitOpError("names ") << named << " subgraphs but holds " << getBodies().size() << " (N2)";
  }
  llvm::SmallDenseSet<StringRef, 2> names;
  for (size_t i = 0; i < named; ++i) {
    StringRef name = cast<StringAttr>((*getRegionNames())[i]).getValue();
    if (!names.insert(name).second || getAttrs().contains(name)) {
      return emitOpError("has two attributes or subgraphs named '") << name << "' (N2)";
    }
  }
  for (Type type : llvm::concat<Type>(llvm::to_vector(getOperandTypes()), llvm::to_vector(getResultTypes()))) {
    if (!isTensorOrNone(type)) {
      return emitOpError("takes or gives a value of type ") << type << "; tensors and none are allowed (N3)";
    }
  }
  for (NamedAttribute attr : getAttrs()) {
    if (!isNodeAttribute(attr.getValue())) {
      return emitOpError("attribute '") << attr.getName().getValue()
                                        << "' is of a kind that no ONNX attribute has: " << attr.getValue() << " (N4)";
    }
  }
  return success();
}

LogicalResult NodeOp::verifyRegions() {
  for (Region &body : getBodies()) {
    if (!body.hasOneBlock() || body.front().empty() || !isa<YieldOp>(body.front().back())) {
      return emitOpError("needs subgraphs of one block, ended by onnx.yield (N5)");
    }
    for (Type type : body.getArgumentTypes()) {
      if (!isTensorOrNone(type)) {
        return emitOpError("has a subgraph with an input of type ") << type << "; tensors and none are allowed (N3)";
      }
    }
  }
  return success();
}

// onnx.node "Add"(%a, %b) {domain = "d", attrs = {...}} : (tensor<f32>, tensor<f32>) -> tensor<f32> ["body" {...}]
void NodeOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printAttributeWithoutType(getOpTypeAttr());
  p << '(' << getInputs() << ')';
  SmallVector<StringRef> elided = {"op_type", "region_names"};
  if (getDomain().empty()) {
    elided.push_back("domain");
  }
  if (getAttrs().empty()) {
    elided.push_back("attrs");
  }
  p.printOptionalAttrDict((*this)->getAttrs(), elided);
  p << " : ";
  p.printFunctionalType(*this);
  for (auto [index, region] : llvm::enumerate(getBodies())) {
    p << ' ';
    p.printAttributeWithoutType((*getRegionNames())[index]);
    p << ' ';
    p.printRegion(region);
  }
}

ParseResult NodeOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr opType;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  if (parser.parseAttribute(opType, "op_type", result.attributes) ||
      parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDict(result.attributes)) {
    return failure();
  }
  if (!result.attributes.get("attrs")) {
    result.addAttribute("attrs", DictionaryAttr::get(parser.getContext()));
  }
  if (!result.attributes.get("domain")) {
    result.addAttribute("domain", StringAttr::get(parser.getContext(), ""));
  }
  if (parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), parser.getCurrentLocation(), result.operands)) {
    return failure();
  }
  result.addTypes(type.getResults());
  SmallVector<Attribute> names;
  std::string name;
  while (succeeded(parser.parseOptionalString(&name))) {
    names.push_back(StringAttr::get(parser.getContext(), name));
    if (parser.parseRegion(*result.addRegion())) {
      return failure();
    }
  }
  if (!names.empty()) {
    result.addAttribute("region_names", ArrayAttr::get(parser.getContext(), names));
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/Onnx/OnnxOps.cpp.inc"
