//===- LinearKernelBench.cpp - how near tile.mma comes to the peak of a core
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y[M, N] = x[M, K] . w (panels of 16) with one tile of rows and columns per grid point, on one thread or two.
// Counter `flops` is the rate; for one row, `bytes` is the rate at which weights stream.
//
//===----------------------------------------------------------------------===//

#include "test/unit/TileToLlvm/KernelRunner.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <thread>

using namespace kimi::test;

namespace {
std::string replaceAll(std::string text, std::initializer_list<std::pair<std::string, int64_t>> names) {
  for (const auto &[name, value] : names) {
    for (size_t at; (at = text.find(name)) != std::string::npos;) {
      text.replace(at, name.size(), std::to_string(value));
    }
  }
  return text;
}

/// Tiles of $M x $N, the sum in steps of $T.
const char *const linear = R"(
!x = memref<?x$Kxf32, strided<[$K, 1], offset: ?>>
!w = memref<?x$Kx16xf32, strided<[?, 16, 1], offset: ?>>
!y = memref<?x?xf32, strided<[?, 1], offset: ?>>
!a = memref<$Mx$Txf32, #tile.space<shared>>
!acc = memref<$Mx$Nxf32, #tile.space<fragment>>
!b = memref<$Px$Tx16xf32, strided<[?, 16, 1], offset: ?>>
tile.kernel @linear(%x: !x, %w: !w, %y: !y) {
  %c0 = arith.constant 0 : index
  %step = arith.constant $T : index
  %k = arith.constant $K : index
  %rows = arith.constant $M : index
  %columns = arith.constant $N : index
  %perTile = arith.constant $P : index
  %zero = arith.constant 0.0 : f32
  %bm = tile.block_id 0
  %bn = tile.block_id 1
  %m = arith.muli %bm, %rows : index
  %n = arith.muli %bn, %columns : index
  %p = arith.muli %bn, %perTile : index
  %a = tile.alloc : !a
  %acc = tile.alloc : !acc
  tile.fill %acc, %zero : !acc, f32
  scf.for %at = %c0 to %k step %step {
    tile.load %a from %x[%m, %at] dims [0, 1] : !x, !a
    %b = memref.subview %w[%p, %at, 0] [$P, $T, 16] [1, 1, 1] : !w to !b
    tile.mma %acc, %a, %b panels : !acc, !a, !b
  }
  tile.store %acc to %y[%m, %n] dims [0, 1] : !acc, !y
  tile.return
})";

struct Schedule {
  int64_t tileM, tileN, tileK;
};

void run(benchmark::State &state, int64_t m, int64_t n, int64_t k, Schedule s, unsigned threads) {
  std::string text =
      replaceAll(linear, {{"$M", s.tileM}, {"$N", s.tileN}, {"$T", s.tileK}, {"$P", s.tileN / 16}, {"$K", k}});
  KernelRunner runner(text);
  if (!runner.error().empty()) {
    state.SkipWithError(runner.error().c_str());
    return;
  }
  // Enough copies of the weights that one row finds none of them in a cache.
  int64_t copies = m == 1 ? std::max<int64_t>(1, (256 << 20) / (n * k * 4)) : 1;
  std::vector<float> x(m * k, 0.5f), w(copies * n * k, 0.25f), y(m * n);
  int64_t tilesM = (m + s.tileM - 1) / s.tileM, tilesN = n / s.tileN, copy = 0;
  auto part = [&](unsigned id) {
    for (int64_t t = id; t < tilesN; t += threads) {
      for (int64_t i = 0; i < tilesM; ++i) {
        runner.run("linear",
                   {dense(x.data(), {m, k}), dense(w.data() + copy * n * k, {n / 16, k, 16}), dense(y.data(), {m, n})},
                   {}, i, t);
      }
    }
  };
  for (auto _ : state) {
    std::vector<std::thread> others;
    for (unsigned id = 1; id < threads; ++id) {
      others.emplace_back(part, id);
    }
    part(0);
    for (std::thread &other : others) {
      other.join();
    }
    copy = (copy + 1) % copies;
  }
  state.counters["flops"] = benchmark::Counter(2.0 * m * n * k, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = benchmark::Counter(4.0 * n * k, benchmark::Counter::kIsIterationInvariantRate);
}
} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  for (auto [k, n] : {std::pair<int64_t, int64_t>{768, 2304}, {768, 3072}, {3072, 768}}) {
    for (Schedule s :
         {Schedule{48, 128, std::min<int64_t>(k, 1024)}, {64, 128, 256}, {128, 128, 256}, {128, 64, 384}}) {
      std::string name = "linear/512x" + std::to_string(n) + "x" + std::to_string(k) + "/tile_" +
                         std::to_string(s.tileM) + "x" + std::to_string(s.tileN) + "x" + std::to_string(s.tileK);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=, k = k, n = n](benchmark::State &state) { run(state, 512, n, k, s, 1); });
    }
    std::string two = "linear/512x" + std::to_string(n) + "x" + std::to_string(k) + "/two_threads";
    auto onTwo = [=, k = k, n = n](benchmark::State &state) {
      run(state, 512, n, k, {48, 128, std::min<int64_t>(k, 1024)}, 2);
    };
    benchmark::RegisterBenchmark(two.c_str(), onTwo)->UseRealTime();
    std::string name = "row/1x" + std::to_string(n) + "x" + std::to_string(k);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=, k = k, n = n](benchmark::State &state) { run(state, 1, n, k, {1, 64, k}, 1); });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
