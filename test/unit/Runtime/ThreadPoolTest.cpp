//===- ThreadPoolTest.cpp ---------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/ThreadPool.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

using namespace kimi;

namespace {

std::unique_ptr<ThreadPool> makePool(int threads) {
  std::unique_ptr<ThreadPool> pool;
  Status status = ThreadPool::create(threads, pool);
  EXPECT_FALSE(status) << status.message();
  return pool;
}

/// args: pointer to counters, extents x and y. Adds one to the counter of the point, without synchronisation: every
/// point belongs to one thread, and the end of a launch orders it before the next.
void count(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  reinterpret_cast<int64_t *>(args[0])[(z * args[2] + y) * args[1] + x] += 1;
}

void checkGrid(ThreadPool &pool, Grid grid, int launches) {
  std::vector<int64_t> counters(grid.x * grid.y * grid.z);
  int64_t args[] = {reinterpret_cast<int64_t>(counters.data()), grid.x, grid.y};
  for (int i = 0; i < launches; ++i) {
    pool.run(count, args, grid);
  }
  for (int64_t counter : counters) {
    ASSERT_EQ(counter, launches);
  }
}

TEST(ThreadPool, RunsEveryPointOnce) {
  for (int threads : {1, 2, 3, 8}) {
    auto pool = makePool(threads);
    EXPECT_EQ(pool->size(), threads);
    for (Grid grid : {Grid{1, 1, 1}, Grid{7, 1, 1}, Grid{1, 5, 3}, Grid{13, 11, 4}, Grid{1000, 1, 1}}) {
      checkGrid(*pool, grid, 3);
    }
  }
}

TEST(ThreadPool, EmptyGridRunsNothing) {
  auto pool = makePool(2);
  checkGrid(*pool, Grid{0, 4, 1}, 1);
  pool->run(nullptr, nullptr, Grid{4, 0, 1});
}

TEST(ThreadPool, ManyTinyLaunches) {
  auto pool = makePool(2);
  checkGrid(*pool, Grid{16, 1, 1}, 20000);
  auto crowded = makePool(6); // more threads than cores: workers sleep instead of spinning
  checkGrid(*crowded, Grid{16, 1, 1}, 500);
}

TEST(ThreadPool, WakesAfterAPause) {
  auto pool = makePool(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    checkGrid(*pool, Grid{64, 1, 1}, 2);
  }
}

TEST(ThreadPool, UnevenPoints) {
  auto pool = makePool(2);
  std::vector<int64_t> sums(32);
  int64_t args[] = {reinterpret_cast<int64_t>(sums.data())};
  auto uneven = [](const int64_t *args, int64_t x, int64_t, int64_t) {
    int64_t sum = 0;
    for (int64_t i = 0; i < x * x * 100; ++i) {
      sum += i & 1;
    }
    reinterpret_cast<int64_t *>(args[0])[x] = sum;
  };
  pool->run(uneven, args, Grid{32, 1, 1});
  for (int64_t x = 0; x < 32; ++x) {
    EXPECT_EQ(sums[x], x * x * 50);
  }
}

TEST(ThreadPool, DefaultIsAThreadPerCore) { EXPECT_GE(makePool(0)->size(), 1); }

TEST(ThreadPool, RefusesSenselessCounts) {
  std::unique_ptr<ThreadPool> pool;
  EXPECT_EQ(ThreadPool::create(-1, pool).code(), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(ThreadPool::create(1 << 20, pool).code(), KIMI_INVALID_ARGUMENT);
}

TEST(ThreadPool, ComesAndGoes) {
  for (int i = 0; i < 50; ++i) {
    auto pool = makePool(4);
    if (i % 2) {
      checkGrid(*pool, Grid{9, 1, 1}, 1);
    }
  }
}

} // namespace
