//===- SharedPlan.cpp - where the tiles of a kernel lie in shared memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/SharedPlan.h"
#include "passes/TileToNvvm/SharedLayout.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

SharedPlan::SharedPlan(tile::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  DenseMap<Operation *, int64_t> positions;
  for (auto [index, op] : llvm::enumerate(body)) {
    positions[&op] = index;
  }
  SmallVector<tile::AllocOp> order;
  kernel.walk([&](tile::AllocOp alloc) {
    auto type = cast<MemRefType>(alloc.getType());
    if (cast<tile::SpaceKindAttr>(type.getMemorySpace()).getValue() != tile::SpaceKind::shared) {
      return;
    }
    SharedLayout layout = SharedLayout::of(type);
    Place place;
    place.first = body.getOperations().size();
    place.copyBytes = llvm::alignTo(layout.bytes(), layout.alignment());
    int64_t copies = 1;
    // Views carry the use on.
    SmallVector<Value> values{alloc.getResult()};
    while (!values.empty()) {
      for (Operation *user : values.pop_back_val().getUsers()) {
        if (auto pipeline = dyn_cast<tile::PipelineOp>(user)) {
          copies = std::max<int64_t>(copies, pipeline.getStages());
        }
        for (Value result : user->getResults()) {
          if (isa<MemRefType>(result.getType())) {
            values.push_back(result);
          }
        }
        int64_t at = positions.lookup(body.findAncestorOpInBlock(*user));
        place.first = std::min(place.first, at);
        place.last = std::max(place.last, at);
      }
    }
    place.bytes = copies * place.copyBytes;
    places[alloc] = place;
    order.push_back(alloc);
  });
  // In order of appearance, each at the lowest place that is free for as long as it is in use.
  SmallVector<Place> taken;
  for (tile::AllocOp alloc : order) {
    Place &place = places[alloc];
    int64_t align = SharedLayout::of(cast<MemRefType>(alloc.getType())).alignment();
    for (bool moved = true; moved;) {
      moved = false;
      for (const Place &other : taken) {
        bool together = place.first <= other.last && other.first <= place.last;
        bool overlap = place.offset < other.offset + other.bytes && other.offset < place.offset + place.bytes;
        if (together && overlap) {
          place.offset = llvm::alignTo(other.offset + other.bytes, align);
          moved = true;
        }
      }
    }
    taken.push_back(place);
    total = std::max(total, place.offset + place.bytes);
  }
}

int64_t kimi::sharedMemoryLimit(int64_t sm) {
  // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
  constexpr int64_t kib = 1024;
  switch (sm) {
  case 80:
  case 87:
    return 163 * kib;
  case 86:
  case 89:
    return 99 * kib;
  default:
    return sm >= 90 ? 227 * kib : 48 * kib;
  }
}
