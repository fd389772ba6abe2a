//===- RunTest.cpp - the tool as a whole, on a module whose answers are known
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Run.h"
#include "TinyModule.h"
#include "runtime/text/Tokenizer.h"
#include "test/unit/Runtime/FakeCuda.h"
#include "tools/kimi-run/Arrays.h"
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

using namespace kimi::run;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {
struct Result {
  int code;
  std::string out, err;
};

Result runTool(std::vector<std::string> words) {
  words.insert(words.begin(), "kimi-run");
  std::vector<const char *> argv;
  for (const std::string &word : words) {
    argv.push_back(word.c_str());
  }
  std::ostringstream out, err;
  int code = runMain(static_cast<int>(argv.size()), argv.data(), out, err);
  return {code, out.str(), err.str()};
}

class Run : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("kimi-run-test-" + std::to_string(getpid()));
    fs::create_directories(folder);
    module = (folder / "tiny.kmod").string();
  }
  void TearDown() override { fs::remove_all(folder); }

  void make(const TinyModule &spec) {
    tiny = spec;
    ASSERT_TRUE(tiny.write(module));
  }

  /// Runs with a prompt and gives the JSON report.
  Json generate(std::vector<std::string> more, std::string *log = nullptr) {
    std::vector<std::string> words = {module, "--tokenizer", tokenizer, "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    Result result = runTool(words);
    EXPECT_EQ(result.code, 0) << result.err;
    if (log) {
      *log = result.err;
    }
    return result.code == 0 ? Json::parse(result.out) : Json::object();
  }

  std::vector<int64_t> ids(const std::string &text) {
    std::string error;
    auto loaded = kimi::text::Tokenizer::load(tokenizer, error);
    std::vector<int32_t> narrow;
    EXPECT_TRUE(loaded && loaded->encode(text, narrow, error)) << error;
    return {narrow.begin(), narrow.end()};
  }

  std::string path(const char *name) { return (folder / name).string(); }

  const std::string tokenizer = KIMI_MODELS_DIR "/gpt2/mini", prompt = "It is a truth";
  fs::path folder;
  std::string module;
  TinyModule tiny;
};

TEST_F(Run, EveryWayToStepGivesTheSameText) {
  struct Way {
    bool prefill, decode, whole;
  };
  for (Way way : {Way{true, true, true}, Way{true, false, false}, Way{false, true, false}, Way{false, false, true}}) {
    TinyModule spec;
    spec.prefill = way.prefill;
    spec.decode = way.decode;
    spec.whole = way.whole;
    make(spec);
    std::string log;
    Json report = generate({"--prompt", prompt, "--tokens", "9", "--ignore-eos"}, &log);
    EXPECT_EQ(report["tokens"].get<std::vector<int64_t>>(), tiny.answer(ids(prompt), 9));
    EXPECT_EQ(report["prompt_tokens"].get<std::vector<int64_t>>(), ids(prompt));
    EXPECT_EQ(report["stopped"], "length");
    bool recomputes = !way.prefill && !way.decode;
    EXPECT_EQ(log.find("no decode entry") != std::string::npos, recomputes) << log;
  }
}

TEST_F(Run, PromptsOfTokensInAnyParts) {
  std::vector<int64_t> first = {5, 6, 7, 8, 9}, second = {100, 3, 50, 0, 1};
  for (bool nextToken : {false, true}) {
    TinyModule spec;
    spec.nextToken = nextToken;
    make(spec);
    for (const char *chunk : {"1", "2", "4", "5", "9"}) {
      Result result = runTool({module, "--prompt-tokens", "5,6,7,8,9;100,3,50,0,1", "--prefill-chunk", chunk,
                               "--tokens", "6", "--ignore-eos", "--json", "-"});
      ASSERT_EQ(result.code, 0) << result.err;
      Json report = Json::parse(result.out);
      EXPECT_EQ(report["tokens"][0].get<std::vector<int64_t>>(), tiny.answer(first, 6)) << chunk;
      EXPECT_EQ(report["tokens"][1].get<std::vector<int64_t>>(), tiny.answer(second, 6)) << chunk;
      EXPECT_EQ(report["prompt_tokens"][1].get<std::vector<int64_t>>(), second);
    }
    Result printed = runTool(
        {module, "--prompt-tokens", "5,6,7,8,9", "--tokens", "2", "--ignore-eos", "--logits", path("logits.npy")});
    ASSERT_EQ(printed.code, 0) << printed.err;
    std::vector<int64_t> two = tiny.answer(first, 2);
    EXPECT_EQ(printed.out, std::to_string(two[0]) + "," + std::to_string(two[1]) + "\n");
    NamedTensors logits;
    ASSERT_FALSE(readArrays(path("logits.npy"), logits));
    EXPECT_EQ(logits[0].second.dims, (std::vector<int64_t>{1, tiny.vocabulary}));
  }
}

