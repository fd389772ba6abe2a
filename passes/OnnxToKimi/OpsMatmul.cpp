//===- OpsMatmul.cpp - matrix products
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/OnnxToKimi/Quantization.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

std::optional<Shape> kimi::onnx::matrixProductShape(InferContext &c, ArrayRef<SymbolicDim> a, ArrayRef<SymbolicDim> b) {
  if (a.empty() || b.empty()) {
    (void)c.fail("an input is a scalar");
    return std::nullopt;
  }
  SymbolicDim inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (failed(c.same(a.back(), inner, "the inner extents"))) {
    return std::nullopt;
  }
  ArrayRef<SymbolicDim> outerA = a.drop_back(std::min<size_t>(a.size(), 2));
  ArrayRef<SymbolicDim> outerB = b.drop_back(std::min<size_t>(b.size(), 2));
  c.broadcasts(outerA, outerB);
  Shape shape = broadcastShapes(outerA, outerB);
  if (a.size() > 1) {
    shape.push_back(a[a.size() - 2]);
  }
  if (b.size() > 1) {
    shape.push_back(b.back());
  }
  return shape;
}

static LogicalResult inferMatMul(InferContext &c) {
  std::optional<Shape> shape = matrixProductShape(c, c.shape(0), c.shape(1));
  if (!shape) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, std::move(*shape)));
  return success();
}

static LogicalResult inferGemm(InferContext &c) {
  ArrayRef<SymbolicDim> a = c.shape(0), b = c.shape(1);
  if (a.size() != 2 || b.size() != 2) {
    return c.fail("its inputs must be matrices");
  }
  SymbolicDim m = a[c.node.getInt("transA", 0) ? 1 : 0], n = b[c.node.getInt("transB", 0) ? 0 : 1];
  SymbolicDim ka = a[c.node.getInt("transA", 0) ? 0 : 1], kb = b[c.node.getInt("transB", 0) ? 1 : 0];
  if (failed(c.same(ka, kb, "the inner extents"))) {
    return failure();
  }
  if (c.has(2)) {
    c.broadcasts(c.shape(2), {m, n});
  }
  c.setOut(ValueInfo(c.in(0).elementType, {m, n}));
  return success();
}

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

/// The product of two elements in the type that sums are taken in.
static Value multiply(OpBuilder &b, Location loc, Value x, Value y) {
  Value left = widenElement(b, loc, x), right = widenElement(b, loc, y);
  return isa<FloatType>(left.getType()) ? arith::MulFOp::create(b, loc, left, right).getResult()
                                        : arith::MulIOp::create(b, loc, left, right).getResult();
}

static Value accumulate(OpBuilder &b, Location loc, Value total, Value term) {
  return isa<FloatType>(total.getType()) ? arith::AddFOp::create(b, loc, total, term).getResult()
                                         : arith::AddIOp::create(b, loc, total, term).getResult();
}

/// The weight behind a matrix that is a weight or the transpose of one; null where it is computed.
static Value weightBehind(Value matrix, bool &transposed) {
  if (auto transpose = matrix.getDefiningOp<linalg::TransposeOp>()) {
    Value weight = weightBehind(transpose.getInput(), transposed);
    transposed = !transposed;
    return weight;
  }
  bool constant = matrix.getDefiningOp<WeightRefOp>() || matrix.getDefiningOp<arith::ConstantOp>();
  return constant ? matrix : Value();
}

/// x . w for a weight matrix w, as kimi.linear; nothing where w is not one.
static std::optional<Tensor> linear(BuildContext &c, const Tensor &x, const Tensor &w, bool transposed, Value bias,
                                    Shape shape) {
  if (!x.isFloat() || x.rank() < 1 || w.rank() != 2) {
    return std::nullopt;
  }
  Value weight = weightBehind(c.value(w), transposed);
  if (!weight) {
    return std::nullopt;
  }
  auto type = tensorType(shape, storageType(x.type));
  Value result = LinearOp::create(c.b, c.loc, type, c.value(x), weight, bias, transposed);
  return c.wrap(result, std::move(shape), x.type);
}

