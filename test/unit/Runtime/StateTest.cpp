//===- StateTest.cpp -----------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"

#include <gtest/gtest.h>

using namespace kimi;
using namespace kimi::test;
using Op = fb::ScalarOp;

namespace {

class State : public ::testing::Test {
protected:
  void open(bool total = false, kimi_session_options options = sized(6)) {
    ASSERT_EQ(runner.load(build(stateModule(total))), KIMI_OK) << lastError();
    ASSERT_EQ(runner.open(options), KIMI_OK) << lastError();
  }
  kimi_status step(std::vector<float> rows) {
    return runner.run("step", {tensor(rows, {int64_t(rows.size() / 2), 2})}, {tensor(sum, {1, 2})});
  }
  int64_t length() { return kimi_session_length(runner.session); }

  Runner runner;
  std::vector<float> sum = {0, 0};
};

TEST_F(State, GrowsTruncatesAndForgets) {
  open();
  EXPECT_EQ(kimi_session_capacity(runner.session), 6);
  ASSERT_EQ(step({1, 10, 2, 20, 3, 30}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{6, 60}));
  ASSERT_EQ(step({4, 40}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{10, 100}));
  EXPECT_EQ(length(), 4);

  ASSERT_EQ(kimi_session_truncate(runner.session, 2, nullptr), KIMI_OK) << lastError();
  ASSERT_EQ(step({5, 50}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{8, 80}));
  EXPECT_EQ(length(), 3);
  EXPECT_EQ(kimi_session_truncate(runner.session, 4, nullptr), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_session_truncate(runner.session, -1, nullptr), KIMI_INVALID_ARGUMENT);

  ASSERT_EQ(kimi_session_reset(runner.session), KIMI_OK);
  EXPECT_EQ(length(), 0);
  ASSERT_EQ(step({7, 70}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{7, 70}));
}

TEST_F(State, RefusesToOverflowBeforeWriting) {
  open();
  ASSERT_EQ(step({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), KIMI_OK) << lastError();
  EXPECT_EQ(step({2, 2, 2, 2}), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(lastError(), "entry 'step': the sequence would be 7 tokens long but the session was made for 6; raise "
                         "--max-seq");
  EXPECT_EQ(length(), 5);
  ASSERT_EQ(step({2, 2}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{7, 7}));
}

TEST_F(State, FixedStatesStartAtZeroAndCannotBeCut) {
  open(true);
  ASSERT_EQ(step({1, 2}), KIMI_OK) << lastError();
  ASSERT_EQ(step({1, 2}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{2, 4}));
  EXPECT_EQ(kimi_session_truncate(runner.session, 1, nullptr), KIMI_INVALID_ARGUMENT);
  EXPECT_NE(lastError().find("state 'total'"), std::string::npos) << lastError();
  ASSERT_EQ(kimi_session_reset(runner.session), KIMI_OK);
  ASSERT_EQ(step({1, 2}), KIMI_OK) << lastError();
  EXPECT_EQ(sum, (std::vector<float>{1, 2}));
}

TEST_F(State, MemoryAndInfo) {
  open(true, sized(0, 3));
  EXPECT_EQ(kimi_session_capacity(runner.session), 1024);
  kimi_memory memory;
  ASSERT_EQ(kimi_session_memory(runner.session, &memory), KIMI_OK);
  EXPECT_EQ(memory.state_bytes_per_token, 8u);
  EXPECT_EQ(memory.state_fixed_bytes, 8u);
  ASSERT_EQ(kimi_module_state_count(runner.module), 2);
  kimi_state_info info;
  ASSERT_EQ(kimi_module_state(runner.module, 0, &info), KIMI_OK);
  EXPECT_STREQ(info.name, "rows");
  EXPECT_STREQ(info.input, "");
  EXPECT_EQ(info.grows, 1);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_EQ(info.dims[1], -1);
  EXPECT_EQ(info.dims[2], 2);
  EXPECT_EQ(kimi_module_state(runner.module, 2, &info), KIMI_INVALID_ARGUMENT);
}

TEST_F(State, MemoryOfAModuleWithoutASession) {
  ModuleSpec module = derivedModule();                                 // a weight of 2 x 2, derived buffers of 28 bytes
  module.weights.push_back({"far away", {1000, 10}, "not/there.bin"}); // nobody looks for it
  module.states = stateModule(true).states;
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  kimi_memory memory;
  ASSERT_EQ(kimi_module_memory(runner.module, &memory), KIMI_OK) << lastError();
  EXPECT_EQ(memory.state_bytes_per_token, 8u);
  EXPECT_EQ(memory.state_fixed_bytes, 8u);
  EXPECT_EQ(memory.weight_bytes, 40016u);
  EXPECT_EQ(memory.derived_bytes, 28u);
  EXPECT_EQ(memory.arena_bytes, 0u);
  EXPECT_EQ(kimi_module_memory(nullptr, &memory), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_module_memory(runner.module, nullptr), KIMI_INVALID_ARGUMENT);
}

TEST_F(State, ArenaOfAModuleWithoutASession) {
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK) << lastError();
  uint64_t bytes = 0;
  auto arena = [&](int64_t n, int64_t m) {
    kimi_tensor input = {KIMI_F32, 2, {n, m}, nullptr}; // no data: no size depends on it
    kimi_tensor inputs[] = {input, input};
    return kimi_module_arena(runner.module, 0, nullptr, 0, inputs, 2, &bytes);
  };
  for (int64_t n : {1, 5, 300}) {
    ASSERT_EQ(arena(n, 7), KIMI_OK) << lastError();
    EXPECT_GE(bytes, static_cast<uint64_t>(n * 7 * 4));
    EXPECT_LE(bytes, static_cast<uint64_t>(n * 7 * 4 + 256));
  }
  EXPECT_EQ(arena(-1, 2), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_module_arena(runner.module, 0, nullptr, 0, nullptr, 2, &bytes), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_module_arena(runner.module, 9, nullptr, 0, nullptr, 0, &bytes), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_module_arena(runner.module, 0, nullptr, -1, nullptr, 0, &bytes), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_module_arena(nullptr, 0, nullptr, 0, nullptr, 0, &bytes), KIMI_INVALID_ARGUMENT);

  Runner growing;
  ASSERT_EQ(growing.load(build(stateModule())), KIMI_OK) << lastError(); // the length counts
  kimi_tensor rows = {KIMI_F32, 2, {4, 2}, nullptr};
  kimi_session_options options = sized(6);
  EXPECT_EQ(kimi_module_arena(growing.module, 0, &options, 2, &rows, 1, &bytes), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_module_arena(growing.module, 0, &options, 3, &rows, 1, &bytes), KIMI_INVALID_ARGUMENT);
  EXPECT_NE(lastError().find("7 tokens long"), std::string::npos) << lastError();
}

TEST_F(State, ContextOfTheWeights) {
  ModuleSpec module = stateModule();
  module.maxContext = 4;
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_module_max_context(runner.module), 4);
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_session_capacity(runner.session), 4);
  EXPECT_EQ(step(std::vector<float>(10)), KIMI_INVALID_ARGUMENT);
  EXPECT_NE(lastError().find("the model's weights allow 4"), std::string::npos) << lastError();
}

TEST_F(State, TooLargeIsAnError) {
  ASSERT_EQ(runner.load(build(stateModule())), KIMI_OK) << lastError();
  EXPECT_EQ(runner.open(sized(INT64_MAX)), KIMI_OUT_OF_MEMORY);
  EXPECT_EQ(runner.open(sized(int64_t(1) << 55)), KIMI_OUT_OF_MEMORY);
  EXPECT_NE(lastError().find("--max-seq"), std::string::npos) << lastError();
}

} // namespace
