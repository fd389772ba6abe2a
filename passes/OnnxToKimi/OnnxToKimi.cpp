//===- OnnxToKimi.cpp - --onnx-to-kimi
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXTOKIMI
#include "passes/OnnxToKimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

/// Replaces every If whose condition follows from constants by the branch that is taken; gives whether there was one.
static bool inlineBranches(func::FuncOp func) {
  SymbolicShapes shapes(func);
  bool changed = false;
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    auto node = dyn_cast<NodeOp>(op);
    Value input = node && node.is("If") ? node.getInput(0) : Value();
    std::optional<SmallVector<int64_t>> condition = input ? shapes.of(input).constants() : std::nullopt;
    if (!condition || condition->size() != 1 || !node.getRegionNames()) {
      continue;
    }
    StringRef taken = condition->front() != 0 ? "then_branch" : "else_branch";
    for (auto [name, region] : llvm::zip(*node.getRegionNames(), node.getBodies())) {
      if (cast<StringAttr>(name).getValue() != taken || region.empty()) {
        continue;
      }
      Operation *yield = region.front().getTerminator();
      SmallVector<Value> results(yield->getOperands());
      if (results.size() != node->getNumResults()) {
        break;
      }
      yield->erase();
      node->getBlock()->getOperations().splice(node->getIterator(), region.front().getOperations());
      node->replaceAllUsesWith(results);
      node->erase();
      changed = true;
      break;
    }
  }
  return changed;
}

/// Says, at its location, why `node` cannot be converted.
static void report(NodeOp node, StringRef reason) {
  std::string name = node.getNodeName(), domain = node.getDomain().empty() ? "ai.onnx" : node.getDomain().str();
  node.emitError() << "node '" << name << "': " << domain << "." << node.getOpType() << "-" << node.getVersion()
                   << " is not supported: " << reason;
}

namespace {
/// Converts one function, in order, beside its nodes; then drops them.
class Conversion {
public:
  explicit Conversion(func::FuncOp func) : func(func), shapes(func) {
    for (Operation &op : func.getBody().front()) {
      ops.push_back(&op);
    }
    for (Value result : func.getBody().front().getTerminator()->getOperands()) {
      Type element = shapes.of(result).elementType;
      unsignedResults.push_back(isUnsignedStorage(element));
    }
    function.emplace(func, shapes);
    function->storeArguments();
  }

  LogicalResult run();

private:
  void convertNode(NodeOp node);
  void convertOther(Operation *op);
  void finish();

  func::FuncOp func;
  SymbolicShapes shapes;
  /// The ops as they were before the conversion put new ones among them.
  SmallVector<Operation *> ops;
  SmallVector<bool> unsignedResults;
  std::optional<FunctionBuilder> function;
  bool failed = false;
};
} // namespace

/// Nothing of this node has to be computed by a kernel.
static bool isHostOnly(NodeOp node, const SymbolicShapes &shapes) {
  return llvm::all_of(node->getResults(), [&](Value result) {
    const ValueInfo &info = shapes.of(result);
    return result.use_empty() || (info.isRanked() && (info.isHost() || info.splat));
  });
}

/// Why `node` cannot take or give its elements of 8-bit floating point or of fewer than 8 bits; empty where it can, or
/// has none. They are converted and moved, not computed with.
static std::string whyNotNarrow(NodeOp node, const SymbolicShapes &shapes) {
  static constexpr StringLiteral kTaking[] = {
      "Cast",      "CastLike", "QuantizeLinear", "DequantizeLinear", "Identity", "Reshape", "Flatten", "Squeeze",
      "Unsqueeze", "Shape",    "Size",           "Transpose",        "Slice",    "Split",   "Concat",  "Gather",
      "Expand",    "Tile"};
  auto isNarrowValue = [&](Value value) { return isNarrow(shapes.of(value).elementType); };
  auto values =
      llvm::concat<const Value>(SmallVector<Value>(node->getOperands()), SmallVector<Value>(node->getResults()));
  for (Value value : values) {
    if (!isNarrowValue(value)) {
      continue;
    }
    Type type = shapes.of(value).elementType;
    std::string text;
    llvm::raw_string_ostream(text) << type;
    if (!node.getDomain().empty() || !llvm::is_contained(kTaking, node.getOpType())) {
      return "elements of type " + text + " are converted and moved, not computed with";
    }
    if (isa<FloatType>(type) && !isNarrowFloat(type)) {
      return "elements of type " + text + " are not supported";
    }
    if (value.getDefiningOp<WeightRefOp>() && node.getOpType() != "DequantizeLinear") {
      return "a large initializer of type " + text + " can only be an input of DequantizeLinear";
    }
  }
  return {};
}

void Conversion::convertNode(NodeOp node) {
  if (StringRef reason = shapes.whyUnknown(node); !reason.empty()) {
    report(node, reason);
    failed = true;
    return;
  }
  for (Value operand : node->getOperands()) {
    // What follows from a node that was reported already is not reported again; an input of the graph was not.
    if (!operand.getDefiningOp<NoneOp>() && !shapes.of(operand).isRanked()) {
      if (isa<BlockArgument>(operand)) {
        report(node, "the rank of an input of the graph is not known; give it a shape in the file");
      }
      failed = true;
      return;
    }
  }
  if (std::string reason = whyNotNarrow(node, shapes); !reason.empty()) {
    report(node, reason);
    failed = true;
    return;
  }
  if (failed || isHostOnly(node, shapes)) {
    return;
  }
  const OpEntry *entry = OpTable::get().lookup(node.getDomain(), node.getOpType(), node.getVersion());
  function->b.setInsertionPoint(node);
  BuildContext context(node, *function);
  if (mlir::failed(entry->build(context)) || context.misfits) {
    report(node, context.reason.empty() ? "it could not be converted" : context.reason);
    failed = true;
    return;
  }
  for (const Requirement &requirement : shapes.requirements(node)) {
    function->require(requirement);
  }
  for (auto [index, result] : llvm::enumerate(node->getResults())) {
    const ValueInfo &info = shapes.of(result);
    bool known = info.isHost() || info.splat || function->isBuilt(result);
    if (!result.use_empty() && !known) {
      report(node, ("output " + Twine(index) + " is not computed").str());
      failed = true;
    }
  }
}

