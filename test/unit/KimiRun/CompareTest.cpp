//===- CompareTest.cpp - what counts as equal
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Compare.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace kimi::run;

namespace {
HostTensor floats(std::vector<float> values, std::vector<int64_t> dims = {}) {
  HostTensor tensor;
  dims = dims.empty() ? std::vector<int64_t>{static_cast<int64_t>(values.size())} : dims;
  EXPECT_FALSE(HostTensor::create(KIMI_F32, dims, tensor));
  std::copy(values.begin(), values.end(), static_cast<float *>(tensor.data()));
  return tensor;
}

HostTensor integers(kimi_dtype dtype, std::vector<int64_t> values) {
  HostTensor tensor;
  EXPECT_FALSE(HostTensor::create(dtype, {static_cast<int64_t>(values.size())}, tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.set(static_cast<int64_t>(i), values[i]);
  }
  return tensor;
}

TEST(Compare, Tolerances) {
  Difference d = compare(floats({1.05f, 2}), floats({1, 2}), 0.1, 0);
  EXPECT_TRUE(d.equal);
  EXPECT_NEAR(d.maxAbsolute, 0.05, 1e-6);
  EXPECT_NEAR(d.maxRelative, 0.05, 1e-6);
  EXPECT_FALSE(compare(floats({1.05f}), floats({1}), 1e-3, 1e-3).equal);
  EXPECT_TRUE(compare(floats({1.05f}), floats({1}), 0, 0.06).equal);
}

TEST(Compare, Norm) {
  // One element is off by a half, which is 5 % of the whole: |(0, 0.5)| / |(8, 6)|.
  Difference d = compare(floats({8, 6.5f}), floats({8, 6}), 0, 0, 0.051);
  EXPECT_TRUE(d.equal) << d.why;
  EXPECT_NEAR(d.relativeNorm, 0.05, 1e-6);
  d = compare(floats({8, 6.5f}), floats({8, 6}), 1, 1, 0.049);
  EXPECT_FALSE(d.equal);
  EXPECT_NE(d.why.find("norm"), std::string::npos) << d.why;
  EXPECT_FALSE(compare(floats({1, NAN}), floats({1, 1}), 1, 1, 1).equal);
  EXPECT_FALSE(compare(floats({1, INFINITY}), floats({1, 1}), 1, 1, 1).equal);
  EXPECT_FALSE(compare(floats({1e-9f}), floats({0}), 1, 1, 1).equal);
  EXPECT_TRUE(compare(floats({0}), floats({0}), 0, 0, 0).equal);
  EXPECT_FALSE(compare(integers(KIMI_I64, {100}), integers(KIMI_I64, {101}), 1, 1, 1).equal);
}

TEST(Compare, NotFinite) {
  float nan = NAN, inf = INFINITY;
  EXPECT_FALSE(compare(floats({nan}), floats({1}), 1, 1).equal);
  EXPECT_FALSE(compare(floats({1}), floats({nan}), 1, 1).equal);
  EXPECT_TRUE(compare(floats({nan}), floats({nan}), 0, 0).equal);
  EXPECT_TRUE(compare(floats({inf, -inf}), floats({inf, -inf}), 0, 0).equal);
  EXPECT_FALSE(compare(floats({inf}), floats({-inf}), 1, 1).equal);
  EXPECT_FALSE(compare(floats({inf}), floats({1e30f}), 1, 1).equal);
}

TEST(Compare, ShapesAndDtypes) {
  EXPECT_NE(compare(floats({1, 2}, {1, 2}), floats({1, 2}, {2, 1}), 1, 1).why.find("shape [1, 2]"), std::string::npos);
  EXPECT_NE(compare(integers(KIMI_I32, {1}), integers(KIMI_I64, {1}), 1, 1).why.find("dtype"), std::string::npos);
  EXPECT_TRUE(compare(floats({}, {0, 3}), floats({}, {0, 3}), 0, 0).equal);
  Difference d = compare(floats({0, 0, 0, 9}, {2, 2}), floats({0, 0, 0, 0}, {2, 2}), 0, 0);
  EXPECT_NE(d.why.find("element [1, 1] is 9, expected 0"), std::string::npos) << d.why;
}

TEST(Compare, IntegersAreExact) {
  EXPECT_TRUE(compare(integers(KIMI_I64, {INT64_MAX}), integers(KIMI_I64, {INT64_MAX}), 0, 0).equal);
  EXPECT_FALSE(compare(integers(KIMI_I64, {INT64_MAX}), integers(KIMI_I64, {INT64_MAX - 1}), 1, 1).equal);
  EXPECT_FALSE(compare(integers(KIMI_BOOL, {0xFF}), integers(KIMI_BOOL, {1}), 1, 1).equal);
  EXPECT_TRUE(compare(integers(KIMI_I8, {-3}), integers(KIMI_I8, {-3}), 0, 0).equal);
}

TEST(HostTensor, Halves) {
  EXPECT_EQ(halfToFloat(0x3C00), 1.f);
  EXPECT_EQ(halfToFloat(0xC000), -2.f);
  EXPECT_EQ(halfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(halfToFloat(0x7BFF), 65504.f);
  EXPECT_TRUE(std::isinf(halfToFloat(0xFC00)));
  EXPECT_TRUE(std::isnan(halfToFloat(0x7E00)));
  EXPECT_EQ(bfloatToFloat(0x3F80), 1.f);
  for (kimi_dtype dtype : {KIMI_F16, KIMI_BF16, KIMI_F32, KIMI_F64, KIMI_I16, KIMI_I8, KIMI_I32}) {
    HostTensor tensor = integers(dtype, {-100, -1, 0, 1, 2, 127});
    EXPECT_EQ(tensor.at(0), -100) << kimi_dtype_name(dtype);
    EXPECT_EQ(tensor.at(1), -1);
    EXPECT_EQ(tensor.at(4), 2);
    EXPECT_EQ(tensor.at(5), 127);
  }
}

TEST(HostTensor, ImpossibleShapes) {
  HostTensor tensor;
  EXPECT_TRUE(HostTensor::create(KIMI_F32, {-1}, tensor));
  EXPECT_TRUE(HostTensor::create(KIMI_F32, {int64_t(1) << 40, int64_t(1) << 40}, tensor));
  EXPECT_TRUE(HostTensor::create(KIMI_F32, std::vector<int64_t>(17, 1), tensor));
  EXPECT_FALSE(HostTensor::create(KIMI_F32, {}, tensor));
  EXPECT_EQ(tensor.count(), 1);
}
} // namespace
