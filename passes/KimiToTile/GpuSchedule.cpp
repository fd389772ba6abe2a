//===- GpuSchedule.cpp - tile sizes from a model of a block's time
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The blocks of a product share the SMs. A step of a block's pipeline needs the SM's units for its arithmetic or its
// path to the second-level cache for its copies, whichever takes longer; alone on an SM a block also waits for the
// chain of its own instructions and for the barrier. So the time is that of the units, for all blocks of an SM, or that
// of the chain, for as many blocks as follow each other. Cycles are counted with rates of Hopper and Ampere; they need
// to rank tiles, not to predict times.
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/GpuSchedule.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

using namespace kimi;

std::optional<GpuArch> GpuArch::get(llvm::StringRef name, int64_t multiprocessors) {
  constexpr int64_t kib = 1024;
  bool specialized = name.consume_back("a");
  int64_t sm = 0;
  if (name.getAsInteger(10, sm) || sm < 80 || (specialized && sm != 90)) {
    return std::nullopt;
  }
  GpuArch arch{sm, specialized, 132, 227 * kib, 228 * kib};
  if (sm == 86 || sm == 89) {
    arch = {sm, false, sm == 89 ? 128 : 84, 99 * kib, 100 * kib};
  } else if (sm < 90) {
    arch = {sm, false, 108, 163 * kib, 164 * kib};
  }
  if (multiprocessors > 0) {
    arch.multiprocessors = multiprocessors;
  }
  return arch;
}

int64_t GpuArch::blocksPerSm(int64_t threads, int64_t sharedBytes, int64_t accumulators) const {
  constexpr int64_t reserved = 1024; // bytes of shared memory that the system takes for each block
  int64_t registers = std::min(64 + accumulators * 3 / 2, registersPerThread); // addresses, results, operands
  int64_t byMemory = sharedPerSm / (sharedBytes + reserved), byRegisters = registersPerSm / (threads * registers);
  return std::max<int64_t>(std::min({byMemory, byRegisters, threadsPerSm / threads}), 1);
}

int64_t LinearTile::blocksPerSm(const GpuArch &arch, int64_t elementSize) const {
  if (specialized) {
    return 1;
  }
  if (direct) { // many small blocks, each with a row of x and a few sums a thread
    return arch.blocksPerSm(threads, 0, rows * columns * 32 / threads);
  }
  return arch.blocksPerSm(threads, sharedBytes(elementSize), rows * columns / threads);
}

int64_t AttentionTile::sharedBytes(const AttentionShape &shape) const {
  int64_t steps = stages * keys * (shape.valuesInKeys ? shape.depth : shape.depth + shape.width);
  int64_t scores = shape.elementSize < 4 ? 0 : queries * keys; // p passes through shared memory
  return (steps + queries * shape.depth + scores) * shape.elementSize;
}

bool LinearTile::operator==(const LinearTile &other) const {
  auto all = [](const LinearTile &t) {
    return std::tie(t.rows, t.columns, t.depth, t.stages, t.threads, t.splits, t.direct, t.specialized,
                    t.launchedStatistics, t.cluster, t.walkers);
  };
  return all(*this) == all(other);
}