void Conversion::convertOther(Operation *op) {
  if (isa<onnx::ConstantOp, NoneOp>(op)) {
    return;
  }
  function->b.setInsertionPoint(op);
  bool ours = isa_and_nonnull<KimiDialect>(op->getDialect());
  for (OpOperand &operand : op->getOpOperands()) {
    Value original = operand.get();
    if (!isa<TensorType>(original.getType()) && !isa<NoneType>(original.getType())) {
      continue;
    }
    Value converted = function->materialize(original, op->getLoc());
    if (converted == original) {
      continue;
    }
    auto before = dyn_cast<RankedTensorType>(original.getType()), after = cast<RankedTensorType>(converted.getType());
    if (!ours && !op->hasTrait<OpTrait::IsTerminator>() && before && before != after &&
        before.getElementType() == after.getElementType()) {
      converted = tensor::CastOp::create(function->b, op->getLoc(), before, converted);
    }
    operand.set(converted);
  }
  for (Value result : op->getResults()) {
    const ValueInfo &info = shapes.of(result);
    if (ours && info.isRanked()) {
      result.setType(tensorType(*info.shape, weightType(info.elementType)));
    }
    function->set(result, result);
  }
  if (auto reference = dyn_cast<WeightRefOp>(op)) {
    auto type = cast<RankedTensorType>(reference.getType());
    reference.getResult().setType(type.clone(weightType(type.getElementType())));
  }
}

/// Weights of unsigned integers hold the same bytes as signless ones.
static void dropWeightSigns(ModuleOp module) {
  for (auto weight : module.getOps<WeightOp>()) {
    auto type = cast<RankedTensorType>(weight.getType());
    Type storage = weightType(type.getElementType());
    if (storage == type.getElementType()) {
      continue;
    }
    weight.setType(type.clone(storage));
    if (auto elements = dyn_cast<DenseElementsAttr>(weight.getSource())) {
      weight.setSourceAttr(elements.bitcast(storage));
    }
  }
}

void Conversion::finish() {
  Block &block = func.getBody().front();
  Operation *terminator = block.getTerminator();
  // Integers are signless from here on; what the file calls unsigned, the ports remember.
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    if (unsignedResults[i]) {
      func.setResultAttr(i, "kimi.unsigned", UnitAttr::get(func.getContext()));
    }
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isa<NodeOp, onnx::ConstantOp, NoneOp>(op)) {
      op.dropAllUses();
      op.erase();
    }
  }
  eraseDead(block);
  func.setFunctionType(FunctionType::get(func.getContext(), block.getArgumentTypes(), terminator->getOperandTypes()));
  auto rename = [](NamedAttribute attr) {
    StringRef name = attr.getName().getValue();
    if (name.consume_front("onnx.")) {
      return NamedAttribute(StringAttr::get(attr.getName().getContext(), "kimi." + name), attr.getValue());
    }
    return attr;
  };
  auto renameAll = [&](ArrayRef<NamedAttribute> attrs) {
    SmallVector<NamedAttribute> renamed;
    for (NamedAttribute attr : attrs) {
      renamed.push_back(rename(attr));
    }
    return DictionaryAttr::get(func.getContext(), renamed);
  };
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    func.setArgAttrs(i, renameAll(mlir::function_interface_impl::getArgAttrs(func, i)));
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    func.setResultAttrs(i, renameAll(mlir::function_interface_impl::getResultAttrs(func, i)));
  }
}

LogicalResult Conversion::run() {
  for (Operation *op : ops) {
    if (auto node = dyn_cast<NodeOp>(op)) {
      convertNode(node);
    } else if (!failed) {
      convertOther(op);
    }
  }
  if (failed) {
    return failure();
  }
  finish();
  return success();
}

/// No extent or position is computed by a kernel: what host arithmetic reads of a tensor is an argument's element.
static LogicalResult checkHostArithmetic(func::FuncOp func) {
  for (auto extract : func.getBody().front().getOps<tensor::ExtractOp>()) {
    Value source = extract.getTensor();
    if (auto bitcast = source.getDefiningOp<tensor::BitcastOp>()) {
      source = bitcast.getSource();
    }
    if (!isa<BlockArgument>(source)) {
      return extract.emitError() << "shape arithmetic reads a tensor that a kernel computes";
    }
  }
  return success();
}

namespace {
struct OnnxToKimi : kimi::impl::OnnxToKimiBase<OnnxToKimi> {
  using OnnxToKimiBase::OnnxToKimiBase;

  void runOnOperation() override {
    bool good = true;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.getBody().empty() || func.getBody().front().empty()) {
        continue;
      }
      eraseDead(func.getBody().front());
      while (inlineBranches(func)) {
      }
      if (!llvm::hasSingleElement(func.getBody()) || failed(Conversion(func).run())) {
        good = false;
        continue;
      }
      good &= succeeded(checkHostArithmetic(func));
    }
    dropWeightSigns(getOperation());
    if (!good) {
      signalPassFailure();
    }
  }
};
} // namespace
