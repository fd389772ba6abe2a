//===- GpuSchedule.h - limits of GPUs, tile sizes of their kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place for the sizes of the GPU kernels. They follow from a model of a block's time, not from a list of
// shapes: see GpuSchedule.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_GPUSCHEDULE_H
#define KIMI_PASSES_KIMITOTILE_GPUSCHEDULE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace kimi {

/// What a GPU of one compute capability has.
struct GpuArch {
  int64_t sm;              // compute capability times ten: 80, 86, 89, 90
  bool specialized;        // 90a: wgmma, fed by a warp that does nothing but copy
  int64_t multiprocessors; // SMs of the largest device of that capability that is sold
  int64_t sharedPerBlock;  // bytes of shared memory that one block may use
  int64_t sharedPerSm;     // bytes of shared memory of an SM (a block takes 1 KiB more than it asks for)
  static constexpr int64_t registersPerSm = 64 * 1024, registersPerThread = 255, threadsPerSm = 1536;

  /// The limits of `name`, a compute capability times ten ("80", "90a"); nullopt for another text or below 80.
  /// `multiprocessors` 0 takes the usual number.
  static std::optional<GpuArch> get(llvm::StringRef name, int64_t multiprocessors = 0);

  /// Blocks that an SM holds at a time, at least 1. `accumulators`: registers of a thread for results.
  int64_t blocksPerSm(int64_t threads, int64_t sharedBytes, int64_t accumulators) const;
};

/// What one block of a linear kernel computes and how.
struct LinearTile {
  int64_t rows, columns; // of y
  int64_t depth;         // k of a step of the pipeline
  int64_t stages;
  int64_t threads;
  int64_t splits = 1;              // blocks that share the sum over k
  bool direct = false;             // for a few rows: weights are read from global memory where they are multiplied
  bool specialized = false;        // for wgmma; `threads` are those that compute
  bool launchedStatistics = false; // those of the rows of x come from a launch before this one
  int64_t cluster = 1;             // specialised blocks, below each other, that fetch the weight for each other
  int64_t walkers = 0;             // specialised blocks that compute all tiles one after the other; 0: one block a tile
  bool operator==(const LinearTile &other) const;
  /// Bytes of shared memory of the pipeline.
  int64_t sharedBytes(int64_t elementSize) const { return (rows + columns) * depth * elementSize * stages; }
  /// Blocks that are to share an SM.
  int64_t blocksPerSm(const GpuArch &arch, int64_t elementSize) const;
};

/// The tile for up to `rows` rows; nullopt: for any number.
struct LinearChoice {
  std::optional<int64_t> rows;
  LinearTile tile;
};

/// Facts about a product x[M, K] . w[N, K]^T that decide its tiles.
struct LinearShape {
  int64_t n, k;
  int64_t elementSize; // of x and w, in bytes: 4 is the FFMA road (or tf32), 2 the tensor cores
  int64_t resultSize;  // of y
  bool norm;           // the rows of x are normalised
  bool wideExtras;     // the epilogue reads whole tiles
  bool copyable;       // the copy engine can fetch boxes of x and w: rows start at multiples of 16 bytes
  bool argmax = false; // the epilogue takes the argmax of the rows of y
};

/// The tiles for every M, in ascending order of rows; the last is for any number. With `rows` known, the one for it.
std::vector<LinearChoice> chooseLinearTiles(const GpuArch &arch, const LinearShape &shape,
                                            std::optional<int64_t> rows = std::nullopt);

/// Facts about a product x[H, M, K] . w[H, K, N] a head that decide its tiles.
struct HeadLinearShape {
  int64_t n, k;
  int64_t elementSize; // of x and w, in bytes: 4 is the FFMA road, 2 the tensor cores
};

/// The tile of a product a head with up to `rows` rows of a head in a block (a multiple of a matrix instruction's 16).
LinearTile chooseHeadLinearTile(const GpuArch &arch, const HeadLinearShape &shape, int64_t rows);

/// The tile of products of rows of one expert with `matrices` of its matrices [N, K] each, for `rows` rows in a block;
/// its columns are those of one product.
LinearTile chooseExpertTile(const GpuArch &arch, const HeadLinearShape &shape, int64_t rows, int64_t matrices);

/// Facts about an attention that decide its tiles.
struct AttentionShape {
  int64_t depth, width;      // channels of q and k, of v
  int64_t elementSize;       // of q, k and v
  bool copyable;             // the copy engine can fetch boxes of k and v
  bool valuesInKeys = false; // a value is the first channels of its key: one tile serves as both
};

/// What one block of an attention kernel computes.
struct AttentionTile {
  int64_t queries; // rows: queries of a head, or the heads of a group
  int64_t keys;    // of a step
  int64_t stages;
  int64_t threads;
  bool specialized = false; // for wgmma; `threads` are those that compute
  int64_t blocksPerSm = 1;  // blocks that are to share an SM
  int64_t together = 0;     // keys of a step that one thread looks at, in registers; 0: they go through shared memory
  /// Bytes of shared memory: queries, the steps under way, and in fp32 the scores.
  int64_t sharedBytes(const AttentionShape &shape) const;
};

/// The tile for blocks of `rows` rows at most (nullopt: many). Queries and accumulators stay within registers and
/// shared memory for heads of up to 256 channels (576 where values are the first channels of keys); nullopt where they
/// do not.
std::optional<AttentionTile> chooseAttentionTile(const GpuArch &arch, const AttentionShape &shape,
                                                 std::optional<int64_t> rows = std::nullopt);

/// A tile for many queries, and when it is the one to take.
struct AttentionChoice {
  AttentionTile tile;
  std::optional<int64_t> mostBlocks; // of kAttentionRows queries of a head: as long as there are no more of them
  int64_t leastTokens = 0;
};

/// Rows of the blocks that AttentionChoice::mostBlocks counts.
constexpr int64_t kAttentionRows = 128;

/// The tiles for many queries; the first whose conditions hold is taken, the last has none. Empty where
/// chooseAttentionTile has none.
std::vector<AttentionChoice> chooseAttentionTiles(const GpuArch &arch, const AttentionShape &shape);

/// Facts about a delta rule that decide its tiles.
struct DeltaRuleShape {
  int64_t depth, width; // channels of keys, of values
  int64_t elementSize;  // of what is multiplied
  bool bounded;         // decays have a bound, so that few powers of them do for a chunk
};

/// What the blocks of a delta rule compute.
struct DeltaRuleTile {
  int64_t chunk;          // tokens that are computed together
  int64_t columns;        // value channels of a block that holds a state
  int64_t stages;         // chunks that are fetched ahead, and the one that is computed
  int64_t threads;        // of a block that holds a state
  int64_t prepareThreads; // of a block that prepares a chunk
  int64_t prepareBlocks;  // of those on a multiprocessor
};

/// nullopt: the channels do not fit a block.
std::optional<DeltaRuleTile> chooseDeltaRuleTile(const GpuArch &arch, const DeltaRuleShape &shape);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_GPUSCHEDULE_H