TEST_F(Run, TheModuleMayChooseTokensItself) {
  for (bool decode : {true, false}) {
    TinyModule spec;
    spec.nextToken = true;
    spec.decode = decode; // without it, logits are taken
    make(spec);
    Json report = generate({"--prompt", prompt, "--tokens", "9", "--ignore-eos"});
    EXPECT_EQ(report["tokens"].get<std::vector<int64_t>>(), tiny.answer(ids(prompt), 9));
    EXPECT_EQ(report["stopped"], "length");
    EXPECT_EQ(generate({"--prompt", prompt, "--tokens", "1", "--ignore-eos"})["tokens"].size(), 1u);
    EXPECT_EQ(generate({"--prompt", prompt, "--tokens", "0"})["tokens"].size(), 0u);
    Json full = generate(
        {"--prompt", prompt, "--tokens", "9", "--ignore-eos", "--max-seq", std::to_string(ids(prompt).size() + 2)});
    EXPECT_EQ(full["stopped"], "context");
    EXPECT_EQ(full["tokens"].size(), 3u);
  }
  TinyModule spec;
  spec.nextToken = true;
  spec.vocabulary = 2;
  make(spec);
  Result result = runTool({module, "--tokenizer", tokenizer, "--prompt", "!", "--tokens", "5"}); // ends at once
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "\n");
}

TEST_F(Run, TextGoesToStdout) {
  make({});
  Result result = runTool({module, "--tokenizer", tokenizer, "--prompt", prompt, "--tokens", "5", "--ignore-eos"});
  EXPECT_EQ(result.code, 0) << result.err;
  Json report = generate({"--prompt", prompt, "--tokens", "5", "--ignore-eos"});
  EXPECT_EQ(result.out, report["text"].get<std::string>() + "\n");
  EXPECT_NE(result.err.find("tokens/s"), std::string::npos);
}

TEST_F(Run, StopsAtTheEndTokenAndAtTheContext) {
  TinyModule spec;
  spec.vocabulary = 2; // The answer is 0, the end of a text, at every even sum.
  make(spec);
  Result result = runTool({module, "--tokenizer", tokenizer, "--prompt", "!", "--tokens", "5"}); // id 1: sum 2
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "\n");
  result = runTool({module, "--tokenizer", tokenizer, "--prompt", "The", "--tokens", "5"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("outside the model's vocabulary of 2"), std::string::npos) << result.err;

  spec.vocabulary = 1024;
  spec.context = static_cast<int64_t>(ids(prompt).size()) + 2;
  make(spec);
  Json report = generate({"--prompt", prompt, "--tokens", "50", "--ignore-eos"});
  EXPECT_EQ(report["stopped"], "context");
  EXPECT_EQ(report["tokens"].size(), 3u); // Two that fit, and the one after them.
  result = runTool({module, "--tokenizer", tokenizer, "--prompt", prompt + prompt + prompt});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the model's context is"), std::string::npos) << result.err;
}

TEST_F(Run, SamplingFollowsTheSeed) {
  make({});
  auto draw = [&](const char *seed) {
    return generate(
        {"--prompt", prompt, "--tokens", "12", "--temperature", "5", "--seed", seed, "--ignore-eos"})["tokens"];
  };
  EXPECT_EQ(draw("1"), draw("1"));
  EXPECT_NE(draw("1"), draw("2"));
}

TEST_F(Run, PromptFilesAreTakenAsTheyAre) {
  make({});
  std::ofstream(path("prompt.txt")) << prompt << "\n";
  Json report = generate({"--prompt-file", path("prompt.txt"), "--tokens", "1", "--ignore-eos"});
  EXPECT_EQ(report["prompt_tokens"].get<std::vector<int64_t>>(), ids(prompt + "\n"));
  EXPECT_EQ(runTool({module, "--tokenizer", tokenizer, "--prompt-file", path("none")}).code, 1);
  EXPECT_EQ(runTool({module, "--tokenizer", tokenizer, "--prompt", ""}).code, 1);
  EXPECT_EQ(runTool({module, "--tokenizer", path("none"), "--prompt", prompt}).code, 1);
}

