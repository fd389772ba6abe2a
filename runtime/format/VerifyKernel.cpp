//===- VerifyKernel.cpp - checks how a kernel is launched -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/format/Checker.h"

namespace kimi::format {
namespace {

/// Of any CUDA device: threads of a block, shared memory of a block (with room above the 227 KiB of sm_90).
constexpr int64_t maxThreads = 1024, warpSize = 32, maxSharedBytes = 256 << 10;
/// Of cuTensorMapEncodeTiled: rank and extents of a box, granularity of its rows in bytes.
constexpr int64_t maxMapRank = 5, maxBoxExtent = 256, rowGranularity = 16;
/// Tensor maps of a kernel: 128 bytes each, of 4 KiB of parameters.
constexpr int64_t maxTensorMaps = 16;

Status verifyTensorMap(const std::string &where, const fb::TensorMap &map) {
  if (!isAligned(map.dims()) || !isAligned(map.box())) {
    return badFile(where + ": a list is not aligned");
  }
  int64_t rank = count(map.dims()), elementSize = map.element_size();
  if (map.arg() < 0) {
    return badFile(where + ": argument " + std::to_string(map.arg()) + " is negative");
  }
  if (rank < 1 || rank > maxMapRank || count(map.box()) != rank) {
    return badFile(where + ": has " + std::to_string(rank) + " dims and a box of " + std::to_string(count(map.box())) +
                   "; 1 to 5 of both are possible");
  }
  for (int64_t i = 0; i < rank; ++i) {
    if (Status s = checkIndex(where, "dim", map.dims()->Get(i), KIMI_MAX_RANK)) {
      return s;
    }
    for (int64_t k = 0; k < i; ++k) {
      if (map.dims()->Get(k) == map.dims()->Get(i)) {
        return badFile(where + ": dim " + std::to_string(map.dims()->Get(i)) + " occurs twice");
      }
    }
    int64_t extent = map.box()->Get(i);
    if (extent < 1 || extent > maxBoxExtent) {
      return badFile(where + ": a box extent of " + std::to_string(extent) + "; 1 to 256 are possible");
    }
  }
  if (elementSize != 1 && elementSize != 2 && elementSize != 4 && elementSize != 8) {
    return badFile(where + ": elements of " + std::to_string(elementSize) + " bytes");
  }
  int64_t swizzle = map.swizzle();
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128) {
    return badFile(where + ": a swizzle of " + std::to_string(swizzle) + " bytes; 0, 32, 64 and 128 are possible");
  }
  int64_t row = map.box()->Get(rank - 1) * elementSize;
  if (row % rowGranularity != 0 || (swizzle != 0 && row > swizzle)) {
    return badFile(where + ": rows of " + std::to_string(row) + " bytes; multiples of 16 are possible" +
                   (swizzle != 0 ? ", up to the swizzle's " + std::to_string(swizzle) : std::string()));
  }
  return {};
}

} // namespace

Status verifyKernel(const std::string &where, const fb::Module &module, const fb::Kernel &kernel) {
  if (Status s = checkName(where, kernel.symbol())) {
    return s;
  }
  if (Status s = checkIndex(where, "image", kernel.image(), count(module.images()))) {
    return s;
  }
  int64_t threads = kernel.threads(), tasks = kernel.tasks_per_block(), maps = count(kernel.tensor_maps());
  if (!isCuda(view(module.target()))) {
    bool isPlain = threads == 0 && tasks == 1 && kernel.shared_bytes() == 0 && !kernel.pdl() && maps == 0;
    return isPlain ? Status() : badFile(where + ": has a CUDA launch shape, but the module is for another device");
  }
  if (kernel.image() != 0) {
    return badFile(where + ": image " + std::to_string(kernel.image()) + "; each image of a CUDA module holds all of " +
                   "its kernels, so 0 is meant");
  }
  if (threads < warpSize || threads > maxThreads || threads % warpSize != 0) {
    return badFile(where + ": blocks of " + std::to_string(threads) +
                   " threads; multiples of 32 up to 1024 are possible");
  }
  if (tasks != 1 && tasks != threads) {
    return badFile(where + ": " + std::to_string(tasks) + " tasks in a block of " + std::to_string(threads) +
                   " threads; 1 and one for each thread are possible");
  }
  if (kernel.shared_bytes() < 0 || kernel.shared_bytes() > maxSharedBytes) {
    return badFile(where + ": " + std::to_string(kernel.shared_bytes()) + " bytes of shared memory");
  }
  if (maps > maxTensorMaps) {
    return badFile(where + ": takes " + std::to_string(maps) + " tensor maps, more than " +
                   std::to_string(maxTensorMaps));
  }
  for (int64_t i = 0; i < maps; ++i) {
    if (Status s = verifyTensorMap(where + ": tensor map " + std::to_string(i), *kernel.tensor_maps()->Get(i))) {
      return s;
    }
  }
  return {};
}

} // namespace kimi::format
