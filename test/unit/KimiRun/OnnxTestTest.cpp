//===- OnnxTestTest.cpp - how data sets are found, matched and judged
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/OnnxTest.h"
#include "TinyModule.h"
#include "onnx/onnx-ml.pb.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

using namespace kimi::run;
namespace fs = std::filesystem;

namespace {
class OnnxTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("kimi-onnx-test-" + std::to_string(getpid()));
    fs::create_directories(set(0));
    TinyModule tiny;
    tiny.vocabulary = 8;
    tiny.prefill = tiny.decode = false;
    ASSERT_TRUE(tiny.write((folder / "model.kmod").string()));
    ids("");
    logits("", 0);
  }
  void TearDown() override { fs::remove_all(folder); }

  fs::path set(int number) { return folder / ("test_data_set_" + std::to_string(number)); }

  void write(const fs::path &path, const onnx::TensorProto &proto) {
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  }

  /// Input ids 1 2 of one sequence, under a name.
  void ids(const std::string &name, const char *file = "input_0.pb") {
    onnx::TensorProto proto;
    proto.set_data_type(onnx::TensorProto::INT64);
    proto.set_name(name);
    proto.add_dims(1);
    proto.add_dims(2);
    proto.add_int64_data(1);
    proto.add_int64_data(2);
    write(set(0) / file, proto);
  }

  /// The right logits (2 after the 1, 4 after both), with `error` added to the last.
  void logits(const std::string &name, float error, const char *file = "output_0.pb") {
    onnx::TensorProto proto;
    proto.set_data_type(onnx::TensorProto::FLOAT);
    proto.set_name(name);
    for (int64_t dim : {1, 2, 8}) {
      proto.add_dims(dim);
    }
    for (int i = 0; i < 16; ++i) {
      proto.add_float_data((i == 2 || i == 8 + 4 ? 1.f : 0.f) + (i == 15 ? error : 0));
    }
    write(set(0) / file, proto);
  }

  Exit run(const std::string &module = "") {
    Options options;
    options.onnxTests = {folder.string()};
    options.testModule = module;
    options.atol = 1e-3;
    std::ostringstream out, log;
    Exit code = runOnnxTests(options, out, log,
                             [&](const Options &one, std::ostream &, std::unique_ptr<Model> &model) -> kimi::Status {
                               EXPECT_EQ(one.model, module.empty() ? (folder / "model.onnx").string() : module);
                               if (needsAxes && one.constants.empty()) {
                                 return kimi::invalidArgument("axes must be known");
                               }
                               return Model::load((folder / "model.kmod").string(), "", model);
                             });
    lines = out.str();
    return code;
  }

  fs::path folder;
  std::string lines;
  bool needsAxes = false;
};

TEST_F(OnnxTest, ByPlaceAndByName) {
  EXPECT_EQ(run(), Exit::Ok) << lines;
  EXPECT_NE(lines.find("1 passed, 0 failed"), std::string::npos) << lines;
  ids("input_ids");
  logits("logits", 1e-4f);
  EXPECT_EQ(run(), Exit::Ok) << lines;
  EXPECT_NE(lines.find("max abs 0.0001"), std::string::npos) << lines;
}

TEST_F(OnnxTest, ShapesThatFollowFromInputsAreCompiledForTheirValues) {
  onnx::TensorProto axes;
  axes.set_data_type(onnx::TensorProto::INT64);
  axes.set_name("axes");
  axes.add_dims(1);
  axes.add_int64_data(1);
  write(set(0) / "input_1.pb", axes);
  ids("input_ids"); // of two axes: no shape
  needsAxes = true;
  EXPECT_EQ(run(), Exit::Ok) << lines;
  EXPECT_NE(lines.find("compiled for this value of 'axes'"), std::string::npos) << lines;
  fs::remove(set(0) / "input_1.pb");
  EXPECT_EQ(run(), Exit::Failure) << lines;
  EXPECT_NE(lines.find("axes must be known"), std::string::npos) << lines;
}

TEST_F(OnnxTest, ACompiledModule) {
  EXPECT_EQ(run((folder / "model.kmod").string()), Exit::Ok) << lines;
  EXPECT_NE(lines.find("1 passed, 0 failed"), std::string::npos) << lines;
}

TEST_F(OnnxTest, DifferencesAreAMismatch) {
  logits("logits", 0.5f);
  EXPECT_EQ(run(), Exit::Mismatch) << lines;
  EXPECT_NE(lines.find("output 'logits': element [0, 1, 7] is 0, expected 0.5"), std::string::npos) << lines;
  logits("logits", NAN);
  EXPECT_EQ(run(), Exit::Mismatch) << lines;
}

TEST_F(OnnxTest, SetsAreCountedOneByOne) {
  fs::copy(set(0), set(10), fs::copy_options::recursive);
  fs::copy(set(0), set(2), fs::copy_options::recursive);
  logits("logits", 0.5f);
  EXPECT_EQ(run(), Exit::Mismatch) << lines;
  EXPECT_NE(lines.find("2 passed, 1 failed"), std::string::npos) << lines;
  EXPECT_LT(lines.find("test_data_set_2"), lines.find("test_data_set_10"));
}

TEST_F(OnnxTest, WhatCannotRunIsAFailure) {
  auto fails = [&](const char *part) {
    EXPECT_EQ(run(), Exit::Failure) << lines;
    EXPECT_NE(lines.find(part), std::string::npos) << lines;
    EXPECT_NE(lines.find("0 passed, 1 failed"), std::string::npos) << lines;
  };
  ids("tokens");
  fails("the model has no such port 'tokens'");
  ids("input_ids");
  ids("input_ids", "input_1.pb");
  fails("a second value for port 'input_ids'");
  fs::remove(set(0) / "input_0.pb");
  fs::remove(set(0) / "input_1.pb");
  fails("no value for input 'input_ids'");
  ids("");
  fs::remove(set(0) / "output_0.pb");
  fails("no output_*.pb");
  std::ofstream(set(0) / "output_0.pb") << "\xFF\xFF";
  fails("not a TensorProto");
  fs::remove(folder / "model.kmod");
  fails("model.kmod");
  fs::remove_all(set(0));
  fails("holds no test_data_set_*");
}
} // namespace
