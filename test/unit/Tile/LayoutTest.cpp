//===- LayoutTest.cpp - layouts against the tables of the PTX ISA
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace kimi::tile;
using Shape = std::vector<int64_t>;

namespace {
class Layout : public testing::Test {
protected:
  Layout() { context.loadDialect<TileDialect>(); }

  /// How often each element of a tile is held, row-major.
  static std::vector<int64_t> holders(LayoutAttr layout, const Shape &shape) {
    int64_t count = 1;
    for (int64_t extent : shape) {
      count *= extent;
    }
    std::vector<int64_t> held(count, 0);
    for (int64_t warp = 0; warp < layout.warpCount(); ++warp) {
      for (int64_t lane = 0; lane < 32; ++lane) {
        for (int64_t r = 0; r < layout.registerCount(); ++r) {
          auto at = layout.coordinates(r, lane, warp, shape.size());
          int64_t flat = 0;
          for (size_t d = 0; d < shape.size(); ++d) {
            EXPECT_LT(at[d], shape[d]);
            flat = flat * shape[d] + at[d];
          }
          ++held[flat];
        }
      }
    }
    return held;
  }

  static void expectCovered(LayoutAttr layout, const Shape &shape) {
    ASSERT_TRUE(layout);
    EXPECT_TRUE(layout.covers(shape));
    for (int64_t count : holders(layout, shape)) {
      ASSERT_EQ(count, layout.replication());
    }
  }

  mlir::MLIRContext context;
};
} // namespace

TEST_F(Layout, MmaAccumulatorsAreThoseOfThePtxIsa) {
  LayoutAttr layout = mmaAccumulatorLayout(&context, 16, 8, 1, 1);
  expectCovered(layout, {16, 8});
  for (int64_t lane = 0; lane < 32; ++lane) {
    int64_t group = lane >> 2, inGroup = lane % 4;
    for (int64_t i = 0; i < 4; ++i) {
      auto at = layout.coordinates(i, lane, 0, 2);
      EXPECT_EQ(at[0], i < 2 ? group : group + 8);
      EXPECT_EQ(at[1], inGroup * 2 + (i & 1));
    }
  }
}

TEST_F(Layout, MmaAccumulatorsAreTheAFragmentOfTheNextProduct) {
  // a_i of mma.m16n8k16: row group (+8 for i in 2, 3, 6, 7), column 2 (lane mod 4) + (i & 1) (+8 for i >= 4).
  LayoutAttr layout = mmaAccumulatorLayout(&context, 16, 16, 1, 1);
  RegisterTable table(layout, 2);
  for (int64_t lane = 0; lane < 32; ++lane) {
    auto base = layout.coordinates(0, lane, 0, 2);
    EXPECT_EQ(base[0], lane >> 2);
    EXPECT_EQ(base[1], lane % 4 * 2);
  }
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_GE(table.lookup({i % 4 < 2 ? 0 : 8, (i & 1) + (i < 4 ? 0 : 8)}), 0);
  }
  EXPECT_EQ(table.lookup({1, 0}), -1);
}

TEST_F(Layout, MmaWarpsOwnBlocks) {
  for (auto [rows, columns, rowWarps, columnWarps] :
       {std::array<int64_t, 4>{64, 64, 4, 1}, {128, 128, 2, 4}, {48, 24, 3, 1}, {16, 192, 1, 4}, {96, 40, 2, 5}}) {
    LayoutAttr layout = mmaAccumulatorLayout(&context, rows, columns, rowWarps, columnWarps);
    EXPECT_EQ(layout.threadCount(), 32 * rowWarps * columnWarps);
    EXPECT_EQ(layout.registerCount(), rows * columns / layout.threadCount());
    expectCovered(layout, {rows, columns});
  }
}

TEST_F(Layout, WgmmaAccumulators) {
  // d of wgmma.m64nN: warp w holds rows 16 w ..; within them as mma.m16n8.
  LayoutAttr layout = wgmmaAccumulatorLayout(&context, 64, 176, 1, 1);
  expectCovered(layout, {64, 176});
  for (int64_t i = 0; i < 88; ++i) {
    auto at = layout.coordinates(i, 13, 2, 2);
    EXPECT_EQ(at[0], 32 + 13 / 4 + (i % 4 < 2 ? 0 : 8));
    EXPECT_EQ(at[1], i / 4 * 8 + 13 % 4 * 2 + i % 2);
  }
  LayoutAttr wide = wgmmaAccumulatorLayout(&context, 256, 128, 2, 1);
  expectCovered(wide, {256, 128});
  EXPECT_EQ(wide.coordinates(64, 0, 0, 2)[0], 64); // a thread's second m64
  EXPECT_EQ(wide.coordinates(0, 0, 4, 2)[0], 128); // the second warpgroup
}

