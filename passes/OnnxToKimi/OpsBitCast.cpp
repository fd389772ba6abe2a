//===- OpsBitCast.cpp - BitCast
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// Bits of an element in a file: a truth value takes a byte.
static unsigned bitsOf(Type type) { return type.isInteger(1) ? 8 : type.getIntOrFloatBitWidth(); }

static LogicalResult inferBitCast(InferContext &c) {
  int64_t code = c.node.getInt("to", 0);
  Type to = elementTypeOfCode(c.node.getContext(), code), from = c.in(0).elementType;
  if (!to) {
    return c.fail("target type " + Twine(code) + " is not supported");
  }
  if (bitsOf(from) != bitsOf(to)) {
    return c.fail("elements of " + Twine(bitsOf(from)) + " bits become elements of " + Twine(bitsOf(to)));
  }
  if (bitsOf(from) < 8 || (isa<FloatType>(from) && bitsOf(from) < 16) || (isa<FloatType>(to) && bitsOf(to) < 16)) {
    return c.fail("elements of 8-bit floating point, or of fewer than 8 bits, are not supported");
  }
  c.setOut(ValueInfo(to, c.shape(0)));
  return success();
}

/// The same bits read as another type.
static LogicalResult buildBitCast(BuildContext &c) {
  Tensor x = c.input(0);
  Type to = storageType(c.result().elementType), from = storageType(x.type);
  c.give(c.map({x}, x.shape, c.result().elementType, [&](OpBuilder &b, Location loc, ValueRange e) -> Value {
    if (from == to) {
      return e[0];
    }
    if (from.isInteger(1)) {
      return arith::ExtUIOp::create(b, loc, to, e[0]);
    }
    if (to.isInteger(1)) {
      Value zero = integerConstant(b, loc, from, 0);
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, e[0], zero);
    }
    return arith::BitcastOp::create(b, loc, to, e[0]);
  }));
  return success();
}

void kimi::onnx::registerBitCastOps(OpTable &table) { table.add("BitCast", 26, inferBitCast, buildBitCast); }
