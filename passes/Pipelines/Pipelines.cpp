//===- Pipelines.cpp - the phases of compilation, by name
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Pipelines/Pipelines.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace kimi;

/// What ends a phase, in each function and kernel by itself. There is no control flow whose blocks could be simplified,
/// and to look for some takes half of the time. kimi-fuse-elementwise ends in the same way by itself.
static const char kCleaning[] = "any(canonicalize{region-simplify=disabled},cse)";

static std::string cleaned(const std::string &passes) { return passes + "," + kCleaning; }

std::vector<Phase> kimi::graphPhases(const PipelineOptions &options) {
  std::vector<Phase> phases = {
      {"raise",
       "func.func(onnx-require-extents,onnx-raise-delta-rule,onnx-raise-layer-norm,onnx-raise-rms-norm,onnx-raise-gelu,"
       "onnx-raise-attn-res,onnx-raise-gated-norm,onnx-raise-glu,onnx-raise-l2-norm,onnx-raise-kda-gate,"
       "onnx-raise-router,onnx-raise-moe,onnx-raise-attention,onnx-raise-linear)",
       /*verify=*/true},
      {"convert", "onnx-to-kimi", /*verify=*/true},
      {"clean", kCleaning}, // behind the verifier: there are ops that are not well formed on which folding never ends
  };
  if (options.mla != "none") {
    phases.push_back({"mla", cleaned("kimi-raise-mla")});
  }
  if (options.deriveDecode) {
    phases.push_back({"state", cleaned("kimi-derive-decode"), /*verify=*/true});
    if (options.nextToken) {
      phases.push_back({"token", cleaned("kimi-add-next-token,kimi-sink-slices")});
    }
  }
  if (options.mla != "none") { // the reference makes keys and values: the form that the absorbed one is compared with
    std::string form = options.reference ? "expanded" : options.mla;
    phases.push_back({"absorb", cleaned("kimi-absorb-mla{form=" + form + "}")});
  }
  if (options.deltaChunk > 0) {
    phases.push_back({"chunk", cleaned("kimi-chunk-delta-rule{chunk=" + std::to_string(options.deltaChunk) + "}")});
  }
  if (!options.reference) {
    phases.push_back({"fuse", "kimi-refine-shapes,kimi-merge-linears,kimi-fuse-linear,kimi-fuse-elementwise"});
  }
  if (options.precision != "f32") {
    phases.push_back({"narrow", cleaned("kimi-narrow-precision{type=" + options.precision + "}")});
  }
  if (!options.reference) { // behind the narrowing, which makes conversions of its own
    phases.push_back({"casts", "kimi-fold-casts,kimi-fuse-elementwise"});
  }
  if (!options.reference) { // behind the narrowing: whether it pays depends on what sources are held in
    phases.push_back({"share", cleaned("kimi-share-attn-res-bank")});
  }
  if (options.reference) {
    phases.push_back({"reference", cleaned("kimi-lower-to-reference")});
  }
  phases.back().verify = true;
  return phases;
}

std::vector<Phase> kimi::kernelPhases(const PipelineOptions &options) {
  std::vector<Phase> phases;
  std::string lower = std::string("kimi-lower-to-reference") + (options.cuda ? "{remark-unscheduled=true}" : "");
  std::string schedules;
  if (!options.gpuSchedules.empty()) {
    std::string arch = "{arch=" + options.gpuSchedules + "}";
    schedules = "kimi-schedule-linear-gpu" + arch + ",kimi-schedule-head-linear-gpu" + arch +
                ",kimi-schedule-attention-gpu" + arch + ",kimi-schedule-delta-rule-gpu" + arch +
                ",kimi-schedule-delta-rule{gpu=true},kimi-schedule-attn-res" + arch +
                ",kimi-schedule-router-gpu,kimi-schedule-moe-gpu" + arch + ",kimi-schedule-row-norms-gpu" + arch +
                ",kimi-schedule-greedy-token,";
  } else if (!options.cuda) {
    schedules = "kimi-schedule-linear{panel=" + std::to_string(options.panel) +
                "},kimi-schedule-head-linear,kimi-schedule-attention,kimi-schedule-delta-rule,kimi-schedule-attn-res,"
                "kimi-schedule-greedy-token,";
  }
  if (!options.reference) {
    phases.push_back({"schedule", cleaned(schedules + lower)});
  }
  bool blocks = !options.gpuSchedules.empty() && !options.reference;
  phases.push_back({"outline", cleaned(std::string("kimi-generalize-tensor-ops,kimi-materialize-views,") +
                                       (blocks ? "kimi-schedule-elementwise-gpu," : "") + "kimi-outline-generic" +
                                       (options.cuda ? "{task-work=1}" : ""))});
  phases.back().verify = true;
  return phases;
}

LogicalResult kimi::addPhase(const Phase &phase, OpPassManager &pm, llvm::raw_ostream &log) {
  std::string problem;
  llvm::raw_string_ostream os(problem);
  if (failed(parsePassPipeline(phase.passes, pm, os))) {
    log << "error: phase '" << phase.name << "': " << problem << "\n";
    return failure();
  }
  return success();
}

void kimi::registerKimiPipelines() {
  PipelineOptions options;
  std::vector<Phase> phases = graphPhases(options);
  for (Phase &phase : kernelPhases(options)) {
    phases.push_back(phase);
  }
  options.reference = true;
  options.precision = "bf16";
  for (Phase &phase : graphPhases(options)) {
    if (phase.name == "narrow" || phase.name == "reference") {
      phases.push_back(phase);
    }
  }
  for (const Phase &phase : phases) {
    // The registry keeps references to nothing but the function, so the phase travels in the closure.
    registerPassPipeline(
        "kimi-phase-" + phase.name, "phase '" + phase.name + "': " + phase.passes,
        [phase](OpPassManager &pm, StringRef, function_ref<LogicalResult(const Twine &)> error) {
          return failed(addPhase(phase, pm)) ? error("cannot build phase '" + phase.name + "'") : success();
        },
        [](function_ref<void(const detail::PassOptions &)>) {});
  }
}
