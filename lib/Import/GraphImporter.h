//===- GraphImporter.h - GraphProto as a func.func of onnx ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_GRAPHIMPORTER_H
#define KIMI_LIB_IMPORT_GRAPHIMPORTER_H

#include "lib/Import/TensorImporter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace kimi {

/// Builds `@main` and the weights of one model into a module. Model-local functions are inlined at their calls.
class GraphImporter {
public:
  GraphImporter(ModelFile &file, mlir::ModuleOp module, ImportErrors &errors);

  /// The graph's input `name` is the constant that `path` holds, a serialised TensorProto. Before run().
  void setConstant(llvm::StringRef name, llvm::StringRef path);

  /// The whole model. Problems are reported, all of them; the module is usable only if there were none.
  void run();

private:
  using Opsets = llvm::StringMap<int64_t>;
  using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
  using Attributes = google::protobuf::RepeatedPtrField<::onnx::AttributeProto>;
  using Values = google::protobuf::RepeatedPtrField<::onnx::ValueInfoProto>;
  struct Scope;

  /// An attribute with the scope that the names of its subgraphs mean.
  struct BoundAttribute {
    llvm::StringRef name;
    const ::onnx::AttributeProto *proto;
    Scope *scope;
  };
  /// An initializer that has not been used yet.
  struct Pending {
    const ::onnx::TensorProto *dense = nullptr;
    const ::onnx::SparseTensorProto *sparse = nullptr;
  };

  /// The names of one graph or one function body.
  struct Scope {
    /// The graph around a subgraph, or null: a function body sees only its own names.
    Scope *parent = nullptr;
    const Nodes *nodes = nullptr;
    const Opsets *opsets = nullptr;
    /// Goes before every node and value name of an inlined function: "call/".
    std::string prefix;
    /// Where constants of initializers go: after `lastConstant`, or at the start of the block.
    mlir::Block *block = nullptr;
    mlir::Operation *lastConstant = nullptr;
    llvm::DenseMap<llvm::StringRef, mlir::Value> values;
    llvm::DenseMap<llvm::StringRef, Pending> initializers;
    llvm::DenseMap<llvm::StringRef, const ::onnx::TypeProto *> types;
    /// Inlined functions: types of outputs, as the caller knows them; attributes of the call (in its subgraphs too).
    llvm::DenseMap<llvm::StringRef, mlir::Type> outputTypes;
    const llvm::StringMap<BoundAttribute> *attributes = nullptr;
    /// Node that makes each name, filled in for messages only.
    std::optional<llvm::DenseMap<llvm::StringRef, const ::onnx::NodeProto *>> producers;
  };

  // GraphImporter.cpp: the model and its graphs.
  bool readOpsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &imports, Opsets &opsets,
                  llvm::StringRef what);
  bool readVersions();
  void readFunctions();

  void addConstants(const ::onnx::GraphProto &graph, Scope &scope);

  // FunctionSizes.cpp: what inlining will make, known before it starts.
  uint64_t inlinedItems(const Nodes &nodes);
  uint64_t inlinedItems(const ::onnx::FunctionProto &function);
  const ::onnx::FunctionProto *findFunction(const ::onnx::NodeProto &node) const;

  // GraphImporter.cpp, continued: graphs.
  void addInitializers(const ::onnx::GraphProto &graph, Scope &scope);
  void addTypes(const Values &values, Scope &scope);
  void importMain(const ::onnx::GraphProto &graph);
  bool importInputs(const ::onnx::GraphProto &graph, Scope &scope, mlir::func::FuncOp func);
  void importOutputs(const ::onnx::GraphProto &graph, Scope &scope, mlir::func::FuncOp func);
  void importRegion(const ::onnx::GraphProto &graph, mlir::Region &region, Scope &parent, llvm::StringRef what);

  // NodeImporter.cpp: nodes.
  void importNodes(Scope &scope);
  void importNode(const ::onnx::NodeProto &node, Scope &scope);
  void importConstant(const ::onnx::NodeProto &node, llvm::ArrayRef<BoundAttribute> attributes, Scope &scope);
  void importCall(const ::onnx::NodeProto &node, const ::onnx::FunctionProto &function,
                  llvm::ArrayRef<BoundAttribute> attributes, llvm::ArrayRef<mlir::Value> inputs, Scope &scope);
  llvm::SmallVector<BoundAttribute> bindAttributes(const ::onnx::NodeProto &node, Scope &scope);
  mlir::Attribute importAttribute(const BoundAttribute &attribute, llvm::StringRef what);
  std::optional<int64_t> versionOf(llvm::StringRef domain, const Scope &scope);

  // Names.
  mlir::Value lookup(llvm::StringRef name, Scope &scope);
  mlir::Value materialize(llvm::StringRef name, const Pending &pending, Scope &scope);
  /// A tensor with an `origin` seen before is the same weight again.
  mlir::Value emitTensor(mlir::OpBuilder &builder, const ImportedTensor &tensor, mlir::Location loc,
                         llvm::StringRef name, const void *origin);
  void define(llvm::StringRef name, mlir::Value value, Scope &scope, llvm::StringRef what);
  /// `reader` says who reads the name: "node 'add' (Add) reads 'x'", "output 'y'".
  void reportMissing(llvm::StringRef name, Scope &scope, llvm::StringRef reader);
  mlir::Type typeOf(llvm::StringRef name, Scope &scope);
  mlir::Value none();
  mlir::Location nodeLoc(const ::onnx::NodeProto &node, const Scope &scope);
  mlir::Location valueLoc(llvm::StringRef name, const Scope &scope);
  mlir::StringAttr prefixed(llvm::StringRef name, const Scope &scope);
  std::string describe(const ::onnx::NodeProto &node, const Scope &scope);
  static llvm::StringRef normalDomain(llvm::StringRef domain) { return domain == "ai.onnx" ? "" : domain; }
  static std::string functionKey(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload);

  ModelFile &file;
  const ImportLimits &limits;
  mlir::ModuleOp module;
  ImportErrors &errors;
  mlir::MLIRContext *context;
  TensorImporter tensors;
  mlir::OpBuilder builder, weightBuilder;

  /// Values of inputs that are given at compile time.
  llvm::StringMap<std::unique_ptr<::onnx::TensorProto>> constants;
  Opsets modelOpsets;
  llvm::StringMap<const ::onnx::FunctionProto *> functions;
  llvm::DenseMap<const ::onnx::FunctionProto *, Opsets> functionOpsets;
  llvm::DenseMap<const ::onnx::FunctionProto *, uint64_t> functionItems;
  llvm::SmallVector<const ::onnx::FunctionProto *> callStack;
  /// Tensors within functions are converted once, however often the function is called.
  llvm::DenseMap<const void *, ImportedTensor> functionTensors;
  llvm::DenseMap<const void *, mlir::DenseElementsAttr> functionElements;
  llvm::DenseMap<const void *, std::string> weightSymbols;
  llvm::StringSet<> symbols;
  Scope *mainScope = nullptr;
  mlir::Value noneValue;
  uint64_t nodeCount = 0, nameBytes = 0, initializerCount = 0;
  unsigned depth = 0;
  bool reportedOpset = false;
  /// Set where going on would be endless; everything then returns.
  bool stopped = false;
};

} // namespace kimi

#endif // KIMI_LIB_IMPORT_GRAPHIMPORTER_H
