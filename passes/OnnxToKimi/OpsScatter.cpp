//===- OpsScatter.cpp - writing at indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// One nest of loops over all axes of `buffer`.
static void forEachElement(OpBuilder &b, Location loc, Value buffer,
                           function_ref<void(OpBuilder &, Location, ValueRange)> body) {
  int64_t rank = cast<MemRefType>(buffer.getType()).getRank();
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  SmallVector<Value> lower(rank, zero), upper, steps(rank, one);
  for (int64_t axis = 0; axis < rank; ++axis) {
    upper.push_back(memref::DimOp::create(b, loc, buffer, axis));
  }
  if (rank == 0) {
    body(b, loc, {});
    return;
  }
  scf::buildLoopNest(b, loc, lower, upper, steps, body);
}

static LogicalResult checkReduction(InferContext &c) {
  StringRef kind = c.node.getString("reduction", "none");
  if (kind != "none" && kind != "add" && kind != "mul" && kind != "max" && kind != "min") {
    return c.fail("reduction '" + kind + "' is not known; accepted are none, add, mul, max and min");
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

/// The element that replaces `before` when `update` is written over it.
static Value combineUpdate(OpBuilder &b, Location loc, StringRef kind, Type type, Value before, Value update) {
  bool isFloat = isa<FloatType>(type), isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  if (kind == "none") {
    return update;
  }
  if (kind == "add") {
    return isFloat ? arith::AddFOp::create(b, loc, before, update).getResult()
                   : arith::AddIOp::create(b, loc, before, update).getResult();
  }
  if (kind == "mul") {
    return isFloat ? arith::MulFOp::create(b, loc, before, update).getResult()
                   : arith::MulIOp::create(b, loc, before, update).getResult();
  }
  bool isMax = kind == "max";
  if (isFloat) {
    return isMax ? arith::MaximumFOp::create(b, loc, before, update).getResult()
                 : arith::MinimumFOp::create(b, loc, before, update).getResult();
  }
  if (isUnsigned) {
    return isMax ? arith::MaxUIOp::create(b, loc, before, update).getResult()
                 : arith::MinUIOp::create(b, loc, before, update).getResult();
  }
  return isMax ? arith::MaxSIOp::create(b, loc, before, update).getResult()
               : arith::MinSIOp::create(b, loc, before, update).getResult();
}

/// Copies data to the result, then writes the updates one after another, each where `target` says.
static LogicalResult
scatter(BuildContext &c,
        function_ref<SmallVector<Value>(OpBuilder &, Location, ValueRange at, Value indices, Value out)> target) {
  Tensor data = c.input(0);
  StringRef kind = c.node.getString("reduction", "none");
  auto body = [&](OpBuilder &b, Location loc, ValueRange arguments) {
    Value in = arguments[0], indices = arguments[1], updates = arguments[2], out = arguments[3];
    forEachElement(b, loc, out, [&](OpBuilder &inner, Location l, ValueRange at) {
      memref::StoreOp::create(inner, l, memref::LoadOp::create(inner, l, in, at), out, at);
    });
    forEachElement(b, loc, updates, [&](OpBuilder &inner, Location l, ValueRange at) {
      SmallVector<Value> to = target(inner, l, at, indices, out);
      Value update = memref::LoadOp::create(inner, l, updates, at);
      Value before = kind == "none" ? Value() : memref::LoadOp::create(inner, l, out, to).getResult();
      memref::StoreOp::create(inner, l, combineUpdate(inner, l, kind, data.type, before, update), out, to);
    });
  };
  c.give(c.loops({data, c.input(1), c.input(2)}, {c.result()}, {}, std::nullopt, body).front());
  return success();
}

static LogicalResult inferScatterElements(InferContext &c) {
  if (failed(c.axis(c.node.getInt("axis", 0), c.in(0).rank()))) {
    return failure();
  }
  if (c.in(1).rank() != c.in(0).rank() || c.in(2).rank() != c.in(0).rank()) {
    return c.fail("data, indices and updates must have as many axes");
  }
  int64_t scattered = *c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(c.atMostBut(scattered, c.shape(1), c.shape(0), "the extent of indices")) ||
      failed(c.hasPositions(c.shape(0)[scattered], c.shape(1))) ||
      failed(c.same(c.shape(1), c.shape(2), "the extents of indices and updates"))) {
    return failure();
  }
  return checkReduction(c);
}

static LogicalResult buildScatterElements(BuildContext &c) {
  int64_t axis = *c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  bool isUnsigned = c.in(1).elementType.isUnsignedInteger();
  return scatter(c, [&](OpBuilder &b, Location loc, ValueRange at, Value indices, Value out) {
    SmallVector<Value> to(at);
    Value extent = memref::DimOp::create(b, loc, out, axis);
    to[axis] = clampPosition(b, loc, memref::LoadOp::create(b, loc, indices, at), isUnsigned, extent);
    return to;
  });
}

static LogicalResult inferScatterND(InferContext &c) {
  ArrayRef<SymbolicDim> indices = c.shape(1);
  std::optional<int64_t> depth = indices.empty() ? std::nullopt : indices.back().getConstant();
  if (!depth || *depth < 0 || *depth > c.in(0).rank()) {
    return c.fail("the last extent of indices must be a constant within the rank of data");
  }
  if (c.in(2).rank() != static_cast<int64_t>(indices.size()) - 1 + c.in(0).rank() - *depth) {
    return c.fail("updates must have the axes of indices but the last, and those of data that are not indexed");
  }
  for (const SymbolicDim &dim : ArrayRef(c.shape(0)).take_front(*depth)) {
    if (failed(c.hasPositions(dim, indices))) {
      return failure();
    }
  }
  Shape expected(indices.drop_back());
  llvm::append_range(expected, ArrayRef(c.shape(0)).drop_front(*depth));
  if (failed(c.same(c.shape(2), expected, "the extents of updates and of where they are written"))) {
    return failure();
  }
  return checkReduction(c);
}

/// The first row written where constant indices name rows that follow each other, as exporters spell an assignment to a
/// slice; nullopt otherwise.
static std::optional<int64_t> firstOfSlice(BuildContext &c) {
  std::optional<SmallVector<int64_t>> rows = c.in(1).constants();
  ArrayRef<SymbolicDim> data = c.shape(0), updates = c.shape(2);
  std::optional<int64_t> extent = data.empty() ? std::nullopt : data[0].getConstant();
  if (c.node.getString("reduction", "none") != "none" || c.shape(1).size() != 2 || !c.shape(1)[1].is(1) || !rows ||
      rows->empty() || !extent || data.size() != updates.size() || data.drop_front() != updates.drop_front() ||
      !updates[0].is(static_cast<int64_t>(rows->size()))) {
    return std::nullopt;
  }
  int64_t first = rows->front() < 0 ? rows->front() + *extent : rows->front();
  for (auto [i, row] : llvm::enumerate(*rows)) {
    if ((row < 0 ? row + *extent : row) != first + static_cast<int64_t>(i)) {
      return std::nullopt;
    }
  }
  return first < 0 || first + static_cast<int64_t>(rows->size()) > *extent ? std::nullopt : std::optional(first);
}

/// data[:first], updates, data[first + n:], side by side.
static void giveSlice(BuildContext &c, int64_t first) {
  Tensor data = c.input(0), updates = c.input(2);
  int64_t extent = *data.shape[0].getConstant(), end = first + *updates.shape[0].getConstant();
  SmallVector<SliceAxis> axes;
  for (const SymbolicDim &dim : data.shape) {
    axes.push_back({0, dim});
  }
  SmallVector<Tensor> pieces;
  auto keep = [&](int64_t from, int64_t to) {
    if (from < to) {
      axes.front() = {from, to - from};
      pieces.push_back(c.slice(data, axes));
    }
  };
  keep(0, first);
  pieces.push_back(updates);
  keep(end, extent);
  c.give(pieces.size() == 1 ? pieces.front() : c.concat(pieces, 0));
}

static LogicalResult buildScatterND(BuildContext &c) {
  if (std::optional<int64_t> first = firstOfSlice(c)) {
    giveSlice(c, *first);
    return success();
  }
  int64_t depth = *c.shape(1).back().getConstant();
  size_t rows = c.shape(1).size() - 1;
  bool isUnsigned = c.in(1).elementType.isUnsignedInteger();
  return scatter(c, [&](OpBuilder &b, Location loc, ValueRange at, Value indices, Value out) {
    SmallVector<Value> to, row(at.take_front(rows));
    row.emplace_back();
    for (int64_t i = 0; i < depth; ++i) {
      row.back() = arith::ConstantIndexOp::create(b, loc, i);
      Value extent = memref::DimOp::create(b, loc, out, i);
      to.push_back(clampPosition(b, loc, memref::LoadOp::create(b, loc, indices, row), isUnsigned, extent));
    }
    llvm::append_range(to, at.drop_front(rows));
    return to;
  });
}

//===----------------------------------------------------------------------===//
// TensorScatter
//===----------------------------------------------------------------------===//

static LogicalResult inferTensorScatter(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", -2), c.in(0).rank());
  StringRef mode = c.node.getString("mode", "linear");
  if (failed(axis) || *axis == 0 || (mode != "linear" && mode != "circular")) {
    return c.fail("axis must not be the batch, and mode must be linear or circular");
  }
  if (c.in(1).rank() != c.in(0).rank() || (c.has(2) && c.in(2).rank() != 1)) {
    return c.fail("the update must have the axes of the cache, and write_indices one");
  }
  for (auto [at, pair] : llvm::enumerate(llvm::zip(c.shape(1), c.shape(0)))) {
    auto [update, cache] = pair;
    if (static_cast<int64_t>(at) != *axis &&
        failed(c.same(update, cache, "along axis " + Twine(at) + " the extents"))) {
      return failure();
    }
  }
  if (c.has(2) && failed(c.same(c.shape(2)[0], c.shape(0)[0], "the extents of write_indices and of the batch"))) {
    return failure();
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

/// Row s of the cache comes from row s - start[batch] of the update (modulo the cache's extent if circular), where it
/// has one.
static LogicalResult buildTensorScatter(BuildContext &c) {
  Tensor cache = c.input(0), update = c.input(1);
  int64_t axis = *c.axis(c.node.getInt("axis", -2), cache.rank());
  bool circular = c.node.getString("mode", "linear") == "circular";
  SmallVector<Tensor> inputs = {cache};
  if (c.has(2)) {
    Shape spread(cache.shape.size(), SymbolicDim(1));
    spread[0] = c.shape(2)[0];
    inputs.push_back(c.reshape(c.input(2), spread));
  }
  Value source = c.value(update), rows = c.index(update.shape[axis]), capacity = c.index(cache.shape[axis]);
  Value some = c.unlessEmpty(update.shape[axis]);
  c.give(
      c.mapIndexed(inputs, cache.shape, cache.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
        Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
        Value start = e.size() > 1 ? arith::IndexCastOp::create(b, loc, b.getIndexType(), e[1]).getResult() : zero;
        Value row = arith::SubIOp::create(b, loc, at[axis], start);
        if (circular) {
          Value rest = arith::RemSIOp::create(b, loc, row, capacity);
          Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, rest, zero);
          row = arith::SelectOp::create(b, loc, negative, arith::AddIOp::create(b, loc, rest, capacity), rest);
        }
        Value low = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, row, zero);
        Value high = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, row, rows);
        SmallVector<Value> from(at);
        Value last = arith::SubIOp::create(b, loc, rows, one);
        from[axis] = arith::MaxSIOp::create(b, loc, arith::MinSIOp::create(b, loc, row, last), zero);
        Value fresh = c.read(b, loc, source, from, some);
        return arith::SelectOp::create(b, loc, arith::AndIOp::create(b, loc, low, high), fresh, e[0]).getResult();
      }));
  return success();
}