namespace {
constexpr double kCopyBytes = 40;  // from the second-level cache to an SM, bytes a cycle
constexpr double kSumBytes = 2500; // of partial sums through the second-level cache, all SMs together
// Of a pipeline step, barrier and loop: on an H200 a step of 64 takes 400 to 450 with the chain.
constexpr double kStepCycles = 280;
constexpr double kChainCycles = 40;       // a matrix instruction and the load of its operands, per 16 of k
constexpr double kCopyLatency = 1000;     // from a copy's issue until its bytes can be read
constexpr double kBlockCycles = 1200;     // filling the pipeline, epilogue, store
constexpr double kLaunchCycles = 3000;    // one more launch, for the sum of a split or the statistics of rows
constexpr int64_t kDirectRows[] = {1, 4}; // rows of the kernels that read weights where they multiply them
constexpr int64_t kUnsplitRows = 64;      // up to so many a step is decode: another launch costs more than it saves
constexpr double kWorthAnother = 1.06;    // gain that pays for one more variant of a kernel
constexpr int64_t kRegisterRows = 4;      // rows of attention whose keys are read into registers
constexpr int64_t kVectorBytes = 16;      // of the widest load of a thread

/// Multiply-adds a cycle and SM. Small tiles feed the units less well: each operand is read from shared memory more
/// often.
double rate(const LinearTile &tile, int64_t elementSize) {
  double side = 2.0 * tile.rows * tile.columns / (tile.rows + tile.columns); // of a square tile like this one
  double fill = side / (side + (elementSize == 4 ? 24.0 : 16.0));
  return (elementSize == 4 ? 128.0 : 1024.0 * 0.75) * fill;
}

/// The time of a product by wgmma, fed by the copy engine, with one block on an SM. Rates measured on an H200: copies
/// run at about 66 bytes a cycle and SM, products at the nominal rate where shared memory keeps up with them.
double specializedCycles(const GpuArch &arch, const LinearShape &shape, const LinearTile &tile, int64_t m) {
  constexpr double copyBytes = 66, storeBytes = 20, tileCycles = 600, fillCycles = 1000, stepCycles = 20;
  constexpr double overlapped = 0.1; // of the shorter of copies and products, which gets in the way of the longer
  constexpr double clusterCycles = 800, clusterStepCycles = 20; // until all blocks run; waits on each other
  int64_t units = llvm::divideCeil(m, tile.rows * tile.cluster) * llvm::divideCeil(shape.n, tile.columns);
  auto turns = static_cast<double>(llvm::divideCeil(units, arch.multiprocessors / tile.cluster));
  double groups = static_cast<double>(tile.rows) / 64, columns = static_cast<double>(tile.columns);
  // 64 x columns x 16 take columns / 2 cycles; both operands, 2 KiB and 32 bytes a column, come at 128 bytes a cycle.
  double products = groups * std::max(columns / 2, 16 + columns / 4) * static_cast<double>(tile.depth) / 16;
  double bytes = (static_cast<double>(tile.rows) + columns / static_cast<double>(tile.cluster)) *
                 static_cast<double>(tile.depth * shape.elementSize);
  if (shape.norm && !tile.launchedStatistics) { // an element takes five instructions of one of 128 lanes
    products += static_cast<double>(64 * tile.depth) * 5 / 128;
  }
  double copies = bytes / copyBytes, steps = std::ceil(static_cast<double>(shape.k) / static_cast<double>(tile.depth));
  double step = std::max(products, copies) + overlapped * std::min(products, copies) + stepCycles;
  double loop = steps * (step + (tile.cluster > 1 ? clusterStepCycles : 0));
  double store = tileCycles + static_cast<double>(tile.rows * tile.columns * shape.resultSize) / storeBytes;
  // Walkers fetch for the next tile while they store.
  double total = turns * (loop + store) + (tile.walkers > 0 ? 1 : turns) * (fillCycles + copies);
  return total + (tile.cluster > 1 ? clusterCycles : 0) + (tile.launchedStatistics ? kLaunchCycles : 0);
}

double cycles(const GpuArch &arch, const LinearShape &shape, const LinearTile &tile, int64_t m) {
  if (tile.specialized) {
    return specializedCycles(arch, shape, tile, m);
  }
  int64_t blocks = llvm::divideCeil(m, tile.rows) * llvm::divideCeil(shape.n, tile.columns) * tile.splits;
  auto steps = static_cast<double>(llvm::divideCeil(llvm::divideCeil(shape.k, tile.splits), tile.depth));
  double arithmetic = static_cast<double>(tile.rows * tile.columns * tile.depth) / rate(tile, shape.elementSize);
  if (shape.norm && !tile.launchedStatistics) { // four instructions an element for the statistics of the rows
    arithmetic += static_cast<double>(tile.rows * tile.depth) * 4 / 128;
  }
  double copies = static_cast<double>((tile.rows + tile.columns) * tile.depth * shape.elementSize) / kCopyBytes;
  double busy = std::max(arithmetic, copies);
  double chain = kChainCycles * static_cast<double>(tile.depth) / 16 + kStepCycles;
  // What is fetched has been under way for as many steps as there are stages beside the one that is read.
  double latency = kCopyLatency / static_cast<double>(std::max<int64_t>(tile.stages - 1, 1));
  double alone = tile.direct ? std::max(busy, chain) : std::max({busy, chain, latency});
  int64_t perSm = llvm::divideCeil(blocks, arch.multiprocessors);
  int64_t turns = llvm::divideCeil(perSm, tile.blocksPerSm(arch, shape.elementSize));
  double total = std::max(static_cast<double>(perSm) * busy, static_cast<double>(turns) * alone) * steps + kBlockCycles;
  if (tile.launchedStatistics) {
    total += kLaunchCycles;
  }
  if (tile.splits > 1) {
    total += kLaunchCycles + static_cast<double>(m * shape.n * (tile.splits + 1)) * 4 / kSumBytes;
  }
  return total;
}

/// Threads so that a thread holds 32 (narrow) to 64 accumulators, at most 256, one warp for each 16 rows or 16 columns.
int64_t threadsOf(int64_t rows, int64_t columns) { return std::clamp<int64_t>(rows * columns / 64, 128, 256); }

/// Tiles for wgmma: 64 rows a warpgroup, 128 bytes of k, as many stages as fit.
void addSpecialized(const GpuArch &arch, const LinearShape &shape, std::vector<LinearTile> &tiles) {
  if (!arch.specialized || shape.elementSize != 2 || !shape.copyable) {
    return;
  }
  auto add = [&](int64_t groups, int64_t columns, int64_t depth, int64_t cluster, bool walks, bool launches) {
    // Registers of a thread: accumulators, as many again where whole tiles are read beside them, addresses, what a norm
    // reads of rows and columns, what shifts rows of words that start anywhere, numbers of columns for an argmax.
    constexpr int64_t addresses = 40, ofNorm = 30, ofShift = 64, ofArgmax = 40, most = 232;
    constexpr int64_t fewestStages = 3, mostStages = 8;
    bool shifts = shape.resultSize == 4 && shape.n % 4 != 0;
    // First the rows are shifted, then their argmax is taken; a block that walks has neither to spare.
    int64_t shift = shifts ? ofShift : 0, argmax = shape.argmax ? ofArgmax : 0;
    int64_t after = walks ? shift + argmax : std::max(shift, argmax);
    int64_t others = addresses + (shape.norm ? ofNorm : 0) + after;
    if (columns / 2 * (shape.wideExtras ? 2 : 1) + others > most) {
      return;
    }
    LinearTile tile{64 * groups, columns, depth, 1, 128 * groups};
    tile.specialized = true;
    tile.launchedStatistics = shape.norm && launches;
    tile.cluster = cluster;
    tile.walkers = walks ? arch.multiprocessors / cluster * cluster : 0;
    // Beside the stages: what results pass through on their way out (16 rows of 128 bytes a warp, more where rows start
    // anywhere), barriers, the system's share.
    constexpr int64_t reserved = 4096;
    int64_t perWarp = shape.n * shape.resultSize % 16 == 0 ? 2304 : 2816;
    int64_t vectors = columns * 4 * (shape.norm ? 3 : 1); // of the epilogue: sums, shifts, a bias
    int64_t room = arch.sharedPerSm - tile.threads / 32 * perWarp - vectors - reserved;
    tile.stages = std::min(room / tile.sharedBytes(shape.elementSize), mostStages);
    if (tile.stages >= fewestStages) {
      tiles.push_back(tile);
    }
  };
  for (int64_t groups : {1, 2}) {
    for (int64_t columns : {16, 24, 32, 48, 64, 96, 128, 144, 160, 192, 224, 256}) {
      if (columns > 16 && columns / 2 >= shape.n) {
        continue;
      }
      for (int64_t depth : {64, 128}) {
        add(groups, columns, depth, /*cluster=*/1, /*walks=*/false, /*launches=*/true);
        add(groups, columns, depth, /*cluster=*/1, /*walks=*/true, /*launches=*/true);
        if (groups == 1 && shape.norm) { // decode: what few columns leave idle takes the statistics of its rows
          add(groups, columns, depth, /*cluster=*/1, /*walks=*/false, /*launches=*/false);
        }
      }
    }
  }
}

std::vector<LinearTile> candidates(const GpuArch &arch, const LinearShape &shape) {
  std::vector<LinearTile> tiles;
  for (int64_t rows : {16, 32, 64, 128}) {
    for (int64_t columns : {16, 32, 64, 128}) {
      if (columns > 16 && columns / 2 >= shape.n) {
        continue; // half of it would do
      }
      // 128 bytes of k are the widest swizzle of shared memory; fp32 holds half of them, for tiles that fill the SM.
      int64_t bytes = shape.elementSize == 4 && rows * columns >= 64 * 64 ? 64 : 128;
      int64_t depth = bytes / shape.elementSize;
      // Two blocks on an SM hide each other's barriers; small tiles keep more in flight.
      LinearTile tile{rows, columns, depth, 2, threadsOf(rows, columns)};
      while (tile.stages < 4 && (tile.stages + 1) * tile.sharedBytes(shape.elementSize) / tile.stages <=
                                    std::min(arch.sharedPerBlock, arch.sharedPerSm / 2 - 1024)) {
        ++tile.stages;
      }
      tiles.push_back(tile);
      // Few rows: the steps are short, so that barriers and the latency of a step count; longer ones have fewer.
      constexpr int64_t kLong = 4, kLongStages = 3, kLongRows = 32;
      LinearTile longer{rows, columns, kLong * depth, kLongStages, threadsOf(rows, columns)};
      if (shape.elementSize == 2 && rows <= kLongRows && shape.k >= longer.depth * kLongStages &&
          longer.sharedBytes(shape.elementSize) <= std::min(arch.sharedPerBlock, arch.sharedPerSm / 2 - 1024)) {
        tiles.push_back(longer);
      }
      // Statistics of whole rows do not split with the sum.
      for (int64_t splits = 2; !shape.norm && splits <= 8 && shape.k >= 4 * splits * depth; splits *= 2) {
        tile.splits = splits;
        tiles.push_back(tile);
      }
    }
  }
  addSpecialized(arch, shape, tiles);
  return tiles;
}

/// The fastest of `tiles` for m rows, or `kept` where another would gain little.
LinearTile best(const GpuArch &arch, const LinearShape &shape, llvm::ArrayRef<LinearTile> tiles, int64_t m,
                const LinearTile *kept) {
  LinearTile winner{};
  double least = 0;
  for (const LinearTile &tile : tiles) {
    bool smallest = tile.rows == 16 || (tile.specialized && tile.rows == 64); // rows past the end are not fetched
    if ((!smallest && tile.rows / 2 >= m) || (tile.splits > 1 && m <= kUnsplitRows)) {
      continue;
    }
    double time = cycles(arch, shape, tile, m);
    if (winner.rows == 0 || time < least) {
      winner = tile;
      least = time;
    }
  }
  bool keeps =
      kept && (kept->splits == 1 || m > kUnsplitRows) && cycles(arch, shape, *kept, m) <= kWorthAnother * least;
  return keeps ? *kept : winner;
}

/// Up to a few rows the weights are read once and nothing else counts: enough blocks to ask for them from every SM.
LinearTile directTile(const GpuArch &arch, const LinearShape &shape, int64_t rows) {
  int64_t columns = 8;
  while (columns < 64 && shape.n / (2 * columns) >= arch.multiprocessors) {
    columns *= 2;
  }
  while (columns > shape.n) {
    columns /= 2;
  }
  LinearTile tile{rows, columns, shape.k, 1, 256};
  tile.direct = true;
  return tile;
}
} // namespace

