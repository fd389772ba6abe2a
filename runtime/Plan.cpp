//===- Plan.cpp - an entry of a module, ready to be run many times ----------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Plan.h"
#include "runtime/Dtype.h"
#include "runtime/Text.h"

#include <map>

namespace kimi {
namespace {

std::vector<DimRule> collectDimRules(const fb::Entry &entry) {
  std::vector<DimRule> rules;
  std::map<int32_t, std::pair<uint32_t, uint32_t>> firstOfSymbol;
  for (uint32_t input = 0; entry.inputs() && input < entry.inputs()->size(); ++input) {
    const auto &dims = *entry.inputs()->Get(input)->dims();
    for (uint32_t axis = 0; axis < dims.size(); ++axis) {
      const fb::Dim &dim = *dims.Get(axis);
      if (dim.extent() >= 0) {
        rules.push_back({input, axis, dim.extent(), 0, 0});
      } else if (dim.symbol() >= 0) {
        auto [first, isFirst] = firstOfSymbol.try_emplace(dim.symbol(), input, axis);
        if (!isFirst) {
          rules.push_back({input, axis, -1, first->second.first, first->second.second});
        }
      }
    }
  }
  return rules;
}

/// What the extent in bytes of a buffer depends on.
uint8_t bufferDependence(const fb::Entry &entry, const ScalarCode &program, const fb::Buffer &buffer) {
  uint8_t depends = DependsOnNothing;
  switch (buffer.kind()) {
  case fb::BufferKind::Arena:
    return program.dependence(buffer.offset()) | program.dependence(buffer.size()) |
           program.dependence(entry.arena_size());
  case fb::BufferKind::Input:
    return DependsOnDims;
  case fb::BufferKind::Output:
    for (int32_t slot : *entry.output_dims()->Get(buffer.index())->slots()) {
      depends |= program.dependence(slot);
    }
    return depends;
  default:
    return depends;
  }
}

} // namespace

Plan::Plan(const fb::Module &module, const fb::Entry &entry)
    : module(module), entry(entry), program(entry), dimRules(collectDimRules(entry)) {
  if (!entry.launches()) {
    return;
  }
  for (const fb::Launch *launch : *entry.launches()) {
    LaunchPlan plan;
    plan.firstArg = static_cast<uint32_t>(args.size());
    plan.firstWord = wordCount;
    plan.dependence = DependsOnNothing;
    auto use = [&](int32_t slot) { plan.dependence |= slot < 0 ? 0 : program.dependence(slot); };
    for (const fb::Variant *variant : *launch->variants()) {
      for (int32_t slot : {variant->guard(), variant->grid_x(), variant->grid_y(), variant->grid_z()}) {
        use(slot);
      }
    }
    for (const fb::Arg *arg : *launch->args()) {
      uint32_t rank = arg->buffer() >= 0 && arg->sizes() ? arg->sizes()->size() : 0;
      args.push_back({arg->buffer(), wordCount, arg->offset(), rank, static_cast<uint32_t>(slots.size()),
                      static_cast<uint32_t>(dtypeSize(arg->dtype()))});
      wordCount += 1 + 2 * rank;
      use(arg->offset());
      if (arg->buffer() >= 0) {
        plan.dependence |= bufferDependence(entry, program, *entry.buffers()->Get(arg->buffer()));
      }
      if (rank != 0) {
        slots.insert(slots.end(), arg->sizes()->begin(), arg->sizes()->end());
        slots.insert(slots.end(), arg->strides()->begin(), arg->strides()->end());
      }
    }
    for (size_t i = slots.size(); i-- > (plan.firstArg < args.size() ? args[plan.firstArg].firstSlot : slots.size());) {
      use(slots[i]);
    }
    plan.endArg = static_cast<uint32_t>(args.size());
    launches.push_back(plan);
  }
}

std::string Plan::place() const { return "entry " + quoted(entry.name()->str()); }

} // namespace kimi
