//===- LowerPacked.cpp - tile.dequantize as loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/PackedNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToLlvm/VectorEmitter.h"

using namespace mlir;
using namespace kimi;

void kimi::lowerDequantize(VectorEmitter &e, tile::DequantizeOp op) {
  constexpr int64_t groupBytes = 16;
  FlatBuffer codes = e.flatten(op.getCodes()), scales = e.flatten(op.getScales()), out = e.flatten(op.getOut());
  ArrayRef<int64_t> shape = cast<MemRefType>(op.getScales().getType()).getShape();
  e.loops({e.index(0), e.index(0)}, {e.index(shape[0]), e.index(shape[1])}, [&](ArrayRef<Value> at) {
    Value scale = emitE8M0(e.b, e.loc, e.load(scales, e.position(scales, at), 0));
    Value first = e.mul(at[1], e.index(groupBytes));
    e.loop(e.index(0), e.index(groupBytes), 1, [&](Value i) {
      Value column = e.add(first, i), byte = e.load(codes, e.position(codes, {at[0], column}), 0);
      for (int64_t half = 0; half < 2; ++half) {
        Value number = arith::MulFOp::create(e.b, e.loc, emitE2M1(e.b, e.loc, byte, e.index(half)), scale);
        Value position = e.position(out, {at[0], e.add(e.mul(column, e.index(2)), e.index(half))});
        e.store(e.convert(number, out.element), out, position);
      }
    });
  });
}
