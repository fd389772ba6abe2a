//===- TileOpsTest.cpp - tile ops other than mma, compiled and run
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/TileToLlvm/KernelRunner.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

using namespace kimi::test;

static std::vector<float> counting(size_t count, float from = 1) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), from);
  return result;
}

/// Loads a 12x20 tile at (%m, %n) of x and stores all of it, padding included, to y; stores it back into z at the
/// place.
static std::string boxKernel(const std::string &dims, const std::string &source) {
  return "tile.kernel @k(%x: " + source + R"(, %y: memref<12x20xf32>, %z: )" + source + R"(, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : memref<12x20xf32, #tile.space<shared>>
  tile.load %t from %x[%m, %n] dims )" +
         dims + " {pad = -1.0 : f32} : " + source + R"(, memref<12x20xf32, #tile.space<shared>>
  tile.store %t to %y[%c0, %c0] dims [0, 1] : memref<12x20xf32, #tile.space<shared>>, memref<12x20xf32>
  tile.store %t to %z[%m, %n] dims )" +
         dims + " : memref<12x20xf32, #tile.space<shared>>, " + source + R"(
  tile.return
})";
}

struct Box {
  int64_t rows, columns; // of the source
  int64_t m, n;          // offsets
};

static void checkBox(const std::string &source, bool transposed, bool columnMajor, unsigned lanes = 0) {
  KernelRunner runner(boxKernel(transposed ? "[1, 0]" : "[0, 1]", source), "native", lanes);
  ASSERT_EQ(runner.error(), "");
  for (Box box : {Box{40, 50, 3, 5}, Box{40, 50, 35, 45}, Box{12, 20, 0, 0}, Box{20, 12, 0, 0}, Box{5, 7, 0, 0},
                  Box{30, 30, -4, -3}, Box{30, 30, 29, 29}, Box{30, 30, 40, 2}, Box{30, 30, 2, 31}, Box{30, 30, -40, 0},
                  Box{9, 300, 1, 3}, Box{300, 9, 2, 1}}) {
    std::vector<float> x = counting(box.rows * box.columns), y(12 * 20, 0), z(x.size(), 0);
    int64_t rowStride = columnMajor ? 1 : box.columns, columnStride = columnMajor ? box.rows : 1;
    View xv{x.data(), {box.rows, box.columns}, {rowStride, columnStride}}, zv = xv;
    zv.data = z.data();
    ASSERT_TRUE(runner.run("k", {xv, dense(y.data(), {12, 20}), zv}, {box.m, box.n}));
    for (int64_t i = 0; i < 12; ++i) {
      for (int64_t j = 0; j < 20; ++j) {
        int64_t r = box.m + (transposed ? j : i), c = box.n + (transposed ? i : j);
        bool inside = r >= 0 && r < box.rows && c >= 0 && c < box.columns;
        int64_t at = r * rowStride + c * columnStride;
        ASSERT_EQ(y[i * 20 + j], inside ? x[at] : -1) << i << " " << j;
        if (inside) {
          ASSERT_EQ(z[at], x[at]);
          z[at] = 0;
        }
      }
    }
    EXPECT_TRUE(std::all_of(z.begin(), z.end(), [](float v) { return v == 0; })) << "wrote outside the box";
  }
}

TEST(LoadStore, Rows) { checkBox("memref<?x?xf32, strided<[?, 1], offset: ?>>", false, false); }
TEST(LoadStore, Transposed) { checkBox("memref<?x?xf32, strided<[?, 1], offset: ?>>", true, false); }
TEST(LoadStore, TransposedByFour) { checkBox("memref<?x?xf32, strided<[?, 1], offset: ?>>", true, false, 4); }
TEST(LoadStore, ColumnMajor) { checkBox("memref<?x?xf32, strided<[1, ?], offset: ?>>", false, true); }
TEST(LoadStore, UnknownStrides) { checkBox("memref<?x?xf32, strided<[?, ?], offset: ?>>", false, false); }

TEST(LoadStore, PinnedDimOutsideIsPadding) {
  KernelRunner runner(R"(
tile.kernel @k(%x: memref<?x?xf32, strided<[?, 1], offset: ?>>, %y: memref<9xf32>, %row: index) {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : memref<9xf32, #tile.space<shared>>
  tile.load %t from %x[%row, %c0] dims [1] : memref<?x?xf32, strided<[?, 1], offset: ?>>, memref<9xf32, #tile.space<shared>>
  tile.store %t to %y[%c0] dims [0] : memref<9xf32, #tile.space<shared>>, memref<9xf32>
  tile.return
})");
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x = counting(27), y(9);
  for (int64_t row = -1; row < 4; ++row) {
    ASSERT_TRUE(runner.run("k", {dense(x.data(), {3, 9}), dense(y.data(), {9})}, {row}));
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(y[i], row < 0 || row > 2 ? 0 : x[row * 9 + i]);
    }
  }
}

