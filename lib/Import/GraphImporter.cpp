//===- GraphImporter.cpp - the model and its graphs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/GraphImporter.h"
#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Import/ImportLimits.h"

using namespace mlir;
using namespace kimi;
using ::onnx::GraphProto;
using ::onnx::ValueInfoProto;

GraphImporter::GraphImporter(ModelFile &file, ModuleOp module, ImportErrors &errors)
    : file(file), limits(file.getLimits()), module(module), errors(errors), context(module.getContext()),
      tensors(file, context, errors), builder(context), weightBuilder(OpBuilder::atBlockEnd(module.getBody())) {
  // Names that entries of the compiled module will take.
  for (StringRef reserved : {"main", "prefill", "decode", "init"}) {
    symbols.insert(reserved);
  }
}

std::string GraphImporter::functionKey(StringRef domain, StringRef name, StringRef overload) {
  // Lengths keep ("a", "b:c") apart from ("a:b", "c").
  return (Twine(domain.size()) + ":" + domain + ":" + Twine(name.size()) + ":" + name + ":" + overload).str();
}

//===----------------------------------------------------------------------===//
// Versions and functions
//===----------------------------------------------------------------------===//

bool GraphImporter::readOpsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &imports,
                               Opsets &opsets, StringRef what) {
  bool good = true;
  for (const auto &import : imports) {
    StringRef domain = normalDomain(import.domain());
    int64_t version = import.version();
    StringRef shown = domain.empty() ? StringRef("ai.onnx") : domain;
    auto [entry, inserted] = opsets.try_emplace(domain, version);
    if (!inserted && entry->second != version) {
      errors.report() << what << " imports domain '" << shown << "' in versions " << entry->second << " and "
                      << version;
      good = false;
    } else if (domain.empty() && (version < kMinOpset || version > kMaxOpset)) {
      errors.report() << what << " imports opset " << version << " of ai.onnx; opsets " << kMinOpset << " to "
                      << kMaxOpset << " are accepted (onnx.version_converter can convert a model)";
      good = false;
    } else if (domain == "com.microsoft" && version != kMicrosoftOpset) {
      errors.report() << what << " imports version " << version << " of com.microsoft; version " << kMicrosoftOpset
                      << " is accepted";
      good = false;
    }
  }
  return good;
}

bool GraphImporter::readVersions() {
  const ::onnx::ModelProto &model = file.proto();
  bool good = true;
  if (model.ir_version() < kMinIrVersion || model.ir_version() > kMaxIrVersion) {
    errors.report() << "the model has IR version " << model.ir_version() << "; versions " << kMinIrVersion << " to "
                    << kMaxIrVersion << " are accepted";
    good = false;
  }
  good &= readOpsets(model.opset_import(), modelOpsets, "the model");
  SmallVector<NamedAttribute> opsets;
  for (const auto &entry : modelOpsets) {
    // An attribute name cannot be empty.
    StringRef domain = entry.getKey().empty() ? StringRef("ai.onnx") : entry.getKey();
    opsets.push_back(builder.getNamedAttr(domain, builder.getI64IntegerAttr(entry.second)));
  }
  module->setAttr("onnx.opsets", builder.getDictionaryAttr(opsets));
  module->setAttr("onnx.ir_version", builder.getI64IntegerAttr(model.ir_version()));
  return good;
}

void GraphImporter::readFunctions() {
  for (const ::onnx::FunctionProto &function : file.proto().functions()) {
    std::string what = "function '" + function.name() + "' of domain '" + function.domain() + "'";
    if (function.name().empty()) {
      errors.report() << "a function of domain '" << function.domain() << "' has no name";
      continue;
    }
    if (!functions
             .try_emplace(functionKey(normalDomain(function.domain()), function.name(), function.overload()), &function)
             .second) {
      errors.report() << what << " is defined twice (same overload)";
      continue;
    }
    // What a function does not import itself it takes from the model.
    Opsets opsets;
    readOpsets(function.opset_import(), opsets, what);
    for (const auto &entry : modelOpsets) {
      opsets.try_emplace(entry.getKey(), entry.second);
    }
    functionOpsets[&function] = std::move(opsets);
  }
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void GraphImporter::addInitializers(const GraphProto &graph, Scope &scope) {
  auto add = [&](StringRef name, Pending pending) {
    if (name.empty()) {
      errors.report() << "an initializer of graph '" << graph.name() << "' has no name";
    } else if (!scope.initializers.try_emplace(name, pending).second) {
      errors.report() << "initializer '" << name << "' is defined twice";
    }
  };
  uint64_t count = static_cast<uint64_t>(graph.initializer_size()) + graph.sparse_initializer_size();
  initializerCount += count;
  if (initializerCount > limits.initializers && !stopped) {
    errors.report() << "more than " << limits.initializers << " initializers (--max-initializers)";
    stopped = true;
  }
  scope.initializers.reserve(count);
  for (const auto &tensor : graph.initializer()) {
    add(tensor.name(), Pending{&tensor, nullptr});
  }
  for (const auto &tensor : graph.sparse_initializer()) {
    add(tensor.values().name(), Pending{nullptr, &tensor});
  }
}

void GraphImporter::setConstant(StringRef name, StringRef path) {
  std::string what = "the constant of input '" + name.str() + "'";
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    errors.report() << what << " cannot be read from '" << path << "': " << buffer.getError().message();
    return;
  }
  StringRef bytes = (*buffer)->getBuffer();
  auto tensor = std::make_unique<::onnx::TensorProto>();
  if (bytes.size() > limits.constantBytes || !tensor->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    errors.report() << what << ": '" << path << "' is no TensorProto of at most " << limits.constantBytes
                    << " bytes (--max-constant-bytes)";
  } else if (tensor->data_location() == ::onnx::TensorProto::EXTERNAL || tensor->has_segment()) {
    errors.report() << what << ": '" << path << "' must hold its values itself";
  } else {
    constants[name] = std::move(tensor);
  }
}

