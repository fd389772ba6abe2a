//===- Sampler.h - the next token from logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_SAMPLER_H
#define KIMI_RUNTIME_TEXT_SAMPLER_H

#include <cstdint>
#include <string>
#include <vector>

namespace kimi::text {

struct SamplerOptions {
  double temperature = 0; ///< 0: greedy. Else logits are divided by it.
  int64_t topK = 0;       ///< Keep the k largest logits; 0: all.
  double topP = 1;        ///< Then keep the fewest tokens whose probabilities reach this sum.
  uint64_t seed = 0;
};

/// Draws tokens. The n-th draw depends on the seed, on n and on the logits alone. Ties go to the lower id.
class Sampler {
public:
  explicit Sampler(const SamplerOptions &options) : options(options) {}

  /// Null, or what is wrong with the options.
  static const char *check(const SamplerOptions &options);

  /// Puts the chosen id into `id`. `logits`: `count` fp32 values. -inf forbids a token; NaN, +inf and a row of -inf
  /// are errors (false, with a message).
  bool sample(const float *logits, int64_t count, int64_t &id, std::string &error);

private:
  double uniform();
  SamplerOptions options;
  uint64_t draws = 0;
  std::vector<int32_t> order;
  std::vector<double> weights;
};

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_SAMPLER_H
