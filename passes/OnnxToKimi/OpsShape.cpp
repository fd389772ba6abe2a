//===- OpsShape.cpp - shapes, constants, casts, ranges
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Elementwise.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// Shape, Size
//===----------------------------------------------------------------------===//

static LogicalResult inferShape(InferContext &c) {
  int64_t rank = c.in(0).rank();
  auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank);
  };
  int64_t start = clamp(c.node.getInt("start", 0)), end = clamp(c.node.getInt("end", rank));
  Shape dims;
  for (int64_t axis = start; axis < end; ++axis) {
    dims.push_back(c.shape(0)[axis]);
  }
  ValueInfo info(IntegerType::get(c.node.getContext(), 64), {SymbolicDim(static_cast<int64_t>(dims.size()))});
  info.content = std::move(dims);
  c.setOut(std::move(info));
  return success();
}

static LogicalResult inferSize(InferContext &c) {
  ValueInfo info(IntegerType::get(c.node.getContext(), 64), Shape());
  info.content = Shape{elementCount(c.shape(0))};
  c.setOut(std::move(info));
  return success();
}

//===----------------------------------------------------------------------===//
// Constant, ConstantOfShape
//===----------------------------------------------------------------------===//

/// What `elements` says of each element when all are equal.
static void readSplat(ElementsAttr elements, ValueInfo &info) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(elements);
  if (!dense || !dense.isSplat() || dense.getNumElements() == 0) {
    return;
  }
  if (isa<FloatType>(dense.getElementType())) {
    APFloat value = dense.getSplatValue<APFloat>();
    bool lost = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    info.splat = value.convertToDouble();
  } else if (isa<IntegerType>(dense.getElementType())) {
    APInt value = dense.getSplatValue<APInt>();
    bool asUnsigned = dense.getElementType().isUnsignedInteger() || dense.getElementType().isInteger(1);
    info.splat = static_cast<double>(asUnsigned ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue());
  }
}

static LogicalResult inferConstantOfShape(InferContext &c) {
  FailureOr<Shape> shape = c.content(0, "the shape");
  if (failed(shape)) {
    return failure();
  }
  auto value = dyn_cast_or_null<ElementsAttr>(c.node.getOnnxAttr("value"));
  ValueInfo info(Float32Type::get(c.node.getContext()), *shape);
  info.splat = 0.0;
  if (value) {
    info.elementType = value.getShapedType().getElementType();
    info.splat = std::nullopt;
    readSplat(value, info);
  }
  fillContent(info);
  c.setOut(std::move(info));
  return success();
}

//===----------------------------------------------------------------------===//
// Range
//===----------------------------------------------------------------------===//

static LogicalResult inferRange(InferContext &c) {
  Type element = c.in(0).elementType;
  if (isa<FloatType>(element)) {
    std::optional<double> start = c.in(0).splat, limit = c.in(1).splat, delta = c.in(2).splat;
    if (!start || !limit || !delta || *delta == 0) {
      return c.fail("start, limit and delta must be constant in floating point");
    }
    double count = std::max(0.0, std::ceil((*limit - *start) / *delta));
    if (!(count < 2147483648.0)) {
      return c.fail("its extent is too large");
    }
    c.setOut(ValueInfo(element, {SymbolicDim(static_cast<int64_t>(count))}));
    return success();
  }
  FailureOr<Shape> start = c.content(0, "start"), limit = c.content(1, "limit"), delta = c.content(2, "delta");
  if (failed(start) || failed(limit) || failed(delta) || start->size() != 1 || limit->size() != 1 ||
      delta->size() != 1) {
    return failure();
  }
  SymbolicDim from = start->front(), to = limit->front(), by = delta->front();
  if (by.is(0)) {
    return c.fail("delta is 0");
  }
  SymbolicDim span = by.isKnownPositive() ? SymbolicDim::max(to - from, 0) : to - from;
  SymbolicDim count = SymbolicDim::max(SymbolicDim::ceilDiv(span, by), 0);
  ValueInfo info(element, {count});
  std::optional<int64_t> extent = count.getConstant();
  if (extent && *extent <= kMaxHostElements) {
    info.content.emplace();
    for (int64_t i = 0; i < *extent; ++i) {
      info.content->push_back(from + by * SymbolicDim(i));
    }
  }
  c.setOut(std::move(info));
  return success();
}

