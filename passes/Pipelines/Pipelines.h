//===- Pipelines.h - the phases of compilation, by name
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_PIPELINES_PIPELINES_H
#define KIMI_PASSES_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace kimi {

struct PipelineOptions {
  /// Kernels for a CUDA processor: schedules for block programs, one element a task in plain loops.
  bool cuda = false;
  /// Plain fp32 loops instead of fusion and schedules.
  bool reference = false;
  /// Make `prefill` and `decode` entries where the graph allows it.
  bool deriveDecode = true;
  /// Give those entries the greedy token as an output, and make `prefill_last`.
  bool nextToken = true;
  /// How latent attention is computed: auto, absorbed or expanded (see --kimi-absorb-mla); none: it is not looked for,
  /// so that states are expanded keys and values.
  std::string mla = "auto";
  /// Tokens of a chunk of the delta rule's chunkwise form (16, 32, 64); 0: token by token.
  int64_t deltaChunk = 0;
  /// What weights and activations are held in: f32, tf32, bf16 or fp16 (see --kimi-narrow-precision).
  std::string precision = "f32";
  /// Schedules of a GPU of this compute capability (times ten: "80", "90a"); empty: of the CPU. They run on either.
  std::string gpuSchedules;
  /// Columns of a weight panel: two vectors of the target.
  int64_t panel = 16;
};

/// One phase: its name (as in --emit and the docs) and its passes in textual form.
struct Phase {
  std::string name;
  std::string passes;
  /// Whether to verify at its end: where what it works with comes from a file, and before it is handed on. For large
  /// models verifying takes as long as the passes.
  bool verify = false;
};

/// From the imported graph to tensors with state and fusion groups (--emit=kimi).
std::vector<Phase> graphPhases(const PipelineOptions &options);
/// From there to kernels and a host function of launches (--emit=tile).
std::vector<Phase> kernelPhases(const PipelineOptions &options);

/// Adds the passes of `phase` to `pm`; fails, with a message on `log`, only where a pass of that name is not
/// registered.
mlir::LogicalResult addPhase(const Phase &phase, mlir::OpPassManager &pm, llvm::raw_ostream &log = llvm::errs());

/// Registers each phase as a pipeline (`--kimi-phase-raise`, ...) with default options.
void registerKimiPipelines();

} // namespace kimi

#endif // KIMI_PASSES_PIPELINES_PIPELINES_H
