//===- CudaFormatTest.cpp - what a file may say about CUDA kernels ----------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"

#include <functional>
#include <gtest/gtest.h>

using namespace kimi;
using namespace kimi::test;

namespace {

/// cudaModule, and its first kernel with a tensor map of the first argument.
ModuleSpec mappedModule() {
  ModuleSpec module = cudaModule();
  module.kernels[AddRows].maps = {{/*arg=*/0, /*dims=*/{0, 1}, /*box=*/{64, 32}, /*swizzle=*/128, /*elementSize=*/4}};
  return module;
}

TEST(CudaFormat, GoodModuleLoads) {
  Runner runner;
  ASSERT_EQ(runner.load(build(mappedModule())), KIMI_OK) << lastError();
  char *text = nullptr;
  ASSERT_EQ(kimi_module_describe(runner.module, &text), KIMI_OK);
  std::string listing = text;
  kimi_free(text);
  for (const char *part : {"module for 'cuda:sm_90a'", "image 1: cuda:ptx:sm_90a",
                           "kernel add_rows: add_rows, 64 threads, map of argument 0 [0, 1] in boxes of [64, 32]",
                           "kernel scale: scale, 64 threads of a task each"}) {
    EXPECT_NE(listing.find(part), std::string::npos) << part << "\n" << listing;
  }
}

TEST(CudaFormat, EveryNumberIsChecked) {
  struct Case {
    const char *reason;
    std::function<void(ModuleSpec &)> change;
  };
  auto kernel = [](ModuleSpec &module) -> KernelSpec & { return module.kernels[AddRows]; };
  auto map = [](ModuleSpec &module) -> TensorMapSpec & { return module.kernels[AddRows].maps[0]; };
  const std::vector<Case> cases = {
      {"kernel 'add_rows': blocks of 0 threads", [&](ModuleSpec &m) { kernel(m).threads = 0; }},
      {"blocks of 33 threads", [&](ModuleSpec &m) { kernel(m).threads = 33; }},
      {"blocks of 1056 threads", [&](ModuleSpec &m) { kernel(m).threads = 1056; }},
      {"blocks of -32 threads", [&](ModuleSpec &m) { kernel(m).threads = -32; }},
      {"2 tasks in a block of 64", [&](ModuleSpec &m) { kernel(m).tasksPerBlock = 2; }},
      {"0 tasks in a block of 64", [&](ModuleSpec &m) { kernel(m).tasksPerBlock = 0; }},
      {"-1 bytes of shared memory", [&](ModuleSpec &m) { kernel(m).sharedBytes = -1; }},
      {"262145 bytes of shared memory", [&](ModuleSpec &m) { kernel(m).sharedBytes = (256 << 10) + 1; }},
      {"image 1; each image", [&](ModuleSpec &m) { kernel(m).image = 1; }},
      {"image 2 is out of range", [&](ModuleSpec &m) { kernel(m).image = 2; }},
      {"takes 17 tensor maps", [&](ModuleSpec &m) { kernel(m).maps.resize(17, map(m)); }},
      {"tensor map 0: argument -1 is negative", [&](ModuleSpec &m) { map(m).arg = -1; }},
      {"argument 3 is out of range", [&](ModuleSpec &m) { map(m).arg = 3; }},
      {"argument 2 is no view",
       [&](ModuleSpec &m) {
         map(m).arg = 2;
         m.entries[0].launches[0].args[2] = {-1, 0};
       }},
      {"dim 2 is out of range", [&](ModuleSpec &m) { map(m).dims[1] = 2; }},
      {"dim 99 is out of range", [&](ModuleSpec &m) { map(m).dims[1] = 99; }},
      {"dim 0 occurs twice", [&](ModuleSpec &m) { map(m).dims[1] = 0; }},
      {"has 2 dims and a box of 1", [&](ModuleSpec &m) { map(m).box.pop_back(); }},
      {"has 0 dims and a box of 0",
       [&](ModuleSpec &m) {
         map(m).box = {};
         map(m).dims = {};
       }},
      {"a box extent of 0", [&](ModuleSpec &m) { map(m).box[0] = 0; }},
      {"a box extent of 257", [&](ModuleSpec &m) { map(m).box[0] = 257; }},
      {"a swizzle of 16 bytes", [&](ModuleSpec &m) { map(m).swizzle = 16; }},
      {"rows of 256 bytes; multiples of 16 are possible, up to the swizzle's 128",
       [&](ModuleSpec &m) { map(m).box[1] = 64; }},
      {"rows of 12 bytes", [&](ModuleSpec &m) { map(m).box[1] = 3; }},
      {"elements of 3 bytes", [&](ModuleSpec &m) { map(m).elementSize = 3; }},
      {"elements of 2 bytes, those of argument 0 have 4", [&](ModuleSpec &m) { map(m).elementSize = 2; }},
      {"image 1: holds code for 'cpu:x86-64', the module is for 'cuda:sm_90a'",
       [&](ModuleSpec &m) { m.images[1].target = "cpu:x86-64"; }},
      {"image 1: its PTX does not end with a zero byte", [&](ModuleSpec &m) { m.images[1].bytes = ".version"; }},
      {"image 1: its PTX does not end with a zero byte", [&](ModuleSpec &m) { m.images[1].bytes = ""; }},
      {"has a CUDA launch shape",
       [&](ModuleSpec &m) {
         m.target = "cpu:x86-64";
         m.images = {};
       }},
      {"flops slot 50", [&](ModuleSpec &m) { m.entries[0].launches[0].flops = 50; }},
      {"the next token is an output of integers",
       [&](ModuleSpec &m) { m.entries[0].outputs[0].role = fb::Role::NextToken; }},
      {"the next token is an output of integers",
       [&](ModuleSpec &m) {
         m.entries[0].inputs[0].role = fb::Role::NextToken;
         m.entries[0].inputs[0].dtype = fb::DType::I64;
       }},
  };
  for (const Case &it : cases) {
    ModuleSpec spec = mappedModule();
    it.change(spec);
    Runner runner;
    EXPECT_EQ(runner.load(build(spec)), KIMI_BAD_FILE) << it.reason;
    EXPECT_NE(lastError().find(it.reason), std::string::npos) << it.reason << ": " << lastError();
  }
}

} // namespace
