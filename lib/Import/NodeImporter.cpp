//===- NodeImporter.cpp - nodes, attributes, function calls
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Import/GraphImporter.h"
#include "lib/Import/ImportLimits.h"
#include "lib/Import/InputCounts.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kimi;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::NodeProto;

/// The kind of an attribute; files of old IR versions leave it to the field that is set.
static AttributeProto::AttributeType kindOf(const AttributeProto &attribute) {
  if (attribute.type() != AttributeProto::UNDEFINED) {
    return attribute.type();
  }
  if (attribute.has_f()) {
    return AttributeProto::FLOAT;
  }
  if (attribute.has_i()) {
    return AttributeProto::INT;
  }
  if (attribute.has_s()) {
    return AttributeProto::STRING;
  }
  if (attribute.has_t()) {
    return AttributeProto::TENSOR;
  }
  if (attribute.has_g()) {
    return AttributeProto::GRAPH;
  }
  if (attribute.floats_size()) {
    return AttributeProto::FLOATS;
  }
  if (attribute.ints_size()) {
    return AttributeProto::INTS;
  }
  if (attribute.strings_size()) {
    return AttributeProto::STRINGS;
  }
  return AttributeProto::UNDEFINED;
}

std::optional<int64_t> GraphImporter::versionOf(StringRef domain, const Scope &scope) {
  auto found = scope.opsets->find(domain);
  if (found != scope.opsets->end()) {
    return found->second;
  }
  // Some exporters leave out the import of a contributed domain.
  return domain.empty() ? std::nullopt : std::optional<int64_t>(1);
}

void GraphImporter::importNodes(Scope &scope) {
  for (const NodeProto &node : *scope.nodes) {
    if (stopped) {
      return;
    }
    if (++nodeCount > limits.nodes) {
      errors.report() << "more than " << limits.nodes << " nodes after functions are inlined (--max-nodes)";
      stopped = true;
      return;
    }
    importNode(node, scope);
  }
}

SmallVector<GraphImporter::BoundAttribute> GraphImporter::bindAttributes(const NodeProto &node, Scope &scope) {
  SmallVector<BoundAttribute> bound;
  llvm::SmallDenseSet<StringRef, 8> seen;
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.name().empty()) {
      errors.report() << describe(node, scope) << " has an attribute without a name";
      continue;
    }
    if (!seen.insert(attribute.name()).second) {
      errors.report() << describe(node, scope) << " has attribute '" << attribute.name() << "' twice";
      continue;
    }
    if (attribute.ref_attr_name().empty()) {
      bound.push_back({attribute.name(), &attribute, &scope});
      continue;
    }
    // A reference to an attribute that the call leaves out leaves the node's attribute out.
    if (scope.attributes) {
      auto found = scope.attributes->find(attribute.ref_attr_name());
      if (found != scope.attributes->end()) {
        bound.push_back({attribute.name(), found->second.proto, found->second.scope});
      }
    } else {
      errors.report() << describe(node, scope) << ": attribute '" << attribute.name() << "' refers to attribute '"
                      << attribute.ref_attr_name() << "' of a function, but the node is in none";
    }
  }
  return bound;
}

void GraphImporter::importNode(const NodeProto &node, Scope &scope) {
  std::string what = describe(node, scope);
  if (node.op_type().empty()) {
    errors.report() << what << " has no op_type";
  }
  StringRef domain = normalDomain(node.domain());
  SmallVector<BoundAttribute> attributes = bindAttributes(node, scope);

  SmallVector<Value> inputs;
  for (const std::string &name : node.input()) {
    Value value = name.empty() ? none() : lookup(name, scope);
    if (!value) {
      reportMissing(name, scope, what + " reads '" + name + "'");
      value = none();
    }
    inputs.push_back(value);
  }

  if (const FunctionProto *function = findFunction(node)) {
    importCall(node, *function, attributes, inputs, scope);
    return;
  }
  if (domain.empty() && node.op_type() == "Constant") {
    importConstant(node, attributes, scope);
    return;
  }
  std::optional<int64_t> version = versionOf(domain, scope);
  if (!version && !reportedOpset) {
    errors.report() << what << ": the model imports no opset of ai.onnx";
    reportedOpset = true;
  }
  if (domain.empty() && version) {
    auto given = llvm::map_to_vector(node.input(), [](const std::string &name) { return !name.empty(); });
    if (std::string wrong = wrongInputs(node.op_type(), *version, given); !wrong.empty()) {
      errors.report() << what << " " << wrong;
    }
  }

  NamedAttrList attrs;
  SmallVector<Attribute> regionNames;
  SmallVector<const BoundAttribute *> graphs;
  for (const BoundAttribute &attribute : attributes) {
    if (kindOf(*attribute.proto) == AttributeProto::GRAPH) {
      regionNames.push_back(builder.getStringAttr(attribute.name));
      graphs.push_back(&attribute);
    } else if (Attribute value = importAttribute(attribute, what)) {
      attrs.set(attribute.name, value);
    }
  }
  SmallVector<Type> types;
  for (const std::string &name : node.output()) {
    types.push_back(typeOf(name, scope));
  }
  auto op = kimi::onnx::NodeOp::create(
      builder, nodeLoc(node, scope), types, builder.getStringAttr(node.op_type()), builder.getStringAttr(domain),
      builder.getI64IntegerAttr(version.value_or(kMinOpset)), attrs.getDictionary(context),
      regionNames.empty() ? ArrayAttr() : builder.getArrayAttr(regionNames), inputs, graphs.size());
  if (!graphs.empty() && ++depth > limits.depth) {
    errors.report() << what << ": subgraphs and function calls nested more than " << limits.depth
                    << " deep (--max-depth)";
    stopped = true;
  }
  for (size_t i = 0; i < graphs.size() && !stopped; ++i) {
    importRegion(graphs[i]->proto->g(), op->getRegion(i), *graphs[i]->scope, what);
  }
  depth -= graphs.empty() ? 0 : 1;
  for (auto [name, value] : llvm::zip(node.output(), op.getOutputs())) {
    if (!name.empty()) {
      define(name, value, scope, what);
    }
  }
}