/// A constant takes the place of its input as an initializer does.
void GraphImporter::addConstants(const GraphProto &graph, Scope &scope) {
  llvm::StringSet<> used;
  for (const ValueInfoProto &input : graph.input()) {
    auto constant = constants.find(input.name());
    if (constant == constants.end()) {
      continue;
    }
    const ::onnx::TensorProto &tensor = *constant->second;
    Type declared = tensors.valueType(input.type(), "input '" + input.name() + "'");
    Type given = tensors.elementType(tensor.data_type(), "the constant of input '" + input.name() + "'");
    auto shaped = dyn_cast_or_null<RankedTensorType>(declared);
    if (declared && given && !isa<NoneType>(declared) &&
        (cast<ShapedType>(declared).getElementType() != given ||
         (shaped && failed(verifyCompatibleShape(shaped.getShape(),
                                                 SmallVector<int64_t>(tensor.dims().begin(), tensor.dims().end())))))) {
      errors.report() << "the constant of input '" << input.name() << "' does not fit its type, " << declared;
    }
    scope.initializers.try_emplace(input.name(), Pending{&tensor, nullptr});
    used.insert(input.name());
  }
  for (const auto &entry : constants) {
    if (!used.contains(entry.getKey())) {
      errors.report() << "there is no input '" << entry.getKey() << "' to be a constant";
    }
  }
}

void GraphImporter::addTypes(const Values &values, Scope &scope) {
  for (const ValueInfoProto &value : values) {
    // A value_info without a type says nothing.
    if (value.has_type()) {
      scope.types.try_emplace(value.name(), &value.type());
    }
  }
}

/// `onnx.dims`: an extent, a name, or "" for each dim; null for an unknown rank.
static ArrayAttr dimNames(const ValueInfoProto &value, Builder &builder) {
  if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) {
    return {};
  }
  SmallVector<Attribute> dims;
  for (const auto &dim : value.type().tensor_type().shape().dim()) {
    if (dim.has_dim_value()) {
      dims.push_back(builder.getI64IntegerAttr(dim.dim_value()));
    } else {
      dims.push_back(builder.getStringAttr(dim.dim_param()));
    }
  }
  return builder.getArrayAttr(dims);
}

static DictionaryAttr portAttrs(const ValueInfoProto &value, Builder &builder) {
  NamedAttrList attrs;
  attrs.set("onnx.name", builder.getStringAttr(value.name()));
  if (ArrayAttr dims = dimNames(value, builder)) {
    attrs.set("onnx.dims", dims);
  }
  return attrs.getDictionary(builder.getContext());
}

bool GraphImporter::importInputs(const GraphProto &graph, Scope &scope, func::FuncOp func) {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  bool good = true;
  for (const ValueInfoProto &input : graph.input()) {
    // An input with an initializer has a default value; it is not fed from outside.
    if (scope.initializers.contains(input.name())) {
      continue;
    }
    std::string what = "input '" + input.name() + "'";
    if (input.name().empty()) {
      errors.report() << "an input of the graph has no name";
      good = false;
      continue;
    }
    Type type = tensors.valueType(input.type(), what);
    if (isa_and_nonnull<NoneType>(type)) {
      errors.report() << what << " has no element type";
    }
    if (!type) {
      type = builder.getNoneType();
    }
    good &= !isa<NoneType>(type);
    types.push_back(type);
    attrs.push_back(portAttrs(input, builder));
    define(input.name(), scope.block->addArgument(type, valueLoc(input.name(), scope)), scope, what);
  }
  func.setFunctionType(builder.getFunctionType(types, {}));
  func.setAllArgAttrs(attrs);
  return good;
}

