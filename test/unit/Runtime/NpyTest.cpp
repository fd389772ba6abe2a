//===- NpyTest.cpp -------------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/io/Npy.h"
#include "TestModule.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <zlib.h>

using namespace kimi;
using namespace kimi::test;

namespace {

std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A .npy file (version 1) with that dictionary and those elements.
std::string npy(const std::string &dictionary, const std::string &elements) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dictionary.size());
  out += static_cast<char>(dictionary.size() >> 8);
  return out + dictionary + elements;
}

Status parse(const std::string &bytes, Array &out) {
  // A copy of exact size, so that a sanitizer sees a read past the end.
  std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  return parseNpy(copy.data(), copy.size(), out);
}

TEST(Npy, RoundTripOfEveryDtype) {
  TemporaryFolder folder;
  for (int dtype = KIMI_F32; dtype <= KIMI_BOOL; ++dtype) {
    std::vector<uint8_t> data(6 * kimi_dtype_size(kimi_dtype(dtype)));
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<uint8_t>(dtype == KIMI_BOOL ? i & 1 : i * 7);
    }
    kimi_tensor tensor = {kimi_dtype(dtype), 2, {2, 3}, data.data()};
    Status status = writeNpy(folder.path("a.npy"), tensor);
    ASSERT_FALSE(status) << status.message();
    Array read;
    status = readNpy(folder.path("a.npy"), read);
    ASSERT_FALSE(status) << status.message();
    EXPECT_EQ(read.dims, (std::vector<int64_t>{2, 3}));
    if (dtype == KIMI_BF16) { // widened: the upper halves are the bf16
      EXPECT_EQ(read.dtype, KIMI_F32);
      EXPECT_EQ(read.data[2], data[0]);
      EXPECT_EQ(read.data[3], data[1]);
    } else {
      EXPECT_EQ(read.dtype, dtype);
      EXPECT_EQ(read.data, data);
    }
  }
}

TEST(Npy, ShapesAndHeader) {
  TemporaryFolder folder;
  for (const std::vector<int64_t> &dims : {std::vector<int64_t>{}, {0}, {5}, {1, 0, 3}, {1, 1, 1, 1, 1, 1}}) {
    int64_t count = 1;
    for (int64_t dim : dims) {
      count *= dim;
    }
    std::vector<float> data(count, 1.5f);
    ASSERT_FALSE(writeNpy(folder.path("a.npy"), tensor(data, dims)));
    EXPECT_EQ(readAll(folder.path("a.npy")).find('\n') % 64, 63u);
    Array read;
    Status status = readNpy(folder.path("a.npy"), read);
    ASSERT_FALSE(status) << status.message();
    EXPECT_EQ(read.dims, dims);
    EXPECT_EQ(read.data.size(), data.size() * 4);
  }
}

