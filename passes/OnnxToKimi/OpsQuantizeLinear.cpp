//===- OpsQuantizeLinear.cpp - QuantizeLinear, DynamicQuantizeLinear, products of quantized matrices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/OnnxToKimi/Quantization.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// Scales and zero points
//===----------------------------------------------------------------------===//

bool kimi::onnx::isQuantized(Type type) {
  auto integer = dyn_cast_or_null<IntegerType>(type);
  if (isNarrow(type)) {
    return integer || (isNarrowFloat(type) && !isa<Float8E8M0FNUType>(type));
  }
  return integer &&
         (integer.getWidth() == 8 || integer.getWidth() == 16 || (integer.getWidth() == 32 && !integer.isUnsigned()));
}

/// How the scale of a (de)quantizing node lies over x: one number, one for each position of an axis, or one for each
/// block along it.
static FailureOr<int64_t> scaleAxis(InferContext &c) {
  const Shape &x = c.shape(0), &scale = c.shape(1);
  if (scale.empty() || (scale.size() == 1 && scale[0].is(1))) {
    return -1;
  }
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 1), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  if (scale.size() == 1) {
    if (failed(c.same(scale[0], x[*axis], "the extents of its scale and of x along axis " + Twine(*axis)))) {
      return failure();
    }
    return *axis;
  }
  if (scale.size() != x.size()) {
    return c.fail("its scale must be one number, a vector, or of the rank of x");
  }
  int64_t block = c.node.getInt("block_size", 0);
  if (block <= 0) {
    return c.fail("a scale of the rank of x needs block_size");
  }
  Shape blocks(x);
  blocks[*axis] = SymbolicDim::ceilDiv(x[*axis], block);
  if (failed(c.same(scale, blocks, "the extents of its scale and of the blocks of x"))) {
    return failure();
  }
  return *axis;
}

LogicalResult kimi::onnx::checkScale(InferContext &c) {
  if (!c.has(0) || !c.has(1)) {
    return c.fail("x and its scale are required");
  }
  auto floating = dyn_cast_or_null<FloatType>(c.in(1).elementType);
  if (!floating || floating.getWidth() < 16) {
    return c.fail("its scale must be of floating point, of 16 bits or more");
  }
  if (c.has(2)) {
    bool single = elementCount(c.shape(1)).is(1) && elementCount(c.shape(2)).is(1);
    if (!single && failed(c.same(c.shape(2), c.shape(1), "the extents of its zero point and of its scale"))) {
      return failure();
    }
  }
  return success(succeeded(scaleAxis(c)));
}

Tensor kimi::onnx::spreadScale(BuildContext &c, const Tensor &scale) {
  const Shape &x = c.shape(0);
  int64_t axis = *scaleAxis(c);
  if (axis < 0 || elementCount(scale.shape).is(1)) {
    return c.reshape(scale, {});
  }
  if (scale.rank() == 1) {
    Shape along(x.size(), SymbolicDim(1));
    along[axis] = scale.shape[0];
    return c.reshape(scale, along);
  }
  Value blocks = c.value(scale), block = c.index(c.node.getInt("block_size", 0));
  Value last = c.index(scale.shape[axis] - SymbolicDim(1));
  return c.mapIndexed({}, x, scale.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
    SmallVector<Value> from(at);
    from[axis] = arith::MinSIOp::create(b, loc, arith::DivUIOp::create(b, loc, at[axis], block), last);
    return c.read(b, loc, blocks, from);
  });
}

/// round(x) + zero as an element of `to`, at its ends where it does not fit; x and zero are floats. NaN gives 0.
static Value saturate(OpBuilder &b, Location loc, Value x, Value zero, Type to) {
  Value whole = math::RoundEvenOp::create(b, loc, x);
  Value moved = zero ? arith::AddFOp::create(b, loc, whole, zero).getResult() : whole;
  if (isNarrow(to)) { // A conversion to few bits drops the others.
    int64_t half = int64_t(1) << (to.getIntOrFloatBitWidth() - 1);
    double least = to.isUnsignedInteger() ? 0 : -half, most = to.isUnsignedInteger() ? 2 * half - 1 : half - 1;
    moved = arith::MaximumFOp::create(b, loc, moved, scalarConstant(b, loc, moved.getType(), least));
    moved = arith::MinimumFOp::create(b, loc, moved, scalarConstant(b, loc, moved.getType(), most));
  }
  return castElement(b, loc, moved, moved.getType(), to);
}

//===----------------------------------------------------------------------===//
// QuantizeLinear, DynamicQuantizeLinear
//===----------------------------------------------------------------------===//

