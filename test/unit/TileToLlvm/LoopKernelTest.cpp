//===- LoopKernelTest.cpp - kernels of plain loops, compiled and run
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/TileToLlvm/KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace kimi::test;

static const char *const scale = R"(
tile.kernel @scale(%x: memref<?x?xf32, strided<[?, ?], offset: ?>>, %y: memref<?x?xf32, strided<[?, 1], offset: ?>>,
                   %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  %row = tile.block_id 0
  scf.for %j = %c0 to %n step %c1 {
    %a = memref.load %x[%row, %j] : memref<?x?xf32, strided<[?, ?], offset: ?>>
    %b = arith.mulf %a, %two : f32
    memref.store %b, %y[%row, %j] : memref<?x?xf32, strided<[?, 1], offset: ?>>
  }
  tile.return
})";

TEST(LoopKernel, ReadsStridedViewsAndScalars) {
  KernelRunner runner(scale);
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x(5 * 7), y(5 * 7, -1);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = float(i);
  }
  // x is seen transposed: element (i, j) lies at j * 5 + i.
  for (int64_t row = 0; row < 5; ++row) {
    ASSERT_TRUE(runner.run("scale", {{x.data(), {5, 7}, {1, 5}}, dense(y.data(), {5, 7})}, {7}, row));
  }
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 7; ++j) {
      EXPECT_EQ(y[i * 7 + j], 2 * x[j * 5 + i]);
    }
  }
}

TEST(LoopKernel, SameInputSameBytes) {
  KernelRunner first(scale), second(scale);
  ASSERT_EQ(first.error(), "");
  EXPECT_EQ(first.image(), second.image());
}

TEST(LoopKernel, CallsLibm) {
  KernelRunner runner(R"(
tile.kernel @sines(%x: memref<4xf32>, %y: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %a = memref.load %x[%i] : memref<4xf32>
    %b = math.sin %a : f32
    memref.store %b, %y[%i] : memref<4xf32>
  }
  tile.return
})");
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x = {0, 1, 2, 1000}, y(4);
  ASSERT_TRUE(runner.run("sines", {dense(x.data(), {4}), dense(y.data(), {4})}));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::sin(x[i]), 1e-6f);
  }
}

TEST(LoopKernel, LowersLinalg) {
  KernelRunner runner(R"(
tile.kernel @add(%x: memref<?x3xf32, strided<[3, 1], offset: ?>>, %y: memref<?x3xf32, strided<[3, 1], offset: ?>>) {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x3xf32, strided<[3, 1], offset: ?>>) outs(%y : memref<?x3xf32, strided<[3, 1], offset: ?>>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  }
  tile.return
})");
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y = {10, 20, 30, 40, 50, 60};
  ASSERT_TRUE(runner.run("add", {dense(x.data(), {2, 3}), dense(y.data(), {2, 3})}));
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33, 44, 55, 66}));
}

TEST(LoopKernel, UnknownProcessorIsAnError) {
  KernelRunner runner(scale, "pentium-42");
  EXPECT_NE(runner.error().find("unknown processor 'pentium-42'"), std::string::npos) << runner.error();
}

TEST(LoopKernel, OldProcessorIsAnError) {
  KernelRunner runner(scale, "x86-64-v2");
  EXPECT_NE(runner.error().find("x86-64-v3"), std::string::npos) << runner.error();
}

TEST(LoopKernel, CompilesForAvx512) {
  KernelRunner runner(scale, "x86-64-v4"); // only the symbol table is looked at
  EXPECT_EQ(runner.error(), "");
}
