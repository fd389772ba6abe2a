//===- MathWithoutLibmTest.cpp - the functions that targets without libm use, against libm
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
const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

struct Function {
  std::string op;
  std::function<double(double)> exact;
  double low, high; // range of arguments
  double relative;  // accepted error in fp64
};

void PrintTo(const Function &function, std::ostream *out) { *out << function.op; }

constexpr int64_t count = 1000;

/// z[i] = op(x[i]) or op(x[i], y[i]).
std::string kernel(const std::string &op, const std::string &type, bool binary) {
  std::string memref = "memref<1000x" + type + ">";
  return "tile.kernel @k(%x: " + memref + ", %y: " + memref + ", %z: " + memref + R"() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %x[%i] : )" +
         memref + "\n    %b = memref.load %y[%i] : " + memref + "\n    %r = " + (op == "remf" ? "arith." : "math.") +
         op + " %a" + (binary ? ", %b" : "") + " : " + type + "\n    memref.store %r, %z[%i] : " + memref +
         "\n  }\n  tile.return\n}\n";
}

template <typename T>
void run(const KernelRunner &runner, std::vector<T> &x, std::vector<T> &y, std::vector<T> &z) {
  x.resize(count);
  y.resize(count);
  z.resize(count);
  ASSERT_TRUE(runner.run("k", {dense(x.data(), {count}), dense(y.data(), {count}), dense(z.data(), {count})}));
}

class MathWithoutLibm : public testing::TestWithParam<Function> {
protected:
  /// The worst relative error over the range in type T.
  template <typename T>
  double worst(const char *type) {
    Function function = GetParam();
    KernelRunner runner(kernel(function.op, type, false), "native", 0, /*expandMath=*/true);
    EXPECT_EQ(runner.error(), "");
    std::vector<T> x(count), y(count), z(count);
    double worst = 0;
    for (int64_t block = 0; block < 50; ++block) {
      for (int64_t i = 0; i < count; ++i) {
        x[i] = T(function.low + (function.high - function.low) * double(block * count + i) / double(50 * count - 1));
      }
      run(runner, x, y, z);
      for (int64_t i = 0; i < count; ++i) {
        double exact = function.exact(double(x[i]));
        double error = std::abs(double(z[i]) - exact) / std::max(std::abs(exact), 1e-30);
        worst = error <= worst ? worst : error;
      }
    }
    return worst;
  }
};
} // namespace

TEST_P(MathWithoutLibm, IsNearLibmInDouble) { EXPECT_LE(worst<double>("f64"), GetParam().relative); }

TEST_P(MathWithoutLibm, IsRoundedInSingle) { EXPECT_LE(worst<float>("f32"), 1e-6); }

TEST_P(MathWithoutLibm, TreatsTheEndsAsLibm) {
  Function function = GetParam();
  KernelRunner runner(kernel(function.op, "f64", false), "native", 0, true);
  ASSERT_EQ(runner.error(), "");
  std::vector<double> ends = {0.0, -0.0, 1.0, -1.0, kInf, -kInf, kNan, 1e300, -1e300, 1e-300, 1e-310, 2.0, -2.0};
  std::vector<double> x = ends, y, z;
  run(runner, x, y, z);
  for (size_t i = 0; i < ends.size(); ++i) {
    if (std::abs(ends[i]) == 1e300 && (function.op == "sin" || function.op == "cos" || function.op == "tan")) {
      continue; // counts as 0
    }
    double exact = function.exact(ends[i]);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(z[i])) << ends[i];
    } else if (std::isinf(exact) || exact == 0) {
      EXPECT_EQ(z[i], exact) << ends[i];
    } else {
      EXPECT_NEAR(z[i], exact, 1e-12 * std::abs(exact) + 1e-322) << ends[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, MathWithoutLibm,
                         testing::Values(Function{"exp", [](double x) { return std::exp(x); }, -87, 88, 1e-15},
                                         Function{"exp2", [](double x) { return std::exp2(x); }, -100, 100, 3e-14},
                                         Function{"expm1", [](double x) { return std::expm1(x); }, -20, 80, 2e-15},
                                         Function{"log", [](double x) { return std::log(x); }, 1e-6, 50, 1e-14},
                                         Function{"log1p", [](double x) { return std::log1p(x); }, -0.999, 50, 2e-15},
                                         Function{"tanh", [](double x) { return std::tanh(x); }, -25, 25, 2e-15},
                                         Function{"erf", [](double x) { return std::erf(x); }, -8, 8, 2e-15},
                                         Function{"sin", [](double x) { return std::sin(x); }, 1, 3, 2e-15},
                                         Function{"cos", [](double x) { return std::cos(x); }, -1.5, 1.5, 2e-15},
                                         Function{"tan", [](double x) { return std::tan(x); }, -1.5, 1.5, 2e-15},
                                         Function{"asin", [](double x) { return std::asin(x); }, -1, 1, 2e-15},
                                         Function{"acos", [](double x) { return std::acos(x); }, -1, 0.999, 2e-15},
                                         Function{"atan", [](double x) { return std::atan(x); }, -30, 30, 2e-15},
                                         Function{"sinh", [](double x) { return std::sinh(x); }, -80, 80, 4e-15},
                                         Function{"cosh", [](double x) { return std::cosh(x); }, -80, 80, 4e-15},
                                         Function{"asinh", [](double x) { return std::asinh(x); }, -100, 100, 2e-15},
                                         Function{"acosh", [](double x) { return std::acosh(x); }, 1, 100, 2e-15},
                                         Function{"atanh", [](double x) { return std::atanh(x); }, -0.999, 0.999,
                                                  4e-15}),
                         [](const testing::TestParamInfo<Function> &info) { return info.param.op; });

TEST(TrigonometryWithoutLibm, ReducesLargeArguments) {
  for (const std::string op : {"sin", "cos"}) {
    KernelRunner runner(kernel(op, "f64", false), "native", 0, true);
    ASSERT_EQ(runner.error(), "");
    std::vector<double> x(count), y, z;
    for (int64_t i = 0; i < count; ++i) {
      x[i] = std::pow(1.035, double(i)) * (i % 2 ? -1 : 1); // up to 8e14, below 2^50
    }
    run(runner, x, y, z);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(z[i], op == "sin" ? std::sin(x[i]) : std::cos(x[i]), 1e-15) << x[i];
    }
  }
}

