//===- ExternalTest.cpp - external data stays beneath the model's folder and within its files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/Import/ImportTester.h"

using namespace kimi;
using namespace kimi::test;

namespace {

class ExternalTest : public ImportTester {
protected:
  void SetUp() override {
    ImportTester::SetUp();
    writeFile("data.bin", std::string(64, '\x01'));
  }

  /// 4 floats, external with these keys.
  Tensor external(const std::vector<std::pair<std::string, std::string>> &keys, std::vector<int64_t> dims = {4}) {
    Tensor tensor = tensorOf(Tensor::FLOAT, dims);
    tensor.set_data_location(Tensor::EXTERNAL);
    for (const auto &[key, value] : keys) {
      auto *entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    return tensor;
  }

  void refuses(const Tensor &tensor, const std::string &why) {
    EXPECT_FALSE(importTensor(tensor));
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }
};

TEST_F(ExternalTest, RangesAreNamedAndNotRead) {
  auto place = mlir::dyn_cast_or_null<ExternalAttr>(
      importTensor(external({{"location", "data.bin"}, {"offset", "16"}, {"length", "16"}, {"checksum", "ignored"}})));
  ASSERT_TRUE(place) << said;
  EXPECT_EQ(place.getFile().str(), "data.bin");
  EXPECT_EQ(place.getOffset(), 16u);
  EXPECT_EQ(place.getLength(), 16u);
  // A file that is not there yet may come with the weights.
  place = mlir::dyn_cast_or_null<ExternalAttr>(
      importTensor(external({{"location", "later.bin"}, {"offset", "4096"}}, {1 << 20, 1 << 10})));
  ASSERT_TRUE(place) << said;
  EXPECT_EQ(place.getLength(), 1ull << 32);
}

TEST_F(ExternalTest, PathsThatLeaveTheFolderAreRefused) {
  refuses(external({{"location", "/etc/passwd"}}), "is an absolute path");
  refuses(external({{"location", "../data.bin"}}), "leaves its folder by '..'");
  refuses(external({{"location", "a/../../data.bin"}}), "leaves its folder by '..'");
  refuses(external({{"location", ""}}), "is no file name");
  refuses(external({{"location", std::string("data.bin\0x", 10)}}), "is no file name");
  refuses(external({{"location", "."}}), "is not a regular file");
  std::filesystem::create_symlink("/etc/passwd", folder / "link.bin");
  refuses(external({{"location", "link.bin"}}), "goes through a symbolic link");
  std::filesystem::create_directory_symlink("/etc", folder / "etc");
  refuses(external({{"location", "etc/passwd"}}), "goes through a symbolic link");
  // A sibling whose name begins with the folder's is outside too.
  std::filesystem::path sibling = folder.string() + "-other";
  std::filesystem::create_directory(sibling);
  std::filesystem::copy_file(folder / "data.bin", sibling / "data.bin");
  std::filesystem::create_directory_symlink(sibling, folder / "sibling");
  refuses(external({{"location", "sibling/data.bin"}}), "goes through a symbolic link");
  std::filesystem::remove_all(sibling);
}

TEST_F(ExternalTest, RangesBeyondTheFileAreRefused) {
  refuses(external({{"location", "data.bin"}, {"offset", "60"}}), "ends at byte 76 of 'data.bin', which has 64 bytes");
  refuses(external({{"location", "data.bin"}}, {1ll << 50}), "which has 64 bytes");
  refuses(external({{"location", "data.bin"}, {"length", "15"}}), "external data has 15 bytes where its type takes 16");
  refuses(external({{"location", "data.bin"}, {"offset", "-1"}}), "'-1' is not a number of bytes");
  refuses(external({{"location", "data.bin"}, {"offset", "0x10"}}), "'0x10' is not a number of bytes");
  refuses(external({{"location", "data.bin"}, {"offset", "18446744073709551600"}}), "is too large");
  refuses(external({{"location", "data.bin"}, {"offset", "18446744073709551616"}}), "is not a number of bytes");
}

TEST_F(ExternalTest, UnknownKeysAndMissingNamesAreRefused) {
  refuses(external({}), "names no file");
  refuses(external({{"offset", "0"}}), "names no file");
  refuses(external({{"location", "data.bin"}, {"__class__", "x"}}), "key '__class__' is unknown");
}

TEST_F(ExternalTest, ShapesAreRead) {
  Tensor tensor = tensorOf(Tensor::INT64, {2});
  tensor.set_data_location(Tensor::EXTERNAL);
  auto *entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value("data.bin");
  auto elements = mlir::dyn_cast_or_null<mlir::DenseElementsAttr>(importTensor(tensor));
  ASSERT_TRUE(elements) << said;
  EXPECT_EQ(*elements.getValues<int64_t>().begin(), 0x0101010101010101);
}

} // namespace
