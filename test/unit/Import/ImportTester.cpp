//===- ImportTester.cpp - models built in a test, imported from a file
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/Import/ImportTester.h"
#include <fstream>

using namespace kimi;
using namespace kimi::test;

void ImportTester::SetUp() {
  std::string pattern = (std::filesystem::temp_directory_path() / "kimi-import-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder = pattern;
}

void ImportTester::TearDown() {
  module = {};
  std::filesystem::remove_all(folder);
}

void ImportTester::writeFile(const std::string &name, const std::string &bytes) const {
  std::ofstream(folder / name, std::ios::binary) << bytes;
}

mlir::ModuleOp ImportTester::importBytes(const std::string &bytes, const ImportOptions &options) {
  said.clear();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    said += diagnostic.str() + "\n";
    return mlir::success();
  });
  writeFile("model.onnx", bytes);
  auto imported = importOnnx((folder / "model.onnx").string(), &context, options);
  module = mlir::succeeded(imported) ? std::move(*imported) : mlir::OwningOpRef<mlir::ModuleOp>();
  return module.get();
}

mlir::Attribute ImportTester::importTensor(const Tensor &tensor) {
  ::onnx::ModelProto model = emptyModel();
  *model.mutable_graph()->add_initializer() = tensor;
  addNode(model.mutable_graph()->mutable_node(), "Identity", {tensor.name()}, {"y"});
  model.mutable_graph()->add_output()->set_name("y");
  mlir::ModuleOp imported = import(model);
  if (!imported) {
    return {};
  }
  mlir::Attribute found;
  imported.walk([&](kimi::onnx::ConstantOp op) { found = op.getValue(); });
  imported.walk([&](WeightOp op) { found = op.getSource(); });
  return found;
}

::onnx::ModelProto kimi::test::emptyModel() {
  ::onnx::ModelProto model;
  model.set_ir_version(10);
  auto *opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(20);
  model.mutable_graph()->set_name("g");
  return model;
}

::onnx::NodeProto *kimi::test::addNode(google::protobuf::RepeatedPtrField<::onnx::NodeProto> *nodes,
                                       const std::string &op, const std::vector<std::string> &inputs,
                                       const std::vector<std::string> &outputs, const std::string &domain,
                                       const std::string &name) {
  ::onnx::NodeProto *node = nodes->Add();
  node->set_op_type(op);
  node->set_domain(domain);
  node->set_name(name);
  for (const std::string &input : inputs) {
    node->add_input(input);
  }
  for (const std::string &output : outputs) {
    node->add_output(output);
  }
  return node;
}

void kimi::test::setValue(::onnx::ValueInfoProto *value, const std::string &name, const std::vector<int64_t> &shape) {
  value->set_name(name);
  auto *type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(Tensor::FLOAT);
  type->mutable_shape();
  for (int64_t extent : shape) {
    type->mutable_shape()->add_dim()->set_dim_value(extent);
  }
}

::onnx::ModelProto kimi::test::unaryModel(const std::string &op, const std::string &domain) {
  ::onnx::ModelProto model = emptyModel();
  if (!domain.empty()) {
    auto *opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(1);
  }
  ::onnx::GraphProto &graph = *model.mutable_graph();
  setValue(graph.add_input(), "x", {2});
  setValue(graph.add_output(), "y", {2});
  addNode(graph.mutable_node(), op, {"x"}, {"y"}, domain, "first");
  return model;
}

Tensor kimi::test::tensorOf(int32_t dataType, const std::vector<int64_t> &dims) {
  Tensor tensor;
  tensor.set_name("w");
  tensor.set_data_type(dataType);
  for (int64_t dim : dims) {
    tensor.add_dims(dim);
  }
  return tensor;
}

llvm::SmallVector<kimi::onnx::NodeOp> kimi::test::nodesOf(mlir::ModuleOp module) {
  llvm::SmallVector<kimi::onnx::NodeOp> nodes;
  module.walk<mlir::WalkOrder::PreOrder>([&](kimi::onnx::NodeOp node) { nodes.push_back(node); });
  return nodes;
}

std::string kimi::test::locationName(mlir::Operation *op) {
  auto name = mlir::dyn_cast<mlir::NameLoc>(op->getLoc());
  return name ? name.getName().str() : "";
}
