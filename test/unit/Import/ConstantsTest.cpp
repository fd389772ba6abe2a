//===- ConstantsTest.cpp - inputs that are given at compile time
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/Import/ImportTester.h"

using namespace kimi;
using namespace kimi::test;

namespace {

class ConstantsTest : public ImportTester {
protected:
  /// y = Add(x, w): two inputs.
  static ::onnx::ModelProto sumModel() {
    ::onnx::ModelProto model = unaryModel("Add");
    ::onnx::GraphProto &graph = *model.mutable_graph();
    graph.mutable_node(0)->add_input("w");
    setValue(graph.add_input(), "w", {2});
    return model;
  }

  mlir::ModuleOp importWith(const std::string &name, const std::string &bytes) {
    writeFile("w.pb", bytes);
    ImportOptions options;
    options.constants = {{name, (folder / "w.pb").string()}};
    return importBytes(sumModel().SerializeAsString(), options);
  }

  void refuses(const std::string &name, const std::string &bytes, const std::string &why) {
    EXPECT_FALSE(importWith(name, bytes));
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }

  static std::string two() {
    Tensor tensor = tensorOf(Tensor::FLOAT, {2});
    tensor.add_float_data(1);
    tensor.add_float_data(2);
    return tensor.SerializeAsString();
  }
};

TEST_F(ConstantsTest, AConstantIsNoInputAnyMore) {
  mlir::ModuleOp module = importWith("w", two());
  ASSERT_TRUE(module) << said;
  auto main = *module.getOps<mlir::func::FuncOp>().begin();
  EXPECT_EQ(main.getNumArguments(), 1u);
  auto constant = nodesOf(module)[0].getInput(1).getDefiningOp<kimi::onnx::ConstantOp>();
  ASSERT_TRUE(constant);
  auto values = mlir::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1, 2}));
}

TEST_F(ConstantsTest, WhatDoesNotFitIsRefused) {
  refuses("v", two(), "there is no input 'v' to be a constant");
  refuses("w", tensorOf(Tensor::FLOAT, {3}).SerializeAsString(), "does not fit its type, 'tensor<2xf32>'");
  refuses("w", tensorOf(Tensor::INT64, {2}).SerializeAsString(), "does not fit its type, 'tensor<2xf32>'");
  refuses("w", tensorOf(Tensor::FLOAT, {2}).SerializeAsString(), "float_data has 0 entries where its type takes 2");
  refuses("w", "\xff\xff", "is no TensorProto");
  Tensor external = tensorOf(Tensor::FLOAT, {2});
  external.set_data_location(Tensor::EXTERNAL);
  refuses("w", external.SerializeAsString(), "must hold its values itself");
  ImportOptions options;
  options.constants = {{"w", (folder / "absent.pb").string()}};
  EXPECT_FALSE(importBytes(sumModel().SerializeAsString(), options));
  EXPECT_NE(said.find("absent.pb': No such file or directory"), std::string::npos) << said;
}

} // namespace
