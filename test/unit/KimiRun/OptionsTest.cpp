//===- OptionsTest.cpp - command lines that are right, and that are not
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Options.h"
#include "tools/kimi-run/Report.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace kimi::run;

namespace {
struct Parsed {
  std::optional<Options> options;
  Exit code;
  std::string out, err;
};

Parsed parse(std::vector<const char *> words) {
  words.insert(words.begin(), "kimi-run");
  std::ostringstream out, err;
  Parsed parsed{std::nullopt, Exit::Ok, "", ""};
  parsed.options = parseOptions(static_cast<int>(words.size()), words.data(), out, err, parsed.code);
  parsed.out = out.str();
  parsed.err = err.str();
  return parsed;
}

void expectUsageError(std::vector<const char *> words, const std::string &part) {
  Parsed parsed = parse(std::move(words));
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.code, Exit::Usage);
  EXPECT_NE(parsed.err.find(part), std::string::npos) << parsed.err;
  EXPECT_EQ(parsed.out, "");
}

TEST(Options, Text) {
  Parsed parsed = parse({"m.kmod", "--prompt", "a b", "--tokens", "7", "--temperature", "0.5", "--top-k", "3",
                         "--top-p", "0.9", "--seed", "11", "--ignore-eos", "--json", "-"});
  ASSERT_TRUE(parsed.options) << parsed.err;
  EXPECT_EQ(parsed.options->prompt, "a b");
  EXPECT_EQ(parsed.options->tokens, 7);
  EXPECT_EQ(parsed.options->temperature, 0.5);
  EXPECT_EQ(parsed.options->topK, 3);
  EXPECT_EQ(parsed.options->topP, 0.9);
  EXPECT_EQ(parsed.options->seed, 11u);
  EXPECT_TRUE(parsed.options->ignoreEnd);
  EXPECT_EQ(parsed.options->json, "-");
}

TEST(Options, EmptyPromptIsAPrompt) {
  Parsed parsed = parse({"m.kmod", "--prompt", ""});
  ASSERT_TRUE(parsed.options) << parsed.err;
  EXPECT_TRUE(parsed.options->wantsText());
}

TEST(Options, InputsRepeatAndDoNotSwallowTheModule) {
  Parsed parsed = parse({"--input", "a=1.npy", "--input", "b=2.npy", "m.kmod", "--output", "o.npz"});
  ASSERT_TRUE(parsed.options) << parsed.err;
  EXPECT_EQ(parsed.options->inputs, std::vector<std::string>({"a=1.npy", "b=2.npy"}));
  EXPECT_EQ(parsed.options->model, "m.kmod");
}

