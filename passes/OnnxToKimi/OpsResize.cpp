//===- OpsResize.cpp - Resize, Upsample
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Interpolation.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
/// Where a node has its scales, sizes and region, and what its attributes are by default.
struct Version {
  int roi = -1, scales = -1, sizes = -1;
  StringRef coordinates = "half_pixel", nearest = "round_prefer_floor";
};
/// One resized axis.
struct Resized {
  int64_t axis = 0;
  AxisResize how;
};
} // namespace

static bool isGiven(InferContext &c, int index) {
  return index >= 0 && c.has(index) && !elementCount(c.shape(index)).is(0);
}

/// The floating-point constants of input `index`.
static FailureOr<SmallVector<double>> reals(InferContext &c, int index, StringRef what) {
  SmallVector<double> values;
  DenseElementsAttr elements = c.shapes.constant(c.node.getInput(index));
  if (!elements || !isa<FloatType>(elements.getElementType())) {
    return c.fail(what + " must be constant");
  }
  for (const APFloat &value : elements.getValues<APFloat>()) {
    APFloat wide = value;
    bool lost = false;
    wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    values.push_back(wide.convertToDouble());
  }
  return values;
}

/// Extents and scales of the axes that `axes` names, from scales or sizes.
static LogicalResult readScales(InferContext &c, const Version &version, ArrayRef<int64_t> axes,
                                SmallVectorImpl<Resized> &resized, Shape &shape) {
  std::optional<SmallVector<double>> scales;
  std::optional<SmallVector<int64_t>> sizes;
  if (isGiven(c, version.sizes)) {
    FailureOr<SmallVector<int64_t>> given = c.constants(version.sizes, "sizes");
    if (failed(given)) {
      return failure();
    }
    sizes = *given;
  } else if (auto attr = dyn_cast_or_null<DenseF32ArrayAttr>(c.node.getOnnxAttr("scales"))) {
    scales.emplace(attr.asArrayRef().begin(), attr.asArrayRef().end());
  } else if (isGiven(c, version.scales)) {
    FailureOr<SmallVector<double>> given = reals(c, version.scales, "scales");
    if (failed(given)) {
      return failure();
    }
    scales = *given;
  }
  size_t count = sizes ? sizes->size() : scales ? scales->size() : 0;
  if (count != axes.size()) {
    return c.fail("it must have one scale or one size for each axis that is resized");
  }
  StringRef policy = c.node.getString("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    return c.fail("keep_aspect_ratio_policy = '" + policy + "' is not known");
  }
  std::optional<double> common;
  for (size_t i = 0; i < axes.size(); ++i) {
    std::optional<int64_t> in = shape[axes[i]].getConstant();
    if (!in) {
      if (scales && (*scales)[i] == 1.0) {
        continue; // stays as it is
      }
      return c.fail("axis " + Twine(axes[i]) + " must have a known extent to be resized");
    }
    Resized one;
    one.axis = axes[i];
    one.how.in = *in;
    one.how.scale = scales ? (*scales)[i] : static_cast<double>((*sizes)[i]) / static_cast<double>(*in);
    double extent = scales ? std::floor(static_cast<double>(*in) * one.how.scale) : static_cast<double>((*sizes)[i]);
    if (*in < 1 || !(one.how.scale > 0) || !(extent >= 0 && extent < 2147483648.0)) {
      return c.fail("a scale is not positive, or an extent is 0 or too large");
    }
    one.how.out = static_cast<int64_t>(extent);
    common = !common                  ? one.how.scale
             : policy == "not_larger" ? std::min(*common, one.how.scale)
                                      : std::max(*common, one.how.scale);
    resized.push_back(one);
  }
  for (Resized &one : resized) {
    if (sizes && policy != "stretch") {
      one.how.scale = *common;
      one.how.out = static_cast<int64_t>(std::floor(static_cast<double>(one.how.in) * *common + 0.5));
    }
    shape[one.axis] = one.how.out;
  }
  return success();
}

/// The axes that change, each with how; the extents of the result in `shape`.
static FailureOr<SmallVector<Resized>> resizedAxes(InferContext &c, const Version &version, Shape &shape) {
  int64_t rank = c.in(0).rank();
  SmallVector<int64_t> axes;
  if (std::optional<SmallVector<int64_t>> given = c.node.getInts("axes")) {
    for (int64_t axis : *given) {
      FailureOr<int64_t> counted = c.axis(axis, rank);
      if (failed(counted)) {
        return failure();
      }
      axes.push_back(*counted);
    }
  } else {
    axes = llvm::to_vector(llvm::seq<int64_t>(rank));
  }
  shape = c.shape(0);
  SmallVector<Resized> resized;
  if (failed(readScales(c, version, axes, resized, shape))) {
    return failure();
  }
  SmallVector<double> roi;
  StringRef coordinates = c.node.getString("coordinate_transformation_mode", version.coordinates);
  if (coordinates == "tf_crop_and_resize") {
    if (!isGiven(c, version.roi)) {
      return c.fail("tf_crop_and_resize needs a region of interest");
    }
    FailureOr<SmallVector<double>> given = reals(c, version.roi, "the region of interest");
    if (failed(given)) {
      return failure();
    }
    if (given->size() != 2 * axes.size()) {
      return c.fail("its region of interest must have two ends for each axis");
    }
    roi = *given;
  }
  for (Resized &one : resized) {
    AxisResize &how = one.how;
    how.mode = c.node.getString("mode", "nearest");
    how.coordinates = coordinates;
    how.nearest = c.node.getString("nearest_mode", version.nearest);
    how.cubicA = c.node.getFloat("cubic_coeff_a", -0.75);
    how.antialias = c.node.getInt("antialias", 0) != 0;
    how.excludeOutside = c.node.getInt("exclude_outside", 0) != 0;
    if (!roi.empty()) {
      size_t at = llvm::find(axes, one.axis) - axes.begin();
      how.roiStart = roi[at];
      how.roiEnd = roi[at + axes.size()];
    }
  }
  llvm::erase_if(resized, [](const Resized &one) { return one.how.isIdentity(); });
  return resized;
}

