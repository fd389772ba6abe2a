//===- KimiLinearOps.cpp - verifiers, shapes and syntax of projections
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;

//===----------------------------------------------------------------------===//
// What linear and fused_linear share
//===----------------------------------------------------------------------===//

/// [F1] x is [..., K] and w a matrix, of floats, [F2] w has K rows, [F3] the result is [..., N] of floats.
static LogicalResult verifyProduct(Operation *op, Value xValue, Value wValue, bool transpose, Value resultValue) {
  RankedTensorType x = tensorType(xValue), w = tensorType(wValue), result = tensorType(resultValue);
  if (x.getRank() < 1 || w.getRank() != 2 || !isa<FloatType>(x.getElementType()) ||
      !isa<FloatType>(w.getElementType())) {
    return op->emitOpError("[F1] multiplies ")
           << x << " by " << w << "; expected x: [..., K] and a matrix w, of floats";
  }
  int64_t k = w.getDimSize(transpose ? 1 : 0), n = w.getDimSize(transpose ? 0 : 1);
  if (!compatible(x.getShape().back(), k)) {
    return op->emitOpError("[F2] x has ") << x.getShape().back() << " channels, but w has " << k << " rows"
                                          << (transpose ? " (it is transposed)" : "");
  }
  auto expected = llvm::to_vector(x.getShape());
  expected.back() = n;
  if (!compatible(result.getShape(), expected) || !isa<FloatType>(result.getElementType())) {
    return op->emitOpError("[F3] gives ") << result << "; expected " << text(expected) << " of floats";
  }
  return success();
}

static SmallVector<OpFoldResult> reifyProduct(OpBuilder &b, Location loc, Value x, Value w, bool transpose,
                                              Value result) {
  SmallVector<OpFoldResult> shape;
  int64_t last = tensorType(x).getRank() - 1;
  for (int64_t i = 0; i < last; ++i) {
    shape.push_back(resultExtent(b, loc, result, i, x, i));
  }
  shape.push_back(resultExtent(b, loc, result, last, w, transpose ? 0 : 1));
  return shape;
}

/// Whether `value` is [extent] of floats.
static bool isVector(Value value, int64_t extent) {
  RankedTensorType type = tensorType(value);
  return type.getRank() == 1 && compatible(type.getDimSize(0), extent) && isa<FloatType>(type.getElementType());
}

//===----------------------------------------------------------------------===//
// kimi.linear
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  if (failed(verifyProduct(*this, getX(), getW(), getTranspose(), getResult()))) {
    return failure();
  }
  int64_t n = tensorType(getW()).getDimSize(getTranspose() ? 0 : 1);
  if (getBias() && !isVector(getBias(), n)) {
    return emitOpError("[F4] bias has type ")
           << getBias().getType() << "; expected " << text(ArrayRef<int64_t>(n)) << " floats, one for each column of w";
  }
  return success();
}

LogicalResult LinearOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(reifyProduct(b, getLoc(), getX(), getW(), getTranspose(), getResult()));
  return success();
}

//===----------------------------------------------------------------------===//
// kimi.head_linear
//===----------------------------------------------------------------------===//

LogicalResult HeadLinearOp::verify() {
  RankedTensorType x = tensorType(getX()), w = tensorType(getW()), result = tensorType(getResult());
  if (x.getRank() != 4 || w.getRank() != 3 || !isa<FloatType>(x.getElementType()) ||
      !isa<FloatType>(w.getElementType())) {
    return emitOpError("[HL1] multiplies ") << x << " by " << w << "; expected [B, H, T, K] and [H, K, N], of floats";
  }
  if (!compatible(x.getDimSize(1), w.getDimSize(0)) || !compatible(x.getDimSize(3), w.getDimSize(1))) {
    return emitOpError("[HL2] x has ") << text(x.getDimSize(1)) << " heads of " << text(x.getDimSize(3))
                                       << " channels, but w has " << text(w.getDimSize(0)) << " matrices of "
                                       << text(w.getDimSize(1)) << " rows";
  }
  int64_t expected[] = {x.getDimSize(0), x.getDimSize(1), x.getDimSize(2), w.getDimSize(2)};
  if (!compatible(result.getShape(), expected) || !isa<FloatType>(result.getElementType())) {
    return emitOpError("[HL3] gives ") << result << "; expected " << text(expected) << " of floats";
  }
  return success();
}

