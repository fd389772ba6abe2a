//===- MmaTest.cpp - tile.mma, every form of b, compiled and run
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/TileToLlvm/KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace kimi::test;

namespace {
enum class Form { Plain, Transposed, Panels16, Panels32, PlainStrided };

struct Case {
  int64_t m, n, k;
  Form form;
  unsigned lanes = 0;
};

std::string name(const Case &c) {
  const char *forms[] = {"plain", "transposed", "panels16", "panels32", "strided"};
  return std::string(forms[int(c.form)]) + "_" + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
         std::to_string(c.k) + (c.lanes != 0 ? "_lanes" + std::to_string(c.lanes) : "");
}

std::string shape(std::initializer_list<int64_t> sizes) {
  std::string result;
  for (int64_t size : sizes) {
    result += std::to_string(size) + "x";
  }
  return result;
}

class Mma : public testing::TestWithParam<Case> {};
} // namespace

/// y = x + a . b, with a in a tile, b straight from memory.
TEST_P(Mma, MatchesDoubleSums) {
  Case c = GetParam();
  int64_t panel = c.form == Form::Panels16 ? 16 : c.form == Form::Panels32 ? 32 : 0;
  std::string b, flag;
  std::vector<int64_t> bSizes, bStrides;
  if (panel != 0) {
    b = "memref<" + shape({c.n / panel, c.k, panel}) + "f32>";
    flag = "panels";
    bSizes = {c.n / panel, c.k, panel};
    bStrides = {c.k * panel, panel, 1};
  } else if (c.form == Form::Transposed) {
    b = "memref<" + shape({c.n, c.k}) + "f32, strided<[?, 1], offset: ?>>";
    flag = "transpose_b";
    bSizes = {c.n, c.k};
    bStrides = {c.k, 1};
  } else if (c.form == Form::Plain) {
    b = "memref<" + shape({c.k, c.n}) + "f32, strided<[?, 1], offset: ?>>";
    bSizes = {c.k, c.n};
    bStrides = {c.n, 1};
  } else {
    b = "memref<" + shape({c.k, c.n}) + "f32, strided<[?, ?], offset: ?>>";
    bSizes = {c.k, c.n};
    bStrides = {1, c.k};
  }
  std::string accTile = "memref<" + shape({c.m, c.n}) + "f32, #tile.space<fragment>>";
  std::string aTile = "memref<" + shape({c.m, c.k}) + "f32, #tile.space<shared>>";
  std::string acc = "memref<" + shape({c.m, c.n}) + "f32>", a = "memref<" + shape({c.m, c.k}) + "f32>";
  KernelRunner runner(
      "tile.kernel @k(%a: " + a + ", %b: " + b + ", %y: " + acc + ") {\n" + "  %c0 = arith.constant 0 : index\n" +
          "  %ta = tile.alloc : " + aTile + "\n  %acc = tile.alloc : " + accTile + "\n" +
          "  tile.load %ta from %a[%c0, %c0] dims [0, 1] : " + a + ", " + aTile + "\n" +
          "  tile.load %acc from %y[%c0, %c0] dims [0, 1] : " + acc + ", " + accTile + "\n" +
          "  tile.mma %acc, %ta, %b " + flag + " : " + accTile + ", " + aTile + ", " + b + "\n" +
          "  tile.store %acc to %y[%c0, %c0] dims [0, 1] : " + accTile + ", " + acc + "\n  tile.return\n}",
      "native", c.lanes);
  ASSERT_EQ(runner.error(), "");

  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> av(c.m * c.k), bv(c.k * c.n), y(c.m * c.n);
  for (auto *values : {&av, &bv, &y}) {
    for (float &value : *values) {
      value = uniform(random);
    }
  }
  auto bAt = [&](int64_t k, int64_t j) {
    if (panel != 0) {
      return bv[(j / panel) * c.k * panel + k * panel + j % panel];
    }
    return c.form == Form::Plain ? bv[k * c.n + j] : bv[j * c.k + k];
  };
  std::vector<double> expected(y.begin(), y.end());
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      for (int64_t k = 0; k < c.k; ++k) {
        expected[i * c.n + j] += double(av[i * c.k + k]) * bAt(k, j);
      }
    }
  }
  ASSERT_TRUE(
      runner.run("k", {dense(av.data(), {c.m, c.k}), {bv.data(), bSizes, bStrides}, dense(y.data(), {c.m, c.n})}));
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], 2e-6 * c.k + 1e-5) << "at row " << i / c.n << ", column " << i % c.n;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Mma,
                         testing::Values(Case{64, 64, 64, Form::Plain}, Case{7, 19, 33, Form::Plain},
                                         Case{1, 16, 5, Form::Plain}, Case{3, 1, 9, Form::Plain},
                                         Case{13, 40, 400, Form::Plain}, Case{64, 64, 64, Form::Transposed},
                                         Case{1, 19, 64, Form::Transposed}, Case{2, 64, 128, Form::Transposed},
                                         Case{1, 19, 33, Form::Transposed}, Case{17, 23, 70, Form::Transposed},
                                         Case{6, 16, 8, Form::Transposed}, Case{64, 64, 256, Form::Panels16},
                                         Case{1, 64, 768, Form::Panels16}, Case{2, 32, 7, Form::Panels16},
                                         Case{3, 48, 100, Form::Panels16}, Case{4, 64, 96, Form::Panels16},
                                         Case{5, 16, 3, Form::Panels16}, Case{29, 32, 1000, Form::Panels16},
                                         Case{1, 64, 65, Form::Panels32}, Case{64, 96, 800, Form::Panels32},
                                         Case{8, 12, 10, Form::PlainStrided}, Case{1, 8, 8, Form::PlainStrided},
                                         // as for AVX-512, and for narrow registers
                                         Case{64, 128, 300, Form::Panels16, 16}, Case{1, 64, 100, Form::Panels16, 16},
                                         Case{25, 64, 40, Form::Panels32, 16}, Case{1, 40, 64, Form::Transposed, 16},
                                         Case{17, 40, 70, Form::Transposed, 16}, Case{13, 41, 9, Form::Plain, 16},
                                         Case{13, 41, 9, Form::Plain, 4}, Case{17, 23, 70, Form::Transposed, 4}),
                         [](const testing::TestParamInfo<Case> &info) { return name(info.param); });
