//===- ModuleTest.cpp ----------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"
#include "runtime/format/Verify.h"

#include <functional>
#include <gtest/gtest.h>

using namespace kimi;
using namespace kimi::test;

namespace {

TEST(Module, Signature) {
  Runner runner;
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK) << lastError();
  const kimi_module *module = runner.module;
  ASSERT_EQ(kimi_module_entry_count(module), 1);
  EXPECT_STREQ(kimi_module_entry_name(module, 0), "main");
  EXPECT_EQ(kimi_module_entry_name(module, 1), nullptr);
  EXPECT_EQ(kimi_module_find_entry(module, "main"), 0);
  EXPECT_EQ(kimi_module_find_entry(module, "decode"), -1);
  EXPECT_EQ(kimi_module_input_count(module, 0), 2);
  EXPECT_EQ(kimi_module_output_count(module, 0), 1);
  EXPECT_EQ(kimi_module_input_count(module, 9), 0);
  EXPECT_EQ(kimi_module_max_context(module), -1);
  kimi_port port;
  ASSERT_EQ(kimi_module_input(module, 0, 1, &port), KIMI_OK);
  EXPECT_STREQ(port.name, "y");
  EXPECT_EQ(port.dtype, KIMI_F32);
  EXPECT_EQ(port.role, KIMI_ROLE_NONE);
  ASSERT_EQ(port.rank, 2);
  EXPECT_EQ(port.dims[1], -1);
  EXPECT_STREQ(port.symbols[1], "m");
  EXPECT_EQ(kimi_module_output(module, 0, 1, &port), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(kimi_module_output(module, 3, 0, &port), KIMI_INVALID_ARGUMENT);
}

TEST(Module, Describe) {
  Runner runner;
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK) << lastError();
  char *text = nullptr;
  ASSERT_EQ(kimi_module_describe(runner.module, &text), KIMI_OK);
  std::string listing = text;
  kimi_free(text);
  for (const char *part :
       {"module for 'cpu:x86-64' by 'test'", "entry 'main'", "input x: f32[n, m]", "output z: f32[n, m]",
        "arena: (n * m) * 4 bytes", "add_rows on n x 1 x 1", "-> z: f32[n, m] strides [m, 1]"}) {
    EXPECT_NE(listing.find(part), std::string::npos) << part << "\n" << listing;
  }
}

TEST(Module, NotAModule) {
  kimi_module *module = nullptr;
  EXPECT_EQ(kimi_module_load("/nonexistent/x.kmod", nullptr, &module), KIMI_NOT_FOUND);
  EXPECT_EQ(kimi_module_load("/tmp", nullptr, &module), KIMI_BAD_FILE);
  EXPECT_EQ(kimi_module_load("/dev/null", nullptr, &module), KIMI_BAD_FILE);
  EXPECT_EQ(kimi_module_load(nullptr, nullptr, &module), KIMI_INVALID_ARGUMENT);
  TemporaryFolder folder;
  std::string text = "this is a text file, long enough for a header, but no module at all";
  EXPECT_EQ(kimi_module_load(folder.write("a.kmod", text.data(), text.size()).c_str(), nullptr, &module),
            KIMI_BAD_FILE);
  EXPECT_NE(lastError().find("a.kmod: is no .kmod file"), std::string::npos) << lastError();
  EXPECT_EQ(kimi_module_load(folder.write("b.kmod", text.data(), 0).c_str(), nullptr, &module), KIMI_BAD_FILE);
  EXPECT_EQ(module, nullptr);
}

