//===- Reference.cpp - how reference code is written
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/Reference.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kimi;

Value kimi::castFloat(OpBuilder &b, Location loc, Value value, Type type) {
  auto from = dyn_cast<FloatType>(value.getType()), to = dyn_cast<FloatType>(type);
  if (!from || !to || from == to) {
    return value;
  }
  if (from.getWidth() < to.getWidth()) {
    return arith::ExtFOp::create(b, loc, to, value);
  }
  if (from.getWidth() > to.getWidth()) {
    return arith::TruncFOp::create(b, loc, to, value);
  }
  // f16 and bf16 hold different numbers in as many bits.
  return arith::TruncFOp::create(b, loc, to, arith::ExtFOp::create(b, loc, b.getF32Type(), value));
}

static Value emitGeneric(TensorCode &code, Value init, AffineMap initMap, ArrayRef<utils::IteratorType> iterators,
                         ArrayRef<TensorCode::Operand> operands, bool readsInit, TensorCode::Body body) {
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const TensorCode::Operand &operand : operands) {
    inputs.push_back(operand.tensor);
    maps.push_back(operand.map);
  }
  maps.push_back(initMap);
  Type element = cast<RankedTensorType>(init.getType()).getElementType();
  auto generic =
      linalg::GenericOp::create(code.b, code.loc, TypeRange{init.getType()}, inputs, ValueRange{init}, maps, iterators,
                                [&](OpBuilder &b, Location loc, ValueRange args) {
                                  SmallVector<Value> wide;
                                  for (Value arg : readsInit ? args : args.drop_back()) {
                                    wide.push_back(castFloat(b, loc, arg, b.getF32Type()));
                                  }
                                  linalg::YieldOp::create(b, loc, castFloat(b, loc, body(b, loc, wide), element));
                                });
  return generic.getResult(0);
}

Value TensorCode::map(ArrayRef<OpFoldResult> sizes, Type element, ArrayRef<Operand> operands, Body body) {
  Value init = tensor::EmptyOp::create(b, loc, sizes, element);
  SmallVector<utils::IteratorType> iterators(sizes.size(), utils::IteratorType::parallel);
  return emitGeneric(*this, init, identity(sizes.size()), iterators, operands, /*readsInit=*/false, body);
}

Value TensorCode::reduce(ArrayRef<OpFoldResult> sizes, unsigned reductions, double initial, ArrayRef<Operand> operands,
                         Body body) {
  Value empty = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  Value init = linalg::FillOp::create(b, loc, constant(initial), empty).getResult(0);
  SmallVector<utils::IteratorType> iterators(sizes.size(), utils::IteratorType::parallel);
  iterators.append(reductions, utils::IteratorType::reduction);
  AffineMap initMap = leading(sizes.size() + reductions, sizes.size());
  return emitGeneric(*this, init, initMap, iterators, operands, /*readsInit=*/true, body);
}

AffineMap TensorCode::loops(unsigned loops, ArrayRef<int64_t> dims) {
  SmallVector<AffineExpr> exprs;
  for (int64_t dim : dims) {
    exprs.push_back(dim < 0 ? b.getAffineConstantExpr(0) : b.getAffineDimExpr(dim));
  }
  return AffineMap::get(loops, 0, exprs, b.getContext());
}

AffineMap TensorCode::leading(unsigned loops, unsigned count) {
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(count));
  return this->loops(loops, dims);
}

SmallVector<OpFoldResult> TensorCode::sizes(Value tensor) { return tensor::getMixedSizes(b, loc, tensor); }

Value TensorCode::constant(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
}

Value TensorCode::asFloat(OpFoldResult size) {
  if (std::optional<int64_t> known = getConstantIntValue(size)) {
    return constant(static_cast<double>(*known));
  }
  Value integer = arith::IndexCastOp::create(b, loc, b.getI64Type(), getValueOrCreateConstantIndexOp(b, loc, size));
  return arith::SIToFPOp::create(b, loc, b.getF32Type(), integer);
}

Value TensorCode::round(Value tensor, ArrayRef<OpFoldResult> sizes, Type element) {
  if (element.isF32()) {
    return tensor;
  }
  return map(sizes, element, {{tensor, identity(sizes.size())}},
             [](OpBuilder &, Location, ValueRange args) { return args[0]; });
}

Value TensorCode::castTo(Value tensor, Type type) {
  return tensor.getType() == type ? tensor : tensor::CastOp::create(b, loc, type, tensor).getResult();
}
