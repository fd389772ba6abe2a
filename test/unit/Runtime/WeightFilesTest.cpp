//===- WeightFilesTest.cpp -----------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace kimi;
using namespace kimi::test;

namespace {

/// main() -> w, a [1, 2] weight at `offset` of `file`.
ModuleSpec weightModule(const std::string &file, uint64_t offset = 4) {
  ModuleSpec module;
  module.weights = {{"w", {1, 2}, file, offset}};
  EntrySpec entry{"main"};
  int32_t zero = entry.constant(0), one = entry.constant(1), two = entry.constant(2);
  entry.outputs = {{"z", fb::DType::F32, {fb::Dim(1, -1), fb::Dim(2, -1)}, {one, two}}};
  entry.buffer(fb::BufferKind::Weight, 0);
  entry.buffer(fb::BufferKind::Output, 0);
  entry.launches = {{{fb::Variant(Scale, -1, one, two, one)},
                     {{0, zero, {one, two}, {two, one}}, {1, zero, {one, two}, {two, one}, true}, {-1, one}}}};
  module.entries = {entry};
  return module;
}

class WeightFiles : public ::testing::Test {
protected:
  kimi_status open(const std::string &file, uint64_t offset = 4) {
    Runner runner;
    EXPECT_EQ(runner.load(build(weightModule(file, offset)), folder.path("weights").c_str()), KIMI_OK) << lastError();
    kimi_status status = runner.open();
    if (status == KIMI_OK) {
      std::vector<float> z(2);
      EXPECT_EQ(runner.run("main", {}, {tensor(z, {1, 2})}), KIMI_OK) << lastError();
      EXPECT_EQ(z, (std::vector<float>{6, 7}));
    }
    return status;
  }
  void SetUp() override {
    folder.write("weights/w.bin", values, sizeof(values));
    folder.write("weights/deep/er/w.bin", values, sizeof(values));
    folder.write("secret.bin", values, sizeof(values));
    std::filesystem::create_symlink("w.bin", folder.path("weights/link.bin"));
    std::filesystem::create_directory_symlink("deep", folder.path("weights/linked"));
    ASSERT_EQ(mkfifo(folder.path("weights/pipe").c_str(), 0600), 0);
  }

  TemporaryFolder folder;
  const float values[3] = {5, 6, 7};
};

TEST_F(WeightFiles, BeneathTheFolder) {
  EXPECT_EQ(open("w.bin"), KIMI_OK) << lastError();
  EXPECT_EQ(open("deep/er/w.bin"), KIMI_OK) << lastError();
  EXPECT_EQ(open("./deep//er/w.bin"), KIMI_OK) << lastError();
}

TEST_F(WeightFiles, NothingElse) {
  for (const std::string &path :
       {std::string("../secret.bin"), std::string("deep/../../secret.bin"), std::string(".."),
        folder.path("weights/w.bin"), std::string("deep/../w.bin"), std::string("link.bin"),
        std::string("linked/er/w.bin"), std::string("pipe"), std::string("deep"), std::string("w.bin\0x", 7)}) {
    EXPECT_EQ(open(path), KIMI_BAD_FILE) << path << ": " << lastError();
    EXPECT_NE(lastError().find("weights '"), std::string::npos) << lastError();
  }
}

TEST_F(WeightFiles, Missing) {
  EXPECT_EQ(open("model.onnx.data"), KIMI_NOT_FOUND);
  EXPECT_EQ(lastError(), "weights 'model.onnx.data' not found beneath " + folder.path("weights") +
                             "; pass --weights=DIR or compile with --bake");
  EXPECT_EQ(open("w.bin/deeper"), KIMI_NOT_FOUND);
  std::filesystem::remove_all(folder.path("weights"));
  EXPECT_EQ(open("w.bin"), KIMI_NOT_FOUND);
}

TEST_F(WeightFiles, TooShort) {
  for (uint64_t offset : {uint64_t(8), uint64_t(1) << 40}) {
    EXPECT_EQ(open("w.bin", offset), KIMI_BAD_FILE);
    EXPECT_NE(lastError().find("'w.bin', which has 12"), std::string::npos) << lastError();
  }
}

TEST_F(WeightFiles, DefaultFolderIsThatOfTheModule) {
  Runner runner;
  runner.folder.write("w.bin", values, sizeof(values));
  ASSERT_EQ(runner.load(build(weightModule("w.bin"))), KIMI_OK) << lastError();
  EXPECT_EQ(runner.open(), KIMI_OK) << lastError();
}

} // namespace
