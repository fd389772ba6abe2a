//===- Arena.cpp - which buffers of an entry share memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/Arena.h"

using namespace kimi;

ArenaPlan kimi::planArena(const std::vector<ArenaRequest> &requests) {
  ArenaPlan plan;
  std::vector<int> busyUntil;
  for (const ArenaRequest &request : requests) {
    int chosen = -1;
    auto choose = [&](auto suits) {
      for (size_t i = 0; chosen < 0 && i < busyUntil.size(); ++i) {
        if (busyUntil[i] < request.first && suits(i)) {
          chosen = static_cast<int>(i);
        }
      }
    };
    choose([&](size_t i) { return plan.bytes[i] == request.bytes; });
    choose([&](size_t i) { return (plan.bytes[i] - request.bytes).isKnownNonNegative(); });
    choose([&](size_t i) { return (request.bytes - plan.bytes[i]).isKnownNonNegative(); });
    if (chosen < 0) {
      chosen = static_cast<int>(busyUntil.size());
      busyUntil.push_back(0);
      plan.bytes.push_back(request.bytes);
    } else if (!(plan.bytes[chosen] - request.bytes).isKnownNonNegative()) {
      plan.bytes[chosen] = request.bytes;
    }
    busyUntil[chosen] = request.last;
    plan.slot.push_back(chosen);
  }
  return plan;
}
