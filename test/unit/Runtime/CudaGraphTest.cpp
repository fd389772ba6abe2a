//===- CudaGraphTest.cpp - captured runs, decoding, timing ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "CudaFixture.h"

using namespace kimi;
using namespace kimi::test;

namespace {

class CudaGraph : public CudaFixture {
protected:
  int captures() { return fake.calls["cuStreamBeginCapture"]; }
  int updates() { return fake.calls["cuGraphExecKernelNodeSetParams"]; }

  void runTwo(Runner &runner, int64_t n, int64_t m) {
    std::vector<float> x(static_cast<size_t>(n * m), 2), y(x), z(x);
    ASSERT_EQ(runner.run("main", {tensor(x, {n, m}), tensor(y, {n, m})}, {tensor(z, {n, m})}), KIMI_OK) << lastError();
    ASSERT_EQ(z, std::vector<float>(x.size(), 12));
  }
  void runGuarded(Runner &runner, int64_t n, float sign, int64_t factor = 3) {
    std::vector<float> x(static_cast<size_t>(n), 2), z(x);
    std::vector<int64_t> k = {0, factor};
    ASSERT_EQ(runner.run("main", {tensor(x, {n}), tensor(k, {2})}, {tensor(z, {n})}), KIMI_OK) << lastError();
    ASSERT_EQ(z, std::vector<float>(x.size(), sign * 2 * static_cast<float>(factor)));
  }
};

TEST_F(CudaGraph, CapturedWhenAShapeComesAgain) {
  auto runner = open(cudaModule());
  runTwo(*runner, 4, 5);
  EXPECT_EQ(captures(), 0);
  EXPECT_FALSE(fake.launches.back().fromGraph);
  runTwo(*runner, 4, 5);
  EXPECT_EQ(captures(), 1);
  EXPECT_TRUE(fake.launches.back().fromGraph);
  int launches = fake.calls["cuLaunchKernelEx"];
  for (int i = 0; i < 5; ++i) {
    runTwo(*runner, 4, 5);
  }
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(fake.calls["cuLaunchKernelEx"], launches);
  EXPECT_EQ(updates(), 0); // nothing moved
  EXPECT_EQ(fake.launches.size(), 14u);
  for (int i = 2; i < 8; ++i) { // other shapes, the same kernels: by the graph that there is
    runTwo(*runner, i == 4 ? 9 : i, 5);
    EXPECT_TRUE(fake.launches.back().fromGraph);
  }
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(updates(), 2 * 6);
  runTwo(*runner, 3, 5); // one of them again: by a graph of its own
  EXPECT_EQ(captures(), 2);
  runTwo(*runner, 4, 5); // the first one is still known
  EXPECT_TRUE(fake.launches.back().fromGraph);
  EXPECT_EQ(captures(), 2);
}

TEST_F(CudaGraph, MemoryThatMovesIsFollowed) {
  auto runner = open(cudaModule());
  runTwo(*runner, 4, 5);
  runTwo(*runner, 4, 5);
  runTwo(*runner, 400, 50); // arena and ports grow, so their addresses change
  runTwo(*runner, 4, 5);
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(updates(), 4);
}

TEST_F(CudaGraph, OnlyChangedNodesAreSet) {
  auto runner = open(cudaModule(stateModule()), sized(16));
  std::vector<float> row = {1, 2}, sum(2);
  for (int i = 1; i <= 10; ++i) {
    ASSERT_EQ(runner->run("step", {tensor(row, {1, 2})}, {tensor(sum, {1, 2})}), KIMI_OK) << lastError();
    ASSERT_EQ(sum, (std::vector<float>{float(i), float(2 * i)}));
  }
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(updates(), 2 * 8); // both launches depend on the length; captured with that of the second step

  auto other = open(cudaModule(guardedModule()));
  int before = updates();
  runGuarded(*other, 3, 1, 3);
  runGuarded(*other, 3, 1, 3);
  runGuarded(*other, 3, 1, 3);
  EXPECT_EQ(updates(), before);
  runGuarded(*other, 3, 1, 5); // an input value that a kernel gets
  EXPECT_EQ(updates(), before + 1);
}

TEST_F(CudaGraph, OtherKernelsAreAnotherGraph) {
  // One shape, two variants: the guard looks at an input value.
  ModuleSpec module = guardedModule();
  EntrySpec &entry = module.entries[0];
  int32_t value = entry.op(fb::ScalarOp::InputValue, 1, 0, 0, 0);
  for (fb::Variant &variant : entry.launches[0].variants) {
    if (variant.kernel() == Scale) {
      variant = fb::Variant(Scale, value, variant.grid_x(), variant.grid_y(), variant.grid_z());
    }
  }
  auto runner = open(cudaModule(module));
  auto run = [&](int64_t positive) {
    std::vector<float> x(3, 2), z(3);
    std::vector<int64_t> k = {positive, 3};
    ASSERT_EQ(runner->run("main", {tensor(x, {3}), tensor(k, {2})}, {tensor(z, {3})}), KIMI_OK) << lastError();
    ASSERT_EQ(z[0], positive ? 6 : -6);
  };
  for (int64_t positive : {1, 1, 0, 0, 1, 0}) {
    run(positive);
  }
  EXPECT_EQ(captures(), 2);
}

TEST_F(CudaGraph, TheCacheIsBounded) {
  auto runner = open(cudaModule());
  for (int64_t n = 1; n <= 40; ++n) {
    runTwo(*runner, n, 2);
    runTwo(*runner, n, 2);
  }
  EXPECT_EQ(captures(), 40);
  EXPECT_EQ(fake.live()["executable graphs"], 32);
  runTwo(*runner, 40, 2);
  EXPECT_TRUE(fake.launches.back().fromGraph);
  runTwo(*runner, 1, 2); // long forgotten: by the graph of another shape
  EXPECT_EQ(captures(), 40);
  runTwo(*runner, 1, 2);
  EXPECT_EQ(captures(), 41);
  EXPECT_EQ(fake.live()["executable graphs"], 32);
}

TEST_F(CudaGraph, CanBeSwitchedOff) {
  kimi_session_options options = {};
  options.no_graphs = 1;
  auto runner = open(cudaModule(), options);
  for (int i = 0; i < 3; ++i) {
    runTwo(*runner, 2, 2);
  }
  EXPECT_EQ(captures(), 0);
}

TEST_F(CudaGraph, AFailedCaptureIsAnErrorAndTheNextOneWorks) {
  auto runner = open(cudaModule());
  runTwo(*runner, 2, 2);
  fake.failing = "cuLaunchKernelEx";
  fake.failingCall = 3; // within the capture
  fake.failure = 1;
  std::vector<float> x(4, 1), z(4);
  EXPECT_EQ(runner->run("main", {tensor(x, {2, 2}), tensor(x, {2, 2})}, {tensor(z, {2, 2})}), KIMI_RUNTIME_ERROR);
  EXPECT_NE(lastError().find("kernel 'scale'"), std::string::npos) << lastError();
  runTwo(*runner, 2, 2);
  EXPECT_TRUE(fake.launches.back().fromGraph);
}

struct Taken {
  std::vector<std::vector<int64_t>> steps;
  size_t stopAfter = 1000;
};

int32_t take(void *user, const int64_t *tokens, int64_t batch) {
  auto &taken = *static_cast<Taken *>(user);
  taken.steps.emplace_back(tokens, tokens + batch);
  return taken.steps.size() == taken.stopAfter;
}

/// Both devices decode alike.
void decodes(Runner &runner) {
  ASSERT_EQ(kimi_module_can_decode(runner.module, 0), 1) << lastError();
  Taken taken;
  const int64_t first[] = {1, 5};
  ASSERT_EQ(kimi_session_decode(runner.session, 0, first, 2, 6, take, &taken), KIMI_OK) << lastError();
  std::vector<std::vector<int64_t>> wanted;
  int64_t a = 1, b = 5;
  for (int64_t length = 0; length < 6; ++length) {
    a = a * 2 + length;
    b = b * 2 + length;
    wanted.push_back({a, b});
  }
  EXPECT_EQ(taken.steps, wanted);
  EXPECT_EQ(kimi_session_length(runner.session), 6);
  taken = {};
  taken.stopAfter = 3;
  ASSERT_EQ(kimi_session_decode(runner.session, 0, first, 2, 100, take, &taken), KIMI_OK) << lastError();
  EXPECT_EQ(taken.steps.size(), 3u);
  EXPECT_EQ(kimi_session_length(runner.session), 9); // without the step that was begun before the stop
  EXPECT_EQ(taken.steps[2][0], ((1 * 2 + 6) * 2 + 7) * 2 + 8);
  taken = {};
  EXPECT_EQ(kimi_session_decode(runner.session, 0, first, 2, 100, take, &taken), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(taken.steps.size(), 3u); // up to the capacity
  EXPECT_NE(lastError().find("raise --max-seq"), std::string::npos) << lastError();
}

TEST_F(CudaGraph, DecodesOnTheDevice) {
  ModuleSpec module = decodeModule();
  module.states[0].dims[1] = 0;
  auto runner = open(cudaModule(module), sized(12, 2));
  decodes(*runner);
  EXPECT_EQ(captures(), 2);                        // steps take turns
  EXPECT_EQ(fake.calls["cuStreamSynchronize"], 0); // between the first token and the last
  // The host gives tokens to the first step of each call only.
  EXPECT_EQ(fake.calls["cuMemcpyHtoDAsync"], 3);
}

TEST_F(CudaGraph, DecodesOnTheCpu) {
  Runner runner;
  ASSERT_EQ(runner.load(build(decodeModule())), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(sized(12, 2)), KIMI_OK) << lastError();
  decodes(runner);
}

TEST_F(CudaGraph, WhatCannotDecode) {
  auto refuse = [&](ModuleSpec module, const char *reason) {
    auto runner = open(cudaModule(module));
    EXPECT_EQ(kimi_module_can_decode(runner->module, 0), 0);
    EXPECT_NE(lastError().find(reason), std::string::npos) << lastError();
    Taken taken;
    const int64_t first[] = {1};
    EXPECT_EQ(kimi_session_decode(runner->session, 0, first, 1, 1, take, &taken), KIMI_UNSUPPORTED);
  };
  refuse(twoLaunchModule(), "input 'x' is neither tokens nor positions nor a mask");
  ModuleSpec module = decodeModule();
  module.entries[0].outputs[0].role = fb::Role::None;
  refuse(module, "it has no output of next tokens");
  module = decodeModule();
  module.entries[0].outputs[0].dtype = fb::DType::I32;
  module.entries[0].launches = {};
  refuse(module, "it takes tokens as i64 and gives them as i32");
  module = decodeModule();
  module.entries[0].op(fb::ScalarOp::InputValue, 0);
  refuse(module, "its sizes depend on the values of the token ids");
}

TEST_F(CudaGraph, TimesAndProfiles) {
  ModuleSpec spec = cudaModule();
  EntrySpec &entry = spec.entries[0];
  entry.launches[1].flops = entry.mul(0, 1);
  auto runner = open(spec);
  std::vector<float> x(6, 2);
  kimi_tensor inputs[] = {tensor(x, {2, 3}), tensor(x, {2, 3})};
  double seconds[4];
  ASSERT_EQ(kimi_session_time(runner->session, 0, inputs, 2, 4, seconds), KIMI_OK) << lastError();
  for (double s : seconds) {
    EXPECT_NEAR(s, 2e-3, 1e-9); // a millisecond each launch, says the fake
  }
  EXPECT_TRUE(fake.launches.back().fromGraph);
  kimi_launch_time times[2];
  int32_t count = 0;
  ASSERT_EQ(kimi_session_profile(runner->session, 0, inputs, 2, times, 2, &count), KIMI_OK) << lastError();
  ASSERT_EQ(count, 2);
  EXPECT_STREQ(times[0].kernel, "add_rows");
  EXPECT_STREQ(times[0].name, "step");
  EXPECT_EQ(times[0].bytes, 3 * 6 * 4);
  EXPECT_EQ(times[0].flops, -1);
  EXPECT_EQ(times[1].index, 1);
  EXPECT_NEAR(times[1].start, 1e-3, 1e-9);
  EXPECT_NEAR(times[1].length, 1e-3, 1e-9);
  EXPECT_EQ(times[1].flops, 6);
  EXPECT_EQ(times[1].threads, 64);
  EXPECT_EQ(times[1].grid[1], 3);
  EXPECT_EQ(kimi_session_time(runner->session, 0, inputs, 2, -1, seconds), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_session_time(runner->session, 0, inputs, 1, 1, seconds), KIMI_INVALID_ARGUMENT);
}

/// A whole life of a module with every call of the driver failing in turn: no crash, nothing kept, an error each time.
TEST_F(CudaGraph, EveryCallMayFail) {
  ModuleSpec derived = cudaModule(derivedModule()), states = cudaModule(stateModule(true)),
             decode = cudaModule(decodeModule());
  derived.kernels[Root].sharedBytes = 50000;
  decode.states[0].dims[1] = 0;
  const std::vector<uint8_t> files[] = {build(derived), build(states), build(decode)};
  auto live = [&]() -> bool {
    bool good = true;
    auto check = [&](kimi_status status) { good &= status == KIMI_OK; };
    std::vector<float> out(4), row = {1, 2};
    const int64_t first[] = {1};
    for (int file = 0; file < 3; ++file) {
      Runner runner;
      EXPECT_EQ(runner.load(files[file]), KIMI_OK);
      if (runner.open(sized(20, 1)) != KIMI_OK) {
        good = false;
        continue;
      }
      for (int i = 0; i < 3; ++i) {
        check(file == 0   ? runner.run("main", {}, {tensor(out, {2, 2})})
              : file == 1 ? runner.run("step", {tensor(row, {1, 2})}, {tensor(out, {1, 2})})
                          : KIMI_OK);
      }
      if (file == 1) {
        kimi_tensor in = tensor(row, {1, 2});
        kimi_launch_time times[9];
        double seconds[2];
        int32_t count = 0;
        check(kimi_session_profile(runner.session, 0, &in, 1, times, 9, &count));
        check(kimi_session_time(runner.session, 0, &in, 1, 2, seconds));
        check(kimi_session_reset(runner.session));
      }
      Taken taken;
      if (file == 2) {
        check(kimi_session_decode(runner.session, 0, first, 1, 5, take, &taken));
      }
    }
    return good;
  };
  ASSERT_TRUE(live()) << lastError();
  std::map<std::string, int> calls = fake.calls;
  calls.erase("cuInit"); // once in a process
  calls.erase("cuMemGetInfo");
  int failures = 0;
  for (const auto &[function, count] : calls) {
    for (int call = 0; call < count; ++call) {
      fake.reset();
      fake.failing = function;
      fake.failingCall = call;
      fake.failure = call % 2 ? 2 : 1;
      // The last wait of a session has nobody to tell, and where a cubin does not load there is PTX.
      bool mayPass = function == "cuStreamSynchronize" || function == "cuModuleLoadDataEx";
      EXPECT_TRUE(!live() || mayPass) << function << " " << call;
      ASSERT_TRUE(fake.misuse.empty()) << function << " " << call << ": " << fake.misuse.front();
      ASSERT_TRUE(fake.live().empty()) << function << " " << call << ": " << fake.live().begin()->first;
      ++failures;
    }
  }
  EXPECT_GT(failures, 100);
}

} // namespace
