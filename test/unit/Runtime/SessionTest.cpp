//===- SessionTest.cpp ---------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kimi;
using namespace kimi::test;
using Op = fb::ScalarOp;

namespace {

void runTwoLaunches(Runner &runner, int64_t rows, int64_t columns) {
  std::vector<float> x(rows * columns), y(x.size()), z(x.size(), -1);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = float(i);
    y[i] = 100;
  }
  ASSERT_EQ(runner.run("main", {tensor(x, {rows, columns}), tensor(y, {rows, columns})}, {tensor(z, {rows, columns})}),
            KIMI_OK)
      << lastError();
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(z[i], (x[i] + 100) * 3);
  }
}

TEST(Session, DynamicShapesThroughTheArena) {
  Runner runner;
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  for (auto [rows, columns] : {std::pair(2, 3), {2, 3}, {40, 70}, {1, 1}, {40, 70}, {0, 5}, {3, 0}}) {
    runTwoLaunches(runner, rows, columns);
  }
  kimi_memory memory;
  ASSERT_EQ(kimi_session_memory(runner.session, &memory), KIMI_OK);
  EXPECT_GE(memory.arena_bytes, 40u * 70 * 4);
}

TEST(Session, OutputShapes) {
  Runner runner;
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK);
  ASSERT_EQ(runner.open(), KIMI_OK);
  std::vector<float> none;
  kimi_tensor inputs[] = {tensor(none, {5, 6}), tensor(none, {5, 6})}, output = {};
  ASSERT_EQ(kimi_session_output_shapes(runner.session, 0, inputs, 2, &output, 1), KIMI_OK) << lastError();
  EXPECT_EQ(output.dtype, KIMI_F32);
  ASSERT_EQ(output.rank, 2);
  EXPECT_EQ(output.dims[0], 5);
  EXPECT_EQ(output.dims[1], 6);
}

TEST(Session, RefusesWrongTensors) {
  Runner runner;
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK);
  ASSERT_EQ(runner.open(), KIMI_OK);
  std::vector<float> data(16);
  std::vector<int64_t> integers(16);
  kimi_tensor good = tensor(data, {2, 3}), null = good, skew = good;
  null.data = nullptr;
  skew.data = reinterpret_cast<char *>(data.data()) + 1;
  auto refuse = [&](std::vector<kimi_tensor> inputs, std::vector<kimi_tensor> outputs, const char *reason) {
    EXPECT_EQ(runner.run("main", inputs, outputs), KIMI_INVALID_ARGUMENT) << reason;
    EXPECT_NE(lastError().find(reason), std::string::npos) << lastError();
  };
  refuse({good}, {good}, "takes 2 inputs, not 1");
  refuse({good, good}, {}, "gives 1 outputs, not 0");
  refuse({good, tensor(integers, {2, 3})}, {good}, "input 'y' holds i64, the signature wants f32");
  refuse({good, tensor(data, {6})}, {good}, "input 'y' has rank 1");
  refuse({good, tensor(data, {4, 3})}, {good}, "input 'y' has 4 in axis 0, but 'n' is 2 by input 'x'");
  refuse({tensor(data, {-1, 3}), good}, {good}, "has no size");
  refuse({tensor(data, {1ll << 40, 1ll << 40}), good}, {good}, "has no size");
  refuse({good, good}, {tensor(data, {3, 2})}, "is to have the shape [3, 2], these inputs give [2, 3]");
  refuse({good, good}, {tensor(integers, {2, 3})}, "is to hold i64");
  refuse({null, good}, {good}, "input 'x' has no data");
  refuse({skew, good}, {good}, "input 'x' is not aligned");
  EXPECT_EQ(kimi_session_run(runner.session, 7, nullptr, 0, nullptr, 0), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_session_run(nullptr, 0, nullptr, 0, nullptr, 0), KIMI_INVALID_ARGUMENT);
  runTwoLaunches(runner, 2, 3); // and goes on as if nothing had been
}