//===----------------------------------------------------------------------===//
// OneHot, ReverseSequence
//===----------------------------------------------------------------------===//

static LogicalResult inferOneHot(InferContext &c) {
  int64_t rank = c.in(0).rank();
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", -1), rank + 1);
  SymbolicDim depth(0);
  if (c.in(1).content && c.in(1).content->size() == 1) {
    depth = c.in(1).content->front();
  } else if (c.in(1).splat) {
    depth = SymbolicDim(static_cast<int64_t>(*c.in(1).splat));
  } else {
    return c.fail("depth must be known on the host");
  }
  if (failed(axis)) {
    return failure();
  }
  Shape shape = c.shape(0);
  shape.insert(shape.begin() + *axis, depth);
  c.setOut(ValueInfo(c.in(2).elementType, shape));
  return success();
}

static LogicalResult buildOneHot(BuildContext &c) {
  Tensor indices = c.input(0), values = c.input(2);
  const Shape &shape = *c.result().shape;
  int64_t axis = *c.axis(c.node.getInt("axis", -1), indices.rank() + 1);
  Shape spread = indices.shape;
  spread.insert(spread.begin() + axis, SymbolicDim(1));
  Value pair = c.value(values), depth = c.index(shape[axis]);
  Type from = indices.type;
  c.give(c.mapIndexed({c.reshape(indices, spread)}, shape, values.type,
                      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
                        Value whole = castElement(b, loc, e[0], from, b.getI64Type());
                        Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), whole);
                        Value zero = arith::ConstantIndexOp::create(b, loc, 0);
                        Value one = arith::ConstantIndexOp::create(b, loc, 1);
                        Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, zero);
                        Value counted = arith::SelectOp::create(b, loc, negative,
                                                                arith::AddIOp::create(b, loc, index, depth), index);
                        Value hot = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, counted, at[axis]);
                        return c.read(b, loc, pair, arith::SelectOp::create(b, loc, hot, one, zero).getResult());
                      }));
  return success();
}