static LogicalResult inferQuantize(InferContext &c) {
  if (failed(checkScale(c))) {
    return failure();
  }
  int64_t code = c.node.getInt("output_dtype", 0);
  Type byte = IntegerType::get(c.node.getContext(), 8, IntegerType::Unsigned);
  Type type = c.has(2) ? c.in(2).elementType : code ? elementTypeOfCode(c.node.getContext(), code) : byte;
  if (!isQuantized(type) || type.isInteger(32)) {
    return c.fail("its result must be of integers of 16 bits or fewer, of 8-bit floating point or float4e2m1");
  }
  if (!isa_and_nonnull<FloatType>(c.in(0).elementType) && !c.in(0).elementType.isInteger(32)) {
    return c.fail("x must be of floating point or int32");
  }
  c.setOut(ValueInfo(type, c.shape(0)));
  return success();
}

/// saturate(round(x / scale) + zero)
static LogicalResult buildQuantize(BuildContext &c) {
  Tensor x = c.input(0), scale = spreadScale(c, c.input(1));
  SmallVector<Tensor> inputs = {x, scale};
  if (c.has(2)) {
    inputs.push_back(spreadScale(c, c.input(2)));
  }
  Type single = c.b.getF32Type(), type = c.result().elementType;
  c.give(c.map(inputs, x.shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value value = castElement(b, loc, e[0], x.type, single), step = castElement(b, loc, e[1], scale.type, single);
    Value zero = e.size() > 2 ? castElement(b, loc, e[2], inputs[2].type, single) : Value();
    Value steps = arith::DivFOp::create(b, loc, value, step);
    if (isa<FloatType>(type)) { // The conversion rounds; a zero point is 0.
      steps = zero ? arith::AddFOp::create(b, loc, steps, zero).getResult() : steps;
      return castElement(b, loc, steps, single, type, CastRules{c.node.getInt("saturate", 1) != 0, CastRules::Up});
    }
    return saturate(b, loc, steps, zero, type);
  }));
  return success();
}

static LogicalResult inferDynamic(InferContext &c) {
  if (!c.in(0).elementType || !c.in(0).elementType.isF32()) {
    return c.fail("x must be of type float32");
  }
  Type byte = IntegerType::get(c.node.getContext(), 8, IntegerType::Unsigned);
  c.setOut(0, ValueInfo(byte, c.shape(0)));
  c.setOut(1, ValueInfo(c.in(0).elementType, {}));
  c.setOut(2, ValueInfo(byte, {}));
  return success();
}

/// scale = (max(x, 0) - min(x, 0)) / 255, or 1 where all of x is 0; zero = saturate(round(-min / scale)).
static LogicalResult buildDynamic(BuildContext &c) {
  Tensor x = c.input(0);
  Type single = c.b.getF32Type(), byte = c.result(0).elementType;
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    axes.push_back(axis);
  }
  auto extreme = [&](bool most) {
    return c.reduce(
        {x}, x.shape, axes, single, c.constant(single, 0.0), [](OpBuilder &, Location, ValueRange e) { return e[0]; },
        [&](OpBuilder &b, Location loc, Value so, Value element) -> Value {
          return most ? arith::MaximumFOp::create(b, loc, so, element).getResult()
                      : arith::MinimumFOp::create(b, loc, so, element).getResult();
        });
  };
  Tensor least = extreme(false), most = extreme(true);
  Tensor scale = c.map({least, most}, {}, single, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
    Value range = arith::SubFOp::create(b, loc, e[1], e[0]);
    Value step = arith::DivFOp::create(b, loc, range, scalarConstant(b, loc, single, 255.0));
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, range, scalarConstant(b, loc, single, 0.0));
    return arith::SelectOp::create(b, loc, none, scalarConstant(b, loc, single, 1.0), step);
  });
  Tensor zero = c.map({least, scale}, {}, byte, [&](OpBuilder &b, Location loc, ValueRange e) {
    Value shift = arith::DivFOp::create(b, loc, arith::NegFOp::create(b, loc, e[0]), e[1]);
    return saturate(b, loc, shift, Value(), byte);
  });
  c.give(0, c.map({x, scale, zero}, x.shape, byte, [&](OpBuilder &b, Location loc, ValueRange e) {
    return saturate(b, loc, arith::DivFOp::create(b, loc, e[0], e[1]), castElement(b, loc, e[2], byte, single), byte);
  }));
  c.give(1, scale);
  c.give(2, zero);
  return success();
}

//===----------------------------------------------------------------------===//
// MatMulInteger, QLinearMatMul
//===----------------------------------------------------------------------===//

/// Where a zero point or scale of a matrix is: one number, or one for each row (of the left) or column (of the right).
static FailureOr<Shape> besideMatrix(InferContext &c, unsigned index, const Shape &matrix, bool left) {
  const Shape &shape = c.shape(index);
  if (shape.empty() || (shape.size() == 1 && shape[0].is(1))) {
    return Shape();
  }
  if (shape.size() == 1 && matrix.size() >= 2) {
    return left ? Shape({shape[0], 1}) : Shape({1, shape[0]});
  }
  if (shape.size() == matrix.size()) {
    return shape;
  }
  return c.fail("a scale or zero point is neither one number nor a vector nor of the rank of its matrix");
}