TEST(Session, GuardsChooseTheVariant) {
  Runner runner;
  ASSERT_EQ(runner.load(build(guardedModule())), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  std::vector<float> x(200, 2), z(200);
  std::vector<int64_t> k = {0, 5};
  auto run = [&](int64_t n) { return runner.run("main", {tensor(x, {n}), tensor(k, {2})}, {tensor(z, {n})}); };
  ASSERT_EQ(run(4), KIMI_OK) << lastError();
  EXPECT_EQ(z[3], 10);
  ASSERT_EQ(run(5), KIMI_OK) << lastError();
  EXPECT_EQ(z[4], -10);
  k[1] = 7; // a changed value alone
  ASSERT_EQ(run(5), KIMI_OK) << lastError();
  EXPECT_EQ(z[4], -14);
  EXPECT_EQ(run(60), KIMI_INVALID_ARGUMENT);
  EXPECT_NE(lastError().find("launch 0 ('step'): no variant of it fits"), std::string::npos) << lastError();
  EXPECT_EQ(run(101), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(lastError(), "entry 'main': n is at most 100");
  ASSERT_EQ(run(4), KIMI_OK) << lastError();
  EXPECT_EQ(z[3], 14);
}

/// main(x: f32[4, 6]) -> f32[r, c], a strided view of x that starts at `offset`; see the tests.
ModuleSpec viewModule(int64_t offset, int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  ModuleSpec module;
  EntrySpec entry{"main"};
  int32_t zero = entry.constant(0), one = entry.constant(1), from = entry.constant(offset);
  int32_t r = entry.constant(rows), c = entry.constant(columns);
  int32_t rs = entry.constant(rowStride), cs = entry.constant(columnStride);
  entry.inputs = {{"x", fb::DType::F32, {fb::Dim(4, -1), fb::Dim(6, -1)}}};
  entry.outputs = {{"z", fb::DType::F32, {fb::Dim(rows, -1), fb::Dim(columns, -1)}, {r, c}}};
  int32_t x = entry.buffer(fb::BufferKind::Input, 0), z = entry.buffer(fb::BufferKind::Output, 0);
  entry.launches = {{{fb::Variant(Scale, -1, r, c, one)},
                     {{x, from, {r, c}, {rs, cs}}, {z, zero, {r, c}, {c, one}, true}, {-1, one}}}};
  module.entries = {entry};
  return module;
}

TEST(Session, ViewsStayInTheirBuffer) {
  struct Case {
    int64_t offset, rows, columns, rowStride, columnStride;
    bool isGood;
  };
  for (const Case &it : std::initializer_list<Case>{{0, 4, 6, 6, 1, true},     // the whole
                                                    {0, 6, 4, 1, 6, true},     // transposed
                                                    {23, 4, 6, -6, -1, true},  // reversed
                                                    {5, 3, 4, 0, 6, true},     // broadcast
                                                    {1, 4, 6, 6, 1, false},    // one past the end
                                                    {22, 4, 6, -6, -1, false}, // one before the start
                                                    {-1, 1, 1, 1, 1, false},
                                                    {0, 2, 2, INT64_MAX, INT64_MAX, false},
                                                    {INT64_MAX, 2, 1, 1, 1, false},
                                                    {1000, 0, 6, 6, 1, true}}) { // of nothing
    Runner runner;
    ASSERT_EQ(runner.load(build(viewModule(it.offset, it.rows, it.columns, it.rowStride, it.columnStride))), KIMI_OK)
        << lastError();
    ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
    std::vector<float> x(24), z(std::max<int64_t>(1, it.rows * it.columns));
    for (int i = 0; i < 24; ++i) {
      x[i] = float(i);
    }
    kimi_status status = runner.run("main", {tensor(x, {4, 6})}, {tensor(z, {it.rows, it.columns})});
    EXPECT_EQ(status, it.isGood ? KIMI_OK : KIMI_BAD_FILE) << it.offset << " " << lastError();
    for (int64_t i = 0; it.isGood && i < it.rows * it.columns; ++i) {
      EXPECT_EQ(z[i], x[it.offset + i / it.columns * it.rowStride + i % it.columns * it.columnStride]);
    }
  }
}

TEST(Session, ArenaBuffersStayInTheArena) {
  ModuleSpec module = twoLaunchModule();
  EntrySpec &entry = module.entries[0];
  entry.buffers[2] = fb::Buffer(fb::BufferKind::Arena, 0, entry.constant(64), entry.arenaSize);
  Runner runner;
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK);
  std::vector<float> x(6), z(6);
  EXPECT_EQ(runner.run("main", {tensor(x, {2, 3}), tensor(x, {2, 3})}, {tensor(z, {2, 3})}), KIMI_BAD_FILE);
  EXPECT_NE(lastError().find("outside the arena of 24"), std::string::npos) << lastError();
}

TEST(Session, InitFillsDerivedBuffers) {
  Runner runner;
  ASSERT_EQ(runner.load(build(derivedModule())), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  std::vector<float> z(4);
  ASSERT_EQ(runner.run("main", {}, {tensor(z, {2, 2})}), KIMI_OK) << lastError();
  EXPECT_EQ(z, (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(runner.run("init", {}, {}), KIMI_INVALID_ARGUMENT);
  kimi_memory memory;
  ASSERT_EQ(kimi_session_memory(runner.session, &memory), KIMI_OK);
  EXPECT_EQ(memory.weight_bytes, 16u);
  EXPECT_EQ(memory.derived_bytes, 128u);

  kimi_session *second = nullptr; // shares what the first one made
  ASSERT_EQ(kimi_session_create(runner.module, nullptr, &second), KIMI_OK) << lastError();
  std::swap(second, runner.session);
  kimi_session_free(second);
  ASSERT_EQ(runner.run("main", {}, {tensor(z, {2, 2})}), KIMI_OK) << lastError();
  EXPECT_EQ(z[3], 8);
}

TEST(Session, RefusesOptionsThatMakeNoSense) {
  Runner runner;
  ModuleSpec module = derivedModule();
  module.maxContext = 8;
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  EXPECT_EQ(runner.open(sized(0, 0, -1)), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(runner.open(sized(-1)), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(runner.open(sized(0, -1)), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(runner.open(sized(9)), KIMI_INVALID_ARGUMENT);
  EXPECT_NE(lastError().find("allow 8"), std::string::npos);
  EXPECT_EQ(runner.open(sized(8)), KIMI_OK) << lastError();
}

TEST(Session, MissingKernelAndForeignTarget) {
  Runner missing, foreign;
  ASSERT_EQ(missing.load(build(twoLaunchModule(), {"add_rows", "scaled"})), KIMI_OK) << lastError();
  EXPECT_EQ(missing.open(), KIMI_BAD_FILE);
  EXPECT_NE(lastError().find("has no symbol 'scaled'"), std::string::npos) << lastError();
  ASSERT_EQ(foreign.load(build(cudaModule())), KIMI_OK) << lastError();
  EXPECT_EQ(foreign.open(onDevice("cpu")), KIMI_UNSUPPORTED);
}

} // namespace
