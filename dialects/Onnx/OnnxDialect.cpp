//===- OnnxDialect.cpp - the onnx dialect
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Onnx/OnnxDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace kimi::onnx;

#include "dialects/Onnx/OnnxDialect.cpp.inc"

void OnnxDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Onnx/OnnxOps.cpp.inc"
      >();
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

LogicalResult NodeOp::verify() {
  if (getOpType().empty()) {
    return emitOpError("has an empty op_type");
  }
  size_t named = getRegionNames() ? getRegionNames()->size() : 0;
  if (named != getBodies().size()) {
    return emitOpError("names ") << named << " subgraphs but holds " << getBodies().size();
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
