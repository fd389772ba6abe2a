//===- TensorProtoTest.cpp - ONNX tensors, sound and damaged
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/TensorProto.h"
#include "onnx/onnx-ml.pb.h"
#include <gtest/gtest.h>

using namespace kimi::run;

namespace {
kimi::Status parse(const onnx::TensorProto &proto, HostTensor &tensor) {
  std::string name;
  return parseTensorProto(proto.SerializeAsString(), name, tensor);
}

void expectRefused(const onnx::TensorProto &proto, const std::string &part) {
  HostTensor tensor;
  kimi::Status s = parse(proto, tensor);
  EXPECT_TRUE(bool(s));
  EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
}

TEST(TensorProto, RawData) {
  onnx::TensorProto proto;
  proto.set_name("x");
  proto.set_data_type(onnx::TensorProto::FLOAT);
  proto.add_dims(2);
  float values[] = {1.5f, -2};
  proto.set_raw_data(values, sizeof(values));
  std::string name;
  HostTensor tensor;
  ASSERT_FALSE(parseTensorProto(proto.SerializeAsString(), name, tensor));
  EXPECT_EQ(name, "x");
  EXPECT_EQ(tensor.dims, std::vector<int64_t>({2}));
  EXPECT_EQ(tensor.at(1), -2);
  proto.add_dims(0);
  expectRefused(proto, "2 elements for a shape of 0");
  proto.set_dims(1, 1);
  proto.set_raw_data("1234567", 7);
  expectRefused(proto, "elements for a shape");
}

TEST(TensorProto, PackedElements) {
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::INT4);
  proto.add_dims(3);
  proto.set_raw_data("\x8F\x07", 2); // The first element is in the low bits.
  HostTensor tensor;
  ASSERT_FALSE(parse(proto, tensor));
  EXPECT_EQ(tensor.dtype, KIMI_I8);
  EXPECT_EQ(tensor.integerAt(0), -1);
  EXPECT_EQ(tensor.integerAt(1), -8);
  EXPECT_EQ(tensor.integerAt(2), 7);
  proto.set_data_type(onnx::TensorProto::UINT2);
  proto.set_dims(0, 7);
  ASSERT_FALSE(parse(proto, tensor));
  EXPECT_EQ(tensor.dtype, KIMI_U8);
  EXPECT_EQ(tensor.integerAt(0), 3);
  EXPECT_EQ(tensor.integerAt(3), 2);
  EXPECT_EQ(tensor.integerAt(6), 0);
  proto.set_dims(0, 9);
  expectRefused(proto, "2 bytes for a shape of 9");
  proto.set_dims(0, 4);
  expectRefused(proto, "2 bytes for 4 elements of 2 bits");
}

TEST(TensorProto, TypedFields) {
  onnx::TensorProto half;
  half.set_data_type(onnx::TensorProto::FLOAT16);
  half.add_int32_data(0x3C00);
  HostTensor tensor;
  ASSERT_FALSE(parse(half, tensor));
  EXPECT_EQ(tensor.at(0), 1);
  onnx::TensorProto byte;
  byte.set_data_type(onnx::TensorProto::INT8);
  byte.add_dims(2);
  byte.add_int32_data(-5);
  byte.add_int32_data(7);
  ASSERT_FALSE(parse(byte, tensor));
  EXPECT_EQ(tensor.integerAt(0), -5);
  EXPECT_EQ(tensor.integerAt(1), 7);
  onnx::TensorProto wide;
  wide.set_data_type(onnx::TensorProto::UINT32);
  wide.add_dims(1);
  wide.add_uint64_data(4000000000u);
  ASSERT_FALSE(parse(wide, tensor));
  EXPECT_EQ(tensor.integerAt(0), 4000000000);
  wide.clear_uint64_data();
  wide.add_int64_data(1); // the right count in the wrong field
  expectRefused(wide, "0 elements");
}

TEST(TensorProto, Damage) {
  HostTensor tensor;
  std::string name;
  EXPECT_TRUE(bool(parseTensorProto("\xFF\xFF\xFF", name, tensor)));
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::STRING);
  expectRefused(proto, "element type STRING");
  proto.set_data_type(999);
  expectRefused(proto, "element type number 999");
  proto.set_data_type(onnx::TensorProto::FLOAT);
  proto.add_dims(int64_t(1) << 40);
  proto.add_dims(int64_t(1) << 40);
  expectRefused(proto, "impossible shape");
  proto.set_dims(1, 1);
  expectRefused(proto, "0 elements for a shape");
  proto.set_dims(0, -1);
  expectRefused(proto, "impossible shape");
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  expectRefused(proto, "another file");
}

TEST(TensorProto, MissingFile) {
  HostTensor tensor;
  std::string name;
  kimi::Status s = readTensorProto("/nonexistent/input_0.pb", name, tensor);
  EXPECT_EQ(s.code(), KIMI_NOT_FOUND);
}
} // namespace
