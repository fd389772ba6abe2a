//===- SamplerTest.cpp - greedy, temperature, top-k and top-p
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Sampler.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace kimi::text;

namespace {
std::vector<int> histogram(const SamplerOptions &options, const std::vector<float> &logits, int draws) {
  Sampler sampler(options);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    int64_t id = -1;
    std::string error;
    EXPECT_TRUE(sampler.sample(logits.data(), static_cast<int64_t>(logits.size()), id, error)) << error;
    ++counts.at(id);
  }
  return counts;
}

SamplerOptions options(double temperature, int64_t topK = 0, double topP = 1, uint64_t seed = 1) {
  return {temperature, topK, topP, seed};
}

TEST(Sampler, GreedyTakesTheLowestOfTies) {
  EXPECT_EQ(histogram(options(0), {1, 3, 2, 3}, 10), std::vector<int>({0, 10, 0, 0}));
  EXPECT_EQ(histogram(options(2, 1), {1, 3, 2, 3}, 10), std::vector<int>({0, 10, 0, 0}));
}

TEST(Sampler, FollowsTheSoftmax) {
  std::vector<float> logits = {std::log(1.f), std::log(2.f), std::log(5.f)};
  std::vector<int> counts = histogram(options(1), logits, 80000);
  EXPECT_NEAR(counts[0], 10000, 500);
  EXPECT_NEAR(counts[1], 20000, 600);
  EXPECT_NEAR(counts[2], 50000, 700);
  counts = histogram(options(0.5), logits, 30000); // squares: 1 : 4 : 25
  EXPECT_NEAR(counts[1], 4000, 300);
}

TEST(Sampler, TopKAndTopPCut) {
  std::vector<float> logits = {std::log(4.f), std::log(1.f), std::log(3.f), std::log(2.f)};
  std::vector<int> counts = histogram(options(1, 2), logits, 7000);
  EXPECT_EQ(counts[1] + counts[3], 0);
  EXPECT_NEAR(counts[0], 4000, 200);
  counts = histogram(options(1, 0, 0.65), logits, 7000); // 0.4 + 0.3 reach it
  EXPECT_EQ(counts[1] + counts[3], 0);
  EXPECT_NEAR(counts[2], 3000, 200);
  EXPECT_EQ(histogram(options(1, 0, 1e-9), logits, 5)[0], 5);
  EXPECT_EQ(histogram(options(1, 2), {1, 1, 1, 1}, 100)[2], 0); // ties at the cut go to the lower ids
}

TEST(Sampler, DependsOnTheSeedAlone) {
  std::vector<float> logits(100, 0.f);
  auto draw = [&](uint64_t seed) {
    Sampler sampler(options(1, 0, 1, seed));
    std::vector<int64_t> ids(20);
    std::string error;
    for (int64_t &id : ids) {
      EXPECT_TRUE(sampler.sample(logits.data(), 100, id, error));
    }
    return ids;
  };
  EXPECT_EQ(draw(5), draw(5));
  EXPECT_NE(draw(5), draw(6));
}

TEST(Sampler, ForbiddenTokensAreNeverDrawn) {
  float no = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(histogram(options(100), {no, 0, no, 0, no}, 1000)[2], 0);
}

TEST(Sampler, RefusesWhatIsNoDistribution) {
  float no = -std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::string error;
  int64_t id;
  Sampler sampler(options(1));
  for (std::vector<float> logits : {std::vector<float>{0, nan}, {no, no}, {0, -no}, {}}) {
    EXPECT_FALSE(sampler.sample(logits.data(), static_cast<int64_t>(logits.size()), id, error));
    EXPECT_FALSE(error.empty());
  }
}

TEST(Sampler, ChecksOptions) {
  EXPECT_EQ(Sampler::check(options(0.7, 40, 0.9)), nullptr);
  EXPECT_NE(Sampler::check(options(-1)), nullptr);
  EXPECT_NE(Sampler::check(options(std::nan(""))), nullptr);
  EXPECT_NE(Sampler::check(options(1, -1)), nullptr);
  EXPECT_NE(Sampler::check(options(1, 0, 0)), nullptr);
  EXPECT_NE(Sampler::check(options(1, 0, 1.5)), nullptr);
}
} // namespace