TEST(LoadStore, NarrowsAndWidens) {
  for (std::string type : {"bf16", "f16"}) {
    KernelRunner runner("tile.kernel @k(%x: memref<21xf32>, %h: memref<21x" + type + R"(>, %y: memref<21xf32>) {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : memref<21xf32, #tile.space<shared>>
  tile.load %t from %x[%c0] dims [0] : memref<21xf32>, memref<21xf32, #tile.space<shared>>
  tile.store %t to %h[%c0] dims [0] : memref<21xf32, #tile.space<shared>>, memref<21x)" +
                        type + R"(>
  tile.load %t from %h[%c0] dims [0] : memref<21x)" +
                        type + R"(>, memref<21xf32, #tile.space<shared>>
  tile.store %t to %y[%c0] dims [0] : memref<21xf32, #tile.space<shared>>, memref<21xf32>
  tile.return
})");
    ASSERT_EQ(runner.error(), "");
    std::vector<float> x = counting(21, -3), y(21);
    std::vector<uint16_t> half(21);
    ASSERT_TRUE(runner.run("k", {dense(x.data(), {21}), dense(half.data(), {21}), dense(y.data(), {21})}));
    EXPECT_EQ(x, y);
  }
}

TEST(Fill, EveryElement) {
  KernelRunner runner(R"(
tile.kernel @k(%y: memref<3x7xf32>) {
  %c0 = arith.constant 0 : index
  %v = arith.constant 2.5 : f32
  %t = tile.alloc : memref<3x7xf32, #tile.space<fragment>>
  tile.fill %t, %v : memref<3x7xf32, #tile.space<fragment>>, f32
  tile.store %t to %y[%c0, %c0] dims [0, 1] : memref<3x7xf32, #tile.space<fragment>>, memref<3x7xf32>
  tile.return
})");
  ASSERT_EQ(runner.error(), "");
  std::vector<float> y(21);
  ASSERT_TRUE(runner.run("k", {dense(y.data(), {3, 7})}));
  EXPECT_EQ(y, std::vector<float>(21, 2.5f));
}

TEST(Map, BroadcastsAndIndexes) {
  // y = i >= j + d ? x + row - column : -1, on 5x19 with row 1x19 and column 5x1.
  KernelRunner runner(R"(
!t = memref<5x19xf32, #tile.space<fragment>>
!r = memref<1x19xf32, #tile.space<fragment>>
!c = memref<5x1xf32, #tile.space<fragment>>
tile.kernel @k(%x: memref<5x19xf32>, %r: memref<1x19xf32>, %c: memref<5x1xf32>, %y: memref<5x19xf32>, %d: index) {
  %c0 = arith.constant 0 : index
  %tx = tile.alloc : !t
  %tr = tile.alloc : !r
  %tc = tile.alloc : !c
  tile.load %tx from %x[%c0, %c0] dims [0, 1] : memref<5x19xf32>, !t
  tile.load %tr from %r[%c0, %c0] dims [0, 1] : memref<1x19xf32>, !r
  tile.load %tc from %c[%c0, %c0] dims [0, 1] : memref<5x1xf32>, !c
  tile.map ins(%tx, %tr, %tc : !t, !r, !c) outs(%tx : !t) {
  ^bb0(%a: f32, %b: f32, %e: f32):
    %i = tile.element_index 0
    %j = tile.element_index 1
    %jd = arith.addi %j, %d : index
    %keep = arith.cmpi sge, %i, %jd : index
    %s = arith.addf %a, %b : f32
    %u = arith.subf %s, %e : f32
    %minus = arith.constant -1.0 : f32
    %v = arith.select %keep, %u, %minus : f32
    tile.yield %v : f32
  }
  tile.store %tx to %y[%c0, %c0] dims [0, 1] : !t, memref<5x19xf32>
  tile.return
})");
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x = counting(95), r = counting(19, 100), c = counting(5, 1000), y(95);
  for (int64_t d : {-30, -3, 0, 2}) {
    ASSERT_TRUE(runner.run(
        "k", {dense(x.data(), {5, 19}), dense(r.data(), {1, 19}), dense(c.data(), {5, 1}), dense(y.data(), {5, 19})},
        {d}));
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 19; ++j) {
        EXPECT_EQ(y[i * 19 + j], i >= j + d ? x[i * 19 + j] + r[j] - c[i] : -1);
      }
    }
  }
}

static std::string reduceKernel(const std::string &kind, int64_t rows, int64_t columns, int axis, bool accumulate) {
  std::string in = std::to_string(rows) + "x" + std::to_string(columns) + "xf32";
  std::string out = (axis == 0 ? "1x" + std::to_string(columns) : std::to_string(rows) + "x1") + "xf32";
  std::string tin = "memref<" + in + ", #tile.space<fragment>>", tout = "memref<" + out + ", #tile.space<fragment>>";
  return "tile.kernel @k(%x: memref<" + in + ">, %y: memref<" + out + ">) {\n  %c0 = arith.constant 0 : index\n" +
         "  %t = tile.alloc : " + tin + "\n  %o = tile.alloc : " + tout + "\n" +
         "  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<" + in + ">, " + tin + "\n" +
         "  tile.load %o from %y[%c0, %c0] dims [0, 1] : memref<" + out + ">, " + tout + "\n" + "  tile.reduce " +
         kind + " %t into %o axis " + std::to_string(axis) + (accumulate ? " accumulate" : "") + " : " + tin + ", " +
         tout + "\n" + "  tile.store %o to %y[%c0, %c0] dims [0, 1] : " + tout + ", memref<" + out +
         ">\n  tile.return\n}";
}

