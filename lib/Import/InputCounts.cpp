//===- InputCounts.cpp - how many inputs the operators of ai.onnx take
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/InputCounts.h"
#include <algorithm>
#include <iterator>

using namespace kimi;

namespace {
struct InputCounts {
  llvm::StringRef name;
  int64_t since, least, most; // most: -1 for any number
  uint64_t required;          // bit i: input i may not be left out; the last bit stands for all that follow
};
} // namespace

/// By name, then by version.
static const InputCounts kTable[] = {
#define KIMI_INPUTS(name, since, least, most, required) {name, since, least, most, required},
#include "lib/Import/InputCounts.inc"
#undef KIMI_INPUTS
};
static constexpr size_t kLastBit = 62;

std::string kimi::wrongInputs(llvm::StringRef name, int64_t version, llvm::ArrayRef<bool> given) {
  // Behind the version that counts.
  const InputCounts *next = std::upper_bound(
      std::begin(kTable), std::end(kTable), std::pair(name, version),
      [](const auto &wanted, const InputCounts &row) { return wanted < std::pair(row.name, row.since); });
  if (next == std::begin(kTable) || std::prev(next)->name != name) {
    return "";
  }
  const InputCounts &counts = *std::prev(next);
  auto number = static_cast<int64_t>(given.size());
  if (number < counts.least || (counts.most >= 0 && number > counts.most)) {
    std::string takes = std::to_string(counts.least);
    if (counts.most < 0) {
      takes += " or more";
    } else if (counts.most > counts.least) {
      takes += " to " + std::to_string(counts.most);
    }
    return "has " + std::to_string(number) + (number == 1 ? " input; " : " inputs; ") + name.str() + "-" +
           std::to_string(version) + " takes " + takes;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i] && counts.required >> std::min(i, kLastBit) & 1) {
      return "leaves out input " + std::to_string(i) + ", which " + name.str() + "-" + std::to_string(version) +
             " needs";
    }
  }
  return "";
}
