//===- ImportTester.h - models built in a test, imported from a file
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_UNIT_IMPORT_IMPORTTESTER_H
#define KIMI_TEST_UNIT_IMPORT_IMPORTTESTER_H

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Import/ImportOnnx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "onnx/onnx-ml.pb.h"
#include "llvm/ADT/SmallVector.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace kimi::test {

using Tensor = ::onnx::TensorProto;

/// A folder that is gone after the test, an MLIR context, and what the importer said.
class ImportTester : public ::testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  /// Writes `bytes` to `name` in the folder.
  void writeFile(const std::string &name, const std::string &bytes) const;
  /// Imports these bytes as model.onnx; null where they are refused, `said` then has the messages.
  mlir::ModuleOp importBytes(const std::string &bytes, const ImportOptions &options = {});
  mlir::ModuleOp import(const ::onnx::ModelProto &model) { return importBytes(model.SerializeAsString()); }
  /// The constant or weight of a model whose one initializer is `tensor`; null where it is refused.
  mlir::Attribute importTensor(const Tensor &tensor);

  std::filesystem::path folder;
  mlir::MLIRContext context;
  std::string said;

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A model of opset 20 with an empty graph "g".
::onnx::ModelProto emptyModel();
/// Appends a node and gives it back.
::onnx::NodeProto *addNode(google::protobuf::RepeatedPtrField<::onnx::NodeProto> *nodes, const std::string &op,
                           const std::vector<std::string> &inputs, const std::vector<std::string> &outputs,
                           const std::string &domain = "", const std::string &name = "");
void setValue(::onnx::ValueInfoProto *value, const std::string &name, const std::vector<int64_t> &shape);
/// x [2] -> op (of `domain`) -> y [2].
::onnx::ModelProto unaryModel(const std::string &op, const std::string &domain = "");
Tensor tensorOf(int32_t dataType, const std::vector<int64_t> &dims);

/// The onnx.nodes of the module in order.
llvm::SmallVector<kimi::onnx::NodeOp> nodesOf(mlir::ModuleOp module);
/// The name that the location of `op` begins with.
std::string locationName(mlir::Operation *op);

} // namespace kimi::test

#endif // KIMI_TEST_UNIT_IMPORT_IMPORTTESTER_H
