//===- ThreadPool.h - runs the grid of a kernel on the cores ----------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CPU_THREADPOOL_H
#define KIMI_RUNTIME_CPU_THREADPOOL_H

#include "runtime/Grid.h"
#include "runtime/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace kimi {

/// A compiled kernel: computes grid point (x, y, z). `args` holds for each view its pointer, sizes and strides (in
/// elements), for each scalar its value.
using KernelFunction = void (*)(const int64_t *args, int64_t x, int64_t y, int64_t z);

/// A fixed set of threads for many short launches in a row. The caller works too, and never waits for a thread that has
/// not started on the launch: a worker that the system holds up costs nothing. Workers spin for some tens of
/// microseconds after a launch before they sleep, so that the next one finds them awake.
class ThreadPool {
public:
  /// A pool of `threads` threads, the caller included; 0: one for each core this process may use.
  /// Error: KIMI_RUNTIME_ERROR where the system gives no more threads, KIMI_INVALID_ARGUMENT for a senseless number.
  static Status create(int threads, std::unique_ptr<ThreadPool> &out);
  ~ThreadPool();

  int size() const { return static_cast<int>(workers.size()) + 1; }

  /// Calls `kernel` once for every point of the grid (extents >= 0, product below 2^62), in no particular order, and
  /// returns when all are done. One caller at a time.
  void run(KernelFunction kernel, const int64_t *args, Grid grid);

private:
  explicit ThreadPool(bool maySpin) : maySpin(maySpin) {}
  void work();
  bool waitForLaunch(uint32_t seen, uint64_t &found);
  void drain();
  void waitUntilIdle();
  void stop();

  // The launch. Written while no worker is inside (`state` has no open launch and no active worker).
  KernelFunction kernel = nullptr;
  const int64_t *args = nullptr;
  Grid grid;
  int64_t points = 0, chunk = 1;

  /// Generation (32 bits), open (1 bit), workers inside (31 bits): a worker enters an open launch by adding one.
  alignas(64) std::atomic<uint64_t> state{0};
  /// First grid point that nobody has taken.
  alignas(64) std::atomic<int64_t> next{0};
  /// Counts launches; the word on which workers sleep.
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> stopping{false};
  /// Counts departures while the caller sleeps; the word on which it does.
  alignas(64) std::atomic<uint32_t> departures{0};
  std::atomic<bool> callerSleeps{false};

  const bool maySpin;
  std::vector<std::thread> workers;
};

} // namespace kimi

#endif // KIMI_RUNTIME_CPU_THREADPOOL_H