Attribute GraphImporter::importAttribute(const BoundAttribute &bound, StringRef what) {
  const AttributeProto &attribute = *bound.proto;
  auto unsupported = [&](const Twine &kind) -> Attribute {
    errors.report() << what << ": attribute '" << bound.name << "' holds " << kind.str() << ", which is not supported";
    return {};
  };
  switch (kindOf(attribute)) {
  case AttributeProto::FLOAT:
    return builder.getF32FloatAttr(attribute.f());
  case AttributeProto::INT:
    return builder.getI64IntegerAttr(attribute.i());
  case AttributeProto::STRING:
    return builder.getStringAttr(attribute.s());
  case AttributeProto::FLOATS:
    return builder.getDenseF32ArrayAttr(ArrayRef<float>(attribute.floats().data(), attribute.floats_size()));
  case AttributeProto::INTS: {
    SmallVector<int64_t> values(attribute.ints().begin(), attribute.ints().end());
    return builder.getDenseI64ArrayAttr(values);
  }
  case AttributeProto::STRINGS: {
    SmallVector<Attribute> values;
    for (const std::string &value : attribute.strings()) {
      values.push_back(builder.getStringAttr(value));
    }
    return builder.getArrayAttr(values);
  }
  case AttributeProto::TENSOR: {
    DenseElementsAttr &known = functionElements[&attribute];
    if (!known) {
      FailureOr<DenseElementsAttr> value =
          tensors.elements(attribute.t(), what.str() + ": attribute '" + bound.name.str() + "'");
      known = succeeded(value) ? *value : DenseElementsAttr();
    }
    return known;
  }
  case AttributeProto::TYPE_PROTO: {
    Type type = tensors.valueType(attribute.tp(), what.str() + ": attribute '" + bound.name.str() + "'");
    return type ? Attribute(TypeAttr::get(type)) : Attribute();
  }
  case AttributeProto::SPARSE_TENSOR:
    return unsupported("a sparse tensor");
  case AttributeProto::TENSORS:
    return unsupported("a list of tensors");
  case AttributeProto::GRAPHS:
    return unsupported("a list of graphs");
  case AttributeProto::SPARSE_TENSORS:
    return unsupported("a list of sparse tensors");
  case AttributeProto::TYPE_PROTOS:
    return unsupported("a list of types");
  case AttributeProto::GRAPH:
  case AttributeProto::UNDEFINED:
    break;
  }
  return unsupported("nothing, or a kind of value (" + Twine(static_cast<int>(attribute.type())) + ")");
}