static LogicalResult inferReverseSequence(InferContext &c) {
  int64_t batch = c.node.getInt("batch_axis", 1), time = c.node.getInt("time_axis", 0);
  if (c.in(0).rank() < 2 || batch + time != 1 || batch * time != 0) {
    return c.fail("batch_axis and time_axis must be 0 and 1");
  }
  if (c.in(1).rank() != 1) {
    return c.fail("sequence_lens must have one axis");
  }
  c.setOut(ValueInfo(c.in(0).elementType, c.shape(0)));
  return success();
}

static LogicalResult buildReverseSequence(BuildContext &c) {
  Tensor x = c.input(0);
  int64_t batch = c.node.getInt("batch_axis", 1), time = c.node.getInt("time_axis", 0);
  Shape spread(x.shape.size(), SymbolicDim(1));
  spread[batch] = c.shape(1)[0];
  Value source = c.value(x), extent = c.index(x.shape[time]);
  c.give(c.mapIndexed({c.reshape(c.input(1), spread)}, x.shape, x.type,
                      [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange e) {
                        Value length = arith::IndexCastOp::create(b, loc, b.getIndexType(), e[0]);
                        length = arith::MinSIOp::create(b, loc, length, extent);
                        Value one = arith::ConstantIndexOp::create(b, loc, 1);
                        Value last = arith::SubIOp::create(b, loc, length, one);
                        Value back = arith::SubIOp::create(b, loc, last, at[time]);
                        Value turned = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, at[time], length);
                        SmallVector<Value> from(at);
                        from[time] = arith::SelectOp::create(b, loc, turned, back, at[time]);
                        return c.read(b, loc, source, from);
                      }));
  return success();
}

void kimi::onnx::registerScatterOps(OpTable &table) {
  table.add("ScatterElements", 11, inferScatterElements, buildScatterElements);
  table.add("Scatter", 9, inferScatterElements, buildScatterElements); // its name until opset 11
  table.add("ScatterND", 11, inferScatterND, buildScatterND);
  table.add("TensorScatter", 24, inferTensorScatter, buildTensorScatter);
  table.add("OneHot", 9, inferOneHot, buildOneHot, "depth must be known on the host");
  table.add("ReverseSequence", 10, inferReverseSequence, buildReverseSequence);
}
