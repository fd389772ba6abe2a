//===- WholeFileTest.cpp - files that are written whole or not at all
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/WholeFile.h"
#include "TestModule.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace kimi;
using kimi::test::TemporaryFolder;

namespace {
std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ptrdiff_t files(const std::string &folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(WholeFile, AppearsAtTheEnd) {
  TemporaryFolder folder;
  std::string path = folder.path("out");
  std::ofstream(path) << "old";
  {
    WholeFile file(path);
    file.stream() << "new" << ' ' << 7;
    EXPECT_EQ(contents(path), "old");
    EXPECT_FALSE(bool(file.finish()));
    EXPECT_EQ(contents(path), "new 7");
  }
  EXPECT_EQ(contents(path), "new 7");
  EXPECT_EQ(files(folder.path("")), 1);
}

TEST(WholeFile, LeavesNothingUnlessFinished) {
  TemporaryFolder folder;
  {
    WholeFile(folder.path("out")).stream() << "half";
  }
  EXPECT_EQ(files(folder.path("")), 0);
}

TEST(WholeFile, SaysWhy) {
  TemporaryFolder folder;
  EXPECT_EQ(WholeFile(folder.path("absent/out")).finish().message(), "cannot be written: No such file or directory");
  EXPECT_EQ(WholeFile(folder.path("")).finish().message(), "cannot be written: Is a directory");
  WholeFile full("/dev/full");
  full.stream() << "text";
  EXPECT_EQ(full.finish().message(),
            "cannot be written: No space left on device; make room there, or name another place");
  WholeFile null("/dev/null");
  null.stream() << "text";
  EXPECT_FALSE(bool(null.finish()));
}
} // namespace
