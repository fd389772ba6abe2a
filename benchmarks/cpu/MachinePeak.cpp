//===- MachinePeak.cpp - what this processor can do at most
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   kimi-machine-peak [threads [bytes]]
//
// Prints {"isa", "threads", "bytes", "flops", "bytes_per_s"} (JSON): the rate of fused multiply-adds of fp32 in the
// widest registers, all operands in registers, and the rate at which `bytes` are read again and again (what the caches
// keep counts, as it does for weights). Each is the best of several rounds, all threads at once. A kernel cannot be
// faster, so times from these rates are floors.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

/// More chains than the latency of a multiply-add times the number of its units.
constexpr int kChains = 12;
/// Runs of consecutive addresses that a thread reads in turns.
constexpr int kStreams = 4;

/// How one instruction set multiplies and reads. `multiply` does steps * kChains * lanes multiply-adds; `read` adds up
/// `count` floats (a multiple of kStreams * 64) that lie in kStreams parts.
struct Isa {
  const char *name;
  int64_t lanes;
  float (*multiply)(int64_t steps);
  float (*read)(const float *data, int64_t count);
};

} // namespace

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float multiply512(int64_t steps) {
  __m512 sums[kChains], factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  std::fill(sums, sums + kChains, factor);
  for (int64_t step = 0; step < steps; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    sums[0] = _mm512_add_ps(sums[0], sums[i]);
  }
  return _mm512_reduce_add_ps(sums[0]);
}

__attribute__((target("avx512f"))) static float read512(const float *data, int64_t count) {
  __m512 sums[kStreams][4] = {};
  int64_t part = count / kStreams;
  for (int64_t at = 0; at < part; at += 64) {
#pragma clang loop unroll(full)
    for (int stream = 0; stream < kStreams; ++stream) {
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) {
        sums[stream][i] = _mm512_add_ps(sums[stream][i], _mm512_loadu_ps(data + stream * part + at + 16 * i));
      }
    }
  }
  __m512 sum = _mm512_setzero_ps();
  for (auto &stream : sums) {
    for (__m512 each : stream) {
      sum = _mm512_add_ps(sum, each);
    }
  }
  return _mm512_reduce_add_ps(sum);
}

__attribute__((target("avx2,fma"))) static float addUp(__m256 x) {
  float lanes[8], sum = 0;
  _mm256_storeu_ps(lanes, x);
  for (float lane : lanes) {
    sum += lane;
  }
  return sum;
}

__attribute__((target("avx2,fma"))) static float multiply256(int64_t steps) {
  __m256 sums[kChains], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  std::fill(sums, sums + kChains, factor);
  for (int64_t step = 0; step < steps; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    sums[0] = _mm256_add_ps(sums[0], sums[i]);
  }
  return addUp(sums[0]);
}

__attribute__((target("avx2,fma"))) static float read256(const float *data, int64_t count) {
  __m256 sums[kStreams] = {};
  int64_t part = count / kStreams;
  for (int64_t at = 0; at < part; at += 64) {
#pragma clang loop unroll(full)
    for (int stream = 0; stream < kStreams; ++stream) {
#pragma clang loop unroll(full)
      for (int i = 0; i < 8; ++i) {
        sums[stream] = _mm256_add_ps(sums[stream], _mm256_loadu_ps(data + stream * part + at + 8 * i));
      }
    }
  }
  for (int stream = 1; stream < kStreams; ++stream) {
    sums[0] = _mm256_add_ps(sums[0], sums[stream]);
  }
  return addUp(sums[0]);
}
#endif

/// As wide as the compiler makes it for every processor of the architecture.
typedef float Vector __attribute__((vector_size(16)));

static float addUp(Vector x) { return x[0] + x[1] + x[2] + x[3]; }

static float multiplyPlain(int64_t steps) {
  Vector sums[kChains], factor = {0.999f, 0.999f, 0.999f, 0.999f}, term = {0.001f, 0.001f, 0.001f, 0.001f};
  std::fill(sums, sums + kChains, factor);
  for (int64_t step = 0; step < steps; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kChains; ++i) {
      sums[i] = sums[i] * factor + term;
    }
  }
  for (int i = 1; i < kChains; ++i) {
    sums[0] += sums[i];
  }
  return addUp(sums[0]);
}

static float readPlain(const float *data, int64_t count) {
  Vector sums[kStreams] = {};
  int64_t part = count / kStreams;
  for (int64_t at = 0; at < part; at += 4) {
    for (int stream = 0; stream < kStreams; ++stream) {
      sums[stream] += *reinterpret_cast<const Vector *>(data + stream * part + at);
    }
  }
  return addUp(sums[0] + sums[1] + sums[2] + sums[3]);
}

static Isa widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return {"avx512f", 16, multiply512, read512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", 8, multiply256, read256};
  }
#endif
  return {"128 bits", 4, multiplyPlain, readPlain};
}

static std::atomic<float> sink{0};

/// Seconds from when all threads are there until the last is done.
static double together(int threads, const std::function<float(int)> &work) {
  std::atomic<int> waiting{threads};
  std::vector<std::thread> pool;
  std::vector<Clock::time_point> starts(threads), ends(threads);
  for (int id = 0; id < threads; ++id) {
    pool.emplace_back([&, id] {
      waiting.fetch_sub(1);
      while (waiting.load() > 0) {
      }
      starts[id] = Clock::now();
      sink = work(id);
      ends[id] = Clock::now();
    });
  }
  for (std::thread &thread : pool) {
    thread.join();
  }
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                       *std::min_element(starts.begin(), starts.end()))
      .count();
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int64_t bytes = argc > 2 ? std::atoll(argv[2]) : int64_t(256) << 20;
  int64_t unit = 64 * kStreams, each = threads > 0 ? bytes / 4 / threads / unit * unit : 0;
  if (argc > 3 || threads < 1 || threads > 1024 || each < unit) {
    std::fprintf(stderr, "usage: kimi-machine-peak [threads [bytes]]\n");
    return 2;
  }
  bytes = each * 4 * threads;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "kimi-machine-peak: error: %lld bytes are not to be had\n", static_cast<long long>(bytes));
    return 1;
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  float *data = static_cast<float *>(memory);
  std::fill(data, data + bytes / 4, 1.0f);
  Isa isa = widest();
  constexpr int64_t steps = 4 << 20;
  double flops = 0, rate = 0;
  for (int round = 0; round < 10; ++round) {
    double operations = 2.0 * steps * kChains * isa.lanes * threads;
    flops = std::max(flops, operations / together(threads, [&](int) { return isa.multiply(steps); }));
    rate = std::max(rate, bytes / together(threads, [&](int id) { return isa.read(data + id * each, each); }));
  }
  std::printf("{\"isa\": \"%s\", \"threads\": %d, \"bytes\": %lld, \"flops\": %.6g, \"bytes_per_s\": %.6g}\n", isa.name,
              threads, static_cast<long long>(bytes), flops, rate);
  return 0;
}
