//===- SnapshotTest.cpp -----------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "CudaFixture.h"

#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

using namespace kimi;
using namespace kimi::test;

namespace {

struct FreeSnapshot {
  void operator()(kimi_snapshot *it) const { kimi_snapshot_free(it); }
};
using Held = std::unique_ptr<kimi_snapshot, FreeSnapshot>;

/// stateModule: "rows" grows and step gives the sum of all rows; with `total` a fixed state gathers the first row of
/// each step, and is the output.
class Snapshots : public CudaFixture, public ::testing::WithParamInterface<bool> {
protected:
  std::unique_ptr<Runner> make(bool total, kimi_session_options options = sized(6)) {
    ModuleSpec spec = stateModule(total);
    if (GetParam()) {
      return open(cudaModule(spec), options);
    }
    auto runner = std::make_unique<Runner>();
    EXPECT_EQ(runner->load(build(spec)), KIMI_OK) << lastError();
    EXPECT_EQ(runner->open(options), KIMI_OK) << lastError();
    return runner;
  }
  static std::vector<float> step(Runner &runner, std::vector<float> rows) {
    std::vector<float> out = {-1, -1};
    kimi_status status = runner.run("step", {tensor(rows, {int64_t(rows.size() / 2), 2})}, {tensor(out, {1, 2})});
    EXPECT_EQ(status, KIMI_OK) << lastError();
    return out;
  }
  static Held take(kimi_session *session, kimi_snapshot_kind kind = KIMI_SNAPSHOT_ALL) {
    kimi_snapshot *out = nullptr;
    EXPECT_EQ(kimi_session_snapshot(session, kind, &out), KIMI_OK) << lastError();
    return Held(out);
  }
  static void refused(kimi_status status, const std::string &part) {
    EXPECT_EQ(status, KIMI_INVALID_ARGUMENT);
    EXPECT_NE(lastError().find(part), std::string::npos) << lastError();
  }
};

using Rows = std::vector<float>;

TEST_P(Snapshots, BringBackGrowingStatesManyTimes) {
  auto runner = make(false);
  step(*runner, {1, 10, 2, 20});
  Held held = take(runner->session);
  EXPECT_EQ(kimi_snapshot_length(held.get()), 2);
  EXPECT_EQ(kimi_snapshot_bytes(held.get()), 2u * 8);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(step(*runner, {3, 30}), (Rows{6, 60}));
    EXPECT_EQ(step(*runner, {100, 100, 100, 100}), (Rows{206, 260}));
    ASSERT_EQ(kimi_session_restore(runner->session, held.get()), KIMI_OK) << lastError();
    EXPECT_EQ(kimi_session_length(runner->session), 2);
  }
  // Rows before the snapshot's end that were overwritten come back, too.
  ASSERT_EQ(kimi_session_reset(runner->session), KIMI_OK);
  step(*runner, {7, 7, 7, 7, 7, 7});
  ASSERT_EQ(kimi_session_restore(runner->session, held.get()), KIMI_OK) << lastError();
  EXPECT_EQ(step(*runner, {0, 0}), (Rows{3, 30}));
}

TEST_P(Snapshots, BringBackFixedStates) {
  auto runner = make(true);
  step(*runner, {1, 2});
  Held held = take(runner->session);
  EXPECT_EQ(kimi_snapshot_bytes(held.get()), 8u + 8);
  EXPECT_EQ(step(*runner, {10, 20}), (Rows{11, 22}));
  ASSERT_EQ(kimi_session_restore(runner->session, held.get()), KIMI_OK) << lastError();
  EXPECT_EQ(step(*runner, {5, 5}), (Rows{6, 7}));
}

TEST_P(Snapshots, AnEmptySessionCanBeKept) {
  auto runner = make(true);
  Held held = take(runner->session);
  EXPECT_EQ(kimi_snapshot_length(held.get()), 0);
  EXPECT_EQ(kimi_snapshot_bytes(held.get()), 8u);
  step(*runner, {1, 2});
  ASSERT_EQ(kimi_session_truncate(runner->session, 0, held.get()), KIMI_OK) << lastError();
  EXPECT_EQ(step(*runner, {3, 4}), (Rows{3, 4}));
}

