//===- CorruptionTest.cpp ------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"
#include "runtime/format/Header.h"
#include "runtime/format/Verify.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace kimi;
using namespace kimi::test;

namespace {

/// The bytes at an address that is aligned as a mapped file is.
class AlignedFile {
public:
  explicit AlignedFile(const std::vector<uint8_t> &bytes) : size(bytes.size()) {
    void *memory = nullptr; // of this size exactly, so that a sanitizer sees a read past the end
    EXPECT_EQ(posix_memalign(&memory, format::tableAlignment, size), 0);
    start = static_cast<uint8_t *>(memory);
    std::copy(bytes.begin(), bytes.end(), start);
  }
  ~AlignedFile() { std::free(start); }
  AlignedFile(const AlignedFile &) = delete;

  format::FileHeader &header() { return *reinterpret_cast<format::FileHeader *>(start); }
  /// Makes the checksum right again, so that a change of the table gets past it.
  void sign() {
    format::FileHeader &it = header();
    if (it.tableOffset <= size && it.tableLength <= size - it.tableOffset) {
      it.tableChecksum = format::checksum(start + it.tableOffset, it.tableLength);
    }
  }
  Status verify() {
    format::Contents contents;
    return format::verifyFile(start, size, contents);
  }

  uint8_t *start;
  uint64_t size;
};

std::vector<uint8_t> richModule() {
  ModuleSpec module = twoLaunchModule();
  module.weights = {{"w", {2, 2}, "", 0, {1, 2, 3, 4}}, {"e", {2}, "file.bin", 8}};
  module.states = {{"s", {-1, 2}, 0}};
  module.entries[0].states = {0};
  module.entries[0].checks = {{0, "n must not be 0"}};
  return build(module);
}

TEST(Corruption, GoodFileIsGood) {
  AlignedFile file(richModule());
  Status status = file.verify();
  EXPECT_FALSE(status) << status.message();
}

TEST(Corruption, EveryBitOfHeaderAndTableCounts) {
  AlignedFile file(richModule());
  uint64_t end = file.header().tableOffset + file.header().tableLength;
  for (uint64_t i = 0; i < end; ++i) {
    if (i >= sizeof(format::FileHeader) && i < file.header().tableOffset) {
      continue; // padding
    }
    for (int bit = 0; bit < 8; ++bit) {
      file.start[i] ^= 1 << bit;
      EXPECT_EQ(file.verify().code(), KIMI_BAD_FILE) << "byte " << i << " bit " << bit;
      file.start[i] ^= 1 << bit;
    }
  }
}

/// Behind the checksum: whatever a byte becomes, verification ends with a verdict (a sanitizer sees what it reads).
TEST(Corruption, ForgedTablesAreReadSafely) {
  AlignedFile file(richModule());
  uint64_t begin = file.header().tableOffset, end = begin + file.header().tableLength;
  int refused = 0, accepted = 0;
  for (uint64_t i = begin; i < end; ++i) {
    uint8_t original = file.start[i];
    for (int change : {0x00, 0x01, 0x7f, 0x80, 0xff, original ^ 0x04, original + 1, original - 1}) {
      file.start[i] = static_cast<uint8_t>(change);
      file.sign();
      Status status = file.verify();
      ++(status ? refused : accepted);
      EXPECT_TRUE(!status || status.code() == KIMI_BAD_FILE);
    }
    file.start[i] = original;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 0); // a changed name is a good file
}

TEST(Corruption, ForgedWordsAreReadSafely) {
  AlignedFile file(richModule());
  uint64_t begin = file.header().tableOffset, end = begin + file.header().tableLength;
  for (uint64_t i = begin; i + 4 <= end; i += 4) {
    uint32_t original, changes[] = {0x80000000u, 0x7fffffffu, 0xfffffff0u, 0x00010000u};
    std::memcpy(&original, file.start + i, 4);
    for (uint32_t change : changes) {
      std::memcpy(file.start + i, &change, 4);
      file.sign();
      Status status = file.verify();
      EXPECT_TRUE(!status || status.code() == KIMI_BAD_FILE);
    }
    std::memcpy(file.start + i, &original, 4);
  }
}

TEST(Corruption, TruncatedAnywhere) {
  std::vector<uint8_t> bytes = richModule();
  AlignedFile whole(bytes);
  uint64_t table = whole.header().tableOffset + whole.header().tableLength;
  for (uint64_t size = 0; size < bytes.size(); size += size < table ? 7 : 501) {
    AlignedFile file(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)));
    EXPECT_EQ(file.verify().code(), KIMI_BAD_FILE) << size;
  }
}

TEST(Corruption, HeaderFields) {
  using Header = format::FileHeader;
  const uint64_t values[] = {0, 1, 40, 63, 64, 4095, 4096, 1u << 20, 1u << 31, 1ull << 32, 1ull << 63, UINT64_MAX};
  std::vector<uint8_t> bytes = richModule();
  for (uint64_t Header::*field :
       {&Header::tableOffset, &Header::tableLength, &Header::dataOffset, &Header::dataLength}) {
    for (uint64_t value : values) {
      AlignedFile file(bytes);
      if (file.header().*field == value) {
        continue;
      }
      file.header().*field = value;
      file.sign();
      EXPECT_EQ(file.verify().code(), KIMI_BAD_FILE) << value;
    }
  }
  AlignedFile file(bytes);
  file.header().version = format::formatVersion + 1;
  Status status = file.verify();
  EXPECT_NE(status.message().find("has format version " + std::to_string(format::formatVersion + 1)), std::string::npos)
      << status.message();
}

TEST(Corruption, DamagedCodeNeverRuns) {
  std::vector<uint8_t> bytes = richModule();
  for (size_t back : {1u, 1000u, 5000u}) {
    AlignedFile file(bytes);
    file.start[file.size - back] ^= 0x10;
    Status status = file.verify();
    EXPECT_EQ(status.code(), KIMI_BAD_FILE);
    EXPECT_NE(status.message().find("image 0: its checksum is wrong"), std::string::npos) << status.message();
  }
}

} // namespace
