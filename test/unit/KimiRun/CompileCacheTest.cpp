//===- CompileCacheTest.cpp - when a compiled module may be used again
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/CompileCache.h"
#include "onnx/onnx-ml.pb.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kimi::run;
namespace fs = std::filesystem;

namespace {
class CompileCache : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("kimi-cache-test-" + std::to_string(getpid()));
    fs::create_directories(folder);
    write("model.onnx", "graph");
    write("compiler", "binary");
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const char *name, const char *text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  std::string key(const CompileOptions &options = {}) {
    std::string key;
    kimi::Status s = cacheKey((folder / "model.onnx").string(), (folder / "compiler").string(), options, key);
    EXPECT_FALSE(bool(s)) << s.message();
    return key;
  }

  fs::path folder;
};

TEST_F(CompileCache, KeyFollowsWhatMatters) {
  std::string first = key();
  EXPECT_EQ(first, key());
  CompileOptions reference, cpu, special, other, narrow;
  reference.reference = true;
  cpu.cpu = "x86-64-v3";
  special.constants = {{"axes", write("axes.pb", "1")}};
  other.constants = {{"axes", write("other.pb", "2")}};
  narrow.precision = "bf16";
  EXPECT_NE(first, key(reference));
  EXPECT_NE(first, key(cpu));
  EXPECT_NE(first, key(special));
  EXPECT_NE(key(special), key(other));
  EXPECT_NE(first, key(narrow));
  write("model.onnx", "grapH");
  EXPECT_NE(first, key());
  write("model.onnx", "graph");
  EXPECT_EQ(first, key());
  write("compiler", "another binary");
  EXPECT_NE(first, key());
}

TEST_F(CompileCache, KeyFollowsExternalData) {
  onnx::ModelProto model;
  for (int i = 0; i < 2; ++i) {
    onnx::StringStringEntryProto *entry = model.mutable_graph()->add_initializer()->add_external_data();
    entry->set_key("location");
    entry->set_value("weights.bin");
  }
  std::ofstream(folder / "model.onnx", std::ios::binary) << model.SerializeAsString();
  write("weights.bin", "weights");
  std::string first = key();
  write("notes", "not a part of the model");
  EXPECT_EQ(first, key());
  write("weights.bin", "longer weights");
  EXPECT_NE(first, key());
  fs::remove(folder / "weights.bin");
  EXPECT_NE(first, key());
  write("model.onnx", "\x0A\x08location\x12\xFF\xFF\xFF\xFF"); // A length past the end of the file.
  EXPECT_NE(key(), "");
}

TEST_F(CompileCache, EmptyAndMissingModels) {
  write("model.onnx", "");
  EXPECT_NE(key(), "");
  std::string name;
  EXPECT_TRUE(bool(cacheKey((folder / "nowhere.onnx").string(), "", {}, name)));
  EXPECT_TRUE(bool(cacheKey(folder.string(), "", {}, name)));
}

TEST_F(CompileCache, Folder) {
  std::string path;
  ASSERT_FALSE(bool(cacheFolder((folder / "a" / "b").string(), path)));
  EXPECT_TRUE(fs::is_directory(folder / "a" / "b"));
  EXPECT_TRUE(bool(cacheFolder((folder / "model.onnx").string(), path)));
  setenv("XDG_CACHE_HOME", (folder / "xdg").c_str(), 1);
  ASSERT_FALSE(bool(cacheFolder("", path)));
  EXPECT_EQ(path, (folder / "xdg" / "kimi").string());
}
} // namespace