std::vector<LinearChoice> kimi::chooseLinearTiles(const GpuArch &arch, const LinearShape &shape,
                                                  std::optional<int64_t> known) {
  for (int64_t rows : kDirectRows) {
    if (known && *known <= rows) {
      return {{std::nullopt, directTile(arch, shape, rows)}};
    }
  }
  std::vector<LinearTile> tiles = candidates(arch, shape);
  if (known) {
    return {{std::nullopt, best(arch, shape, tiles, *known, nullptr)}};
  }
  // From many rows down to few.
  constexpr int64_t kEndless = 1 << 20, kRows[] = {8192, 4096, 1024, 256, 64, 16};
  std::vector<LinearChoice> choices{{std::nullopt, best(arch, shape, tiles, kEndless, nullptr)}};
  for (int64_t m : kRows) {
    LinearTile last = choices.back().tile, tile = best(arch, shape, tiles, m, &last);
    if (!(tile == last)) {
      choices.push_back({m, tile});
    }
  }
  for (int64_t rows : llvm::reverse(kDirectRows)) {
    choices.push_back({rows, directTile(arch, shape, rows)});
  }
  std::reverse(choices.begin(), choices.end());
  return choices;
}

/// A tile of `columns` columns, or fewer where there are fewer, of `matrices` products with the same rows.
static LinearTile chooseProductTile(const GpuArch &arch, const HeadLinearShape &shape, int64_t rows, int64_t columns,
                                    int64_t matrices) {
  constexpr int64_t matrixDepth = 16, leastColumns = 16, mostStages = 4;
  while (columns > leastColumns && columns / 2 >= shape.n) {
    columns /= 2;
  }
  // 128 bytes of a row of x, as far as there are so many.
  int64_t depth = std::min<int64_t>(128 / shape.elementSize, llvm::alignTo(shape.k, matrixDepth));
  LinearTile tile{rows, columns, depth, 1, threadsOf(rows, columns * matrices)};
  int64_t steps = llvm::divideCeil(shape.k, depth);
  int64_t room = std::min(arch.sharedPerBlock, arch.sharedPerSm / 2 - 1024); // for two blocks beside each other
  int64_t stageBytes = (rows + columns * matrices) * depth * shape.elementSize;
  while (tile.stages < std::min(mostStages, steps) && (tile.stages + 1) * stageBytes <= room) {
    ++tile.stages;
  }
  return tile;
}

