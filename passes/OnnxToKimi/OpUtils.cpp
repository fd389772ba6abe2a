//===- OpUtils.cpp - what the operator families share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

Type kimi::onnx::elementTypeOfCode(MLIRContext *context, int64_t code) {
  Builder b(context);
  auto unsignedInteger = [&](unsigned width) { return IntegerType::get(context, width, IntegerType::Unsigned); };
  switch (code) {
  case 1:
    return b.getF32Type();
  case 2:
    return unsignedInteger(8);
  case 3:
    return b.getIntegerType(8);
  case 4:
    return unsignedInteger(16);
  case 5:
    return b.getIntegerType(16);
  case 6:
    return b.getIntegerType(32);
  case 7:
    return b.getIntegerType(64);
  case 9:
    return b.getI1Type();
  case 10:
    return b.getF16Type();
  case 11:
    return b.getF64Type();
  case 12:
    return unsignedInteger(32);
  case 13:
    return unsignedInteger(64);
  case 16:
    return b.getBF16Type();
  case 17:
    return Float8E4M3FNType::get(context);
  case 18:
    return Float8E4M3FNUZType::get(context);
  case 19:
    return Float8E5M2Type::get(context);
  case 20:
    return Float8E5M2FNUZType::get(context);
  case 21:
    return unsignedInteger(4);
  case 22:
    return b.getIntegerType(4);
  case 23:
    return Float4E2M1FNType::get(context);
  case 24:
    return Float8E8M0FNUType::get(context);
  case 25:
    return unsignedInteger(2);
  case 26:
    return b.getIntegerType(2);
  default:
    return {};
  }
}

void kimi::onnx::forEachCoordinate(ArrayRef<int64_t> extents, function_ref<void(ArrayRef<int64_t>)> visit) {
  int64_t count = 1;
  for (int64_t extent : extents) {
    count *= extent;
  }
  SmallVector<int64_t> coordinates(extents.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    visit(coordinates);
    for (size_t axis = extents.size(); axis-- > 0;) {
      if (++coordinates[axis] < extents[axis]) {
        break;
      }
      coordinates[axis] = 0;
    }
  }
}

int64_t kimi::onnx::flatIndex(ArrayRef<int64_t> coordinates, ArrayRef<int64_t> extents) {
  int64_t flat = 0;
  for (auto [coordinate, extent] : llvm::zip(coordinates, extents)) {
    flat = flat * extent + coordinate;
  }
  return flat;
}

/// The constant extents where there are at most kMaxHostElements elements.
static std::optional<SmallVector<int64_t>> smallExtents(ArrayRef<SymbolicDim> shape) {
  std::optional<SmallVector<int64_t>> extents = staticShape(shape);
  int64_t count = 1;
  for (int64_t extent : extents ? ArrayRef<int64_t>(*extents) : ArrayRef<int64_t>()) {
    if (extent < 0 || extent > kMaxHostElements || (count *= extent) > kMaxHostElements) {
      return std::nullopt;
    }
  }
  return extents;
}

void kimi::onnx::fillContent(ValueInfo &info) {
  std::optional<SmallVector<int64_t>> extents = smallExtents(*info.shape);
  if (!extents || !info.splat || !isa<IntegerType>(info.elementType) || std::abs(*info.splat) >= 9007199254740992.0) {
    return;
  }
  info.content.emplace();
  forEachCoordinate(*extents, [&](ArrayRef<int64_t>) { info.content->push_back(static_cast<int64_t>(*info.splat)); });
}

void kimi::onnx::moveContent(const ValueInfo &in, ValueInfo &out,
                             function_ref<int64_t(ArrayRef<int64_t> coordinates)> from) {
  out.splat = in.splat;
  std::optional<SmallVector<int64_t>> extents = smallExtents(*out.shape);
  if (!in.content || !extents) {
    return;
  }
  Shape content;
  bool inside = true;
  forEachCoordinate(*extents, [&](ArrayRef<int64_t> coordinates) {
    int64_t position = from(coordinates);
    inside = inside && position >= 0 && position < static_cast<int64_t>(in.content->size());
    if (inside) {
      content.push_back((*in.content)[position]);
    }
  });
  if (inside) {
    out.content = std::move(content);
  }
}

SliceAxis kimi::onnx::clampSlice(const SymbolicDim &dim, SymbolicDim start, SymbolicDim end, int64_t step) {
  // A bound beyond any possible extent means "to the end"; it must not enter the arithmetic, where it would overflow.
  constexpr int64_t kFar = int64_t(1) << 31;
  auto fromFront = [&](const SymbolicDim &bound) {
    std::optional<int64_t> constant = bound.getConstant();
    if (constant && *constant >= kFar - 1) {
      return dim;
    }
    if (constant && *constant <= -kFar) {
      return SymbolicDim(-1);
    }
    if (bound.isKnownNonNegative()) {
      return bound;
    }
    SymbolicDim shifted = bound + dim;
    if ((SymbolicDim(-1) - bound).isKnownNonNegative()) {
      return shifted;
    }
    return SymbolicDim::select(SymbolicDim::lt(bound, 0), shifted, bound);
  };
  SliceAxis axis;
  axis.step = step;
  SymbolicDim from = fromFront(start), to = fromFront(end);
  if (step > 0) {
    axis.start = SymbolicDim::min(SymbolicDim::max(from, 0), dim);
    to = SymbolicDim::min(SymbolicDim::max(to, 0), dim);
    axis.size = SymbolicDim::ceilDiv(SymbolicDim::max(to - axis.start, 0), SymbolicDim(step));
  } else {
    SymbolicDim last = dim - SymbolicDim(1);
    axis.start = SymbolicDim::min(SymbolicDim::max(from, 0), last);
    to = SymbolicDim::min(SymbolicDim::max(to, -1), last);
    axis.size = SymbolicDim::ceilDiv(SymbolicDim::max(axis.start - to, 0), SymbolicDim(0) - SymbolicDim(step));
  }
  return axis;
}
