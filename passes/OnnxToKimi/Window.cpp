//===- Window.cpp - sliding windows over the spatial axes of a tensor
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/Window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

/// Attribute `name` with `count` entries from `least` on; `fallback` for each where it is not given.
static FailureOr<SmallVector<int64_t>> readInts(InferContext &c, StringRef name, size_t count, int64_t fallback,
                                                int64_t least) {
  SmallVector<int64_t> values = c.node.getInts(name).value_or(SmallVector<int64_t>(count, fallback));
  if (values.size() != count || llvm::any_of(values, [&](int64_t v) { return v < least || v > (1 << 30); })) {
    return c.fail(name + " must be " + Twine(count) + " integers of at least " + Twine(least));
  }
  return values;
}

FailureOr<SmallVector<WindowAxis>> kimi::onnx::readWindow(InferContext &c, ArrayRef<SymbolicDim> in,
                                                          ArrayRef<SymbolicDim> kernel) {
  size_t rank = in.size();
  auto strides = readInts(c, "strides", rank, 1, 1), dilations = readInts(c, "dilations", rank, 1, 1),
       pads = readInts(c, "pads", 2 * rank, 0, 0);
  if (failed(strides) || failed(dilations) || failed(pads)) {
    return failure();
  }
  StringRef autoPad = c.node.getString("auto_pad", "NOTSET");
  bool isSame = autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER";
  if (!isSame && autoPad != "NOTSET" && autoPad != "VALID" && !autoPad.empty()) {
    return c.fail("auto_pad '" + autoPad + "' is unknown");
  }
  bool ceil = c.node.getInt("ceil_mode", 0) != 0;
  SmallVector<WindowAxis> window;
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis axis;
    axis.in = in[i];
    axis.kernel = kernel[i];
    axis.stride = (*strides)[i];
    axis.dilation = (*dilations)[i];
    SymbolicDim stride(axis.stride), reach = (axis.kernel - SymbolicDim(1)) * SymbolicDim(axis.dilation);
    if (isSame) {
      axis.out = SymbolicDim::ceilDiv(axis.in, stride);
      SymbolicDim needed = (axis.out - SymbolicDim(1)) * stride + reach + SymbolicDim(1) - axis.in;
      SymbolicDim total = SymbolicDim::max(needed, 0), half = SymbolicDim::floorDiv(total, 2);
      axis.padBegin = autoPad == "SAME_UPPER" ? half : total - half;
      axis.padEnd = total - axis.padBegin;
    } else {
      if (autoPad != "VALID") {
        axis.padBegin = (*pads)[i];
        axis.padEnd = (*pads)[rank + i];
      }
      SymbolicDim room = axis.in + axis.padBegin + axis.padEnd - reach - SymbolicDim(1);
      axis.out = (ceil ? SymbolicDim::ceilDiv(room, stride) : SymbolicDim::floorDiv(room, stride)) + SymbolicDim(1);
      if (ceil) { // the last window begins within the data or the padding before it
        SymbolicDim last = (axis.out - SymbolicDim(1)) * stride;
        SymbolicDim within = SymbolicDim::lt(last, axis.in + axis.padBegin);
        axis.out = SymbolicDim::select(within, axis.out, axis.out - SymbolicDim(1));
      }
      axis.out = SymbolicDim::max(axis.out, 0);
    }
    window.push_back(axis);
  }
  return window;
}

std::pair<SmallVector<Value>, Value> kimi::onnx::windowPosition(BuildContext &c, OpBuilder &b, Location loc,
                                                                ArrayRef<WindowAxis> window, ArrayRef<Value> o,
                                                                ArrayRef<Value> k) {
  SmallVector<Value> positions;
  Value inside = integerConstant(b, loc, b.getI1Type(), 1), zero = arith::ConstantIndexOp::create(b, loc, 0);
  auto times = [&](Value value, int64_t factor) -> Value {
    return factor == 1
               ? value
               : arith::MulIOp::create(b, loc, value, arith::ConstantIndexOp::create(b, loc, factor)).getResult();
  };
  for (auto [axis, out, at] : llvm::zip_equal(window, o, k)) {
    Value position = arith::AddIOp::create(b, loc, times(out, axis.stride), times(at, axis.dilation));
    position = arith::SubIOp::create(b, loc, position, c.index(axis.padBegin));
    Value extent = c.index(axis.in), last = arith::SubIOp::create(b, loc, extent, c.index(1));
    Value from = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, position, zero);
    Value to = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, position, extent);
    inside = arith::AndIOp::create(b, loc, inside, arith::AndIOp::create(b, loc, from, to));
    position = arith::MinSIOp::create(b, loc, position, last);
    positions.push_back(arith::MaxSIOp::create(b, loc, position, zero));
  }
  return {positions, inside};
}
