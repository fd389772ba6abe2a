//===- Names.cpp - names of the file as values, types and locations
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Import/GraphImporter.h"
#include "lib/Import/ImportLimits.h"

using namespace mlir;
using namespace kimi;
using ::onnx::NodeProto;

Value GraphImporter::lookup(StringRef name, Scope &scope) {
  for (Scope *s = &scope; s; s = s->parent) {
    if (Value value = s->values.lookup(name)) {
      return value;
    }
    auto pending = s->initializers.find(name);
    if (pending != s->initializers.end()) {
      return materialize(name, pending->second, *s);
    }
  }
  return {};
}

Value GraphImporter::materialize(StringRef name, const Pending &pending, Scope &scope) {
  std::string what = "initializer '" + name.str() + "'";
  FailureOr<ImportedTensor> tensor =
      pending.dense ? tensors.tensor(*pending.dense, what) : tensors.sparse(*pending.sparse, what);
  Value value;
  if (succeeded(tensor)) {
    // At the top of the graph's own block, so that subgraphs see it.
    OpBuilder constants(context);
    if (scope.lastConstant) {
      constants.setInsertionPointAfter(scope.lastConstant);
    } else {
      constants.setInsertionPointToStart(scope.block);
    }
    const void *origin = pending.dense ? static_cast<const void *>(pending.dense) : pending.sparse;
    value = emitTensor(constants, *tensor, valueLoc(name, scope), scope.prefix + name.str(), origin);
    scope.lastConstant = value.getDefiningOp();
  } else {
    value = none();
  }
  scope.values[name] = value;
  return value;
}

Value GraphImporter::emitTensor(OpBuilder &constants, const ImportedTensor &tensor, Location loc, StringRef name,
                                const void *origin) {
  if (tensor.isConstant) {
    return kimi::onnx::ConstantOp::create(constants, loc, cast<ElementsAttr>(tensor.source));
  }
  std::string &symbol = weightSymbols[origin];
  if (symbol.empty()) {
    symbol = name.str();
    for (unsigned suffix = 1; !symbols.insert(symbol).second; ++suffix) {
      symbol = name.str() + "_" + std::to_string(suffix);
    }
    WeightOp::create(weightBuilder, loc, symbol, tensor.type, tensor.source);
  }
  return WeightRefOp::create(constants, loc, tensor.type, symbol);
}

void GraphImporter::define(StringRef name, Value value, Scope &scope, StringRef what) {
  if (scope.initializers.contains(name)) {
    errors.report() << what << " makes '" << name << "', which is an initializer too";
  } else if (!scope.values.try_emplace(name, value).second) {
    errors.report() << what << " makes '" << name << "', which exists already";
  }
}

void GraphImporter::reportMissing(StringRef name, Scope &scope, StringRef reader) {
  for (Scope *s = &scope; s; s = s->parent) {
    if (!s->producers) {
      s->producers.emplace();
      for (const NodeProto &node : *s->nodes) {
        for (const std::string &output : node.output()) {
          s->producers->try_emplace(output, &node);
        }
      }
    }
    if (const NodeProto *producer = s->producers->lookup(name)) {
      errors.report() << reader << ", which is made only later, by " << describe(*producer, *s)
                      << "; nodes must be in topological order";
      return;
    }
  }
  errors.report() << reader << ": no node, initializer or input makes this value";
}

Type GraphImporter::typeOf(StringRef name, Scope &scope) {
  if (Type known = scope.outputTypes.lookup(name)) {
    return known;
  }
  const ::onnx::TypeProto *type = scope.types.lookup(name);
  Type converted = type ? tensors.valueType(*type, "value '" + scope.prefix + name.str() + "'") : Type();
  return converted ? converted : builder.getNoneType();
}

Value GraphImporter::none() {
  if (!noneValue) {
    OpBuilder start = OpBuilder::atBlockBegin(mainScope->block);
    noneValue = kimi::onnx::NoneOp::create(start, start.getUnknownLoc(), start.getNoneType());
    mainScope->lastConstant = mainScope->lastConstant ? mainScope->lastConstant : noneValue.getDefiningOp();
  }
  return noneValue;
}

StringAttr GraphImporter::prefixed(StringRef name, const Scope &scope) {
  nameBytes += scope.prefix.empty() ? 0 : scope.prefix.size() + name.size();
  if (nameBytes > limits.allNameBytes && !stopped) {
    errors.report() << "names of inlined nodes take more than " << limits.allNameBytes
                    << " bytes (--max-all-name-bytes)";
    stopped = true;
  }
  if (scope.prefix.size() + name.size() > limits.nameBytes && !stopped) {
    errors.report() << "the name '" << (scope.prefix + name.str()).substr(0, 80) << "...' has "
                    << scope.prefix.size() + name.size() << " bytes, more than " << limits.nameBytes
                    << " (--max-name-bytes)";
    stopped = true;
  }
  return builder.getStringAttr(scope.prefix + name);
}

Location GraphImporter::valueLoc(StringRef name, const Scope &scope) { return NameLoc::get(prefixed(name, scope)); }

/// The node's name around the name of its first output; one of them where the other is absent.
Location GraphImporter::nodeLoc(const NodeProto &node, const Scope &scope) {
  bool hasOutput = node.output_size() > 0 && !node.output(0).empty();
  if (node.name().empty()) {
    return valueLoc(hasOutput ? node.output(0) : node.op_type(), scope);
  }
  StringAttr name = prefixed(node.name(), scope);
  return hasOutput ? NameLoc::get(name, valueLoc(node.output(0), scope)) : NameLoc::get(name);
}

std::string GraphImporter::describe(const NodeProto &node, const Scope &scope) {
  std::string op = node.op_type().empty() ? "" : " (" + node.op_type() + ")";
  if (!node.name().empty()) {
    return "node '" + scope.prefix + node.name() + "'" + op;
  }
  if (node.output_size() > 0) {
    return "node" + op + " making '" + scope.prefix + node.output(0) + "'";
  }
  return "node" + op;
}