void GraphImporter::importOutputs(const GraphProto &graph, Scope &scope, func::FuncOp func) {
  SmallVector<Value> results;
  SmallVector<Attribute> attrs;
  llvm::StringSet<> seen;
  for (const ValueInfoProto &output : graph.output()) {
    std::string what = "output '" + output.name() + "'";
    if (!seen.insert(output.name()).second) {
      errors.report() << what << " is listed twice";
      continue;
    }
    Value value = lookup(output.name(), scope);
    if (!value) {
      reportMissing(output.name(), scope, what);
      continue;
    }
    Type declared = tensors.valueType(output.type(), what);
    if (!declared) {
      continue;
    }
    auto known = dyn_cast<RankedTensorType>(value.getType());
    auto wanted = dyn_cast<RankedTensorType>(declared);
    if (known && wanted &&
        (known.getElementType() != wanted.getElementType() ||
         failed(verifyCompatibleShape(known.getShape(), wanted.getShape())))) {
      errors.report() << what << " is declared as " << declared << " but its value is " << known;
    }
    results.push_back(value);
    attrs.push_back(portAttrs(output, builder));
  }
  if (graph.output_size() == 0) {
    errors.report() << "the graph has no outputs, so there is nothing to compute";
  }
  func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  func.setFunctionType(
      builder.getFunctionType(func.getArgumentTypes(), llvm::to_vector(ValueRange(results).getTypes())));
  func.setResAttrsAttr(builder.getArrayAttr(attrs));
}

void GraphImporter::importMain(const GraphProto &graph) {
  Location loc = NameLoc::get(builder.getStringAttr(graph.name().empty() ? "main" : graph.name()));
  builder.setInsertionPointToEnd(module.getBody());
  auto func = func::FuncOp::create(builder, loc, "main", builder.getFunctionType({}, {}));
  Scope scope;
  scope.opsets = &modelOpsets;
  scope.nodes = &graph.node();
  scope.block = func.addEntryBlock();
  mainScope = &scope;
  weightBuilder.setInsertionPoint(func);
  addInitializers(graph, scope);
  addConstants(graph, scope);
  addTypes(graph.value_info(), scope);
  addTypes(graph.output(), scope);
  importInputs(graph, scope, func);
  builder.setInsertionPointToEnd(scope.block);
  importNodes(scope);
  importOutputs(graph, scope, func);
  mainScope = nullptr;
}

void GraphImporter::importRegion(const GraphProto &graph, Region &region, Scope &parent, StringRef what) {
  OpBuilder::InsertionGuard guard(builder);
  Scope scope;
  scope.parent = &parent;
  scope.opsets = parent.opsets;
  scope.nodes = &graph.node();
  scope.prefix = parent.prefix;
  scope.block = &region.emplaceBlock();
  scope.attributes = parent.attributes;
  addInitializers(graph, scope);
  addTypes(graph.value_info(), scope);
  addTypes(graph.output(), scope);
  for (const ValueInfoProto &input : graph.input()) {
    std::string described = "input '" + input.name() + "' of a subgraph of " + what.str();
    Type type = tensors.valueType(input.type(), described);
    define(input.name(), scope.block->addArgument(type ? type : builder.getNoneType(), valueLoc(input.name(), scope)),
           scope, described);
  }
  builder.setInsertionPointToEnd(scope.block);
  importNodes(scope);
  SmallVector<Value> results;
  for (const ValueInfoProto &output : graph.output()) {
    std::string described = "output '" + output.name() + "' of a subgraph of " + what.str();
    if (Value value = lookup(output.name(), scope)) {
      results.push_back(value);
    } else {
      reportMissing(output.name(), scope, described);
    }
  }
  kimi::onnx::YieldOp::create(builder, builder.getUnknownLoc(), results);
}

void GraphImporter::run() {
  const ::onnx::ModelProto &model = file.proto();
  if (!model.has_graph()) {
    errors.report() << "not an ONNX model: it holds no graph";
    return;
  }
  if (!readVersions()) {
    return;
  }
  if (model.training_info_size() != 0) {
    errors.warn() << "training information is ignored";
  }
  readFunctions();
  if (inlinedItems(model.graph().node()) > limits.nodes && !stopped) {
    errors.report() << "more than " << limits.nodes << " nodes after functions are inlined (--max-nodes)";
    stopped = true;
  }
  if (!stopped) {
    importMain(model.graph());
  }
}
