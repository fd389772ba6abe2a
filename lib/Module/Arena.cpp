//===- Arena.cpp - which buffers of an entry share memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/Arena.h"
#include <map>

using namespace kimi;

namespace {
/// Sizes, by number, and which of them have room for which: each pair is compared once, however many layers there are.
class Sizes {
public:
  int number(const SymbolicDim &size) {
    auto [it, inserted] = numbers.try_emplace(size.str(), static_cast<int>(sizes.size()));
    if (inserted) {
      sizes.push_back(size);
    }
    return it->second;
  }
  const SymbolicDim &size(int number) const { return sizes[number]; }

  bool hasRoom(int size, int request) {
    auto [it, inserted] = room.try_emplace({size, request}, false);
    if (inserted) {
      it->second = (sizes[size] - sizes[request]).isKnownNonNegative();
    }
    return it->second;
  }

private:
  std::vector<SymbolicDim> sizes;
  std::map<std::string, int> numbers;
  std::map<std::pair<int, int>, bool> room;
};
} // namespace

ArenaPlan kimi::planArena(const std::vector<ArenaRequest> &requests) {
  ArenaPlan plan;
  Sizes sizes;
  std::vector<int> busyUntil, held; // by slot: the last launch that uses it, the number of its size
  for (const ArenaRequest &request : requests) {
    int chosen = -1, wanted = sizes.number(request.bytes);
    auto choose = [&](auto suits) {
      for (size_t i = 0; chosen < 0 && i < busyUntil.size(); ++i) {
        if (busyUntil[i] < request.first && suits(held[i])) {
          chosen = static_cast<int>(i);
        }
      }
    };
    choose([&](int size) { return size == wanted; });
    choose([&](int size) { return sizes.hasRoom(size, wanted); });
    choose([&](int size) { return sizes.hasRoom(wanted, size); });
    if (chosen < 0) {
      chosen = static_cast<int>(busyUntil.size());
      busyUntil.push_back(0);
      held.push_back(wanted);
    } else if (!sizes.hasRoom(held[chosen], wanted)) {
      held[chosen] = wanted;
    }
    busyUntil[chosen] = request.last;
    plan.slot.push_back(chosen);
  }
  for (int size : held) {
    plan.bytes.push_back(sizes.size(size));
  }
  return plan;
}