/// x [B, H, T, K] . w [H, K, N] for a weight w, as kimi.head_linear; nothing where w is not one, or one that does not
/// run along its last axis in memory.
static std::optional<Tensor> headLinear(BuildContext &c, const Tensor &x, const Tensor &w, Shape shape) {
  bool known = x.type.isF32() || x.type.isF16() || x.type.isBF16();
  if (!known || x.type != w.type || x.rank() != 4 || w.rank() != 3 || x.shape[1] != w.shape[0] ||
      x.shape[3] != w.shape[1] || !llvm::all_of(w.shape, [](const SymbolicDim &dim) { return dim.isConstant(); })) {
    return std::nullopt;
  }
  Value matrices = c.value(w), source = matrices;
  while (auto transpose = source.getDefiningOp<linalg::TransposeOp>()) {
    if (transpose.getPermutation().back() != 2) {
      return std::nullopt;
    }
    source = transpose.getInput();
  }
  if (!source.getDefiningOp<WeightRefOp>() && !source.getDefiningOp<arith::ConstantOp>()) {
    return std::nullopt;
  }
  Value result = HeadLinearOp::create(c.b, c.loc, tensorType(shape, storageType(x.type)), c.value(x), matrices);
  return c.wrap(result, std::move(shape), x.type);
}

static LogicalResult buildMatMul(BuildContext &c) {
  Tensor a = c.input(0), b = c.input(1);
  if (std::optional<Tensor> product = headLinear(c, a, b, *c.result().shape)) {
    c.give(*product);
    return success();
  }
  if (b.rank() == 2 && a.rank() >= 2) {
    if (std::optional<Tensor> product = linear(c, a, b, false, Value(), *c.result().shape)) {
      c.give(*product);
      return success();
    }
  }
  c.give(matrixProduct(c, a, b, c.result().elementType));
  return success();
}