//===----------------------------------------------------------------------===//
// Cast, Identity
//===----------------------------------------------------------------------===//

static void inferCastTo(InferContext &c, Type to) {
  const ValueInfo &x = c.in(0);
  ValueInfo info(to, *x.shape);
  if (x.splat && isa<FloatType>(to)) {
    info.splat = roundTo(*x.splat, to);
  }
  if (x.content && isa<IntegerType>(to)) {
    unsigned width = to.getIntOrFloatBitWidth();
    bool fits = true;
    for (const SymbolicDim &element : *x.content) {
      std::optional<int64_t> constant = element.getConstant();
      // Extents fit in 32 bits and more; constants are checked.
      fits = fits && (constant ? width == 1 || llvm::isIntN(width, *constant) : width == 1 || width >= 32);
    }
    if (fits) {
      info.content.emplace();
      for (const SymbolicDim &element : *x.content) {
        info.content->push_back(width == 1 ? SymbolicDim(1) - SymbolicDim::eq(element, 0) : element);
      }
    }
  }
  if (x.splat && isa<IntegerType>(to)) {
    if (to.isInteger(1)) {
      info.splat = *x.splat != 0 ? 1.0 : 0.0;
    } else if (std::abs(*x.splat) < 1073741824.0 && to.getIntOrFloatBitWidth() >= 32) {
      info.splat = std::trunc(*x.splat);
    }
    if (info.splat && !info.content) {
      fillContent(info);
    }
  }
  c.setOut(std::move(info));
}

static LogicalResult castBetween(InferContext &c, Type to) {
  if (!to || !c.in(0).elementType) {
    return c.fail("its type is not known");
  }
  StringRef mode = c.node.getString("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") {
    return c.fail("round_mode = '" + mode + "' is not known; accepted are 'up', 'down' and 'nearest'");
  }
  if (isNarrow(to) || isNarrow(c.in(0).elementType)) {
    // Nothing is known of the elements: only kernels convert them.
    c.setOut(ValueInfo(to, c.shape(0)));
    return success();
  }
  inferCastTo(c, to);
  return success();
}

static LogicalResult inferCast(InferContext &c) {
  int64_t code = c.node.getInt("to", 0);
  Type to = elementTypeOfCode(c.node.getContext(), code);
  if (!to) {
    return c.fail("target type " + Twine(code) + " is not supported");
  }
  return castBetween(c, to);
}

static LogicalResult inferCastLike(InferContext &c) { return castBetween(c, c.in(1).elementType); }

static LogicalResult inferIdentity(InferContext &c) {
  c.setOut(c.in(0));
  return success();
}

//===----------------------------------------------------------------------===//
// EyeLike, Dropout
//===----------------------------------------------------------------------===//

static LogicalResult inferEyeLike(InferContext &c) {
  if (c.in(0).rank() != 2) {
    return c.fail("its input must be a matrix");
  }
  int64_t code = c.node.getInt("dtype", 0);
  Type type = code == 0 ? c.in(0).elementType : elementTypeOfCode(c.node.getContext(), code);
  if (!type) {
    return c.fail("target type " + Twine(code) + " is not supported");
  }
  c.setOut(ValueInfo(type, c.shape(0)));
  return success();
}

static LogicalResult buildEyeLike(BuildContext &c) {
  Type type = c.result().elementType, storage = storageType(type);
  Value shift = c.index(c.node.getInt("k", 0)), one = c.constant(storage, 1), zero = c.constant(storage, 0);
  c.give(c.mapIndexed({}, *c.result().shape, type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
    Value diagonal = arith::AddIOp::create(b, loc, at[0], shift);
    Value on = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, diagonal, at[1]);
    return arith::SelectOp::create(b, loc, on, one, zero).getResult();
  }));
  return success();
}

static LogicalResult inferDropout(InferContext &c) {
  if (c.has(2)) {
    std::optional<SmallVector<int64_t>> training = c.in(2).constants();
    if (!training || training->size() != 1 || training->front() != 0) {
      return c.fail("only inference (training_mode false) is supported");
    }
  }
  c.setOut(0, c.in(0));
  ValueInfo mask(IntegerType::get(c.node.getContext(), 1), c.shape(0));
  mask.splat = 1.0;
  c.setOut(1, std::move(mask));
  return success();
}

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