LinearTile kimi::chooseHeadLinearTile(const GpuArch &arch, const HeadLinearShape &shape, int64_t rows) {
  constexpr int64_t fewRows = 16;
  // Few rows: what counts is that every multiprocessor asks for a part of the matrices.
  int64_t columns = rows <= fewRows || shape.elementSize != 2 ? 64 : 128;
  return chooseProductTile(arch, shape, rows, columns, /*matrices=*/1);
}

LinearTile kimi::chooseExpertTile(const GpuArch &arch, const HeadLinearShape &shape, int64_t rows, int64_t matrices) {
  constexpr int64_t columns = 64;
  return chooseProductTile(arch, shape, rows, columns, matrices);
}

/// One query of a few heads: a thread holds vectors of its keys and values in registers, so that all of a step are in
/// flight together; nullopt where keys and values lie differently.
static std::optional<AttentionTile> registerTile(const GpuArch &arch, const AttentionShape &shape, int64_t rows) {
  constexpr int64_t kThreads = 128, kTogether = 8, kMatrixDepth = 16;
  int64_t channels = llvm::alignTo(shape.depth, kMatrixDepth), vectors = channels * shape.elementSize / kVectorBytes;
  int64_t lanes = std::gcd<int64_t>(vectors, 32), own = vectors / lanes; // that share a key; vectors of each
  if (rows > kRegisterRows || shape.depth != shape.width || own > 2) {
    return std::nullopt;
  }
  AttentionTile tile{rows, 0, 1, kThreads};
  tile.together = kTogether / own;
  tile.keys = kThreads / lanes * tile.together;
  // Keys and values as they come, queries and accumulators in fp32.
  int64_t registers = 2 * kTogether * kVectorBytes / 4 + 2 * rows * own * kVectorBytes / shape.elementSize;
  tile.blocksPerSm = arch.blocksPerSm(kThreads, 0, registers * 2 / 3);
  return tile;
}