static InferFn inferResize(Version version) {
  return [version](InferContext &c) -> LogicalResult {
    Shape shape;
    FailureOr<SmallVector<Resized>> resized = resizedAxes(c, version, shape);
    if (failed(resized)) {
      return failure();
    }
    for (const Resized &one : *resized) {
      if (one.how.tapCount() > kMostTaps) {
        return c.fail("axis " + Twine(one.axis) +
                      " of the result, or the part that each element of it sees, is too large");
      }
      AxisResize probe = one.how;
      probe.out = std::min<int64_t>(probe.out, 1);
      if (!interpolate(probe)) {
        return c.fail("its mode, coordinate_transformation_mode or nearest_mode is not known");
      }
    }
    if (c.node.getString("mode", "nearest") != "nearest" && !isa<FloatType>(c.in(0).elementType)) {
      return c.fail("only floating-point elements are interpolated");
    }
    c.setOut(ValueInfo(c.in(0).elementType, shape));
    return success();
  };
}

/// `values` as a constant tensor of these extents.
template <typename T>
static Value tableOf(BuildContext &c, ArrayRef<int64_t> extents, Type type, ArrayRef<T> values) {
  return arith::ConstantOp::create(c.b, c.loc, DenseElementsAttr::get(RankedTensorType::get(extents, type), values));
}

/// Resizes one axis: sums of what the taps name, computed in fp32 at least.
static Tensor resizeAxis(BuildContext &c, const Tensor &x, const Resized &one, double extrapolation) {
  Taps taps = *interpolate(one.how);
  Shape shape = x.shape;
  shape[one.axis] = one.how.out;
  if (one.how.out == 0) {
    return c.wrap(c.empty(shape, x.type), shape, x.type);
  }
  Type index = c.b.getIndexType(), single = c.b.getF32Type(), wide = accumulatorType(x.type);
  Value source = c.value(x);
  Value positions = tableOf<int32_t>(c, {one.how.out, taps.count}, c.b.getI32Type(), ArrayRef<int32_t>(taps.positions));
  auto element = [&](OpBuilder &b, Location loc, ArrayRef<Value> at, Value tap) {
    SmallVector<Value> from(at.take_front(shape.size()));
    Value position = c.read(b, loc, positions, {at[one.axis], tap});
    from[one.axis] = arith::IndexCastOp::create(b, loc, index, position);
    return c.read(b, loc, source, from);
  };
  Tensor result;
  if (one.how.mode == "nearest") {
    result = c.mapIndexed({}, shape, x.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
      return element(b, loc, at, arith::ConstantIndexOp::create(b, loc, 0));
    });
  } else {
    Value weights = tableOf<float>(c, {one.how.out, taps.count}, single, ArrayRef<float>(taps.weights));
    Shape loops = shape;
    loops.push_back(taps.count);
    result = c.reduceIndexed(
        {}, loops, {static_cast<int64_t>(shape.size())}, wide, c.constant(wide, 0.0),
        [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) -> Value {
          Value value = widenElement(b, loc, element(b, loc, at, at.back()));
          Value weight = castElement(b, loc, c.read(b, loc, weights, {at[one.axis], at.back()}), single, wide);
          return arith::MulFOp::create(b, loc, value, weight);
        },
        [](OpBuilder &b, Location loc, Value total, Value term) -> Value {
          return arith::AddFOp::create(b, loc, total, term);
        });
    result = c.cast(result, x.type);
  }
  if (!llvm::is_contained(taps.outside, true)) {
    return result;
  }
  Value outside = tableOf<bool>(c, {one.how.out}, c.b.getI1Type(), ArrayRef<bool>(taps.outside));
  return c.mapIndexed({result}, shape, x.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
    Value beyond = c.read(b, loc, outside, {at[one.axis]});
    Value value = scalarConstant(b, loc, storageType(x.type), extrapolation);
    return arith::SelectOp::create(b, loc, beyond, value, e[0]).getResult();
  });
}

static BuildFn buildResize(Version version) {
  return [version](BuildContext &c) -> LogicalResult {
    Shape shape;
    FailureOr<SmallVector<Resized>> resized = resizedAxes(c, version, shape);
    if (failed(resized)) {
      return failure();
    }
    Tensor x = c.input(0);
    for (const Resized &one : *resized) {
      x = resizeAxis(c, x, one, c.node.getFloat("extrapolation_value", 0.0));
    }
    c.give(x);
    return success();
  };
}

void kimi::onnx::registerResizeOps(OpTable &table) {
  const char *note = "resized axes have known extents, scales and sizes are constant";
  auto add = [&](const char *name, int64_t since, const Version &version) {
    table.add(name, since, inferResize(version), buildResize(version), note);
  };
  add("Resize", 10, {-1, 1, -1, "asymmetric", "floor"});
  add("Resize", 11, {1, 2, 3});
  add("Upsample", 7, {-1, -1, -1, "asymmetric", "floor"});
  add("Upsample", 9, {-1, 1, -1, "asymmetric", "floor"});
}