TEST_P(Snapshots, FixedStatesAreCutWithASnapshotOnly) {
  auto runner = make(true);
  step(*runner, {1, 2});
  Held small = take(runner->session, KIMI_SNAPSHOT_FIXED);
  EXPECT_EQ(kimi_snapshot_bytes(small.get()), 8u); // whatever the length
  step(*runner, {10, 20});
  Held later = take(runner->session);
  step(*runner, {100, 200});

  refused(kimi_session_truncate(runner->session, 1, nullptr), "state 'total' has a fixed size");
  refused(kimi_session_truncate(runner->session, 2, small.get()), "the snapshot was taken at 1");
  refused(kimi_session_truncate(runner->session, 4, nullptr), "it has 3");
  refused(kimi_session_truncate(runner->session, -1, small.get()), "it has 3");
  refused(kimi_session_restore(runner->session, small.get()), "fixed size only");
  EXPECT_EQ(kimi_session_length(runner->session), 3);                     // nothing has changed
  EXPECT_EQ(kimi_session_truncate(runner->session, 3, nullptr), KIMI_OK); // nothing to drop

  ASSERT_EQ(kimi_session_truncate(runner->session, 2, later.get()), KIMI_OK) << lastError(); // whole ones do as well
  EXPECT_EQ(step(*runner, {0, 0}), (Rows{11, 22}));
  ASSERT_EQ(kimi_session_truncate(runner->session, 1, small.get()), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_session_length(runner->session), 1);
  EXPECT_EQ(step(*runner, {4, 4}), (Rows{5, 6}));
}

TEST_P(Snapshots, KnowWhetherTheSessionStillBeginsAlike) {
  auto runner = make(true);
  Held start = take(runner->session);
  step(*runner, {1, 2});
  Held one = take(runner->session);
  step(*runner, {10, 20});
  Held two = take(runner->session, KIMI_SNAPSHOT_FIXED);
  step(*runner, {100, 200});
  Held three = take(runner->session);

  ASSERT_EQ(kimi_session_truncate(runner->session, 1, one.get()), KIMI_OK) << lastError();
  step(*runner, {7, 7});
  step(*runner, {7, 7});
  refused(kimi_session_truncate(runner->session, 2, two.get()), "since the snapshot"); // other tokens by now
  ASSERT_EQ(kimi_session_truncate(runner->session, 1, one.get()), KIMI_OK) << lastError();

  ASSERT_EQ(kimi_session_restore(runner->session, three.get()), KIMI_OK) << lastError(); // which went by `two`
  ASSERT_EQ(kimi_session_truncate(runner->session, 2, two.get()), KIMI_OK) << lastError();
  EXPECT_EQ(step(*runner, {0, 0}), (Rows{11, 22}));

  ASSERT_EQ(kimi_session_reset(runner->session), KIMI_OK);
  step(*runner, {9, 9});
  refused(kimi_session_truncate(runner->session, 1, one.get()), "since the snapshot");
  ASSERT_EQ(kimi_session_restore(runner->session, start.get()), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_session_length(runner->session), 0);
}

TEST_P(Snapshots, MoveBetweenSessionsOfTheModule) {
  auto runner = make(true);
  step(*runner, {1, 2});
  step(*runner, {3, 4});
  Held held = take(runner->session);
  kimi_session *larger = nullptr, *smaller = nullptr, *wider = nullptr;
  kimi_session_options options = sized(50);
  ASSERT_EQ(kimi_session_create(runner->module, &options, &larger), KIMI_OK) << lastError();
  options = sized(1);
  ASSERT_EQ(kimi_session_create(runner->module, &options, &smaller), KIMI_OK) << lastError();
  options = sized(6, 2);
  ASSERT_EQ(kimi_session_create(runner->module, &options, &wider), KIMI_OK) << lastError();
  refused(kimi_session_restore(smaller, held.get()), "the snapshot holds 2 tokens, the session was made for 1");
  refused(kimi_session_restore(wider, held.get()), "for 1 sequences, this one is made for 2");
  kimi_session_free(runner->session); // the snapshot outlives it
  runner->session = larger;
  ASSERT_EQ(kimi_session_restore(larger, held.get()), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_session_length(larger), 2);
  EXPECT_EQ(step(*runner, {10, 10}), (Rows{14, 16}));
  ASSERT_EQ(kimi_session_truncate(larger, 2, held.get()), KIMI_OK) << lastError();
  EXPECT_EQ(step(*runner, {0, 0}), (Rows{4, 6}));
  kimi_session_free(smaller);
  kimi_session_free(wider);
}

TEST_P(Snapshots, AreOfOneModuleAndOutliveIt) {
  auto runner = make(true);
  step(*runner, {1, 2});
  Held held = take(runner->session), empty = take(runner->session, KIMI_SNAPSHOT_FIXED);
  auto other = make(true);
  refused(kimi_session_restore(other->session, held.get()), "of another module");
  step(*other, {1, 2});
  refused(kimi_session_truncate(other->session, 1, empty.get()), "of another module");
  runner.reset();
  auto again = make(true); // perhaps at the same address
  refused(kimi_session_restore(again->session, held.get()), "of another module");
  EXPECT_EQ(kimi_snapshot_length(held.get()), 1);
  other.reset();
  again.reset();
}

