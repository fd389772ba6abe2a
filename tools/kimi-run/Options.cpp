//===- Options.cpp - the command line of kimi-run
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Options.h"
#include "kimi/kimi.h"
#include "runtime/Device.h"
#include "runtime/text/Sampler.h"
#include <CLI/CLI.hpp>

namespace kimi::run {

static const char *const footer = R"(
Examples:
  kimi-run model.onnx --prompt "Once upon a time" --tokens 100
  kimi-run model.kmod --input input_ids=ids.npy --output out.npz
  kimi-run model.kmod --benchmark --context 128 --json - --profile trace.json
  kimi-run --onnx-test test_add test_gemm

Exit status: 0 done; 1 something failed (a damaged file, a wrong shape, a model that does not compile);
2 the command line is wrong; 3 --onnx-test found a value that differs.
Text, listings and JSON that were asked for go to stdout, all else to stderr.)";

/// Options that need others, or exclude them.
std::optional<std::string> checkOptions(const Options &options) {
  DeviceId device;
  if (Status wrong = options.device.empty() ? Status() : parseDevice(options.device, device)) {
    return "--device: " + wrong.message();
  }
  if (options.listDevices) {
    bool other = !options.model.empty() || !options.onnxTests.empty();
    return other ? std::optional<std::string>("--list-devices goes with no module") : std::nullopt;
  }
  if (!options.onnxTests.empty()) {
    bool other = !options.model.empty() || options.wantsText() || options.wantsArrays() || options.benchmark ||
                 options.describe || options.memory || !options.entry.empty();
    if (other) {
      return "--onnx-test takes folders, and goes with no module or other action";
    }
    return !options.testModule.empty() && options.onnxTests.size() > 1
               ? std::optional<std::string>("--module is compiled from one model: give --onnx-test one folder")
               : std::nullopt;
  }
  if (!options.testModule.empty()) {
    return "--module belongs to --onnx-test; name a module to run without it";
  }
  if (options.model.empty()) {
    return "no module: give a .kmod or an .onnx file, or --onnx-test DIR";
  }
  if ((options.prompt ? 1 : 0) + !options.promptFile.empty() + !options.promptTokens.empty() > 1) {
    return "--prompt, --prompt-file and --prompt-tokens exclude each other";
  }
  if (!options.wantsText() && (!options.logits.empty() || options.prefillChunk != 0)) {
    return "--logits and --prefill-chunk go with a prompt";
  }
  if (options.wantsText() && options.wantsArrays()) {
    return "--prompt generates text, --input and --output run one entry: give one or the other";
  }
  if (options.wantsText() && options.benchmark) {
    return "--benchmark makes its own tokens: leave --prompt out, or set --context";
  }
  if (!options.profile.empty() && !options.benchmark) {
    return "--profile goes with --benchmark";
  }
  if (options.benchmark && !options.output.empty()) {
    return "--benchmark keeps no outputs: leave --output out";
  }
  if (options.wantsText() && !options.entry.empty()) {
    return "--entry names what --input and --benchmark run; --prompt picks its entries by itself";
  }
  if (options.wantsText() && options.batch > 1) {
    return "--prompt writes one text: --batch applies to --benchmark and --input; --prompt-tokens takes several "
           "sequences";
  }
  if (options.greedy && options.temperature != 0) {
    return "--greedy and --temperature exclude each other";
  }
  if (options.temperature == 0 && (options.topK != 0 || options.topP != 1)) {
    return "--top-k and --top-p choose among random draws: set --temperature too";
  }
  if (const char *wrong = text::Sampler::check({options.temperature, options.topK, options.topP, options.seed})) {
    return wrong;
  }
  if (!options.wantsText() && !options.wantsArrays() && !options.benchmark && !options.describe && !options.memory) {
    return "nothing to do: give --prompt, --input, --output, --benchmark, --describe or --memory";
  }
  return std::nullopt;
}