std::optional<AttentionTile> kimi::chooseAttentionTile(const GpuArch &arch, const AttentionShape &shape,
                                                       std::optional<int64_t> rows) {
  bool narrow = shape.elementSize < 4;
  int64_t channels = std::max(shape.depth, shape.width);
  constexpr int64_t kChannels = 256, kLatentChannels = 576;
  if (channels > (shape.valuesInKeys ? kLatentChannels : kChannels)) {
    return std::nullopt;
  }
  if (std::optional<AttentionTile> few = rows ? registerTile(arch, shape, *rows) : std::nullopt) {
    return few;
  }
  AttentionTile tile{0, 64, 2, 128};
  if (rows && *rows <= 16) {
    // A few rows are whole in every warp: two are enough to keep copies in flight.
    tile.queries = *rows <= 4 ? *rows : 16;
    tile.threads = *rows <= 4 ? 64 : 128;
    tile.stages = 3;
  } else {
    // Sixteen rows a warp: a thread of an mma holds channels/4 accumulators a row pair. fp32 shares them among more.
    tile.queries = narrow && channels <= 128 ? 128 : 64;
    tile.threads = narrow && channels <= kChannels ? tile.queries * 2 : 256;
    tile.specialized = arch.specialized && narrow && shape.copyable && channels <= 192;
    if (tile.specialized) { // a warpgroup holds 64 rows: scores and accumulators fit its registers
      tile.queries = 128;
      tile.threads = 256;
      tile.keys = 128;
    }
  }
  auto bytes = [&] { return tile.sharedBytes(shape); };
  // Two blocks on an SM where halving the keys allows it, one otherwise.
  while (!tile.specialized && tile.keys > 32 && bytes() > arch.sharedPerSm / 2 - 1024) {
    tile.keys /= 2;
  }
  while (tile.keys > 16 && bytes() > arch.sharedPerBlock) {
    tile.keys /= 2;
  }
  while (tile.stages > 2 && bytes() > arch.sharedPerBlock) {
    --tile.stages;
  }
  while (tile.queries > 16 && (!narrow || channels > kChannels) && bytes() > arch.sharedPerBlock) {
    tile.queries /= 2;
  }
  // Sixteen rows in fp32 hold operands, mask and addresses beside what is counted here: no bound on their registers.
  if (tile.queries != 16) {
    tile.blocksPerSm = arch.blocksPerSm(tile.threads, bytes(), tile.queries * (shape.width + tile.keys) / tile.threads);
  }
  return bytes() <= arch.sharedPerBlock ? std::optional(tile) : std::nullopt;
}

