//===- FunctionsTest.cpp - model-local functions are inlined, within limits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportLimits.h"
#include "test/unit/Import/ImportTester.h"
#include <chrono>

using namespace kimi;
using namespace kimi::test;

namespace {

class FunctionsTest : public ImportTester {
protected:
  /// y = op(x), calling `times` times one after another.
  static ::onnx::FunctionProto *addFunction(::onnx::ModelProto &model, const std::string &name, const std::string &op,
                                            const std::string &domain, int times = 1) {
    ::onnx::FunctionProto *function = model.add_functions();
    function->set_domain("local");
    function->set_name(name);
    function->add_input("x");
    function->add_output("y");
    for (const char *imported : {"", "local"}) {
      auto *opset = function->add_opset_import();
      opset->set_domain(imported);
      opset->set_version(*imported ? 1 : 20);
    }
    for (int i = 0; i < times; ++i) {
      std::string from = i == 0 ? "x" : "t" + std::to_string(i);
      std::string to = i + 1 == times ? "y" : "t" + std::to_string(i + 1);
      addNode(function->mutable_node(), op, {from}, {to}, domain);
    }
    return function;
  }

  void refuses(const ::onnx::ModelProto &model, const std::string &why) {
    auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(import(model));
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  }
};

TEST_F(FunctionsTest, CallsAreInlinedUnderTheNameOfTheCall) {
  ::onnx::ModelProto model = unaryModel("F", "local");
  addFunction(model, "F", "Relu", "", 2);
  mlir::ModuleOp module = import(model);
  ASSERT_TRUE(module) << said;
  auto nodes = nodesOf(module);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].getOpType(), "Relu");
  EXPECT_EQ(locationName(nodes[0]).rfind("first/", 0), 0u) << locationName(nodes[0]);
}

TEST_F(FunctionsTest, CyclesAreRefused) {
  ::onnx::ModelProto model = unaryModel("A", "local");
  addFunction(model, "A", "B", "local");
  addFunction(model, "B", "C", "local");
  addFunction(model, "C", "A", "local");
  refuses(model, "functions call each other in a cycle: A -> B -> C -> A");
  model = unaryModel("Self", "local");
  addFunction(model, "Self", "Self", "local");
  refuses(model, "cycle: Self -> Self");
}

TEST_F(FunctionsTest, CyclesThroughABranchAreRefused) {
  ::onnx::ModelProto model = unaryModel("A", "local");
  ::onnx::FunctionProto *function = addFunction(model, "A", "Relu", "");
  function->clear_node();
  ::onnx::NodeProto *branch = addNode(function->mutable_node(), "If", {"x"}, {"y"});
  for (const char *name : {"then_branch", "else_branch"}) {
    auto *attribute = branch->add_attribute();
    attribute->set_name(name);
    attribute->set_type(::onnx::AttributeProto::GRAPH);
    addNode(attribute->mutable_g()->mutable_node(), "A", {"x"}, {"z"}, "local");
    attribute->mutable_g()->add_output()->set_name("z");
  }
  refuses(model, "cycle: A -> A");
}

TEST_F(FunctionsTest, DoublingIsCountedBeforeItIsDone) {
  ::onnx::ModelProto model = unaryModel("F0", "local");
  for (int i = 0; i < 60; ++i) {
    addFunction(model, "F" + std::to_string(i), "F" + std::to_string(i + 1), "local", 2);
  }
  addFunction(model, "F60", "Relu", "");
  refuses(model, "nodes");
}

TEST_F(FunctionsTest, DeepCallsAreRefusedAndLessDeepOnesAreNot) {
  auto chain = [](unsigned length) {
    ::onnx::ModelProto model = unaryModel("F0", "local");
    for (unsigned i = 0; i < length; ++i) {
      addFunction(model, "F" + std::to_string(i), "F" + std::to_string(i + 1), "local");
    }
    addFunction(model, "F" + std::to_string(length), "Relu", "");
    return model;
  };
  EXPECT_TRUE(import(chain(static_cast<int>(ImportLimits().depth) / 2))) << said;
  refuses(chain(10 * static_cast<int>(ImportLimits().depth)), "function calls are nested more than 256 deep");
}

TEST_F(FunctionsTest, CallsMustFitTheirFunction) {
  ::onnx::ModelProto model = unaryModel("F", "local");
  addFunction(model, "F", "Relu", "");
  model.mutable_graph()->mutable_node(0)->add_input("x");
  refuses(model, "function 'F' has 1 inputs and 1 outputs, the call 2 and 1");
  model = unaryModel("F", "local");
  addFunction(model, "F", "Relu", "");
  addFunction(model, "F", "Exp", "");
  refuses(model, "function 'F' of domain 'local' is defined twice");
}

TEST_F(FunctionsTest, BodiesSeeOnlyTheirOwnNames) {
  ::onnx::ModelProto model = unaryModel("F", "local");
  ::onnx::FunctionProto *function = addFunction(model, "F", "Relu", "");
  function->mutable_node(0)->set_input(0, "outer");
  setValue(model.mutable_graph()->add_input(), "outer", {2});
  refuses(model, "reads 'outer': no node, initializer or input makes this value");
}

} // namespace