static void addOptions(CLI::App &app, Options &o) {
  // Without descriptions: the help would print the bounds.
  const auto atLeast = [](int64_t low, int64_t high = int64_t(1) << 40) {
    return CLI::Range(low, high).description("");
  };
  const CLI::Validator notNegative = CLI::Validator(CLI::NonNegativeNumber).description("");
  app.add_option("MODULE", o.model, "compiled module (.kmod), or an .onnx file to compile first")->type_name("");

  app.option_defaults()->group("Text");
  app.add_option("--prompt", o.prompt, "continue this text");
  app.add_option("--prompt-file", o.promptFile, "continue the text of a file")->type_name("FILE");
  app.add_option("--prompt-tokens", o.promptTokens,
                 "continue these tokens: ids (1,2,3), sequences of a batch (1,2;3,4), or an .npy")
      ->type_name("IDS");
  app.add_option("--prefill-chunk", o.prefillChunk, "take at most N tokens of the prompt at once (all)")
      ->check(atLeast(1))
      ->type_name("N");
  app.add_option("--logits", o.logits, "write the logits after the prompt, [batch, vocabulary]")->type_name("FILE.npy");
  app.add_option("--tokens", o.tokens, "write at most N tokens (128)")->check(atLeast(0))->type_name("N");
  app.add_option("--temperature", o.temperature, "draw at random; 0 is greedy (0)")->type_name("X");
  app.add_option("--top-k", o.topK, "draw among the k likeliest tokens")->type_name("K");
  app.add_option("--top-p", o.topP, "draw among the likeliest tokens whose probabilities sum to P")->type_name("P");
  app.add_option("--seed", o.seed, "seed of the draws (0)")->check(notNegative)->type_name("N");
  app.add_flag("--greedy", o.greedy, "always the likeliest token, the lowest id on ties (the default)");
  app.add_option("--tokenizer", o.tokenizer, "tokenizer.json, or a folder (the model's folder)")->type_name("DIR");
  app.add_flag("--ignore-eos", o.ignoreEnd, "go on after the token that ends a text");

  app.option_defaults()->group("Arrays");
  app.add_option("--entry", o.entry, "entry to run (main, or the only one)")->type_name("NAME");
  app.add_option("--input", o.inputs, "NAME=file.npy, repeatable, or one .npz")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--output", o.output, "where outputs go: an .npz, an .npy for a single output, or a folder")
      ->type_name("PATH");
  app.add_option("--onnx-test", o.onnxTests, "run folders in ONNX's own test layout")->type_name("DIR");
  app.add_option("--module", o.testModule, "the compiled module of --onnx-test's folder, instead of its model.onnx")
      ->type_name("FILE");
  app.add_option("--rtol", o.rtol, "relative tolerance of --onnx-test (1e-3)")->check(notNegative)->type_name("X");
  app.add_option("--atol", o.atol, "absolute tolerance of --onnx-test (1e-7)")->check(notNegative)->type_name("X");
  app.add_option("--rnorm", o.rnorm, "instead of both: |got - expected| / |expected|, over all of an output")
      ->check(notNegative)
      ->type_name("X");

  app.option_defaults()->group("Measuring and looking");
  app.add_flag("--benchmark", o.benchmark, "time prefill and decode, or an entry with --input");
  app.add_option("--runs", o.runs, "timed runs (10)")->check(atLeast(1, 1000000))->type_name("N");
  app.add_option("--warmup", o.warmup, "runs before them (2)")->check(atLeast(0, 1000000))->type_name("N");
  app.add_option("--prefill-tokens", o.prefillTokens, "time prompts of N random tokens")
      ->check(atLeast(1))
      ->type_name("N");
  app.add_option("--context", o.context, "time single tokens after N random ones")->check(atLeast(1))->type_name("N");
  app.add_option("--profile", o.profile, "time each launch of what --benchmark runs, and write a Chrome trace")
      ->type_name("FILE");
  app.add_flag("--describe", o.describe, "list entries, plan, kernels and states");
  app.add_flag("--memory", o.memory, "list the bytes of states, weights and buffers");
  app.add_option("--json", o.json, "write results as JSON, - for stdout")->type_name("FILE");

  app.option_defaults()->group("Machine and compilation");
  app.add_option("--device", o.device, "cpu, cuda or cuda:1 (what the module is compiled for)")->type_name("NAME");
  app.add_flag("--list-devices", o.listDevices, "list the devices of this machine");
  app.add_flag("--no-graph", o.noGraphs, "CUDA: launch kernels one by one, not as a graph");
  app.add_flag("--check-launches", o.checkLaunches, "CUDA: wait after each kernel, so that an error names it");
  app.add_option("--threads", o.threads, "threads of the CPU; 0 is one per core (0)")
      ->check(atLeast(0, 4096))
      ->type_name("N");
  app.add_option("--max-seq", o.maxSeq, "capacity of the states, in tokens")->check(atLeast(1))->type_name("N");
  app.add_option("--batch", o.batch, "sequences a step (1)")->check(atLeast(1, 1 << 20))->type_name("N");
  app.add_option("--weights", o.weights, "folder of the weight files (the model's folder)")->type_name("DIR");
  app.add_option("--cpu", o.cpu, "what an .onnx is compiled for: native, x86-64-v3 or x86-64-v4 (native)")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}).description(""))
      ->type_name("NAME");
  app.add_option("--precision", o.precision, "what an .onnx is compiled to hold: f32, tf32, bf16 or fp16 (f32)")
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "fp16"}).description(""))
      ->type_name("NAME");
  app.add_flag("--reference", o.reference, "compile an .onnx by the slow, obvious reference lowering");
  app.add_option("--cache", o.cache, "folder of compiled modules ($XDG_CACHE_HOME/kimi or ~/.cache/kimi)")
      ->type_name("DIR");
}

std::optional<Options> parseOptions(int argc, const char *const *argv, std::ostream &out, std::ostream &err,
                                    Exit &code) {
  Options options;
  CLI::App app("Runs a compiled language model: text from a prompt, arrays in and out, tests and timings.", "kimi-run");
  app.footer(footer);
  app.set_version_flag("--version", std::string("kimi-run ") + kimi_version());
  app.get_formatter()->column_width(30);
  addOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    bool asked = error.get_exit_code() == 0;
    app.exit(error, out, err);
    code = asked ? Exit::Ok : Exit::Usage;
    return std::nullopt;
  }
  if (std::optional<std::string> wrong = checkOptions(options)) {
    err << "kimi-run: error: " << *wrong << "\nRun with --help for more information.\n";
    code = Exit::Usage;
    return std::nullopt;
  }
  code = Exit::Ok;
  return options;
}

} // namespace kimi::run
