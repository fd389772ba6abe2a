//===- LimitsTest.cpp - every limit holds, and names the flag that moves it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportLimits.h"
#include "test/unit/Import/ImportTester.h"
#include "llvm/ADT/StringSet.h"

using namespace kimi;
using namespace kimi::test;

namespace {

class LimitsTest : public ImportTester {
protected:
  static const ImportLimit *find(const std::string &name) {
    const ImportLimit *limit = llvm::find_if(importLimits(), [&](const ImportLimit &l) { return l.name == name; });
    return limit == importLimits().end() ? nullptr : limit;
  }

  /// The least value of a limit at which `bytes` is accepted, of which `enough` is one.
  uint64_t leastOf(const std::string &name, const std::string &bytes, uint64_t enough) {
    uint64_t low = 0;
    while (low + 1 < enough) {
      uint64_t middle = (low + enough) / 2;
      ImportOptions options;
      options.limits.*find(name)->value = middle;
      (importBytes(bytes, options) ? enough : low) = middle;
    }
    return enough;
  }

  /// The limit at which `bytes` is just accepted is `least`: one less refuses it, naming the flag.
  void expectLimit(const std::string &name, const std::string &bytes, uint64_t least) {
    const ImportLimit *limit = find(name);
    ASSERT_TRUE(limit) << name;
    tested.insert(name);
    ImportOptions options;
    options.constants = constants;
    EXPECT_TRUE(importBytes(bytes, options)) << name << ": " << said;
    options.limits.*limit->value = least;
    EXPECT_TRUE(importBytes(bytes, options)) << name << ": " << said;
    options.limits.*limit->value = least - 1;
    EXPECT_FALSE(importBytes(bytes, options)) << name;
    EXPECT_NE(said.find("--max-" + name + ")"), std::string::npos) << name << ": " << said;
  }

  static Tensor named(const std::string &name, const std::vector<int64_t> &dims) {
    Tensor tensor = tensorOf(Tensor::FLOAT, dims);
    tensor.set_name(name);
    int64_t count = 1;
    for (int64_t extent : dims) {
      count *= extent;
    }
    tensor.set_raw_data(std::string(4 * count, '\0'));
    return tensor;
  }

