//===- ScalarTest.cpp ----------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"

#include <gtest/gtest.h>

using namespace kimi;
using namespace kimi::test;
using Op = fb::ScalarOp;

namespace {

/// The value of op(a, b) on input dims a and b (and of op(7) for operands that are not dims): the extent of the output.
kimi_status evaluate(Op op, int64_t a, int64_t b, int64_t offset, int64_t &out) {
  ModuleSpec module;
  EntrySpec entry{"main"};
  entry.inputs = {{"x", fb::DType::F32, {fb::Dim(-1, -1), fb::Dim(-1, -1)}}};
  int32_t shift = entry.constant(offset);
  int32_t first = entry.op(Op::Sub, entry.dim(0, 0), shift), second = entry.op(Op::Sub, entry.dim(0, 1), shift);
  int32_t result = entry.op(op, first, second, first);
  entry.outputs = {{"z", fb::DType::F32, {fb::Dim(-1, -1)}, {entry.add(result, shift)}}};
  module.entries = {entry};
  Runner runner;
  EXPECT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  EXPECT_EQ(runner.open(sized(0, 0, 1)), KIMI_OK) << lastError();
  std::vector<float> none;
  kimi_tensor input = tensor(none, {a + offset, b + offset}), output = {};
  kimi_status status = kimi_session_output_shapes(runner.session, 0, &input, 1, &output, 1);
  out = output.dims[0] - offset;
  return status;
}

TEST(Scalar, Operations) {
  struct Case {
    Op op;
    int64_t a, b, value;
  };
  for (const Case &it : std::initializer_list<Case>{
           {Op::Add, 5, 3, 8},        {Op::Sub, 5, 8, -3},       {Op::Mul, -4, 6, -24},     {Op::FloorDiv, 7, 2, 3},
           {Op::FloorDiv, -7, 2, -4}, {Op::FloorDiv, 7, -2, -4}, {Op::FloorDiv, -6, 2, -3}, {Op::CeilDiv, 7, 2, 4},
           {Op::CeilDiv, -7, 2, -3},  {Op::CeilDiv, 6, 2, 3},    {Op::Mod, 7, 3, 1},        {Op::Mod, -7, 3, 2},
           {Op::Mod, 7, -3, -2},      {Op::Mod, -6, 3, 0},       {Op::Min, -1, 4, -1},      {Op::Max, -1, 4, 4},
           {Op::Eq, 4, 4, 1},         {Op::Eq, 4, 5, 0},         {Op::Lt, 4, 5, 1},         {Op::Lt, 5, 5, 0},
           {Op::Le, 5, 5, 1},         {Op::And, 2, 3, 1},        {Op::And, 2, 0, 0},        {Op::Or, 0, 0, 0},
           {Op::Or, 0, -1, 1},        {Op::Not, 3, 0, 0},        {Op::Not, 0, 0, 1},        {Op::Select, 3, 9, 9},
           {Op::Select, 0, 9, 0}}) {
    int64_t value;
    EXPECT_EQ(evaluate(it.op, it.a, it.b, 100, value), KIMI_OK) << lastError();
    EXPECT_EQ(value, it.value) << fb::EnumNameScalarOp(it.op) << " " << it.a << " " << it.b;
  }
}

TEST(Scalar, ErrorsNameTheEntry) {
  int64_t value;
  for (Op op : {Op::FloorDiv, Op::CeilDiv, Op::Mod}) {
    EXPECT_EQ(evaluate(op, 3, 0, 100, value), KIMI_INVALID_ARGUMENT);
    EXPECT_NE(lastError().find("entry 'main': scalar"), std::string::npos) << lastError();
    EXPECT_NE(lastError().find("divides by zero"), std::string::npos) << lastError();
  }
  EXPECT_EQ(evaluate(Op::Sub, 1, 2, 0, value), KIMI_INVALID_ARGUMENT);
  EXPECT_NE(lastError().find("output 'z' would have the shape [-1]"), std::string::npos) << lastError();
}

TEST(Scalar, OverflowIsAnError) {
  ModuleSpec module;
  EntrySpec entry{"main"};
  entry.inputs = {{"x", fb::DType::F32, {fb::Dim(-1, -1)}}};
  int32_t n = entry.dim(0, 0), square = entry.mul(n, n);
  entry.mul(square, square);
  module.entries = {entry};
  Runner runner;
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  std::vector<float> none;
  kimi_tensor input = tensor(none, {1 << 20});
  EXPECT_EQ(kimi_session_output_shapes(runner.session, 0, &input, 1, nullptr, 0), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(lastError(), "entry 'main': scalar 2 (Mul) overflows 64 bits for these input shapes");
}

TEST(Scalar, FailedCheckComesBeforeArithmeticThatItGuards) {
  ModuleSpec module;
  EntrySpec entry{"main"};
  entry.inputs = {{"x", fb::DType::F32, {fb::Dim(-1, -1)}}};
  int32_t n = entry.dim(0, 0);
  entry.checks = {{n, "x must not be empty"}};
  entry.op(Op::FloorDiv, entry.constant(8), n);
  module.entries = {entry};
  Runner runner;
  ASSERT_EQ(runner.load(build(module)), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  std::vector<float> none;
  kimi_tensor input = tensor(none, {0});
  EXPECT_EQ(kimi_session_output_shapes(runner.session, 0, &input, 1, nullptr, 0), KIMI_INVALID_ARGUMENT);
  EXPECT_EQ(lastError(), "entry 'main': x must not be empty");
}

} // namespace