LogicalResult HeadLinearOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  SmallVector<OpFoldResult> shape;
  for (int64_t i = 0; i < 3; ++i) {
    shape.push_back(resultExtent(b, getLoc(), getResult(), i, getX(), i));
  }
  shape.push_back(resultExtent(b, getLoc(), getResult(), 3, getW(), 2));
  dims.push_back(std::move(shape));
  return success();
}

//===----------------------------------------------------------------------===//
// kimi.fused_linear
//===----------------------------------------------------------------------===//

/// [F6] each extra is read through one map from the dims of y to in-bounds positions of the extra.
static LogicalResult verifyExtras(FusedLinearOp op) {
  ArrayRef<int64_t> y = tensorType(op.getResult()).getShape();
  if (op.getExtraMaps().size() != op.getExtras().size()) {
    return op.emitOpError("[F6] has ") << op.getExtraMaps().size() << " maps for " << op.getExtras().size()
                                       << " extras; expected one for each";
  }
  for (auto [extra, mapAttr] : llvm::zip_equal(op.getExtras(), op.getExtraMaps().getAsRange<AffineMapAttr>())) {
    AffineMap map = mapAttr.getValue();
    ArrayRef<int64_t> shape = tensorType(extra).getShape();
    bool fits = map.getNumDims() == y.size() && map.getNumSymbols() == 0 && map.getNumResults() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      if (auto dim = dyn_cast<AffineDimExpr>(map.getResult(i))) {
        fits = compatible(shape[i], y[dim.getPosition()]);
      } else {
        auto constant = dyn_cast<AffineConstantExpr>(map.getResult(i));
        fits = constant && constant.getValue() == 0;
      }
    }
    if (!fits) {
      return op.emitOpError("[F6] reads an extra of shape ")
             << text(shape) << " through " << mapAttr << "; expected a map from the " << y.size()
             << " dims of the result, whose extents are " << text(y) << ", to dims of the same extent or 0";
    }
  }
  return success();
}

/// [F7] the epilogue takes the accumulator (f32) and one element of each extra, [F8] holds only arith and math ops and
/// yields one element of y.
static LogicalResult verifyEpilogue(FusedLinearOp op) {
  Block &body = op.getEpilogue().front();
  bool fits = body.getNumArguments() == op.getExtras().size() + 1 && body.getArgument(0).getType().isF32();
  for (size_t i = 0; fits && i < op.getExtras().size(); ++i) {
    fits = body.getArgument(i + 1).getType() == tensorType(op.getExtras()[i]).getElementType();
  }
  if (!fits) {
    return op.emitOpError("[F7] has an epilogue of arguments ")
           << body.getArgumentTypes() << "; expected f32 (the sum) and the element type of each of the "
           << op.getExtras().size() << " extras";
  }
  for (Operation &inner : body.without_terminator()) {
    StringRef dialect = inner.getDialect() ? inner.getDialect()->getNamespace() : "";
    if (dialect != "arith" && dialect != "math") {
      return op.emitOpError("[F8] has '") << inner.getName() << "' in its epilogue; expected arith and math ops only";
    }
  }
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  Type element = tensorType(op.getResult()).getElementType();
  if (!yield || yield.getValues().size() != 1 || yield.getValues()[0].getType() != element) {
    return op.emitOpError("[F8] has an epilogue that does not end in a kimi.yield of one ") << element;
  }
  return success();
}

LogicalResult FusedLinearOp::verify() {
  if (failed(verifyProduct(*this, getX(), getW(), getTranspose(), getResult()))) {
    return failure();
  }
  int64_t k = tensorType(getX()).getShape().back();
  bool gammaFits = getNorm() == NormKind::none ? !getGamma() : getGamma() && isVector(getGamma(), k);
  bool betaFits = !getBeta() || (getNorm() == NormKind::layer && isVector(getBeta(), k));
  if (!gammaFits || !betaFits) {
    return emitOpError("[F5] has norm ") << stringifyNormKind(getNorm())
                                         << " with other operands than its own; expected none for none, gamma for rms, "
                                            "gamma and perhaps beta for layer, each "
                                         << text(ArrayRef<int64_t>(k)) << " floats";
  }
  if (!getEps().isFinite() || getEps().isNegative()) {
    return emitOpError("[F9] has eps ") << getEps().convertToDouble() << "; expected a finite number of at least 0";
  }
  if (failed(verifyExtras(*this))) {
    return failure();
  }
  return verifyEpilogue(*this);
}

