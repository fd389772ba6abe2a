//===- TensorMaps.cpp - views as the tensor memory accelerator sees them ----===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/TensorMaps.h"
#include "runtime/Checked.h"

#include <algorithm>

namespace kimi::cuda {
namespace {

/// What cuTensorMapEncodeTiled asks for.
constexpr int64_t alignment = 16, maxExtent = int64_t(1) << 32, maxStride = int64_t(1) << 40;
constexpr uint32_t maxRank = 5;

TensorMapDataType dataType(int elementSize) {
  switch (elementSize) {
  case 1:
    return MapUint8;
  case 2:
    return MapUint16;
  case 4:
    return MapUint32;
  default:
    return MapUint64;
  }
}

TensorMapSwizzle swizzleOf(int bytes) {
  switch (bytes) {
  case 32:
    return MapSwizzle32;
  case 64:
    return MapSwizzle64;
  case 128:
    return MapSwizzle128;
  default:
    return MapSwizzleNone;
  }
}

Status unsupported(std::string message) { return {KIMI_UNSUPPORTED, std::move(message)}; }

} // namespace

Status encodeTensorMap(const Driver &driver, const fb::TensorMap &record, const int64_t *view, uint32_t rank,
                       TensorMap &out) {
  uint32_t mapRank = record.dims()->size();
  uint64_t extents[maxRank], strides[maxRank];
  uint32_t box[maxRank], steps[maxRank];
  int64_t elementSize = record.element_size();
  if (view[0] % alignment != 0) {
    return unsupported("the view starts at an address that is no multiple of 16");
  }
  int64_t span = elementSize; // of all inner dims, dense: a stride for dims of one element, whose own says nothing
  for (uint32_t i = 0; i < mapRank; ++i) {
    uint32_t outer = mapRank - 1 - i, dim = static_cast<uint32_t>(record.dims()->Get(outer)); // innermost first
    int64_t extent = std::max<int64_t>(view[1 + dim], 1), stride = view[1 + rank + dim]; // nobody reads an empty view
    if (extent > maxExtent) {
      return unsupported("the view has " + std::to_string(extent) + " elements in axis " + std::to_string(dim));
    }
    int64_t bytes = extent == 1 ? (span + alignment - 1) / alignment * alignment : stride * elementSize;
    if (i == 0 && extent > 1 && stride != 1) {
      return unsupported("the elements of its rows are " + std::to_string(stride) + " apart, not next to each other");
    }
    if (i > 0 && (bytes % alignment != 0 || bytes <= 0 || bytes >= maxStride)) {
      return unsupported("the rows of axis " + std::to_string(dim) + " are " + std::to_string(bytes) +
                         " bytes apart, which is no multiple of 16");
    }
    extents[i] = static_cast<uint64_t>(extent);
    strides[i] = static_cast<uint64_t>(bytes);
    box[i] = static_cast<uint32_t>(record.box()->Get(outer));
    steps[i] = 1;
    if (!mul(i == 0 ? elementSize : bytes, extent, span) || span >= maxStride) {
      span = maxStride - alignment;
    }
  }
  Result result = driver.tensorMapEncodeTiled(
      &out, dataType(record.element_size()), mapRank, reinterpret_cast<void *>(view[0]), extents, strides + 1, box,
      steps, MapInterleaveNone, swizzleOf(record.swizzle()), MapPromotion256, MapFillZeros);
  return driver.check(result, "the driver refuses it");
}

} // namespace kimi::cuda
