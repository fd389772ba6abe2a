//===- ThreadPool.cpp - runs the grid of a kernel on the cores --------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace kimi {
namespace {

constexpr uint64_t openBit = 1ull << 31, activeMask = openBit - 1;
constexpr auto spinTime = std::chrono::microseconds(50);
constexpr int maxThreads = 1024;

uint32_t generationOf(uint64_t state) { return static_cast<uint32_t>(state >> 32); }

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  static_assert(sizeof(word) == sizeof(uint32_t), "a futex is 32 bits");
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futexWake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

int usableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Spins until `done()` or the spin time is over; returns the last `done()`.
template <typename Done>
bool spinUntil(Done done) {
  auto end = std::chrono::steady_clock::now() + spinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) {
        return true;
      }
      pauseCpu();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

} // namespace

Status ThreadPool::create(int threads, std::unique_ptr<ThreadPool> &out) {
  if (threads < 0 || threads > maxThreads) {
    return invalidArgument("a pool of " + std::to_string(threads) + " threads is not possible; 1 to " +
                           std::to_string(maxThreads) + " are, 0 means one for each core");
  }
  int cores = usableCores();
  int wanted = threads == 0 ? cores : threads;
  // With more threads than cores, a spinning thread would keep a working one from its core.
  std::unique_ptr<ThreadPool> pool(new ThreadPool(wanted <= cores));
  try {
    pool->workers.reserve(wanted - 1);
    for (int i = 1; i < wanted; ++i) {
      pool->workers.emplace_back([p = pool.get()] { p->work(); });
    }
  } catch (const std::system_error &error) {
    return {KIMI_RUNTIME_ERROR, "cannot start " + std::to_string(wanted) + " threads: " + error.what()};
  }
  out = std::move(pool);
  return {};
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping.store(true);
  epoch.fetch_add(1);
  futexWake(epoch, INT_MAX);
  for (std::thread &worker : workers) {
    worker.join();
  }
}

/// Takes chunks of the open launch until none is left.
void ThreadPool::drain() {
  for (;;) {
    int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= points) {
      return;
    }
    int64_t end = std::min(begin + chunk, points);
    int64_t x = begin % grid.x, y = begin / grid.x % grid.y, z = begin / grid.x / grid.y;
    for (int64_t i = begin; i < end; ++i) {
      kernel(args, x, y, z);
      if (++x == grid.x) {
        x = 0;
        if (++y == grid.y) {
          y = 0;
          ++z;
        }
      }
    }
  }
}

/// Waits for an open launch of another generation than `seen`; false when the pool stops.
bool ThreadPool::waitForLaunch(uint32_t seen, uint64_t &found) {
  auto arrived = [&] {
    found = state.load(std::memory_order_acquire);
    return ((found & openBit) && generationOf(found) != seen) || stopping.load(std::memory_order_relaxed);
  };
  while (!(maySpin ? spinUntil(arrived) : arrived())) {
    // The caller publishes, advances `epoch`, then looks for sleepers. So either the launch is seen here, or the caller
    // sees the sleeper, and the changed epoch keeps a late one from sleeping.
    uint32_t before = epoch.load();
    sleepers.fetch_add(1);
    uint64_t now = state.load();
    if (!((now & openBit) && generationOf(now) != seen) && !stopping.load()) {
      futexWait(epoch, before);
    }
    sleepers.fetch_sub(1);
  }
  return !stopping.load();
}

void ThreadPool::work() {
  uint32_t seen = 0;
  uint64_t current;
  while (waitForLaunch(seen, current)) {
    // Fails when the launch closed meanwhile, or another worker came or went.
    if (!state.compare_exchange_strong(current, current + 1, std::memory_order_acquire)) {
      continue;
    }
    seen = generationOf(current);
    drain();
    state.fetch_sub(1);
    if (callerSleeps.load()) {
      departures.fetch_add(1);
      futexWake(departures, 1);
    }
  }
}

/// Waits until every worker that entered the closed launch has left.
void ThreadPool::waitUntilIdle() {
  auto idle = [&] { return (state.load(std::memory_order_acquire) & activeMask) == 0; };
  if (idle() || spinUntil(idle)) {
    return;
  }
  callerSleeps.store(true);
  for (;;) {
    uint32_t before = departures.load();
    if ((state.load() & activeMask) == 0) {
      break;
    }
    futexWait(departures, before);
  }
  callerSleeps.store(false);
}

void ThreadPool::run(KernelFunction launchKernel, const int64_t *launchArgs, Grid launchGrid) {
  kernel = launchKernel;
  args = launchArgs;
  grid = launchGrid;
  points = grid.x * grid.y * grid.z;
  if (points <= 0) {
    return;
  }
  // Many chunks a thread: unequal points even out, and the threads end nearly together.
  chunk = std::max<int64_t>(1, points / (int64_t(size()) * 64));
  next.store(0, std::memory_order_relaxed);
  int64_t helpers = std::min<int64_t>(workers.size(), (points + chunk - 1) / chunk - 1);
  if (helpers == 0) {
    drain();
    return;
  }
  uint64_t generation = uint64_t(generationOf(state.load(std::memory_order_relaxed)) + 1) << 32;
  state.store(generation | openBit);
  epoch.fetch_add(1);
  if (sleepers.load() > 0) {
    futexWake(epoch, static_cast<int>(helpers));
  }
  drain();
  state.fetch_and(~openBit);
  waitUntilIdle();
}

} // namespace kimi
