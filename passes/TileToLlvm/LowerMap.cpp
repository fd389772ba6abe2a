//===- LowerMap.cpp - tile.map and tile.reduce as vector loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/TileToLlvm/VectorEmitter.h"

using namespace mlir;
using namespace kimi;

static ArrayRef<int64_t> shapeOf(Value memref) { return cast<MemRefType>(memref.getType()).getShape(); }

/// Whether the elements of a tile of `shape` follow each other in memory in row-major order.
static bool isContiguous(const FlatBuffer &buffer, ArrayRef<int64_t> shape) {
  int64_t run = 1;
  for (unsigned k = shape.size(); k-- > 0;) {
    if (shape[k] != 1 && buffer.staticStride(k) != run) {
      return false;
    }
    run *= shape[k];
  }
  return true;
}

namespace {
/// One tile.map: copies of its region for `width` neighbours at a time.
class MapLowering {
public:
  MapLowering(VectorEmitter &e, tile::MapOp op)
      : e(e), op(op), shape(shapeOf(op.getOut())), out(e.flatten(op.getOut())) {
    for (Value input : op.getInputs()) {
      inputs.push_back(e.flatten(input));
    }
  }

  void lower() {
    if (isFlat()) {
      int64_t count = 1;
      for (int64_t size : shape) {
        count *= size;
      }
      auto at = [](Value i) { return [i](const FlatBuffer &, ArrayRef<int64_t>) { return std::make_pair(i, true); }; };
      return strip(count, true, [&](Value i, unsigned width) { emit(width, at(i), {}, i); });
    }
    SmallVector<Value> lo(shape.size() - 1, e.index(0)), hi;
    for (int64_t size : shape.drop_back()) {
      hi.push_back(e.index(size));
    }
    bool unit = hasUnitStrides();
    e.loops(lo, hi, [&](ArrayRef<Value> outer) {
      SmallVector<Value> indices(outer);
      strip(shape.back(), unit, [&](Value i, unsigned width) {
        auto at = [&](const FlatBuffer &buffer, ArrayRef<int64_t> extents) {
          bool moves = extents.back() != 1 || shape.back() == 1;
          Value position = e.index(0);
          for (auto [k, extent] : llvm::enumerate(extents)) {
            if (extent != 1) {
              Value step = k + 1 == extents.size() ? i : indices[k];
              position = e.add(position, e.mul(step, e.materialize(buffer.strides[k])));
            }
          }
          return std::make_pair(position, moves);
        };
        emit(width, at, indices, i);
      });
    });
  }

private:
  using Locate = llvm::function_ref<std::pair<Value, bool>(const FlatBuffer &, ArrayRef<int64_t>)>;

  bool usesElementIndex() {
    return op.getBody().walk([](tile::ElementIndexOp) { return WalkResult::interrupt(); }).wasInterrupted();
  }

  /// All operands have one shape and lie in one piece: a single loop does.
  bool isFlat() {
    if (usesElementIndex() || !isContiguous(out, shape)) {
      return shape.empty();
    }
    for (auto [value, buffer] : llvm::zip_equal(op.getInputs(), inputs)) {
      if (shapeOf(value) != shape || !isContiguous(buffer, shape)) {
        return false;
      }
    }
    return true;
  }

  bool hasUnitStrides() {
    if (out.staticStride(shape.size() - 1) != 1) {
      return false;
    }
    for (auto [value, buffer] : llvm::zip_equal(op.getInputs(), inputs)) {
      if (shapeOf(value).back() != 1 && buffer.staticStride(shape.size() - 1) != 1) {
        return false;
      }
    }
    return true;
  }

  /// Calls `body` for vectors of `lanes` elements and once more for what is left; element by element if not `unit`.
  void strip(int64_t extent, bool unit, llvm::function_ref<void(Value, unsigned)> body) {
    if (!unit) {
      return e.loop(e.index(0), e.index(extent), 1, [&](Value i) { body(i, 0); });
    }
    int64_t whole = extent / e.lanes * e.lanes;
    if (whole > 0) {
      e.loop(e.index(0), e.index(whole), e.lanes, [&](Value i) { body(i, e.lanes); });
    }
    if (extent > whole) {
      unsigned rest = extent - whole;
      body(e.index(whole), rest == 1 ? 0 : rest);
    }
  }

  /// The region for elements [i, i + width) of the innermost dim (width 0: one element, no vectors).
  void emit(unsigned width, Locate locate, ArrayRef<Value> outer, Value i) {
    IRMapping mapping;
    Block &body = op.getBody().front();
    for (auto [value, buffer, argument] : llvm::zip_equal(op.getInputs(), inputs, body.getArguments())) {
      auto [position, moves] = locate(buffer, shapeOf(value));
      mapping.map(argument, e.load(buffer, position, moves ? width : 0));
    }
    for (Operation &inner : body.without_terminator()) {
      if (auto element = dyn_cast<tile::ElementIndexOp>(inner)) {
        bool innermost = element.getDim() + 1 == shape.size();
        mapping.map(element.getResult(), innermost ? lanesFrom(i, width) : outer[element.getDim()]);
        continue;
      }
      clone(inner, mapping, width);
    }
    Value result = mapping.lookupOrDefault(cast<tile::YieldOp>(body.getTerminator()).getValue());
    auto [position, moves] = locate(out, shape);
    (void)moves; // out spans the map
    e.store(widen(result, width), out, position);
  }

  Value lanesFrom(Value i, unsigned width) {
    if (width == 0) {
      return i;
    }
    Value steps = vector::StepOp::create(e.b, e.loc, VectorType::get({width}, e.b.getIndexType()));
    return e.add(e.splat(i, width), steps);
  }