/// Each change of a good module makes a table that the FlatBuffers verifier accepts and ours must not.
TEST(Module, EveryIndexIsChecked) {
  struct Case {
    const char *reason;
    std::function<void(ModuleSpec &)> change;
  };
  using Kind = fb::BufferKind;
  auto entry = [](ModuleSpec &module) -> EntrySpec & { return module.entries[0]; };
  const std::vector<Case> cases = {
      {"scalar 0: input 2 is out",
       [&](ModuleSpec &m) { entry(m).scalars[0] = fb::Scalar(fb::ScalarOp::InputDim, 2, 0, 0, 0); }},
      {"scalar 0: axis 2 is out",
       [&](ModuleSpec &m) { entry(m).scalars[0] = fb::Scalar(fb::ScalarOp::InputDim, 0, 0, 0, 2); }},
      {"scalar 0: operand 0 is out",
       [&](ModuleSpec &m) { entry(m).scalars[0] = fb::Scalar(fb::ScalarOp::Not, 0, 0, 0, 0); }},
      {"operand -1 is out", [&](ModuleSpec &m) { entry(m).op(fb::ScalarOp::Add, 0, -1); }},
      {"operand 99 is out", [&](ModuleSpec &m) { entry(m).op(fb::ScalarOp::Select, 0, 0, 99); }},
      {"unknown operation", [&](ModuleSpec &m) { entry(m).op(static_cast<fb::ScalarOp>(77)); }},
      {"as an integer", [&](ModuleSpec &m) { entry(m).op(fb::ScalarOp::InputValue, 0); }},
      {"input 'y': the name occurs twice", [&](ModuleSpec &m) { entry(m).inputs[0].name = "y"; }},
      {"the name is empty", [&](ModuleSpec &m) { entry(m).inputs[0].name = ""; }},
      {"unknown element type 40", [&](ModuleSpec &m) { entry(m).inputs[0].dtype = static_cast<fb::DType>(40); }},
      {"rank 17", [&](ModuleSpec &m) { entry(m).inputs[1].dims.resize(17); }},
      {"symbol 2 is out", [&](ModuleSpec &m) { entry(m).inputs[1].dims[0] = fb::Dim(-1, 2); }},
      {"extent -2", [&](ModuleSpec &m) { entry(m).inputs[1].dims[0] = fb::Dim(-2, 0); }},
      {"has rank 2 but 1 extents", [&](ModuleSpec &m) { entry(m).outputs[0].slots.pop_back(); }},
      {"output 'z': slot 50 is out", [&](ModuleSpec &m) { entry(m).outputs[0].slots[0] = 50; }},
      {"check 0: slot -1 is out", [&](ModuleSpec &m) { entry(m).checks = {{-1, "no"}}; }},
      {"arena_size slot 50", [&](ModuleSpec &m) { entry(m).arenaSize = 50; }},
      {"the entry has none", [&](ModuleSpec &m) { entry(m).arenaSize = -1; }},
      {"step_tokens slot 50", [&](ModuleSpec &m) { entry(m).stepTokens = 50; }},
      {"state 0 is out", [&](ModuleSpec &m) { entry(m).states = {0}; }},
      {"buffer 0: input 2", [&](ModuleSpec &m) { entry(m).buffers[0] = fb::Buffer(Kind::Input, 2, 0, 0); }},
      {"buffer 0: output 1", [&](ModuleSpec &m) { entry(m).buffers[0] = fb::Buffer(Kind::Output, 1, 0, 0); }},
      {"buffer 0: weight 0", [&](ModuleSpec &m) { entry(m).buffers[0] = fb::Buffer(Kind::Weight, 0, 0, 0); }},
      {"buffer 0: derived buffer 0", [&](ModuleSpec &m) { entry(m).buffers[0] = fb::Buffer(Kind::Derived, 0, 0, 0); }},
      {"buffer 0: state 0", [&](ModuleSpec &m) { entry(m).buffers[0] = fb::Buffer(Kind::State, 0, 0, 0); }},
      {"is not listed",
       [&](ModuleSpec &m) {
         m.states = {{"s", {1}, -1}};
         entry(m).buffers[0] = fb::Buffer(Kind::State, 0, 0, 0);
       }},
      {"buffer 0: unknown kind 9",
       [&](ModuleSpec &m) { entry(m).buffers[0] = fb::Buffer(static_cast<Kind>(9), 0, 0, 0); }},
      {"buffer 2: size slot -1", [&](ModuleSpec &m) { entry(m).buffers[2] = fb::Buffer(Kind::Arena, 0, 0, -1); }},
      {"has 0 variants", [&](ModuleSpec &m) { entry(m).launches[1].variants.clear(); }},
      {"launch 1 ('step'): kernel 7",
       [&](ModuleSpec &m) { entry(m).launches[1].variants[0] = fb::Variant(NoSuchKernel, -1, 0, 0, 0); }},
      {"guard slot -2", [&](ModuleSpec &m) { entry(m).launches[1].variants[0] = fb::Variant(0, -2, 0, 0, 0); }},
      {"grid slot -1", [&](ModuleSpec &m) { entry(m).launches[1].variants[0] = fb::Variant(0, -1, 0, -1, 0); }},
      {"argument 0: buffer 4", [&](ModuleSpec &m) { entry(m).launches[0].args[0].buffer = 4; }},
      {"argument 0: buffer -2", [&](ModuleSpec &m) { entry(m).launches[0].args[0].buffer = -2; }},
      {"argument 0: offset slot 50", [&](ModuleSpec &m) { entry(m).launches[0].args[0].offset = 50; }},
      {"argument 2: slot 50", [&](ModuleSpec &m) { entry(m).launches[1].args[2].offset = 50; }},
      {"has 2 sizes but 1 strides", [&](ModuleSpec &m) { entry(m).launches[0].args[0].strides.pop_back(); }},
      {"stride slot 50", [&](ModuleSpec &m) { entry(m).launches[0].args[0].strides[0] = 50; }},
      {"may only be read", [&](ModuleSpec &m) { entry(m).launches[0].args[0].written = true; }},
      {"the name occurs twice", [&](ModuleSpec &m) { m.entries.push_back(m.entries[0]); }},
      {"no entry 'init'", [&](ModuleSpec &m) { m.derived = {{"d", {1}}}; }},
      {"has ports", [&](ModuleSpec &m) { entry(m).name = "init"; }},
      {"a context of 0", [&](ModuleSpec &m) { m.maxContext = 0; }},
      {"growing axis 1 is out", [&](ModuleSpec &m) { m.states = {{"s", {1}, 1}}; }},
      {"has a negative dim", [&](ModuleSpec &m) { m.states = {{"s", {-2}, -1}}; }},
      {"holds 8 bytes, its shape [3] of f32 needs 12", [&](ModuleSpec &m) { m.weights = {{"w", {3}, "", 0, {1, 2}}}; }},
      {"has no size", [&](ModuleSpec &m) { m.weights = {{"w", {1ll << 40, 1ll << 40}, "f"}}; }},
      {"offset and length pass", [&](ModuleSpec &m) { m.weights = {{"w", {2}, "f", UINT64_MAX - 3}}; }},
  };
  for (const Case &it : cases) {
    ModuleSpec spec = twoLaunchModule();
    it.change(spec);
    Runner runner;
    EXPECT_EQ(runner.load(build(spec)), KIMI_BAD_FILE) << it.reason;
    EXPECT_NE(lastError().find(it.reason), std::string::npos) << it.reason << ": " << lastError();
    EXPECT_EQ(lastError().find('\n'), std::string::npos);
  }
}

} // namespace
