//===- NamesTest.cpp - names of nodes, values and weights
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/Import/ImportTester.h"

using namespace kimi;
using namespace kimi::test;

namespace {

class NamesTest : public ImportTester {
protected:
  void refuses(const ::onnx::ModelProto &model, const std::string &why) {
    EXPECT_FALSE(import(model));
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }
};

TEST_F(NamesTest, NodesAreLocations) {
  ::onnx::ModelProto model = unaryModel("Relu");
  mlir::ModuleOp module = import(model);
  ASSERT_TRUE(module) << said;
  auto nodes = nodesOf(module);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(locationName(nodes[0]), "first");
  EXPECT_EQ(nodes[0].getNodeName(), "first");
  // A node without a name goes by its first output.
  model.mutable_graph()->mutable_node(0)->clear_name();
  module = import(model);
  ASSERT_TRUE(module) << said;
  EXPECT_EQ(locationName(nodesOf(module)[0]), "y");
}

TEST_F(NamesTest, AnyBytesMayBeAName) {
  for (std::string name : {std::string("a/b.c:0"), std::string("ünï ⊗"), std::string("a\0b", 3),
                           std::string("\xff\xfe"), std::string(100000, 'n'), std::string("%0 = \"x\"\n")}) {
    ::onnx::ModelProto model = unaryModel("Relu");
    ::onnx::GraphProto &graph = *model.mutable_graph();
    graph.mutable_node(0)->set_output(0, name);
    graph.mutable_node(0)->set_name(name);
    addNode(graph.mutable_node(), "Exp", {name}, {"y"});
    mlir::ModuleOp module = import(model);
    ASSERT_TRUE(module) << said;
    EXPECT_EQ(nodesOf(module).size(), 2u);
    EXPECT_EQ(locationName(nodesOf(module)[0]), name);
  }
}

TEST_F(NamesTest, NamesThatClashAreRefused) {
  ::onnx::ModelProto model = unaryModel("Relu");
  addNode(model.mutable_graph()->mutable_node(), "Exp", {"x"}, {"y"}, "", "second");
  refuses(model, "node 'second' (Exp) makes 'y', which exists already");
  model = unaryModel("Relu");
  *model.mutable_graph()->add_input() = model.graph().input(0);
  refuses(model, "input 'x' makes 'x', which exists already");
  model = unaryModel("Relu");
  for (int i = 0; i < 2; ++i) {
    *model.mutable_graph()->add_initializer() = tensorOf(Tensor::FLOAT, {0});
  }
  refuses(model, "initializer 'w' is defined twice");
  model = unaryModel("Relu");
  *model.mutable_graph()->add_output() = model.graph().output(0);
  refuses(model, "output 'y' is listed twice");
}

TEST_F(NamesTest, MissingAndLateNamesNameTheirReader) {
  ::onnx::ModelProto model = unaryModel("Relu");
  model.mutable_graph()->mutable_node(0)->set_input(0, "late");
  addNode(model.mutable_graph()->mutable_node(), "Exp", {"x"}, {"late"}, "", "second");
  refuses(model, "node 'first' (Relu) reads 'late', which is made only later, by node 'second' (Exp)");
  model.mutable_graph()->mutable_node(0)->set_input(0, "nothing");
  refuses(model, "node 'first' (Relu) reads 'nothing': no node, initializer or input makes this value");
}

TEST_F(NamesTest, WeightsOfOneNameInTwoFunctionsAreTwoSymbols) {
  ::onnx::ModelProto model = unaryModel("A", "local");
  for (const char *name : {"A", "B"}) {
    ::onnx::FunctionProto &function = *model.add_functions();
    function.set_domain("local");
    function.set_name(name);
    function.add_input("x");
    function.add_output("y");
    auto *opset = function.add_opset_import();
    opset->set_version(20);
    ::onnx::NodeProto *constant = addNode(function.mutable_node(), "Constant", {}, {"w"});
    auto *attribute = constant->add_attribute();
    attribute->set_name("value");
    attribute->set_type(::onnx::AttributeProto::TENSOR);
    *attribute->mutable_t() = tensorOf(Tensor::FLOAT, {2, 1024});
    attribute->mutable_t()->set_raw_data(std::string(8192, name[0]));
    addNode(function.mutable_node(), "Add", {"x", "w"}, {"y"});
  }
  auto *nodes = model.mutable_graph()->mutable_node();
  nodes->Mutable(0)->set_output(0, "a");
  addNode(nodes, "A", {"a"}, {"b"}, "local", "again");
  addNode(nodes, "B", {"b"}, {"y"}, "local");
  mlir::ModuleOp module = import(model);
  ASSERT_TRUE(module) << said;
  std::set<std::string> symbols;
  int references = 0;
  module.walk([&](WeightOp op) { symbols.insert(op.getSymName().str()); });
  module.walk([&](WeightRefOp) { ++references; });
  EXPECT_EQ(symbols.size(), 2u); // A's weight is one, though A is called twice
  EXPECT_EQ(references, 3);
}

} // namespace