  llvm::StringSet<> tested;
  std::vector<std::pair<std::string, std::string>> constants;
};

/// y = Relu(.. Relu(x)), `count` times.
::onnx::ModelProto chain(int count) {
  ::onnx::ModelProto model = unaryModel("Relu");
  auto *nodes = model.mutable_graph()->mutable_node();
  nodes->Clear();
  for (int i = 0; i < count; ++i) {
    addNode(nodes, "Relu", {i == 0 ? "x" : "t" + std::to_string(i)},
            {i + 1 == count ? "y" : "t" + std::to_string(i + 1)});
  }
  return model;
}

/// An If in the branches of an If, `levels` times.
void nest(::onnx::GraphProto *graph, int levels) {
  graph->set_name("g" + std::to_string(levels));
  std::string out = "o" + std::to_string(levels);
  if (levels == 0) {
    addNode(graph->mutable_node(), "Identity", {"x"}, {out});
  } else {
    auto *node = addNode(graph->mutable_node(), "If", {"c"}, {out});
    for (const char *branch : {"then_branch", "else_branch"}) {
      auto *attribute = node->add_attribute();
      attribute->set_name(branch);
      attribute->set_type(::onnx::AttributeProto::GRAPH);
      nest(attribute->mutable_g(), levels - 1);
    }
  }
  setValue(graph->add_output(), out, {2});
}

TEST_F(LimitsTest, EveryLimitHoldsAndNamesItsFlag) {
  ::onnx::ModelProto model = chain(5);
  std::string bytes = model.SerializeAsString();
  expectLimit("file-bytes", bytes, bytes.size());
  expectLimit("nodes", bytes, 5);
  expectLimit("name-bytes", bytes, 2);

  *model.mutable_graph()->add_initializer() = named("a", {2, 3, 1});
  *model.mutable_graph()->add_initializer() = named("b", {4});
  addNode(model.mutable_graph()->mutable_node(), "Identity", {"a"}, {"ya"});
  bytes = model.SerializeAsString();
  expectLimit("initializers", bytes, 2);
  expectLimit("rank", bytes, 3);
  expectLimit("elements", bytes, 6);

  model = unaryModel("Relu");
  ::onnx::SparseTensorProto *sparse = model.mutable_graph()->add_sparse_initializer();
  *sparse->mutable_values() = named("s", {1});
  Tensor *indices = sparse->mutable_indices();
  *indices = tensorOf(Tensor::INT64, {1});
  indices->add_int64_data(3);
  sparse->add_dims(8);
  addNode(model.mutable_graph()->mutable_node(), "Identity", {"s"}, {"ys"});
  expectLimit("sparse-bytes", model.SerializeAsString(), 32);

  model = unaryModel("Relu");
  for (const char *file : {"one.bin", "two.bin", "one.bin"}) {
    Tensor tensor = named("w" + std::to_string(model.graph().initializer_size()), {2048});
    tensor.clear_raw_data();
    tensor.set_data_location(Tensor::EXTERNAL);
    auto *entry = tensor.add_external_data();
    entry->set_key("location");
    entry->set_value(file);
    addNode(model.mutable_graph()->mutable_node(), "Identity", {tensor.name()}, {"y" + tensor.name()});
    *model.mutable_graph()->add_initializer() = tensor;
  }
  expectLimit("external-files", model.SerializeAsString(), 2);

  model = unaryModel("Relu");
  std::string constant = named("x", {2}).SerializeAsString();
  writeFile("x.pb", constant);
  constants = {{"x", (folder / "x.pb").string()}};
  expectLimit("constant-bytes", model.SerializeAsString(), constant.size());
  constants.clear();

  model = emptyModel();
  setValue(model.mutable_graph()->add_input(), "x", {2});
  auto *condition = model.mutable_graph()->add_input();
  condition->set_name("c");
  condition->mutable_type()->mutable_tensor_type()->set_elem_type(Tensor::BOOL);
  condition->mutable_type()->mutable_tensor_type()->mutable_shape();
  nest(model.mutable_graph(), 4);
  bytes = model.SerializeAsString();
  expectLimit("depth", bytes, 4);
  // What the file holds is bounded before it is parsed; the exact numbers are those of its encoding.
  for (const char *name : {"nesting", "fields", "structure-bytes"}) {
    uint64_t least = leastOf(name, bytes, bytes.size());
    EXPECT_GT(least, 3u) << name;
    expectLimit(name, bytes, least);
  }

  model = unaryModel("F", "local");
  model.mutable_graph()->mutable_node(0)->set_name("call");
  auto *import = model.add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  ::onnx::FunctionProto *function = model.add_functions();
  function->set_domain("local");
  function->set_name("F");
  function->add_input("x");
  function->add_output("y");
  *function->add_opset_import() = model.opset_import(0);
  addNode(function->mutable_node(), "Relu", {"x"}, {"t"});
  addNode(function->mutable_node(), "Relu", {"t"}, {"y"});
  bytes = model.SerializeAsString();
  expectLimit("all-name-bytes", bytes, leastOf("all-name-bytes", bytes, 1000));

  for (const ImportLimit &limit : importLimits()) {
    EXPECT_TRUE(tested.contains(limit.name)) << limit.name << " has no test";
  }
}

TEST_F(LimitsTest, SizesAreHeldAgainstTheBytesThatAreThere) {
  // 152 bytes that ask for petabytes.
  Tensor tensor = tensorOf(Tensor::FLOAT, {int64_t(1) << 25, int64_t(1) << 25});
  tensor.set_name("w");
  tensor.set_raw_data(std::string(16, '\0'));
  EXPECT_FALSE(importTensor(tensor));
  EXPECT_NE(said.find("raw_data has 16 bytes where its type takes 4503599627370496"), std::string::npos) << said;
}

TEST_F(LimitsTest, AHundredThousandNodes) {
  mlir::ModuleOp module = importBytes(chain(100000).SerializeAsString());
  ASSERT_TRUE(module) << said;
  EXPECT_EQ(nodesOf(module).size(), 100000u);
}

} // namespace