  Value widen(Value value, unsigned width) { return isa<VectorType>(value.getType()) ? value : e.splat(value, width); }

  /// Copies an elementwise op; what does not depend on the lane stays scalar.
  void clone(Operation &inner, IRMapping &mapping, unsigned width) {
    bool varies = llvm::any_of(inner.getOperands(), [&](Value operand) {
      return isa<VectorType>(mapping.lookupOrDefault(operand).getType());
    });
    if (!varies) {
      e.b.clone(inner, mapping);
      return;
    }
    OperationState state(inner.getLoc(), inner.getName());
    for (Value operand : inner.getOperands()) {
      state.operands.push_back(widen(mapping.lookupOrDefault(operand), width));
    }
    for (Type type : inner.getResultTypes()) {
      state.types.push_back(VectorType::get({width}, type));
    }
    state.attributes = inner.getDiscardableAttrDictionary();
    state.propertiesAttr = inner.getPropertiesAsAttribute();
    mapping.map(inner.getResults(), e.b.create(state)->getResults());
  }

  VectorEmitter &e;
  tile::MapOp op;
  ArrayRef<int64_t> shape;
  FlatBuffer out;
  SmallVector<FlatBuffer> inputs;
};
} // namespace

void kimi::lowerMap(VectorEmitter &e, tile::MapOp op) { MapLowering(e, op).lower(); }

/// Reduces one contiguous row of `extent` elements from `start` on to a scalar.
static Value reduceRow(VectorEmitter &e, tile::ReduceKind kind, const FlatBuffer &in, Value start, int64_t extent) {
  // Four independent chains hide the latency of an addition.
  int64_t chains = std::clamp<int64_t>(extent / e.lanes, 1, 4);
  int64_t step = chains * e.lanes;
  int64_t whole = extent / step * step;
  Value result;
  auto join = [&](Value next) { result = result ? e.combine(kind, result, next) : next; };
  if (whole > 0) {
    SmallVector<Value> init(chains, e.neutral(kind, in.element, e.lanes));
    SmallVector<Value> sums = e.loop(e.index(0), e.index(whole), step, init, [&](Value i, ValueRange carried) {
      SmallVector<Value> next;
      for (int64_t c = 0; c < chains; ++c) {
        Value position = e.add(e.add(start, i), e.index(c * e.lanes));
        next.push_back(e.combine(kind, carried[c], e.load(in, position, e.lanes)));
      }
      return next;
    });
    int64_t at = whole;
    while (at + e.lanes <= extent) {
      sums[0] = e.combine(kind, sums[0], e.load(in, e.add(start, e.index(at)), e.lanes));
      at += e.lanes;
    }
    for (int64_t width = chains; width > 1; width = (width + 1) / 2) {
      for (int64_t c = 0; c < width / 2; ++c) {
        sums[c] = e.combine(kind, sums[c], sums[c + (width + 1) / 2]);
      }
    }
    join(e.horizontal(kind, sums[0]));
    whole = at;
  }
  for (int64_t i = whole; i < extent; ++i) {
    join(e.load(in, e.add(start, e.index(i)), 0));
  }
  return result;
}

void kimi::lowerReduce(VectorEmitter &e, tile::ReduceOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  FlatBuffer in = e.flatten(op.getInput()), out = e.flatten(op.getOut());
  int64_t axis = op.getAxis(), inner = shape.size() - 1;
  bool unit = in.staticStride(inner) == 1 && (axis == inner || out.staticStride(inner) == 1);
  auto finish = [&](Value result, Value position, unsigned width) {
    if (op.getAccumulate()) {
      result = e.combine(op.getKind(), e.load(out, position, width), result);
    }
    e.store(result, out, position);
  };

  // Loops over all dims but the reduced one and, where it is done by vectors, the innermost.
  bool byRow = axis == inner && unit;
  bool byColumn = axis != inner && unit;
  SmallVector<Value> lo, hi;
  SmallVector<int64_t> looped;
  for (int64_t k = 0; k <= inner; ++k) {
    if (k != axis && !(byColumn && k == inner)) {
      lo.push_back(e.index(0));
      hi.push_back(e.index(shape[k]));
      looped.push_back(k);
    }
  }
  auto base = [&](const FlatBuffer &buffer, ArrayRef<Value> at) {
    Value position = e.index(0);
    for (auto [k, i] : llvm::zip_equal(looped, at)) {
      position = e.add(position, e.mul(i, e.materialize(buffer.strides[k])));
    }
    return position;
  };
  auto reduceAlong = [&](Value start, unsigned width) {
    Value stride = e.materialize(in.strides[axis]);
    Value init = e.neutral(op.getKind(), in.element, width);
    return e.loop(e.index(0), e.index(shape[axis]), 1, init, [&](Value i, ValueRange carried) {
      Value next = e.load(in, e.add(start, e.mul(i, stride)), width);
      return SmallVector<Value>{e.combine(op.getKind(), carried[0], next)};
    })[0];
  };
  e.loops(lo, hi, [&](ArrayRef<Value> at) {
    Value source = base(in, at), target = base(out, at);
    if (byRow) {
      return finish(reduceRow(e, op.getKind(), in, source, shape[axis]), target, 0);
    }
    if (!byColumn) {
      return finish(reduceAlong(source, 0), target, 0);
    }
    int64_t whole = shape[inner] / e.lanes * e.lanes;
    e.loop(e.index(0), e.index(whole), e.lanes,
           [&](Value j) { finish(reduceAlong(e.add(source, j), e.lanes), e.add(target, j), e.lanes); });
    if (shape[inner] > whole) {
      unsigned rest = shape[inner] - whole;
      Value j = e.index(whole);
      finish(reduceAlong(e.add(source, j), rest), e.add(target, j), rest);
    }
  });
}
