//===- GpuScheduleTest.cpp - tile sizes of GPU kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/GpuSchedule.h"
#include <gtest/gtest.h>

using namespace kimi;

namespace {
const char *const kArchs[] = {"80", "86", "89", "90", "90a"};

TEST(GpuSchedule, KnowsArchitectures) {
  EXPECT_EQ(GpuArch::get("80")->sharedPerBlock, 163 * 1024);
  EXPECT_EQ(GpuArch::get("86")->sharedPerBlock, 99 * 1024);
  EXPECT_EQ(GpuArch::get("90")->sharedPerBlock, 227 * 1024);
  EXPECT_FALSE(GpuArch::get("90")->specialized);
  EXPECT_TRUE(GpuArch::get("90a")->specialized);
  EXPECT_EQ(GpuArch::get("90", 100)->multiprocessors, 100);
  for (const char *name : {"", "75", "a", "80a", "90b", "ninety", "-80", "90aa"}) {
    EXPECT_FALSE(GpuArch::get(name)) << name;
  }
}

/// Tiles of a product are launchable, for every shape: within shared memory and registers, in ascending ranges.
TEST(GpuSchedule, LinearTilesFit) {
  for (const char *name : kArchs) {
    GpuArch arch = *GpuArch::get(name);
    for (int64_t n : {1, 3, 8, 100, 768, 2304, 50257}) {
      for (int64_t k : {1, 20, 768, 3072, 28672}) {
        for (int64_t size : {2, 4}) {
          for (bool norm : {false, true}) {
            LinearShape shape{n, k, size, /*resultSize=*/4, norm, /*wideExtras=*/!norm, /*copyable=*/k % 8 == 0};
            std::vector<LinearChoice> choices = chooseLinearTiles(arch, shape);
            ASSERT_FALSE(choices.empty());
            EXPECT_FALSE(choices.back().rows) << "the last tile is for any number of rows";
            int64_t below = 0;
            for (const LinearChoice &choice : choices) {
              const LinearTile &tile = choice.tile;
              if (choice.rows) {
                EXPECT_GT(*choice.rows, below);
                below = *choice.rows;
              }
              EXPECT_EQ(tile.threads % 32, 0);
              EXPECT_LE(tile.threads, 1024);
              EXPECT_LE(tile.rows * tile.columns / tile.threads, 128) << "accumulators of a thread";
              if (tile.direct) {
                EXPECT_LE(tile.columns, n) << "weights are read in whole tiles";
                EXPECT_TRUE(choice.rows && *choice.rows <= tile.rows);
                continue;
              }
              int64_t passing = tile.specialized ? tile.threads / 32 * 2048 : 0; // results on their way out
              EXPECT_LE(tile.sharedBytes(size) + passing, arch.sharedPerBlock);
              EXPECT_TRUE(tile.specialized || (tile.cluster == 1 && tile.walkers == 0));
              EXPECT_EQ(tile.walkers % tile.cluster, 0);
              EXPECT_EQ(tile.depth * size % 16, 0);
              EXPECT_TRUE(tile.splits == 1 || !norm) << "statistics do not split";
              EXPECT_EQ(tile.specialized && !(arch.specialized && size == 2 && shape.copyable), false);
              EXPECT_TRUE(!tile.specialized || tile.rows == tile.threads / 128 * 64);
              EXPECT_TRUE(!tile.launchedStatistics || (tile.specialized && norm));
            }
          }
        }
      }
    }
  }
}

/// Decode takes one launch a product, and a product of many rows the large tile.
TEST(GpuSchedule, LinearTilesSuitTheRows) {
  GpuArch arch = *GpuArch::get("90");
  for (int64_t m : {1, 3, 16, 64}) {
    EXPECT_EQ(chooseLinearTiles(arch, {768, 3072, 2, 2, false, true, true}, m)[0].tile.splits, 1) << m;
  }
  EXPECT_TRUE(chooseLinearTiles(arch, {768, 768, 2, 2, false, true, true}, 1)[0].tile.direct);
  EXPECT_GT(chooseLinearTiles(arch, {768, 3072, 4, 4, false, true, true}, 128)[0].tile.splits, 1);
  LinearTile many = chooseLinearTiles(arch, {4096, 4096, 2, 2, false, false, true}, 8192)[0].tile;
  EXPECT_EQ(many.rows * many.columns, 128 * 128);
  LinearTile wide = chooseLinearTiles(*GpuArch::get("90a"), {4096, 4096, 2, 2, false, false, true}, 8192)[0].tile;
  EXPECT_TRUE(wide.specialized);
  EXPECT_EQ(wide.columns, 256);
  EXPECT_GT(wide.walkers, 0) << "more tiles than multiprocessors";
}

/// With wgmma the tiles of one turn fill the multiprocessors as evenly as their sizes allow.
TEST(GpuSchedule, OneTurnWhereItFits) {
  GpuArch arch = *GpuArch::get("90a");
  for (auto [n, k] : {std::pair(2304, 768), std::pair(768, 768), std::pair(3072, 768), std::pair(768, 3072)}) {
    LinearTile tile = chooseLinearTiles(arch, {n, k, 2, 2, false, false, true}, 1024)[0].tile;
    EXPECT_TRUE(tile.specialized);
    EXPECT_EQ(tile.walkers, 0);
    int64_t blocks = 1024 / tile.rows * ((n + tile.columns - 1) / tile.columns);
    EXPECT_LE(blocks, arch.multiprocessors) << n;
    EXPECT_GE(blocks, arch.multiprocessors * 3 / 4) << n;
  }
}

TEST(GpuSchedule, AttentionTilesFit) {
  for (const char *name : kArchs) {
    GpuArch arch = *GpuArch::get(name);
    for (auto [depth, width] :
         {std::pair(16, 16), std::pair(64, 64), std::pair(128, 128), std::pair(192, 128), std::pair(256, 256)}) {
      for (int64_t size : {2, 4}) {
        for (std::optional<int64_t> rows : {std::optional<int64_t>(), std::optional<int64_t>(1),
                                            std::optional<int64_t>(5), std::optional<int64_t>(16)}) {
          std::optional<AttentionTile> tile = chooseAttentionTile(arch, {depth, width, size, true}, rows);
          ASSERT_TRUE(tile) << name << " " << depth << " " << size;
          int64_t bytes = (tile->stages * tile->keys * (depth + width) + tile->queries * depth) * size;
          EXPECT_LE(bytes, arch.sharedPerBlock);
          EXPECT_EQ(tile->keys % 16, 0);
          EXPECT_EQ(tile->threads % 32, 0);
          EXPECT_LE(tile->queries * (width + tile->keys) / tile->threads, 160) << "results of a thread";
          EXPECT_TRUE(!rows || tile->queries >= std::min<int64_t>(*rows, 16));
          EXPECT_TRUE(!tile->specialized || tile->queries == tile->threads / 128 * 64);
        }
      }
    }
    EXPECT_FALSE(chooseAttentionTile(arch, {512, 512, 2, true}));
  }
}
} // namespace