TEST(Npy, FortranOrder) {
  // [[1, 2, 3], [4, 5, 6]] by columns.
  Array read;
  Status status = parse(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\6"), read);
  ASSERT_FALSE(status) << status.message();
  EXPECT_EQ(read.data, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, Refuses) {
  struct Case {
    std::string bytes;
    kimi_status code;
  };
  auto dictionary = [](const char *descr, const char *order, const char *shape) {
    return std::string("{'descr': ") + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  };
  const std::vector<Case> cases = {
      {"", KIMI_BAD_FILE},
      {"\x93NUMPX\1\0\0\0", KIMI_BAD_FILE},
      {npy(dictionary("'<f4'", "False", "(2,)"), "1234567"), KIMI_BAD_FILE},
      {npy(dictionary("'<f4'", "False", "(4611686018427387904, 4)"), ""), KIMI_BAD_FILE},
      {npy(dictionary("'<f4'", "False", "(99999999999999999999,)"), ""), KIMI_BAD_FILE},
      {npy(dictionary("'<f4'", "False", "(-1,)"), ""), KIMI_BAD_FILE},
      {npy(dictionary("'<f4'", "False", "(1"), "1234"), KIMI_BAD_FILE},
      {npy(dictionary("'<f4'", "Perhaps", "(1,)"), "1234"), KIMI_BAD_FILE},
      {npy(dictionary("'<f4", "False", "(1,)"), "1234"), KIMI_BAD_FILE},
      {npy("{'descr': '<f4', }", "1234"), KIMI_BAD_FILE},
      {npy("{", ""), KIMI_BAD_FILE},
      {npy(dictionary("'>f4'", "False", "(1,)"), "1234"), KIMI_UNSUPPORTED},
      {npy(dictionary("'<c8'", "False", "(1,)"), "12345678"), KIMI_UNSUPPORTED},
      {npy(dictionary("[('a', '<f4')]", "False", "(1,)"), "1234"), KIMI_UNSUPPORTED},
      {npy(dictionary("'|u1'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "1"), KIMI_UNSUPPORTED},
  };
  for (const Case &it : cases) {
    Array read;
    Status status = parse(it.bytes, read);
    EXPECT_EQ(status.code(), it.code) << it.bytes << ": " << status.message();
  }
}

TEST(Npy, TruncatedAnywhere) {
  std::string whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678");
  Array read;
  ASSERT_FALSE(parse(whole, read));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(bool(parse(whole.substr(0, size), read))) << size;
  }
}

TEST(Npz, RoundTrip) {
  TemporaryFolder folder;
  std::vector<float> floats = {1, 2, 3};
  std::vector<int64_t> integers = {4, 5};
  Status status = writeNpz(folder.path("a.npz"), {{"x", tensor(floats, {3})}, {"a/b", tensor(integers, {1, 2})}});
  ASSERT_FALSE(status) << status.message();
  NamedArrays read;
  status = readNpz(folder.path("a.npz"), read);
  ASSERT_FALSE(status) << status.message();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].first, "x");
  EXPECT_EQ(std::memcmp(read[0].second.data.data(), floats.data(), 12), 0);
  EXPECT_EQ(read[1].first, "a/b");
  EXPECT_EQ(read[1].second.dtype, KIMI_I64);
  EXPECT_EQ(read[1].second.dims, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(writeNpz(folder.path("empty.npz"), {}));
  EXPECT_FALSE(readNpz(folder.path("empty.npz"), read));
  EXPECT_TRUE(read.empty());
}

template <typename T>
void append(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

/// An archive with one deflated member, as numpy.savez_compressed writes it.
std::string deflatedArchive(const std::string &contents) {
  std::string packed(compressBound(contents.size()) + 16, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef *>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  std::string shared, out, name = "x.npy";
  append<uint16_t>(shared, 20);
  append<uint16_t>(shared, 0);
  append<uint16_t>(shared, 8);
  append<uint32_t>(shared, 0);
  append<uint32_t>(shared, crc32(0, reinterpret_cast<const Bytef *>(contents.data()), contents.size()));
  append<uint32_t>(shared, packed.size());
  append<uint32_t>(shared, contents.size());
  append<uint16_t>(shared, name.size());
  append<uint16_t>(shared, 0);
  out = "PK\3\4" + shared + name + packed;
  size_t directory = out.size();
  out += "PK\1\2" + std::string(2, '\0') + shared + std::string(14, '\0') + name;
  size_t directorySize = out.size() - directory;
  out += "PK\5\6" + std::string(4, '\0');
  append<uint16_t>(out, 1);
  append<uint16_t>(out, 1);
  append<uint32_t>(out, directorySize);
  append<uint32_t>(out, directory);
  append<uint16_t>(out, 0);
  return out;
}

TEST(Npz, DeflatedAndDamaged) {
  TemporaryFolder folder;
  std::string elements(4000, 'a');
  std::string archive =
      deflatedArchive(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (40, 100), }", elements));
  NamedArrays read;
  Status status = readNpz(folder.write("a.npz", archive.data(), archive.size()), read);
  ASSERT_FALSE(status) << status.message();
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].first, "x");
  EXPECT_EQ(read[0].second.data, std::vector<uint8_t>(elements.begin(), elements.end()));
  for (size_t i = 0; i < archive.size(); ++i) {
    for (char change : {'\x01', '\xff'}) {
      std::string damaged = archive;
      damaged[i] ^= change;
      status = readNpz(folder.write("b.npz", damaged.data(), damaged.size()), read);
      EXPECT_TRUE(!status || status.code() == KIMI_BAD_FILE || status.code() == KIMI_UNSUPPORTED) << status.message();
    }
  }
  for (size_t size = 0; size < archive.size(); size += 3) {
    EXPECT_TRUE(bool(readNpz(folder.write("c.npz", archive.data(), size), read))) << size;
  }
}

} // namespace
