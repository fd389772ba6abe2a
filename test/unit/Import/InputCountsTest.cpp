//===- InputCountsTest.cpp - nodes with inputs that their operator does not have
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/InputCounts.h"
#include "test/unit/Import/ImportTester.h"

using namespace kimi;
using namespace kimi::test;

namespace {

TEST(InputCounts, TheVersionOfTheModelCounts) {
  EXPECT_EQ(wrongInputs("Add", 14, {true, true}), "");
  EXPECT_EQ(wrongInputs("Add", 14, {true}), "has 1 input; Add-14 takes 2");
  EXPECT_EQ(wrongInputs("Add", 14, {}), "has 0 inputs; Add-14 takes 2");
  EXPECT_EQ(wrongInputs("Add", 14, {true, true, true}), "has 3 inputs; Add-14 takes 2");
  EXPECT_EQ(wrongInputs("Add", 14, {true, false}), "leaves out input 1, which Add-14 needs");
  // Bounds are attributes before opset 11.
  EXPECT_EQ(wrongInputs("Clip", 10, {true, true, true}), "has 3 inputs; Clip-10 takes 1");
  EXPECT_EQ(wrongInputs("Clip", 11, {true, true, true}), "");
  EXPECT_EQ(wrongInputs("Clip", 28, {true, false, true}), "");
  EXPECT_EQ(wrongInputs("Clip", 13, {true, true, true, true}), "has 4 inputs; Clip-13 takes 1 to 3");
}

TEST(InputCounts, AnyNumberOfInputs) {
  llvm::SmallVector<bool> many(1000, true);
  EXPECT_EQ(wrongInputs("Concat", 13, many), "");
  EXPECT_EQ(wrongInputs("Concat", 13, {}), "has 0 inputs; Concat-13 takes 1 or more");
  many.back() = false;
  EXPECT_EQ(wrongInputs("Concat", 13, many), "leaves out input 999, which Concat-13 needs");
  EXPECT_EQ(wrongInputs("Loop", 23, {false, false}), "");
  EXPECT_EQ(wrongInputs("Loop", 23, {false, false, false}), "leaves out input 2, which Loop-23 needs");
}

TEST(InputCounts, OtherOperatorsAreNotJudged) {
  EXPECT_EQ(wrongInputs("NoSuchOperator", 20, {}), "");
  EXPECT_EQ(wrongInputs("A", 20, {}), ""); // before the first
  EXPECT_EQ(wrongInputs("Zzz", 20, {}), "");
  EXPECT_EQ(wrongInputs("Attention", 22, {}), ""); // came with opset 23
}

class InputCountsTest : public ImportTester {};

TEST_F(InputCountsTest, AllSuchNodesAreListed) {
  ::onnx::ModelProto model = unaryModel("Relu");
  auto *nodes = model.mutable_graph()->mutable_node();
  addNode(nodes, "Add", {"x"}, {"a"}, "", "first");
  addNode(nodes, "Relu", {"x", "x"}, {"b"}, "", "second");
  addNode(nodes, "Where", {"x", "", "x"}, {"c"}, "", "third");
  addNode(nodes, "Add", {"x"}, {"d"}, "com.example", "fourth");
  EXPECT_FALSE(import(model));
  EXPECT_NE(said.find("'first' (Add) has 1 input; Add-20 takes 2"), std::string::npos) << said;
  EXPECT_NE(said.find("'second' (Relu) has 2 inputs; Relu-20 takes 1"), std::string::npos) << said;
  EXPECT_NE(said.find("'third' (Where) leaves out input 1, which Where-20 needs"), std::string::npos) << said;
  EXPECT_EQ(said.find("fourth"), std::string::npos) << said; // another domain's operators have schemas of their own
}

} // namespace