std::vector<AttentionChoice> kimi::chooseAttentionTiles(const GpuArch &arch, const AttentionShape &shape) {
  constexpr int64_t kLongTokens = 4096; // the rows that a block of 192 computes in vain at both ends do not count
  std::optional<AttentionTile> usual = chooseAttentionTile(arch, shape);
  if (!usual) {
    return {};
  }
  std::vector<AttentionChoice> choices;
  if (usual->specialized && usual->queries == kAttentionRows) {
    auto withGroups = [&](int64_t groups) {
      AttentionTile tile = *usual;
      tile.queries = 64 * groups;
      tile.threads = 128 * groups;
      int64_t threads = 2 * tile.threads, accumulators = (shape.width + tile.keys) / 2; // with the producer's
      tile.blocksPerSm = groups > 1 ? 1 : arch.blocksPerSm(threads, tile.sharedBytes(shape), accumulators);
      return tile;
    };
    // Too few blocks for the device: smaller ones end sooner.
    choices.push_back({withGroups(1), arch.multiprocessors, 0});
    // Three warpgroups share what is fetched, as long as their accumulators fit.
    if (std::max(shape.depth, shape.width) <= 64) {
      choices.push_back({withGroups(3), std::nullopt, kLongTokens});
    }
  }
  choices.push_back({*usual, std::nullopt, 0});
  return choices;
}

std::optional<DeltaRuleTile> kimi::chooseDeltaRuleTile(const GpuArch &arch, const DeltaRuleShape &shape) {
  constexpr int64_t stagingPerWarp = 2048, reserved = 4096, threads = 256, mostStateRegisters = 64;
  DeltaRuleTile tile;
  // The work of a token grows with the chunk, and so does the code of a block, all of which is straight.
  tile.chunk = 32;
  tile.threads = threads;
  // A thread has a column (two were half as fast); those of few channels are held more than once.
  tile.prepareThreads = std::clamp<int64_t>((std::max(shape.depth, shape.width) + 31) / 32 * 32, 128, 256);
  int64_t square = tile.chunk * tile.chunk, rows = tile.chunk * shape.depth * shape.elementSize;
  bool narrow = shape.elementSize < 4;
  int64_t tiles = narrow ? 7 : 5; // of rows, at a time
  int64_t ofPrepare = tiles * rows + 4 * square + tile.prepareThreads / 32 * stagingPerWarp + reserved;
  if (ofPrepare > arch.sharedPerBlock) {
    return std::nullopt;
  }
  tile.prepareBlocks = arch.blocksPerSm(tile.prepareThreads, ofPrepare, narrow && shape.bounded ? 64 : 128);
  for (int64_t stages : {2, 1}) {
    for (int64_t columns : {128, 64, 32, 16}) {
      if (shape.depth * columns > mostStateRegisters * threads || (columns > 16 && columns / 2 >= shape.width)) {
        continue;
      }
      int64_t ofStage =
          3 * rows + square * shape.elementSize + tile.chunk * columns * shape.elementSize + 4 * shape.depth;
      int64_t ofState = (shape.depth + tile.chunk) * columns * shape.elementSize;
      if (stages * ofStage + ofState + threads / 32 * stagingPerWarp + reserved <= arch.sharedPerBlock) {
        tile.columns = columns;
        tile.stages = stages;
        return tile;
      }
    }
  }
  return std::nullopt;
}