TEST(Reduce, EveryAxisKindAndTail) {
  for (std::string kind : {"add", "max"}) {
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{4, 64}, {3, 7}, {5, 45}, {1, 8}, {6, 1}}) {
      for (int axis : {0, 1}) {
        for (bool accumulate : {false, true}) {
          KernelRunner runner(reduceKernel(kind, rows, columns, axis, accumulate), "native", accumulate ? 0 : 16);
          ASSERT_EQ(runner.error(), "");
          std::vector<float> x(rows * columns), y(axis == 0 ? columns : rows, 3);
          for (size_t i = 0; i < x.size(); ++i) {
            x[i] = float(int(i * 37 % 101) - 50);
          }
          std::vector<float> expected(y.size(), accumulate ? 3 : kind == "add" ? 0 : -INFINITY);
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
              float &e = expected[axis == 0 ? j : i];
              e = kind == "add" ? e + x[i * columns + j] : std::max(e, x[i * columns + j]);
            }
          }
          ASSERT_TRUE(runner.run("k", {dense(x.data(), {rows, columns}),
                                       dense(y.data(), {axis == 0 ? 1 : rows, axis == 0 ? columns : 1})}));
          EXPECT_EQ(y, expected) << kind << " " << rows << "x" << columns << " axis " << axis;
        }
      }
    }
  }
}

TEST(Reduce, KeepsNan) {
  KernelRunner runner(reduceKernel("max", 1, 20, 1, false));
  ASSERT_EQ(runner.error(), "");
  for (int64_t at : {0, 9, 19}) {
    std::vector<float> x = counting(20), y(1);
    x[at] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(runner.run("k", {dense(x.data(), {1, 20}), dense(y.data(), {1, 1})}));
    EXPECT_TRUE(std::isnan(y[0])) << "at " << at;
  }
}

TEST(Alloc, TooManyTilesIsAnError) {
  KernelRunner runner(R"(
tile.kernel @k(%y: memref<1xf32>) {
  %t = tile.alloc : memref<512x512xf32, #tile.space<shared>>
  %v = arith.constant 0.0 : f32
  tile.fill %t, %v : memref<512x512xf32, #tile.space<shared>>, f32
  tile.return
})");
  EXPECT_NE(runner.error().find("needs 1048576 bytes of tiles"), std::string::npos) << runner.error();
}

TEST(Bool, MasksAreBytes) {
  // y = mask ? x : 0 and its negation, the mask loaded and stored as tiles of i1.
  KernelRunner runner(R"(
!m = memref<19xi1, #tile.space<shared>>
!t = memref<19xf32, #tile.space<shared>>
tile.kernel @k(%x: memref<19xf32>, %m: memref<?xi1, strided<[1], offset: ?>>, %y: memref<19xf32>, %n: memref<19xi1>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c19 = arith.constant 19 : index
  %tx = tile.alloc : !t
  %tm = tile.alloc : !m
  tile.load %tx from %x[%c0] dims [0] : memref<19xf32>, !t
  tile.load %tm from %m[%c0] dims [0] : memref<?xi1, strided<[1], offset: ?>>, !m
  tile.map ins(%tx, %tm : !t, !m) outs(%tx : !t) {
  ^bb0(%a: f32, %keep: i1):
    %zero = arith.constant 0.0 : f32
    %v = arith.select %keep, %a, %zero : f32
    tile.yield %v : f32
  }
  tile.store %tx to %y[%c0] dims [0] : !t, memref<19xf32>
  scf.for %i = %c0 to %c19 step %c1 {
    %b = memref.load %m[%i] : memref<?xi1, strided<[1], offset: ?>>
    %true = arith.constant true
    %not = arith.xori %b, %true : i1
    memref.store %not, %n[%i] : memref<19xi1>
  }
  tile.return
})");
  ASSERT_EQ(runner.error(), "");
  std::vector<float> x = counting(19), y(19);
  std::vector<uint8_t> mask(17), inverse(19, 7);
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = i % 3 == 0;
  }
  mask.resize(19);
  ASSERT_TRUE(runner.run(
      "k", {dense(x.data(), {19}), dense(mask.data(), {17}), dense(y.data(), {19}), dense(inverse.data(), {19})}));
  for (size_t i = 0; i < 19; ++i) {
    EXPECT_EQ(y[i], mask[i] ? x[i] : 0);
    EXPECT_EQ(inverse[i], mask[i] ? 0 : 1);
  }
}