TEST_F(Layout, BlockedCoversEveryShape) {
  for (const Shape &shape :
       {Shape{1}, {7}, {50}, {1, 768}, {8, 768}, {64, 1}, {3, 5, 64}, {48, 40}, {1, 1}, {64, 64}}) {
    for (int64_t warps : {1, 3, 4, 8}) {
      for (int64_t vector : {1, 4, 8}) {
        expectCovered(blockedLayout(&context, shape, warps, vector), shape);
      }
      expectCovered(bestBlockedLayout(&context, shape, warps, 8), shape);
    }
  }
}

TEST_F(Layout, BlockedIsCoalescedAndVectorised) {
  // Eight rows of 768 in eight warps: a row a warp, sixteen bytes a lane, neighbours beside each other.
  LayoutAttr layout = bestBlockedLayout(&context, {8, 768}, 8, 4);
  EXPECT_EQ(layout.replication(), 1);
  for (int64_t r = 0; r < 4; ++r) {
    EXPECT_EQ(layout.coordinates(r, 5, 3, 2), (mlir::SmallVector<int64_t>{3, 20 + r}));
  }
  // A single row of 768 in 256 threads has no use for vectors: three elements a thread, none twice.
  EXPECT_EQ(bestBlockedLayout(&context, {1, 768}, 8, 4).registerCount(), 3);
}

TEST_F(Layout, SimtBlocksAreSquare) {
  for (bool transposed : {false, true}) {
    LayoutAttr layout = simtAccumulatorLayout(&context, 128, 128, 8, transposed);
    expectCovered(layout, {128, 128});
    int64_t rows = 0;
    for (int64_t r = 0; r < layout.registerCount(); ++r) {
      rows += layout.registerOffset(r, 2)[1] == 0;
    }
    EXPECT_EQ(rows, 8);
    EXPECT_EQ(layout.registerCount(), 64);
    // Columns of a thread: four beside each other to be read as a vector, or as far apart as lanes are.
    EXPECT_EQ(layout.registerOffset(1, 2)[1], transposed ? 8 : 1);
    for (const Shape &shape : {Shape{64, 64}, {16, 128}, {1, 128}, {2, 64}, {6, 96}, {128, 1}}) {
      if (LayoutAttr other = simtAccumulatorLayout(&context, shape[0], shape[1], 2, transposed)) {
        expectCovered(other, shape);
        EXPECT_EQ(other.replication(), 1);
      }
    }
  }
  EXPECT_FALSE(simtAccumulatorLayout(&context, 3, 5, 4, false));
}

TEST_F(Layout, SlicesReplicate) {
  LayoutAttr layout = mmaAccumulatorLayout(&context, 64, 128, 2, 2);
  LayoutAttr rows = layout.slice(1), columns = layout.slice(0);
  expectCovered(rows, {64, 1});
  expectCovered(columns, {1, 128});
  EXPECT_EQ(rows.registerCount(), 4);
  EXPECT_EQ(rows.replication(), 4 * 2);    // lanes of a row, warps side by side
  EXPECT_EQ(columns.replication(), 8 * 2); // lanes of a column, warps above each other
  EXPECT_EQ(rows.coordinates(1, 9, 0, 2)[0], layout.coordinates(2, 9, 0, 2)[0]);
}

TEST_F(Layout, SameElementsWhateverTheRegisterOrder) {
  LayoutAttr byColumn = makeLayout(&context, {{2, 1, 1}, {4, 1, 0}}, {{32, 2, 1}}, {});
  LayoutAttr byRow = makeLayout(&context, {{4, 1, 0}, {2, 1, 1}}, {{32, 2, 1}}, {});
  LayoutAttr other = makeLayout(&context, {{2, 32, 1}, {4, 1, 0}}, {{32, 1, 1}}, {});
  EXPECT_NE(byColumn, byRow);
  EXPECT_TRUE(byColumn.sameElements(byRow));
  EXPECT_FALSE(byColumn.sameElements(other));
}

TEST_F(Layout, DigitsThatContinueEachOtherAreOne) {
  EXPECT_EQ(makeLayout(&context, {{2, 1, 0}, {1, 0, 0}, {3, 2, 0}}, {{4, 0, 0}, {8, 0, 0}}, {}),
            makeLayout(&context, {{6, 1, 0}}, {{32, 0, 0}}, {{1, 0, 0}}));
}