LogicalResult FusedLinearOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  dims.push_back(reifyProduct(b, getLoc(), getX(), getW(), getTranspose(), getResult()));
  return success();
}

// x `,` w [`transpose`] [`norm` (`layer` | `rms`) `(` gamma [`,` beta] `)` `eps` float]
//   [`extras` `(` extras `)` `maps` maps] attr-dict `:` function-type region
ParseResult FusedLinearOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  auto &properties = result.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::UnresolvedOperand> operands(2), norm, extras;
  NormKind kind = NormKind::none;
  if (parser.parseOperand(operands[0]) || parser.parseComma() || parser.parseOperand(operands[1])) {
    return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("transpose"))) {
    properties.transpose = b.getUnitAttr();
  }
  if (succeeded(parser.parseOptionalKeyword("norm"))) {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name)) {
      return failure();
    }
    std::optional<NormKind> parsed = symbolizeNormKind(name);
    if (!parsed || *parsed == NormKind::none) {
      return parser.emitError(loc, "expected 'layer' or 'rms'");
    }
    kind = *parsed;
    double eps = 0;
    if (parser.parseOperandList(norm, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("eps") ||
        parser.parseFloat(eps)) {
      return failure();
    }
    if (norm.empty() || norm.size() > 2) {
      return parser.emitError(loc, "expected gamma, and perhaps beta");
    }
    properties.eps = b.getF32FloatAttr(static_cast<float>(eps));
  }
  ArrayAttr maps = b.getArrayAttr({});
  if (succeeded(parser.parseOptionalKeyword("extras"))) {
    if (parser.parseOperandList(extras, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("maps") ||
        parser.parseAttribute(maps)) {
      return failure();
    }
  }
  properties.norm = NormKindAttr::get(b.getContext(), kind);
  properties.extra_maps = maps;
  properties.operandSegmentSizes = {1, 1, norm.empty() ? 0 : 1, norm.size() == 2 ? 1 : 0,
                                    static_cast<int32_t>(extras.size())};
  operands.append(norm);
  operands.append(extras);
  FunctionType type;
  SMLoc typeLoc = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type)) {
    return failure();
  }
  if (type.getNumResults() != 1) {
    return parser.emitError(typeLoc, "expected one result type");
  }
  result.addTypes(type.getResults());
  return failure(parser.resolveOperands(operands, type.getInputs(), typeLoc, result.operands) ||
                 parser.parseRegion(*result.addRegion()));
}

void FusedLinearOp::print(OpAsmPrinter &p) {
  p << ' ' << getX() << ", " << getW();
  if (getTranspose()) {
    p << " transpose";
  }
  if (getNorm() != NormKind::none) {
    p << " norm " << stringifyNormKind(getNorm()) << '(' << getGamma();
    if (getBeta()) {
      p << ", " << getBeta();
    }
    p << ") eps ";
    p.printFloat(getEps());
  }
  if (!getExtras().empty()) {
    p << " extras(" << getExtras() << ") maps " << getExtraMaps();
  }
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {"norm", "eps", "transpose", "extra_maps", getOperandSegmentSizesAttrName().getValue()});
  p << " : ";
  p.printFunctionalType(getOperation());
  p << ' ';
  p.printRegion(getEpilogue());
}

//===----------------------------------------------------------------------===//
// kimi.embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  RankedTensorType ids = tensorType(getIds()), table = tensorType(getTable()), result = tensorType(getResult());
  if (!ids.getElementType().isSignlessIntOrIndex()) {
    return emitOpError("[E1] ids have type ") << ids << "; expected signless integers or index";
  }
  if (table.getRank() != 2) {
    return emitOpError("[E2] table has type ") << table << "; expected [rows, channels]";
  }
  auto expected = llvm::to_vector(ids.getShape());
  expected.push_back(table.getDimSize(1));
  if (!compatible(result.getShape(), expected) || result.getElementType() != table.getElementType()) {
    return emitOpError("[E3] gives ") << result << "; expected " << text(expected) << " of " << table.getElementType();
  }
  return success();
}

LogicalResult EmbeddingOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &dims) {
  SmallVector<OpFoldResult> shape;
  int64_t last = tensorType(getResult()).getRank() - 1;
  for (int64_t i = 0; i < last; ++i) {
    shape.push_back(resultExtent(b, getLoc(), getResult(), i, getIds(), i));
  }
  shape.push_back(resultExtent(b, getLoc(), getResult(), last, getTable(), 1));
  dims.push_back(std::move(shape));
  return success();
}