TEST(PowWithoutLibm, IsNearLibm) {
  KernelRunner runner(kernel("powf", "f64", true), "native", 0, true);
  ASSERT_EQ(runner.error(), "");
  std::vector<double> x(count), y(count), z;
  for (int64_t i = 0; i < count; ++i) {
    x[i] = std::exp(double(i % 40) - 20) * (i % 3 == 0 ? -1 : 1);
    y[i] = i % 3 == 0 ? double(i / 40) - 12 : double(i) / 40 - 12;
  }
  run(runner, x, y, z);
  for (int64_t i = 0; i < count; ++i) {
    double exact = std::pow(x[i], y[i]);
    EXPECT_NEAR(z[i], exact, 2e-13 * std::abs(exact)) << x[i] << " ^ " << y[i];
  }
}

TEST(PowWithoutLibm, TreatsTheEndsAsLibm) {
  for (const std::string type : {"f64", "f32"}) {
    KernelRunner runner(kernel("powf", type, true), "native", 0, true);
    ASSERT_EQ(runner.error(), "");
    std::vector<double> ends = {0.0, -0.0, 1.0,  -1.0, kInf,  -kInf, kNan, 0.5,  -0.5, 2.0,
                                3.0, -2.0, -3.0, 1e30, -1e30, 1e-30, 1e9,  -1e9, 1.5,  -1.5};
    std::vector<double> x(count), y(count), z(count);
    for (size_t i = 0; i < ends.size() * ends.size(); ++i) {
      x[i] = ends[i / ends.size()];
      y[i] = ends[i % ends.size()];
    }
    if (type == "f64") {
      run(runner, x, y, z);
    } else {
      std::vector<float> narrowX(x.begin(), x.end()), narrowY(y.begin(), y.end()), narrowZ;
      run(runner, narrowX, narrowY, narrowZ);
      x.assign(narrowX.begin(), narrowX.end());
      y.assign(narrowY.begin(), narrowY.end());
      z.assign(narrowZ.begin(), narrowZ.end());
    }
    for (size_t i = 0; i < ends.size() * ends.size(); ++i) {
      double exact = std::pow(x[i], y[i]);
      exact = type == "f32" ? double(float(exact)) : exact;
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(z[i])) << x[i] << " ^ " << y[i];
      } else if (std::isinf(exact) || exact == 0) {
        EXPECT_EQ(z[i], exact) << x[i] << " ^ " << y[i];
        EXPECT_EQ(std::signbit(z[i]), std::signbit(exact)) << x[i] << " ^ " << y[i];
      } else {
        EXPECT_NEAR(z[i], exact, 1e-6 * std::abs(exact)) << x[i] << " ^ " << y[i];
      }
    }
  }
}

TEST(RemainderWithoutLibm, IsThatOfLibm) {
  KernelRunner runner(kernel("remf", "f32", true), "native", 0, true);
  ASSERT_EQ(runner.error(), "");
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {5.5f, -5.5f, 1e8f, 6.0f, -6.0f, 0.0f, -0.0f, 3.0f, inf, 1.0f, 1e20f, 0.6f};
  std::vector<float> y = {2.0f, 2.0f, 0.3f, 3.0f, 3.0f, 1.0f, 1.0f, inf, 2.0f, 0.0f, 1e5f, 0.1f}, z;
  size_t given = x.size();
  run(runner, x, y, z);
  for (size_t i = 0; i < given; ++i) {
    float exact = std::fmod(x[i], y[i]);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(z[i])) << x[i] << " % " << y[i];
    } else {
      EXPECT_EQ(z[i], exact) << x[i] << " % " << y[i];
      EXPECT_EQ(std::signbit(z[i]), std::signbit(exact)) << x[i] << " % " << y[i];
    }
  }
}
