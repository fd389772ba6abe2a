//===- OutputFileTest.cpp - files that are written whole or not at all
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/OutputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>

using kimi::writeOutputFile;

namespace {

class OutputFileTest : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("kimi-output", folder)); }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  /// The message of writing `text` to `path`; empty where that went well.
  static std::string write(const std::string &path, const std::string &text) {
    return llvm::toString(writeOutputFile(path, [&](llvm::raw_ostream &os) { os << text; }));
  }
  std::string read(const std::string &path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : "";
  }
  size_t files() {
    std::error_code error;
    size_t count = 0;
    for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error)) {
      ++count;
    }
    return count;
  }

  llvm::SmallString<128> folder;
};

TEST_F(OutputFileTest, ReplacesAFileAndLeavesNothingElse) {
  std::string path = (folder + "/out").str();
  EXPECT_EQ(write(path, "first, and longer"), "");
  EXPECT_EQ(write(path, "second"), "");
  EXPECT_EQ(read(path), "second");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, SaysWhyAFileCannotBeWritten) {
  std::string message = write((folder + "/absent/out").str(), "text");
  EXPECT_NE(message.find("cannot write '"), std::string::npos) << message;
  EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
  message = write(folder.str().str(), "text"); // a folder
  EXPECT_NE(message.find("cannot write '"), std::string::npos) << message;
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFileTest, AFullDeviceIsAnErrorAndNotTheEnd) {
  if (!llvm::sys::fs::exists("/dev/full")) {
    GTEST_SKIP() << "there is no /dev/full";
  }
  std::string message = write("/dev/full", std::string(1 << 20, 'x'));
  EXPECT_NE(message.find("cannot write '/dev/full': No space left on device"), std::string::npos) << message;
  EXPECT_EQ(write("/dev/null", "text"), "");
}

} // namespace