Tensor kimi::onnx::matrixProduct(BuildContext &c, Tensor a, Tensor b, Type type) {
  // Vectors are matrices of one row or column. The loops are [batch..., m, n, k].
  if (a.rank() == 1) {
    a = c.reshape(a, {1, a.shape[0]});
  }
  if (b.rank() == 1) {
    b = c.reshape(b, {b.shape[0], 1});
  }
  Shape loops =
      broadcastShapes(ArrayRef<SymbolicDim>(a.shape).drop_back(2), ArrayRef<SymbolicDim>(b.shape).drop_back(2));
  int64_t batch = static_cast<int64_t>(loops.size());
  SymbolicDim inner = a.shape.back().isConstant() ? a.shape.back() : b.shape[b.rank() - 2];
  Value left = c.value(a), right = c.value(b);
  loops.append({a.shape[a.rank() - 2], b.shape.back(), inner});
  auto mapOf = [&](const Tensor &tensor, int64_t row, int64_t column) {
    SmallVector<AffineExpr> exprs;
    int64_t offset = batch - (tensor.rank() - 2);
    for (int64_t axis = 0; axis < tensor.rank() - 2; ++axis) {
      bool repeats = tensor.shape[axis].is(1) && !loops[axis + offset].is(1);
      exprs.push_back(repeats ? c.b.getAffineConstantExpr(0) : c.b.getAffineDimExpr(axis + offset));
    }
    exprs.push_back(c.b.getAffineDimExpr(row));
    exprs.push_back(c.b.getAffineDimExpr(column));
    return AffineMap::get(loops.size(), 0, exprs, c.b.getContext());
  };
  // Batch extents of which neither is known to be 1 or equal: bring both to the result's extents first.
  auto spread = [&](Tensor &tensor, Value &value) {
    Shape wanted(ArrayRef<SymbolicDim>(loops).take_front(batch));
    wanted.append(tensor.shape.end() - 2, tensor.shape.end());
    int64_t offset = batch - (tensor.rank() - 2);
    for (int64_t axis = 0; axis < tensor.rank() - 2; ++axis) {
      const SymbolicDim &dim = tensor.shape[axis];
      if (!dim.isConstant() && dim != loops[axis + offset]) {
        tensor = c.expand(tensor, wanted);
        value = c.value(tensor);
        return;
      }
    }
  };
  spread(a, left);
  spread(b, right);
  Type sum = accumulatorType(type);
  Shape shape(ArrayRef<SymbolicDim>(loops).drop_back());
  SmallVector<AffineMap> maps = {mapOf(a, batch, batch + 2), mapOf(b, batch + 2, batch + 1),
                                 c.b.getMultiDimIdentityMap(loops.size()).dropResult(loops.size() - 1)};
  SmallVector<utils::IteratorType> iterators(loops.size(), utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  Value zero = linalg::FillOp::create(c.b, c.loc, c.constant(storageType(sum), 0), c.empty(shape, sum)).getResult(0);
  auto generic = linalg::GenericOp::create(
      c.b, c.loc, TypeRange(zero.getType()), ValueRange{left, right}, ValueRange(zero), maps, iterators,
      [](OpBuilder &inner, Location loc, ValueRange e) {
        linalg::YieldOp::create(inner, loc, accumulate(inner, loc, e[2], multiply(inner, loc, e[0], e[1])));
      });
  return c.reshape(c.cast(c.wrap(generic.getResult(0), shape, sum), type), *c.result().shape);
}

/// alpha * a' . b' + beta * c
static LogicalResult buildGemm(BuildContext &c) {
  Tensor a = c.input(0), w = c.input(1);
  double alpha = c.node.getFloat("alpha", 1.0), beta = c.node.getFloat("beta", 1.0);
  bool transposed = c.node.getInt("transB", 0) != 0;
  if (c.node.getInt("transA", 0) != 0) {
    a = c.transpose(a, {1, 0});
  }
  const Shape &shape = *c.result().shape;
  Type type = c.result().elementType;
  std::optional<Tensor> addend;
  if (c.has(2) && beta != 0.0) {
    addend = c.input(2);
  }
  bool vector = addend && addend->rank() == 1 && addend->shape[0] == shape[1] && beta == 1.0 && alpha == 1.0;
  Value bias = vector && a.isFloat() ? c.value(*addend) : Value();
  std::optional<Tensor> product = linear(c, a, w, transposed, bias, shape);
  if (product && bias) {
    c.give(*product);
    return success();
  }
  Type sum = accumulatorType(type);
  if (!product) {
    Tensor right = transposed ? c.transpose(w, {1, 0}) : w;
    // [m, n, k] as one reduction.
    Shape loops = {shape[0], shape[1], a.shape[1]};
    Tensor rows = c.reshape(a, {a.shape[0], 1, a.shape[1]});
    Tensor columns = c.reshape(c.transpose(right, {1, 0}), {1, shape[1], right.shape[0]});
    product = c.reduce(
        {rows, columns}, loops, {2}, sum, c.constant(storageType(sum), 0),
        [](OpBuilder &b, Location loc, ValueRange e) { return multiply(b, loc, e[0], e[1]); }, accumulate);
  }
  if (!addend && alpha == 1.0) {
    c.give(c.cast(*product, type));
    return success();
  }
  SmallVector<Tensor> inputs = {*product};
  if (addend) {
    inputs.push_back(*addend);
  }
  c.give(c.map(inputs, shape, type, [&](OpBuilder &b, Location loc, ValueRange e) {
    auto scaled = [&](Value value, double by) {
      Value wide = widenElement(b, loc, value);
      return by == 1.0 ? wide : multiply(b, loc, wide, scalarConstant(b, loc, wide.getType(), by));
    };
    Value result = scaled(e[0], alpha);
    if (addend) {
      result = accumulate(b, loc, result, scaled(e[1], beta));
    }
    return isa<FloatType>(type) ? castElement(b, loc, result, result.getType(), type) : result;
  }));
  return success();
}

void kimi::onnx::registerMatmulOps(OpTable &table) {
  table.add("MatMul", 1, inferMatMul, buildMatMul);
  table.add("Gemm", 7, inferGemm, buildGemm);
}
