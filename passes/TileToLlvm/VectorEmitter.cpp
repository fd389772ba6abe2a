//===- VectorEmitter.cpp - loops, addresses and vectors, for the lowering of tile ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/VectorEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kimi;

int64_t FlatBuffer::staticStride(unsigned dim) const {
  return getConstantIntValue(strides[dim]).value_or(ShapedType::kDynamic);
}

Value VectorEmitter::index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }

Value VectorEmitter::materialize(OpFoldResult value) { return getValueOrCreateConstantIndexOp(b, loc, value); }

Value VectorEmitter::add(Value a, Value c) { return b.createOrFold<arith::AddIOp>(loc, a, c); }
Value VectorEmitter::sub(Value a, Value c) { return b.createOrFold<arith::SubIOp>(loc, a, c); }
Value VectorEmitter::mul(Value a, Value c) { return b.createOrFold<arith::MulIOp>(loc, a, c); }
Value VectorEmitter::min(Value a, Value c) { return b.createOrFold<arith::MinSIOp>(loc, a, c); }
Value VectorEmitter::max(Value a, Value c) { return b.createOrFold<arith::MaxSIOp>(loc, a, c); }
Value VectorEmitter::both(Value a, Value c) { return b.createOrFold<arith::AndIOp>(loc, a, c); }
Value VectorEmitter::lessEqual(Value a, Value c) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::sle, a, c);
}

Value VectorEmitter::roundDown(Value lo, Value hi, int64_t step) {
  Value extent = sub(hi, lo);
  return add(lo, sub(extent, b.createOrFold<arith::RemUIOp>(loc, extent, index(step))));
}

FlatBuffer VectorEmitter::flatten(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, memref);
  int64_t offset;
  SmallVector<int64_t> strides;
  (void)type.getStridesAndOffset(strides, offset); // the verifiers ask for strided layouts
  FlatBuffer result;
  result.element = type.getElementType();
  Value extent = index(1);
  for (int64_t i = 0; i < type.getRank(); ++i) {
    bool dynamicSize = type.isDynamicDim(i), dynamicStride = ShapedType::isDynamic(strides[i]);
    result.sizes.push_back(dynamicSize ? OpFoldResult(metadata.getSizes()[i]) : b.getIndexAttr(type.getDimSize(i)));
    result.strides.push_back(dynamicStride ? OpFoldResult(metadata.getStrides()[i]) : b.getIndexAttr(strides[i]));
    extent = add(extent, mul(sub(materialize(result.sizes[i]), index(1)), materialize(result.strides[i])));
  }
  OpFoldResult start = ShapedType::isDynamic(offset) ? OpFoldResult(metadata.getOffset()) : b.getIndexAttr(offset);
  auto layout = StridedLayoutAttr::get(b.getContext(), offset, {1});
  auto flat = MemRefType::get({ShapedType::kDynamic}, result.element, layout, type.getMemorySpace());
  result.flat =
      memref::ReinterpretCastOp::create(b, loc, flat, metadata.getBaseBuffer(), start, ArrayRef<OpFoldResult>{extent},
                                        ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
  return result;
}

Value VectorEmitter::position(const FlatBuffer &buffer, ArrayRef<Value> indices) {
  Value result = index(0);
  for (auto [i, stride] : llvm::zip_equal(indices, buffer.strides)) {
    result = add(result, mul(i, materialize(stride)));
  }
  return result;
}

void VectorEmitter::annotate(Operation *loop) {
  auto yes = b.getBoolAttr(true);
  auto annotation =
      LLVM::LoopAnnotationAttr::get(b.getContext(), yes, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
  loop->setAttr("llvm.loop_annotation", annotation);
}

void VectorEmitter::loop(Value lo, Value hi, int64_t step, Body body, bool unroll) {
  auto loop = scf::ForOp::create(b, loc, lo, hi, index(step), ValueRange(),
                                 [&](OpBuilder &inner, Location at, Value iv, ValueRange) {
                                   OpBuilder::InsertionGuard guard(b);
                                   b.restoreInsertionPoint(inner.saveInsertionPoint());
                                   body(iv);
                                   scf::YieldOp::create(b, at);
                                 });
  if (!unroll) {
    annotate(loop);
  }
}

SmallVector<Value> VectorEmitter::loop(Value lo, Value hi, int64_t step, ValueRange init, CarryingBody body) {
  auto loop = scf::ForOp::create(b, loc, lo, hi, index(step), init,
                                 [&](OpBuilder &inner, Location at, Value iv, ValueRange carried) {
                                   OpBuilder::InsertionGuard guard(b);
                                   b.restoreInsertionPoint(inner.saveInsertionPoint());
                                   SmallVector<Value> next = body(iv, carried);
                                   scf::YieldOp::create(b, at, next);
                                 });
  annotate(loop);
  return SmallVector<Value>(loop.getResults());
}

void VectorEmitter::loops(ArrayRef<Value> lo, ArrayRef<Value> hi, llvm::function_ref<void(ArrayRef<Value>)> body) {
  SmallVector<Value> indices;
  std::function<void()> nest = [&] {
    size_t depth = indices.size();
    if (depth == lo.size()) {
      body(indices);
      return;
    }
    loop(lo[depth], hi[depth], 1, [&](Value iv) {
      indices.push_back(iv);
      nest();
      indices.pop_back();
    });
  };
  nest();
}

void VectorEmitter::branch(Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise) {
  auto build = [&](llvm::function_ref<void()> body) {
    return [&, body](OpBuilder &inner, Location at) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(inner.saveInsertionPoint());
      body();
      scf::YieldOp::create(b, at);
    };
  };
  scf::IfOp::create(b, loc, condition, build(then), build(otherwise));
}