TEST(Options, OnnxTestTakesSeveralFolders) {
  Parsed parsed = parse({"--onnx-test", "a", "b", "--rtol", "1e-2", "--atol", "0"});
  ASSERT_TRUE(parsed.options) << parsed.err;
  EXPECT_EQ(parsed.options->onnxTests, std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(parsed.options->rtol, 1e-2);
  EXPECT_EQ(parsed.options->atol, 0);
  EXPECT_FALSE(parsed.options->rnorm);
  parsed = parse({"--onnx-test", "a", "--rnorm", "1e-2", "--precision", "bf16"});
  ASSERT_TRUE(parsed.options) << parsed.err;
  EXPECT_EQ(*parsed.options->rnorm, 1e-2);
  EXPECT_EQ(parsed.options->precision, "bf16");
}

TEST(Options, HelpAndVersionGoToStdout) {
  Parsed help = parse({"--help"});
  EXPECT_FALSE(help.options);
  EXPECT_EQ(help.code, Exit::Ok);
  EXPECT_NE(help.out.find("Exit status"), std::string::npos);
  EXPECT_EQ(parse({"--version"}).code, Exit::Ok);
}

TEST(Options, Mistakes) {
  expectUsageError({}, "no module");
  expectUsageError({"m.kmod"}, "nothing to do");
  expectUsageError({"m.kmod", "--frobnicate"}, "--frobnicate");
  expectUsageError({"m.kmod", "--prompt", "x", "--tokens", "-1"}, "--tokens");
  expectUsageError({"m.kmod", "--prompt", "x", "--tokens", "many"}, "--tokens");
  expectUsageError({"m.kmod", "--prompt", "x", "--seed", "-3"}, "--seed");
  expectUsageError({"m.kmod", "--prompt", "x", "--prompt-file", "y"}, "exclude each other");
  expectUsageError({"m.kmod", "--prompt", "x", "--prompt-tokens", "1"}, "exclude each other");
  expectUsageError({"m.kmod", "--benchmark", "--prefill-chunk", "4"}, "go with a prompt");
  expectUsageError({"m.kmod", "--memory", "--logits", "x.npy"}, "go with a prompt");
  expectUsageError({"m.kmod", "--prompt-tokens", "1", "--prefill-chunk", "0"}, "--prefill-chunk");
  expectUsageError({"m.kmod", "--prompt", "x", "--input", "a=b.npy"}, "one or the other");
  expectUsageError({"m.kmod", "--prompt", "x", "--benchmark"}, "--benchmark");
  expectUsageError({"m.kmod", "--prompt", "x", "--entry", "main"}, "--entry");
  expectUsageError({"m.kmod", "--prompt", "x", "--batch", "2"}, "--batch");
  expectUsageError({"m.kmod", "--prompt", "x", "--top-k", "5"}, "set --temperature");
  expectUsageError({"m.kmod", "--prompt", "x", "--greedy", "--temperature", "1"}, "exclude each other");
  expectUsageError({"m.kmod", "--prompt", "x", "--temperature", "nan"}, "temperature");
  expectUsageError({"m.kmod", "--prompt", "x", "--temperature", "1", "--top-p", "2"}, "top-p");
  expectUsageError({"m.kmod", "--prompt", "x", "--device", "gpu"}, "there is no device 'gpu'; write cpu, cuda");
  expectUsageError({"m.kmod", "--prompt", "x", "--device", "cuda:x"}, "there is no device 'cuda:x'");
  expectUsageError({"m.kmod", "--list-devices"}, "--list-devices goes with no module");
  expectUsageError({"m.onnx", "--prompt", "x", "--precision", "f8"}, "--precision");
  expectUsageError({"m.kmod", "--prompt", "x", "--cpu", "z80"}, "--cpu");
  expectUsageError({"m.kmod", "--benchmark", "--runs", "0"}, "--runs");
  expectUsageError({"m.kmod", "--benchmark", "--output", "o.npz"}, "--output");
  expectUsageError({"m.kmod", "--prompt", "x", "--profile", "t.json"}, "--profile goes with --benchmark");
  expectUsageError({"m.kmod", "--prompt", "x", "--threads", "-1"}, "--threads");
  expectUsageError({"--onnx-test", "d", "--prompt", "x"}, "--onnx-test");
  expectUsageError({"--onnx-test", "d", "e", "--module", "m.kmod"}, "give --onnx-test one folder");
  expectUsageError({"--module", "m.kmod", "--benchmark"}, "--module belongs to --onnx-test");
  expectUsageError({"--onnx-test", "d", "--rtol", "-1"}, "--rtol");
  expectUsageError({"--onnx-test", "d", "--rnorm", "-1"}, "--rnorm");
  expectUsageError({"m.onnx", "--prompt", "x", "--precision", "int8"}, "--precision");
}

TEST(Report, Quantiles) {
  Quantiles q = quantiles({5, 1, 4, 2, 3});
  EXPECT_EQ(q.median, 3);
  EXPECT_DOUBLE_EQ(q.p10, 1.4);
  EXPECT_DOUBLE_EQ(q.p90, 4.6);
  EXPECT_EQ(quantiles({7}).p90, 7);
}

TEST(Report, JsonToAStreamOrAFile) {
  std::ostringstream out;
  EXPECT_FALSE(writeJson("", {{"a", 1}}, out));
  EXPECT_EQ(out.str(), "");
  EXPECT_FALSE(writeJson("-", {{"a", "\xFF"}}, out));
  EXPECT_NE(out.str().find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_TRUE(writeJson("/nonexistent/x.json", {{"a", 1}}, out));
}
} // namespace