TEST_F(Run, ArraysInAndOut) {
  make({});
  HostTensor tensor;
  ASSERT_FALSE(bool(HostTensor::create(KIMI_I64, {2, 3}, tensor)));
  for (int64_t i = 0; i < 6; ++i) {
    tensor.set(i, i + 1);
  }
  NamedTensors named;
  named.emplace_back("input_ids", std::move(tensor));
  ASSERT_FALSE(bool(writeArrays(path("in.npz"), named)));
  ASSERT_FALSE(bool(writeArrays(path("ids.npy"), named)));
  for (std::string input : {path("in.npz"), "input_ids=" + path("ids.npy"), path("ids.npy")}) {
    Result result = runTool({module, "--input", input, "--output", path("out.npz")});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    NamedTensors read;
    ASSERT_FALSE(bool(readArrays(path("out.npz"), read)));
    ASSERT_EQ(read.size(), 1u);
    EXPECT_EQ(read[0].first, "logits");
    EXPECT_EQ(read[0].second.dims, std::vector<int64_t>({2, 3, 1024}));
    EXPECT_EQ(read[0].second.at(2 * 1024 + 7), 1);        // 1 + 1 + 2 + 3
    EXPECT_EQ(read[0].second.at((3 + 2) * 1024 + 16), 1); // 1 + 4 + 5 + 6
  }
  EXPECT_EQ(runTool({module, "--input", path("ids.npy"), "--output", path("folder")}).code, 0);
  EXPECT_TRUE(fs::exists(path("folder") + "/logits.npy"));

  Result unknown = runTool({module, "--input", "tokens=" + path("ids.npy")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("has no input 'tokens'; it has: input_ids"), std::string::npos) << unknown.err;
  Result missing = runTool({module, "--entry", "prefill", "--input", "input_ids=" + path("ids.npy")});
  EXPECT_NE(missing.err.find("input 'attention_mask' (f32 [batch, total]) is missing"), std::string::npos)
      << missing.err;
  Result twice = runTool({module, "--input", path("ids.npy"), "--input", path("in.npz")});
  EXPECT_NE(twice.err.find("given twice"), std::string::npos) << twice.err;
  Result entry = runTool({module, "--entry", "nowhere", "--input", path("ids.npy")});
  EXPECT_NE(entry.err.find("it has: main, prefill, decode"), std::string::npos) << entry.err;
  Result dtype = runTool({module, "--input", "input_ids=" + path("folder") + "/logits.npy"});
  EXPECT_NE(dtype.err.find("is f32 of rank 3; entry 'main' takes i64 [batch, seq]"), std::string::npos) << dtype.err;
}

TEST_F(Run, Benchmarks) {
  make({});
  Result result = runTool({module, "--benchmark", "--context", "5", "--prefill-tokens", "7", "--runs", "4", "--warmup",
                           "1", "--batch", "2", "--json", "-"});
  ASSERT_EQ(result.code, 0) << result.err;
  Json report = Json::parse(result.out);
  EXPECT_EQ(report["batch"], 2);
  EXPECT_EQ(report["prefill"]["tokens"], 7);
  EXPECT_EQ(report["decode"]["context"], 5);
  for (const char *name : {"prefill", "decode"}) {
    EXPECT_GT(report[name]["median_s"].get<double>(), 0);
    EXPECT_LE(report[name]["p10_s"].get<double>(), report[name]["p90_s"].get<double>());
    EXPECT_GT(report[name]["tokens_per_s"].get<double>(), 0);
  }
  result = runTool({module, "--benchmark", "--context", "5"});
  EXPECT_NE(result.out.find("decode after 5"), std::string::npos) << result.out << result.err;
  EXPECT_EQ(result.out.find("prefill"), std::string::npos);

  TinyModule small;
  small.context = 6; // Fewer than warm-up and runs need: it starts over.
  make(small);
  result = runTool({module, "--benchmark", "--context", "5", "--runs", "9"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(runTool({module, "--benchmark"}).code, 0);
  EXPECT_EQ(runTool({module, "--benchmark", "--context", "6"}).code, 1);

  TinyModule whole;
  whole.prefill = whole.decode = false;
  make(whole);
  result = runTool({module, "--benchmark", "--json", "-"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(Json::parse(result.out).contains("main")) << result.out;
}

TEST_F(Run, OnAGpu) {
  setenv("KIMI_CUDA_DRIVER", KIMI_FAKE_CUDA, 1);
  TinyModule spec;
  spec.cuda = spec.nextToken = true;
  make(spec);
  Json report = generate({"--prompt", prompt, "--tokens", "9", "--ignore-eos"});
  EXPECT_EQ(report["tokens"].get<std::vector<int64_t>>(), tiny.answer(ids(prompt), 9));
  report = generate({"--prompt", prompt, "--tokens", "9", "--ignore-eos", "--device", "cuda:0", "--no-graph"});
  EXPECT_EQ(report["tokens"].get<std::vector<int64_t>>(), tiny.answer(ids(prompt), 9));
  Result result = runTool({module, "--benchmark", "--context", "5", "--prefill-tokens", "7", "--runs", "4", "--json",
                           path("report.json"), "--profile", path("trace.json")});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char *part : {"prefill of 7 tokens", "decode after 5", "loop after 5", "tiny_step ", "launches"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
  std::ifstream reportFile(path("report.json")), traceFile(path("trace.json"));
  report = Json::parse(reportFile);
  EXPECT_NEAR(report["decode"]["median_s"].get<double>(), 2e-3, 1e-9); // a millisecond a launch, says the fake
  ASSERT_EQ(report["decode"]["launches"].size(), 2u);
  EXPECT_EQ(report["decode"]["launches"][1]["kernel"], "tiny_choose");
  EXPECT_NEAR(report["decode"]["launches"][1]["median_us"].get<double>(), 1000, 1e-3);
  Json trace = Json::parse(traceFile);
  int events = 0;
  for (const Json &event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      ++events;
      EXPECT_NEAR(event["dur"].get<double>(), 1000, 1e-3);
      EXPECT_EQ(event["name"].get<std::string>().compare(0, 5, "tiny "), 0);
    }
  }
  EXPECT_EQ(events, 4);

  HostTensor tensor;
  ASSERT_FALSE(bool(HostTensor::create(KIMI_I64, {2, 3}, tensor)));
  for (int64_t i = 0; i < 6; ++i) {
    tensor.set(i, i + 1);
  }
  NamedTensors named;
  named.emplace_back("input_ids", std::move(tensor));
  ASSERT_FALSE(bool(writeArrays(path("in.npz"), named)));
  result = runTool({module, "--benchmark", "--input", path("in.npz"), "--json", "-"});
  ASSERT_EQ(result.code, 0) << result.err;
  report = Json::parse(result.out);
  EXPECT_EQ(report["launches"][0]["name"], "tiny");
  EXPECT_EQ(report["main"]["runs"], 10);

  unsetenv("KIMI_CUDA_DRIVER");
}

TEST_F(Run, MachinesThatDoNotFit) {
  void *library = dlopen(KIMI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  FakeCuda &fake = *reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda"))();
  setenv("KIMI_CUDA_DRIVER", KIMI_FAKE_CUDA, 1);
  TinyModule spec;
  spec.cuda = true;
  make(spec);
  auto refused = [&](std::vector<std::string> more, std::vector<const char *> parts) {
    more.insert(more.begin(), {module, "--tokenizer", tokenizer, "--prompt", prompt});
    Result result = runTool(more);
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_EQ(result.err.compare(0, 17, "kimi-run: error: "), 0) << result.err;
    for (const char *part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
    }
  };
  fake.reset();
  fake.major = 8;
  refused({}, {"sm_80", "compile with --target=cuda:sm_80"});
  fake.reset();
  fake.memory = 4096;
  refused({"--max-seq", "100000"}, {"Fake GPU", "no 800000 bytes for the states", "lower --max-seq"});
  fake.reset();
  refused({"--device", "cuda:1"}, {"there is no device cuda:1; the driver shows 1"});
  refused({"--device", "cpu"}, {"compiled for 'cuda:sm_90' and cannot run on 'cpu'"});
  setenv("KIMI_CUDA_DRIVER", "/nonexistent", 1);
  refused({}, {"no CUDA driver: /nonexistent",
               "install NVIDIA's driver, or run a module that is compiled with --target=cpu"});
  unsetenv("KIMI_CUDA_DRIVER");
}

TEST_F(Run, ProfilesOnTheCpu) {
  make({});
  Result result =
      runTool({module, "--benchmark", "--context", "5", "--runs", "3", "--json", "-", "--profile", path("trace.json")});
  ASSERT_EQ(result.code, 0) << result.err;
  Json report = Json::parse(result.out);
  EXPECT_EQ(report["decode"]["launches"].size(), 1u);
  EXPECT_GT(report["decode"]["median_s"].get<double>(), 0);
  EXPECT_NE(result.err.find("tiny_step"), std::string::npos) << result.err;
  std::ifstream file(path("trace.json"));
  EXPECT_EQ(Json::parse(file)["traceEvents"].size(), 3u);
}

TEST_F(Run, LooksInside) {
  make({});
  Result described = runTool({module, "--describe"});
  EXPECT_EQ(described.code, 0) << described.err;
  EXPECT_NE(described.out.find("prefill"), std::string::npos);
  Result memory = runTool({module, "--memory", "--json", "-"});
  EXPECT_EQ(memory.code, 0) << memory.err;
  Json report = Json::parse(memory.out);
  EXPECT_EQ(report["state_bytes_per_token"], 8);
  ASSERT_EQ(report["states"].size(), 1u);
  EXPECT_EQ(report["states"][0]["bytes_per_token"], 8);
  EXPECT_EQ(report["arenas"].size(), 2u);                                            // of prefill and decode
  memory = runTool({module, "--memory", "--prompt-tokens", "1,2", "--tokens", "1"}); // of the session that ran
  EXPECT_EQ(memory.code, 0) << memory.err;
  EXPECT_NE(memory.out.find("arena  "), std::string::npos) << memory.out;
}
} // namespace
