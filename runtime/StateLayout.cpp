//===- StateLayout.cpp - where the states of sequences lie ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/StateLayout.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Text.h"
#include "runtime/format/Header.h"

#include <algorithm>

namespace kimi {
namespace {

constexpr int64_t defaultCapacity = 1024;

void dimsOf(const fb::State &state, const StateSizes &sizes, int64_t *dims) {
  for (uint32_t axis = 0; axis < state.dims()->size(); ++axis) {
    int64_t dim = state.dims()->Get(axis);
    dims[axis] = static_cast<int32_t>(axis) == state.grows() ? sizes.capacity : dim < 0 ? sizes.batch : dim;
  }
}

uint32_t stateCount(const fb::Module &module) { return module.states() ? module.states()->size() : 0; }

} // namespace

Status chooseSizes(const fb::Module &module, int64_t maxSeq, int64_t batch, StateSizes &out) {
  if (batch < 0) {
    return invalidArgument("a session for " + std::to_string(batch) + " sequences is not possible");
  }
  int64_t context = module.max_context();
  if (maxSeq < 0 || (maxSeq > 0 && context >= 0 && maxSeq > context)) {
    return invalidArgument("a session for sequences of " + std::to_string(maxSeq) + " tokens is not possible" +
                           (context >= 0 ? "; the model's weights allow " + std::to_string(context) : ""));
  }
  out.batch = batch == 0 ? 1 : batch;
  out.capacity = maxSeq > 0 ? maxSeq : context >= 0 ? std::min(context, defaultCapacity) : defaultCapacity;
  return {};
}

std::optional<int64_t> stateBytes(const fb::State &state, const StateSizes &sizes) {
  int64_t dims[KIMI_MAX_RANK];
  dimsOf(state, sizes, dims);
  return denseBytes(dims, state.dims()->size(), dtypeSize(state.dtype()));
}

Status layOutStates(const fb::Module &module, const StateSizes &sizes, std::vector<Extent> &extents, uint64_t &total) {
  total = 0;
  extents.clear();
  for (uint32_t i = 0; i < stateCount(module); ++i) {
    const fb::State &state = *module.states()->Get(i);
    auto bytes = stateBytes(state, sizes);
    if (!bytes || total + static_cast<uint64_t>(*bytes) > INT64_MAX) {
      return {KIMI_OUT_OF_MEMORY, "state " + quoted(state.name()->str()) + " for " + std::to_string(sizes.batch) +
                                      " sequences of " + std::to_string(sizes.capacity) + " tokens passes 63 bits"};
    }
    extents.push_back({total, static_cast<uint64_t>(*bytes)});
    total = format::alignTo(total + static_cast<uint64_t>(*bytes), format::blobAlignment);
  }
  return {};
}

std::vector<StateBytes> heldBytes(const fb::Module &module, const StateSizes &sizes, const std::vector<Extent> &extents,
                                  int64_t length, bool growing, uint64_t &bytes) {
  std::vector<StateBytes> parts;
  bytes = 0;
  for (uint32_t i = 0; i < stateCount(module); ++i) {
    if (module.states()->Get(i)->grows() < 0 && extents[i].size != 0) {
      parts.push_back({extents[i].offset, bytes, extents[i].size});
      bytes += extents[i].size;
    }
  }
  for (uint32_t i = 0; growing && i < stateCount(module); ++i) {
    const fb::State &state = *module.states()->Get(i);
    if (state.grows() < 0 || length == 0 || extents[i].size == 0) {
      continue;
    }
    int64_t dims[KIMI_MAX_RANK];
    dimsOf(state, sizes, dims);
    uint64_t blocks = 1; // what lies before the growing axis; their rows are apart by the capacity
    for (int32_t axis = 0; axis < state.grows(); ++axis) {
      blocks *= static_cast<uint64_t>(dims[axis]);
    }
    uint64_t stride = extents[i].size / blocks;
    uint64_t filled = stride / static_cast<uint64_t>(sizes.capacity) * static_cast<uint64_t>(length);
    for (uint64_t block = 0; block < blocks; ++block) {
      parts.push_back({extents[i].offset + block * stride, bytes, filled});
      bytes += filled;
    }
  }
  return parts;
}

const fb::State *findFixedState(const fb::Module &module) {
  for (uint32_t i = 0; i < stateCount(module); ++i) {
    if (module.states()->Get(i)->grows() < 0) {
      return module.states()->Get(i);
    }
  }
  return nullptr;
}

} // namespace kimi