Value VectorEmitter::load(const FlatBuffer &buffer, Value position, unsigned width) {
  if (width == 0) {
    return memref::LoadOp::create(b, loc, buffer.flat, position);
  }
  return vector::LoadOp::create(b, loc, VectorType::get({width}, buffer.element), buffer.flat, position);
}

void VectorEmitter::store(Value value, const FlatBuffer &buffer, Value position) {
  if (isa<VectorType>(value.getType())) {
    vector::StoreOp::create(b, loc, value, buffer.flat, position);
  } else {
    memref::StoreOp::create(b, loc, value, buffer.flat, position);
  }
}

Value VectorEmitter::splat(Value scalar, unsigned width) {
  if (width == 0) {
    return scalar;
  }
  return vector::BroadcastOp::create(b, loc, VectorType::get({width}, scalar.getType()), scalar);
}

static Type shaped(Type element, Type like) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? VectorType::get(vector.getShape(), element) : element;
}

Value VectorEmitter::constant(Type element, double value, unsigned width) {
  TypedAttr attribute = isa<FloatType>(element) ? TypedAttr(b.getFloatAttr(element, value))
                                                : TypedAttr(b.getIntegerAttr(element, static_cast<int64_t>(value)));
  if (width != 0) {
    attribute = DenseElementsAttr::get(VectorType::get({width}, element), Attribute(attribute));
  }
  return arith::ConstantOp::create(b, loc, attribute);
}

Value VectorEmitter::convert(Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element) {
    return value;
  }
  Type to = shaped(element, value.getType());
  if (from.getIntOrFloatBitWidth() == element.getIntOrFloatBitWidth()) { // f16 and bf16
    value = arith::ExtFOp::create(b, loc, shaped(b.getF32Type(), value.getType()), value);
    return arith::TruncFOp::create(b, loc, to, value);
  }
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth()) {
    return arith::ExtFOp::create(b, loc, to, value);
  }
  return arith::TruncFOp::create(b, loc, to, value);
}

Value VectorEmitter::combine(tile::ReduceKind kind, Value a, Value c) {
  if (kind == tile::ReduceKind::max) {
    return arith::MaximumFOp::create(b, loc, a, c);
  }
  return arith::AddFOp::create(b, loc, a, c);
}

Value VectorEmitter::neutral(tile::ReduceKind kind, Type element, unsigned width) {
  return constant(element, kind == tile::ReduceKind::max ? -std::numeric_limits<double>::infinity() : 0.0, width);
}

Value VectorEmitter::horizontal(tile::ReduceKind kind, Value vector) {
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  while (width > 1) {
    width /= 2;
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width; ++i) {
      low.push_back(i);
      high.push_back(width + i);
    }
    Value a = vector::ShuffleOp::create(b, loc, vector, vector, low);
    Value c = vector::ShuffleOp::create(b, loc, vector, vector, high);
    vector = combine(kind, a, c);
  }
  return vector::ExtractOp::create(b, loc, vector, int64_t(0));
}

/// Of rows i and i + d (bit d of i clear), exchanges the off-diagonal d x d blocks.
static std::pair<Value, Value> exchange(OpBuilder &b, Location loc, Value a, Value c, int64_t n, int64_t d) {
  SmallVector<int64_t> low, high;
  for (int64_t j = 0; j < n; ++j) {
    low.push_back((j & d) ? n + j - d : j);
    high.push_back((j & d) ? n + j : j + d);
  }
  return {vector::ShuffleOp::create(b, loc, a, c, low), vector::ShuffleOp::create(b, loc, a, c, high)};
}

Value VectorEmitter::horizontalSums(ArrayRef<Value> vectors) {
  // A transposition whose halves are added as soon as they face each other: each step leaves half as many vectors.
  int64_t n = vectors.size();
  SmallVector<Value> live(vectors);
  for (int64_t d = n / 2; d >= 1; d /= 2) {
    SmallVector<Value> next;
    for (int64_t i = 0; i < d; ++i) {
      auto [low, high] = exchange(b, loc, live[i], live[i + d], n, d);
      next.push_back(arith::AddFOp::create(b, loc, low, high));
    }
    live = std::move(next);
  }
  return live[0];
}

SmallVector<Value> VectorEmitter::transpose(ArrayRef<Value> rows) {
  int64_t n = rows.size();
  SmallVector<Value> live(rows);
  for (int64_t d = n / 2; d >= 1; d /= 2) {
    for (int64_t i = 0; i < n; ++i) {
      if ((i & d) == 0) {
        std::tie(live[i], live[i + d]) = exchange(b, loc, live[i], live[i + d], n, d);
      }
    }
  }
  return live;
}