namespace {
/// The inputs of a product of quantized matrices.
struct Operands {
  unsigned a, aScale, aZero, b, bScale, bZero; // 0 where there is none, apart from a
};
} // namespace

static LogicalResult inferProduct(InferContext &c, const Operands &at, Type type) {
  auto isByte = [](Type type) { return type && type.isIntOrIndex() && type.getIntOrFloatBitWidth() == 8; };
  if (!isByte(c.in(at.a).elementType) || !isByte(c.in(at.b).elementType)) {
    return c.fail("only matrices of 8-bit integers are multiplied");
  }
  std::optional<Shape> shape = matrixProductShape(c, c.shape(at.a), c.shape(at.b));
  if (!shape) {
    return failure();
  }
  for (auto [index, left] : {std::pair(at.aScale, true), {at.aZero, true}, {at.bScale, false}, {at.bZero, false}}) {
    if (index && c.has(index) && failed(besideMatrix(c, index, c.shape(left ? at.a : at.b), left))) {
      return failure();
    }
  }
  c.setOut(ValueInfo(type, *shape));
  return success();
}

/// (a - aZero) . (b - bZero) in 32 bits.
static Tensor buildProduct(BuildContext &c, const Operands &at) {
  Type word = c.b.getI32Type();
  auto centred = [&](unsigned index, unsigned zero, bool left) {
    Tensor matrix = c.input(index);
    SmallVector<Tensor> inputs = {matrix};
    if (zero && c.has(zero)) {
      inputs.push_back(c.reshape(c.input(zero), *besideMatrix(c, zero, matrix.shape, left)));
    }
    return c.map(inputs, matrix.shape, word, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
      Value wide = castElement(b, loc, e[0], matrix.type, word);
      return e.size() < 2 ? wide : arith::SubIOp::create(b, loc, wide, castElement(b, loc, e[1], inputs[1].type, word));
    });
  };
  return matrixProduct(c, centred(at.a, at.aZero, true), centred(at.b, at.bZero, false), word);
}

static constexpr Operands kMatMulInteger = {0, 0, 2, 1, 0, 3}, kQLinearMatMul = {0, 1, 2, 3, 4, 5};

static LogicalResult inferQLinearMatMul(InferContext &c) {
  for (unsigned i = 0; i < 8; ++i) {
    if (!c.has(i)) {
      return c.fail("it needs eight inputs");
    }
  }
  if (!elementCount(c.shape(6)).is(1) || !elementCount(c.shape(7)).is(1)) {
    return c.fail("its result must have one scale and one zero point");
  }
  Type type = c.in(7).elementType;
  if (!isQuantized(type) || type.getIntOrFloatBitWidth() != 8) {
    return c.fail("its result must be of 8-bit integers");
  }
  return inferProduct(c, kQLinearMatMul, type);
}

/// saturate(round(product * aScale * bScale / yScale) + yZero)
static LogicalResult buildQLinearMatMul(BuildContext &c) {
  Tensor product = buildProduct(c, kQLinearMatMul);
  auto beside = [&](unsigned index, unsigned matrix, bool left) {
    return c.reshape(c.input(index), *besideMatrix(c, index, c.shape(matrix), left));
  };
  SmallVector<Tensor> inputs = {product, beside(1, 0, true), beside(4, 3, false), c.reshape(c.input(6), {}),
                                c.reshape(c.input(7), {})};
  Type single = c.b.getF32Type(), type = c.result().elementType;
  c.give(c.map(inputs, *c.result().shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
    SmallVector<Value> x;
    for (auto [element, input] : llvm::zip(e, inputs)) {
      x.push_back(castElement(b, loc, element, input.type, single));
    }
    Value factor = arith::DivFOp::create(b, loc, arith::MulFOp::create(b, loc, x[1], x[2]), x[3]);
    return saturate(b, loc, arith::MulFOp::create(b, loc, x[0], factor), x[4], type);
  }));
  return success();
}

void kimi::onnx::registerQuantizeLinearOps(OpTable &table) {
  table.add("QuantizeLinear", 10, inferQuantize, buildQuantize, "no float8e8m0");
  table.add("DynamicQuantizeLinear", 11, inferDynamic, buildDynamic);
  table.add(
      "MatMulInteger", 10,
      [](InferContext &c) { return inferProduct(c, kMatMulInteger, IntegerType::get(c.node.getContext(), 32)); },
      [](BuildContext &c) {
        c.give(c.reshape(buildProduct(c, kMatMulInteger), *c.result().shape));
        return success();
      });
  table.add("QLinearMatMul", 10, inferQLinearMatMul, buildQLinearMatMul, "8-bit integers");
}
