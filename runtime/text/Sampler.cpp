//===- Sampler.cpp - the next token from logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Sampler.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kimi::text {

const char *Sampler::check(const SamplerOptions &options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    return "temperature must be a number of 0 or more";
  }
  if (options.topK < 0) {
    return "top-k must be 0 (all) or more";
  }
  if (!(options.topP > 0 && options.topP <= 1)) {
    return "top-p must be above 0 and at most 1";
  }
  return nullptr;
}

/// splitmix64 of (seed, draw): counter-based, so that a draw does not depend on how earlier ones were used.
double Sampler::uniform() {
  uint64_t x = options.seed * 0xD1342543DE82EF95ull + ++draws * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

bool Sampler::sample(const float *logits, int64_t count, int64_t &id, std::string &error) {
  if (count <= 0 || count > std::numeric_limits<int32_t>::max()) {
    error = "there are " + std::to_string(count) + " logits to choose from";
    return false;
  }
  int64_t best = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      error = "the logit of token " + std::to_string(i) + (std::isnan(logits[i]) ? " is NaN" : " is infinite");
      return false;
    }
    best = logits[i] > logits[best] ? i : best;
  }
  if (std::isinf(logits[best])) {
    error = "every token is forbidden (all logits are -inf)";
    return false;
  }
  id = best;
  if (options.temperature == 0 || options.topK == 1) {
    return true;
  }

  order.resize(count);
  std::iota(order.begin(), order.end(), 0);
  auto larger = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  int64_t kept = options.topK > 0 ? std::min(options.topK, count) : count;
  if (kept < count) {
    std::nth_element(order.begin(), order.begin() + kept, order.end(), larger);
    order.resize(kept);
  }
  if (options.topP < 1) {
    std::sort(order.begin(), order.end(), larger);
  } else if (kept < count) {
    std::sort(order.begin(), order.end()); // nth_element's order is the library's choice: make it ours.
  }
  weights.resize(kept);
  double sum = 0, top = logits[best];
  for (int64_t i = 0; i < kept; ++i) {
    weights[i] = std::exp((static_cast<double>(logits[order[i]]) - top) / options.temperature);
    sum += weights[i];
  }
  if (options.topP < 1) {
    double target = options.topP * sum, reached = 0;
    int64_t n = 0;
    while (n < kept && reached < target) {
      reached += weights[n++];
    }
    kept = std::max<int64_t>(n, 1);
    sum = reached;
  }
  double target = uniform() * sum;
  for (int64_t i = 0; i < kept; ++i) {
    if (weights[i] <= 0) {
      continue;
    }
    id = order[i]; // The last token with any weight stands where rounding leaves a rest.
    target -= weights[i];
    if (target < 0) {
      break;
    }
  }
  return true;
}

} // namespace kimi::text