static LogicalResult buildIdentity(BuildContext &c) {
  c.give(c.input(0));
  return success();
}

static LogicalResult buildCast(BuildContext &c) {
  CastRules rules;
  rules.saturate = c.node.getInt("saturate", 1) != 0;
  StringRef mode = c.node.getString("round_mode", "up");
  rules.powers = mode == "down" ? CastRules::Down : mode == "nearest" ? CastRules::Nearest : CastRules::Up;
  c.give(c.cast(c.input(0), c.result().elementType, rules));
  return success();
}

/// A constant array of a value that has no text as one number (a tensor of one element always has).
static LogicalResult buildConstantOfShape(BuildContext &c) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(c.node.getOnnxAttr("value"));
  if (!elements || elements.getNumElements() != 1) {
    return c.fail("value must be a tensor of one element");
  }
  return c.fail("value is of a type that is not supported");
}

/// Position i is start + i * delta.
static LogicalResult buildRange(BuildContext &c) {
  Type type = c.result().elementType, storage = storageType(type);
  if (isa<FloatType>(type)) {
    double start = *c.in(0).splat, delta = *c.in(2).splat;
    Type wide = accumulatorType(type);
    c.give(c.mapIndexed({}, *c.result().shape, type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
      Value step = arith::IndexCastOp::create(b, loc, b.getI64Type(), at[0]);
      Value number = arith::SIToFPOp::create(b, loc, wide, step);
      Value moved = arith::MulFOp::create(b, loc, number, scalarConstant(b, loc, wide, delta));
      Value sum = arith::AddFOp::create(b, loc, moved, scalarConstant(b, loc, wide, start));
      return castElement(b, loc, sum, wide, type);
    }));
    return success();
  }
  SymbolicDim start = c.in(0).content->front(), delta = c.in(2).content->front();
  Value from = start.is(0) ? Value() : c.index(start), by = delta.is(1) ? Value() : c.index(delta);
  c.give(c.mapIndexed({}, *c.result().shape, type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
    Value position = by ? arith::MulIOp::create(b, loc, at[0], by).getResult() : at[0];
    position = from ? arith::AddIOp::create(b, loc, position, from).getResult() : position;
    return arith::IndexCastOp::create(b, loc, storage, position).getResult();
  }));
  return success();
}

/// Shapes are host values. One becomes a tensor only where elements of an input are in it and a kernel may need it; the
/// tensor is dropped again where none does.
static LogicalResult buildFromContent(BuildContext &c) {
  const ValueInfo &info = c.result();
  if (!info.content) {
    return c.fail("its result must be known on the host");
  }
  Type element = storageType(info.elementType);
  SmallVector<Value> elements;
  for (const SymbolicDim &dim : *info.content) {
    elements.push_back(arith::IndexCastOp::create(c.b, c.loc, element, c.index(dim)));
  }
  auto type = tensorType(*info.shape, element);
  c.give(c.wrap(tensor::FromElementsOp::create(c.b, c.loc, type, elements), *info.shape, info.elementType));
  return success();
}

/// A branch that is not decided has been reported before anything is built.
static LogicalResult buildUndecided(BuildContext &c) { return c.fail("its condition must follow from constants"); }

void kimi::onnx::registerShapeOps(OpTable &table) {
  table.add("Shape", 1, inferShape, buildFromContent);
  table.add("Size", 1, inferSize, buildFromContent);
  table.add("ConstantOfShape", 9, inferConstantOfShape, buildConstantOfShape);
  table.add("Range", 11, inferRange, buildRange, "floating-point bounds must be constant");
  table.add("Cast", 6, inferCast, buildCast, "no strings, no float6; float to integer saturates");
  table.add("CastLike", 15, inferCastLike, buildCast);
  table.add("Identity", 1, inferIdentity, buildIdentity);
  table.add("Dropout", 7, inferDropout, buildIdentity, "inference only");
  table.add("EyeLike", 9, inferEyeLike, buildEyeLike);
  table.add("If", 1, nullptr, buildUndecided, "the condition must follow from constants");
}
