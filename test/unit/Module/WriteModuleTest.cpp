//===- WriteModuleTest.cpp - the bytes of a .kmod read back
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/BuildModule.h"
#include "runtime/format/Header.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>

using namespace kimi;

namespace {
plan::Plan smallPlan() {
  plan::Plan plan;
  plan.symbols = {"n"};
  plan::Weight external;
  external.name = "w";
  external.dims = {4};
  external.file = "w.bin";
  external.offset = 16;
  external.length = 16;
  plan::Weight inlined;
  inlined.name = "c";
  inlined.dims = {2};
  inlined.bytes = std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  plan.weights = {external, inlined};
  plan.kernels.emplace_back();
  plan.kernels[0].name = plan.kernels[0].symbol = "k";
  plan::Entry entry;
  entry.name = "main";
  plan::Port port;
  port.name = "x";
  port.dims = {fb::Dim(-1, 0)};
  entry.inputs = {port};
  entry.scalars = {fb::Scalar(fb::ScalarOp::InputDim, 0, 0, 0, 0)};
  entry.scalarText = {"n"};
  plan.entries = {entry};
  plan.maxContext = 1024;
  return plan;
}

ModuleOptions smallOptions() {
  ModuleOptions options;
  options.target = "cpu:x86-64-v3";
  options.images = {{options.target, "an image"}};
  options.sourceHash = "abc";
  return options;
}
} // namespace

TEST(WriteModule, ReadsBack) {
  std::string bytes = writePlan(smallPlan(), smallOptions());
  format::FileHeader header;
  ASSERT_GE(bytes.size(), sizeof(header));
  std::memcpy(&header, bytes.data(), sizeof(header));
  EXPECT_EQ(header.tableChecksum, format::checksum(bytes.data() + header.tableOffset, header.tableLength));
  EXPECT_EQ(header.dataOffset % format::dataAlignment, 0u);
  EXPECT_EQ(header.dataOffset + header.dataLength, bytes.size());
  const fb::Module *module = fb::GetModule(bytes.data() + header.tableOffset);
  EXPECT_EQ(module->target()->str(), "cpu:x86-64-v3");
  EXPECT_EQ(module->source_hash()->str(), "abc");
  EXPECT_EQ(module->max_context(), 1024);
  ASSERT_EQ(module->weights()->size(), 2u);
  EXPECT_EQ(module->weights()->Get(0)->file()->str(), "w.bin");
  EXPECT_EQ(module->weights()->Get(0)->offset(), 16u);
  const fb::Blob *blob = module->weights()->Get(1)->blob();
  float values[2];
  std::memcpy(values, bytes.data() + header.dataOffset + blob->offset(), sizeof(values));
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  ASSERT_EQ(module->images()->size(), 1u);
  blob = module->images()->Get(0)->blob();
  EXPECT_EQ(bytes.substr(header.dataOffset + blob->offset(), blob->length()), "an image");
  EXPECT_EQ(module->entries()->Get(0)->inputs()->Get(0)->dims()->Get(0)->symbol(), 0);
}

TEST(WriteModule, KeepsHowKernelsAreLaunched) {
  plan::Plan plan = smallPlan();
  plan::Kernel &kernel = plan.kernels[0];
  kernel.threads = 256;
  kernel.sharedBytes = 49152;
  kernel.pdl = true;
  kernel.tensorMaps = {{/*arg=*/1, /*dims=*/{0, 2}, /*box=*/{64, 32}, /*swizzle=*/64, /*elementSize=*/2}};
  ModuleOptions options = smallOptions();
  options.target = "cuda:sm_90a";
  options.images = {{"cuda:sm_90a", "a cubin"}, {"cuda:ptx:sm_90a", std::string("text\0", 5)}};
  std::string bytes = writePlan(plan, options);
  format::FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const fb::Module *module = fb::GetModule(bytes.data() + header.tableOffset);
  ASSERT_EQ(module->images()->size(), 2u);
  EXPECT_EQ(module->images()->Get(1)->target()->str(), "cuda:ptx:sm_90a");
  const fb::Kernel *read = module->kernels()->Get(0);
  EXPECT_EQ(read->threads(), 256);
  EXPECT_EQ(read->tasks_per_block(), 1);
  EXPECT_EQ(read->shared_bytes(), 49152);
  EXPECT_TRUE(read->pdl());
  ASSERT_EQ(read->tensor_maps()->size(), 1u);
  const fb::TensorMap *map = read->tensor_maps()->Get(0);
  EXPECT_EQ(map->arg(), 1);
  EXPECT_EQ(map->dims()->Get(1), 2);
  EXPECT_EQ(map->box()->Get(0), 64);
  EXPECT_EQ(map->swizzle(), 64);
  EXPECT_EQ(map->element_size(), 2);
}

TEST(WriteModule, IsDeterministic) {
  EXPECT_EQ(writePlan(smallPlan(), smallOptions()), writePlan(smallPlan(), smallOptions()));
}