TEST_P(Snapshots, MissingHandlesAreErrors) {
  auto runner = make(true);
  kimi_snapshot *out = nullptr;
  Held held = take(runner->session);
  EXPECT_EQ(kimi_session_snapshot(nullptr, KIMI_SNAPSHOT_ALL, &out), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_session_snapshot(runner->session, KIMI_SNAPSHOT_ALL, nullptr), KIMI_INVALID_ARGUMENT);
  refused(kimi_session_snapshot(runner->session, 7, &out), "no kind 7");
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(kimi_session_restore(nullptr, held.get()), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_session_restore(runner->session, nullptr), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_session_truncate(nullptr, 0, held.get()), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_snapshot_length(nullptr), 0);
  EXPECT_EQ(kimi_snapshot_bytes(nullptr), 0u);
  kimi_snapshot_free(nullptr);
}

/// A state that grows on its second axis, for three sequences: its rows lie apart by the capacity.
TEST_P(Snapshots, RowsOfABatchLieApart) {
  auto runner = make(false, sized(5, 3));
  step(*runner, {1, 10, 2, 20});
  Held held = take(runner->session);
  EXPECT_EQ(kimi_snapshot_length(held.get()), 2);
  EXPECT_EQ(kimi_snapshot_bytes(held.get()), 3u * 2 * 8);
  step(*runner, {50, 50});
  ASSERT_EQ(kimi_session_restore(runner->session, held.get()), KIMI_OK) << lastError();
  EXPECT_EQ(step(*runner, {3, 30}), (Rows{6, 60}));
}

INSTANTIATE_TEST_SUITE_P(OnEachDevice, Snapshots, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "cuda" : "cpu"; });

// Sanitizers take address space as they like.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KIMI_LIMIT_MEMORY 0
#elif defined(__has_feature)
#define KIMI_LIMIT_MEMORY !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define KIMI_LIMIT_MEMORY 1
#endif
#if KIMI_LIMIT_MEMORY
TEST(SnapshotMemory, WhereThereIsNoneIsAnError) {
  Runner runner;
  ModuleSpec module = stateModule(true);
  module.states.push_back({"large", {-1, 1 << 24}, -1}); // 64 MiB
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(sized(6)), KIMI_OK) << lastError();
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  rlimit before{}, small{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  small = before;
  small.rlim_cur = pages * static_cast<uint64_t>(getpagesize()) + (uint64_t(16) << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  kimi_snapshot *held = nullptr;
  kimi_status status = kimi_session_snapshot(runner.session, KIMI_SNAPSHOT_ALL, &held);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status, KIMI_OUT_OF_MEMORY);
  EXPECT_NE(lastError().find("a snapshot of 0 tokens"), std::string::npos) << lastError();
  EXPECT_EQ(held, nullptr);
  ASSERT_EQ(kimi_session_snapshot(runner.session, KIMI_SNAPSHOT_ALL, &held), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_snapshot_bytes(held), (uint64_t(1) << 26) + 8);
  kimi_snapshot_free(held);
}
#endif

class SnapshotsOnTheFakeGpu : public CudaFixture {};

TEST_F(SnapshotsOnTheFakeGpu, ErrorsOfTheDeviceAreReported) {
  auto runner = open(cudaModule(stateModule(true)), sized(6));
  std::vector<float> row = {1, 2}, out(2);
  ASSERT_EQ(runner->run("step", {tensor(row, {1, 2})}, {tensor(out, {1, 2})}), KIMI_OK) << lastError();
  kimi_snapshot *held = nullptr;
  fake.failing = "cuMemcpyDtoHAsync";
  fake.failingCall = fake.calls[fake.failing];
  fake.failure = 700;
  EXPECT_EQ(kimi_session_snapshot(runner->session, KIMI_SNAPSHOT_ALL, &held), KIMI_RUNTIME_ERROR);
  EXPECT_EQ(held, nullptr);
  fake.failing.clear();
  ASSERT_EQ(kimi_session_snapshot(runner->session, KIMI_SNAPSHOT_ALL, &held), KIMI_OK) << lastError();
  fake.failing = "cuMemcpyHtoDAsync";
  fake.failingCall = fake.calls[fake.failing];
  EXPECT_EQ(kimi_session_restore(runner->session, held), KIMI_RUNTIME_ERROR);
  EXPECT_EQ(kimi_session_length(runner->session), 0); // of what is half restored nothing is claimed
  fake.failing.clear();
  ASSERT_EQ(kimi_session_restore(runner->session, held), KIMI_OK) << lastError();
  EXPECT_EQ(kimi_session_length(runner->session), 1);
  kimi_snapshot_free(held);
}

} // namespace
