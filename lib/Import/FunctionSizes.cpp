//===- FunctionSizes.cpp - what inlining will make
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/GraphImporter.h"
#include "lib/Import/ImportLimits.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kimi;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::NodeProto;

const FunctionProto *GraphImporter::findFunction(const NodeProto &node) const {
  return functions.empty()
             ? nullptr
             : functions.lookup(functionKey(normalDomain(node.domain()), node.op_type(), node.overload()));
}

/// Items that the nodes become, subgraphs and calls included; at most a little more than the limit.
uint64_t GraphImporter::inlinedItems(const Nodes &nodes) {
  uint64_t items = 0;
  for (const NodeProto &node : nodes) {
    if (stopped || items > limits.nodes) {
      break;
    }
    ++items;
    for (const AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) {
        items += inlinedItems(attribute.g().node());
      }
    }
    if (const FunctionProto *function = findFunction(node)) {
      items += inlinedItems(*function);
    }
  }
  return items;
}

/// The same for one call of `function`. Reports functions that call each other in a cycle or too deep.
uint64_t GraphImporter::inlinedItems(const FunctionProto &function) {
  auto known = functionItems.find(&function);
  if (known != functionItems.end()) {
    return known->second;
  }
  auto again = llvm::find(callStack, &function);
  if (again != callStack.end()) {
    std::string cycle;
    for (const FunctionProto *step : llvm::make_range(again, callStack.end())) {
      cycle += step->name() + " -> ";
    }
    errors.report() << "functions call each other in a cycle: " << cycle << function.name();
    stopped = true;
    return 0;
  }
  if (callStack.size() >= limits.depth) {
    errors.report() << "function calls are nested more than " << limits.depth << " deep (--max-depth), from '"
                    << callStack.front()->name() << "' to '" << function.name() << "'";
    stopped = true;
    return 0;
  }
  callStack.push_back(&function);
  uint64_t items = 1 + function.input_size() + function.value_info_size() + function.attribute_proto_size() +
                   inlinedItems(function.node());
  callStack.pop_back();
  functionItems[&function] = items;
  return items;
}