void GraphImporter::importConstant(const NodeProto &node, ArrayRef<BoundAttribute> attributes, Scope &scope) {
  std::string what = describe(node, scope);
  if (attributes.size() != 1 || node.output_size() != 1 || node.input_size() != 0 || node.output(0).empty()) {
    errors.report() << what << ": a Constant has one attribute with its value, no input and one output";
    return;
  }
  StringRef name = attributes[0].name;
  const AttributeProto &attribute = *attributes[0].proto;
  auto inlined = [&](DenseElementsAttr value) {
    return ImportedTensor{cast<RankedTensorType>(value.getType()), value, value.getNumElements() <= kInlineIntegers};
  };
  auto vector = [&](size_t size, Type element) { return RankedTensorType::get({static_cast<int64_t>(size)}, element); };
  auto scalar = [&](Type element) { return RankedTensorType::get({}, element); };
  AttributeProto::AttributeType kind = kindOf(attribute);
  FailureOr<ImportedTensor> value = failure();
  if (name == "value" && kind == AttributeProto::TENSOR) {
    ImportedTensor &known = functionTensors[&attribute];
    value = known.source ? FailureOr<ImportedTensor>(known) : tensors.tensor(attribute.t(), what);
    known = succeeded(value) ? *value : ImportedTensor();
  } else if (name == "sparse_value" && attribute.has_sparse_tensor()) {
    value = tensors.sparse(attribute.sparse_tensor(), what);
  } else if (name == "value_int" && kind == AttributeProto::INT) {
    value = inlined(DenseElementsAttr::get(scalar(builder.getI64Type()), attribute.i()));
  } else if (name == "value_float" && kind == AttributeProto::FLOAT) {
    value = inlined(DenseElementsAttr::get(scalar(builder.getF32Type()), attribute.f()));
  } else if (name == "value_ints" && kind == AttributeProto::INTS) {
    SmallVector<int64_t> ints(attribute.ints().begin(), attribute.ints().end());
    value = inlined(DenseElementsAttr::get(vector(ints.size(), builder.getI64Type()), ArrayRef<int64_t>(ints)));
  } else if (name == "value_floats" && kind == AttributeProto::FLOATS) {
    ArrayRef<float> floats(attribute.floats().data(), attribute.floats_size());
    value = inlined(DenseElementsAttr::get(vector(floats.size(), builder.getF32Type()), floats));
  } else if (name == "value_string" || name == "value_strings") {
    errors.report() << what << ": constants of strings are not supported; only numbers and booleans are";
  } else {
    errors.report() << what << ": attribute '" << name
                    << "' is no value of a Constant; value, sparse_value, value_int(s) and value_float(s) are";
  }
  // Keep going with a stand-in, so that users of the value are not reported too.
  Value result = succeeded(value)
                     ? emitTensor(builder, *value, nodeLoc(node, scope), scope.prefix + node.output(0), &attribute)
                     : none();
  define(node.output(0), result, scope, what);
}

void GraphImporter::importCall(const NodeProto &node, const FunctionProto &function,
                               ArrayRef<BoundAttribute> attributes, ArrayRef<Value> inputs, Scope &caller) {
  std::string what = describe(node, caller);
  // Outputs exist for later nodes whatever goes wrong here.
  auto defineMissing = [&] {
    for (const std::string &name : node.output()) {
      if (!name.empty() && !caller.values.contains(name)) {
        caller.values[name] = none();
      }
    }
  };
  if (++depth > limits.depth) {
    errors.report() << what << ": subgraphs and function calls nested more than " << limits.depth
                    << " deep (--max-depth)";
    stopped = true;
    return;
  }
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    errors.report() << what << ": function '" << function.name() << "' has " << function.input_size() << " inputs and "
                    << function.output_size() << " outputs, the call " << node.input_size() << " and "
                    << node.output_size();
    --depth;
    return defineMissing();
  }

  Scope scope;
  scope.nodes = &function.node();
  scope.opsets = &functionOpsets[&function];
  scope.block = caller.block;
  StringRef callName = !node.name().empty()     ? StringRef(node.name())
                       : node.output_size() > 0 ? StringRef(node.output(0))
                                                : StringRef(node.op_type());
  scope.prefix = caller.prefix + callName.str() + "/";
  llvm::StringMap<BoundAttribute> given;
  for (const AttributeProto &fallback : function.attribute_proto()) {
    given.try_emplace(fallback.name(), BoundAttribute{fallback.name(), &fallback, &scope});
  }
  for (const BoundAttribute &attribute : attributes) {
    given.insert_or_assign(attribute.name, attribute);
  }
  scope.attributes = &given;
  addTypes(function.value_info(), scope);
  for (int i = 0; i < function.input_size(); ++i) {
    define(function.input(i), i < static_cast<int>(inputs.size()) ? inputs[i] : none(), scope, what);
  }
  for (int i = 0; i < node.output_size(); ++i) {
    Type type = node.output(i).empty() ? Type() : typeOf(node.output(i), caller);
    if (type && !isa<NoneType>(type)) {
      scope.outputTypes.try_emplace(function.output(i), type);
    }
  }

  importNodes(scope);
  --depth;
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) {
      continue;
    }
    Value value = lookup(function.output(i), scope);
    if (!value && !stopped) {
      reportMissing(function.output(i), scope,
                    what + ": output '" + function.output(i) + "' of function '" + function.name() + "'");
    }
    define(node.output(i), value ? value : none(), caller, what);
  }
}
