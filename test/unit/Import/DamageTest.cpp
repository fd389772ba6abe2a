//===- DamageTest.cpp - files that are cut or changed are refused, never followed
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/Import/ImportTester.h"
#include <random>

using namespace kimi;
using namespace kimi::test;

namespace {

/// Nodes, a subgraph, a function, tensors of every kind.
std::string richModel() {
  ::onnx::ModelProto model = unaryModel("F", "local");
  ::onnx::GraphProto &graph = *model.mutable_graph();
  ::onnx::FunctionProto &function = *model.add_functions();
  function.set_domain("local");
  function.set_name("F");
  function.add_input("x");
  function.add_output("y");
  function.add_opset_import()->set_version(20);
  addNode(function.mutable_node(), "Relu", {"x"}, {"y"});
  Tensor &raw = *graph.add_initializer() = tensorOf(Tensor::FLOAT, {2});
  raw.set_raw_data(std::string(8, '\x3f'));
  graph.mutable_node(0)->set_output(0, "t");
  ::onnx::NodeProto *branch = addNode(graph.mutable_node(), "If", {"t"}, {"u"}, "", "branch");
  for (const char *name : {"then_branch", "else_branch"}) {
    auto *attribute = branch->add_attribute();
    attribute->set_name(name);
    attribute->set_type(::onnx::AttributeProto::GRAPH);
    addNode(attribute->mutable_g()->mutable_node(), "Add", {"x", "w"}, {"z"});
    attribute->mutable_g()->add_output()->set_name("z");
  }
  addNode(graph.mutable_node(), "Mul", {"u", "t"}, {"y"});
  return model.SerializeAsString();
}

class DamageTest : public ImportTester {};

TEST_F(DamageTest, TheModelItselfIsGood) { EXPECT_TRUE(importBytes(richModel())) << said; }

TEST_F(DamageTest, EveryPrefixIsAcceptedOrRefusedWithAReason) {
  std::string whole = richModel();
  for (size_t length = 0; length < whole.size(); ++length) {
    if (!importBytes(whole.substr(0, length))) {
      EXPECT_FALSE(said.empty()) << "cut at byte " << length;
    }
  }
}

TEST_F(DamageTest, EveryChangedByteIsAcceptedOrRefusedWithAReason) {
  std::string whole = richModel();
  std::mt19937 random(7);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int kind = 0; kind < 2; ++kind) {
      std::string changed = whole;
      changed[at] = kind == 0 ? static_cast<char>(changed[at] ^ (1 << random() % 8)) : static_cast<char>(random());
      if (!importBytes(changed)) {
        EXPECT_FALSE(said.empty()) << "changed at byte " << at;
      }
    }
  }
}

TEST_F(DamageTest, FilesThatAreNoModels) {
  EXPECT_FALSE(importBytes(""));
  EXPECT_NE(said.find("the file is empty"), std::string::npos) << said;
  EXPECT_FALSE(importBytes("{\"json\": true}"));
  EXPECT_NE(said.find("not a readable ONNX model"), std::string::npos) << said;
  EXPECT_FALSE(importBytes(std::string(1 << 16, '\0')));
  EXPECT_FALSE(importBytes(std::string(1 << 16, '\xff')));
}

TEST_F(DamageTest, OnlySoManyProblemsAreListed) {
  ::onnx::ModelProto model = unaryModel("Relu");
  for (int i = 0; i < 60; ++i) {
    addNode(model.mutable_graph()->mutable_node(), "Relu", {"missing" + std::to_string(i)}, {"v" + std::to_string(i)});
  }
  ImportOptions options;
  options.maxErrors = 10;
  EXPECT_FALSE(importBytes(model.SerializeAsString(), options));
  EXPECT_NE(said.find("missing9"), std::string::npos);
  EXPECT_EQ(said.find("missing10"), std::string::npos);
  EXPECT_NE(said.find("50 more problems are not shown"), std::string::npos) << said;
}

} // namespace
