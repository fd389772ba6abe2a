//===- MathTest.cpp - the functions of a tile.map against libm in double
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/TileToLlvm/KernelRunner.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <ostream>

using namespace kimi::test;

namespace {
struct Function {
  std::string op;
  std::function<double(double)> exact;
  double low, high; // range of arguments
  double relative;  // accepted error
};

void PrintTo(const Function &function, std::ostream *out) { *out << function.op; }

class Math : public testing::TestWithParam<Function> {};

constexpr int64_t count = 1021; // not a multiple of a vector

std::string kernel(const std::string &op, const std::string &type) {
  return "!t = memref<1021x" + type +
         ", #tile.space<fragment>>\ntile.kernel @k(%x: memref<1021xf32>, %y: memref<1021xf32>) {\n" + R"(
  %c0 = arith.constant 0 : index
  %t = tile.alloc : !t
  tile.load %t from %x[%c0] dims [0] : memref<1021xf32>, !t
  tile.map ins(%t : !t) outs(%t : !t) {
  ^bb0(%a: )" +
         type + "):\n    %r = math." + op + " %a : " + type + "\n    tile.yield %r : " + type + R"(
  }
  tile.store %t to %y[%c0] dims [0] : !t, memref<1021xf32>
  tile.return
})";
}
} // namespace

TEST_P(Math, IsNearLibm) {
  Function function = GetParam();
  KernelRunner runner(kernel(function.op, "f32"));
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x(count), y(count);
  double worst = 0, at = 0;
  for (int64_t block = 0; block < 100; ++block) {
    for (int64_t i = 0; i < count; ++i) {
      x[i] = float(function.low + (function.high - function.low) * double(block * count + i) / double(100 * count));
    }
    ASSERT_TRUE(runner.run("k", {dense(x.data(), {count}), dense(y.data(), {count})}));
    for (int64_t i = 0; i < count; ++i) {
      double exact = function.exact(x[i]);
      double error = std::abs(y[i] - exact) / std::max(std::abs(exact), 1e-37);
      if (!(error <= worst)) {
        worst = error;
        at = x[i];
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(worst, function.relative) << "at " << at;
}

TEST_P(Math, TreatsTheEndsAsLibm) {
  Function function = GetParam();
  KernelRunner runner(kernel(function.op, "f32"));
  ASSERT_EQ(runner.error(), "");
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(count, 1), y(count);
  std::vector<float> ends = {0, inf, -inf, nan, 1e30f, -1e30f, 1e-30f, 1e-40f};
  std::copy(ends.begin(), ends.end(), x.begin());
  ASSERT_TRUE(runner.run("k", {dense(x.data(), {count}), dense(y.data(), {count})}));
  for (size_t i = 0; i < ends.size(); ++i) {
    float exact = float(function.exact(ends[i]));
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(y[i])) << ends[i];
    } else if (std::isinf(exact) || exact == 0) {
      EXPECT_EQ(y[i], exact) << ends[i];
    } else {
      EXPECT_NEAR(y[i], exact, 2e-6 * std::abs(exact) + 1e-43) << ends[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, Math,
                         testing::Values(Function{"exp", [](double x) { return std::exp(x); }, -87, 88.7, 2e-7},
                                         Function{"exp2", [](double x) { return std::exp2(x); }, -125, 127, 2e-7},
                                         Function{"expm1", [](double x) { return std::expm1(x); }, -20, 80, 1e-6},
                                         Function{"log", [](double x) { return std::log(x); }, 1e-6, 50, 2e-7},
                                         Function{"log1p", [](double x) { return std::log1p(x); }, -0.999, 50, 5e-7},
                                         Function{"tanh", [](double x) { return std::tanh(x); }, -12, 12, 5e-7},
                                         Function{"erf", [](double x) { return std::erf(x); }, -5, 5, 5e-7},
                                         Function{"sqrt", [](double x) { return std::sqrt(x); }, 0, 100, 1e-7},
                                         Function{"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1e-3, 100, 2e-7},
                                         Function{"sin", [](double x) { return std::sin(x); }, 1, 3, 2e-7}),
                         [](const testing::TestParamInfo<Function> &info) { return info.param.op; });

TEST(MathOfHalf, RunsInSinglePrecision) {
  for (std::string type : {"f16", "bf16"}) {
    KernelRunner runner(kernel("exp", type));
    ASSERT_EQ(runner.error(), "");
    std::vector<float> x(count), y(count);
    for (int64_t i = 0; i < count; ++i) {
      x[i] = float(i) / 1024;
    }
    ASSERT_TRUE(runner.run("k", {dense(x.data(), {count}), dense(y.data(), {count})}));
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(y[i], std::exp(x[i]), 2e-2) << x[i];
    }
  }
}
