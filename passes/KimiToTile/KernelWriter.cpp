//===- KernelWriter.cpp - builds a kernel and the dispatch that launches it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/KernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kimi/LoadTime.h"

using namespace mlir;
using namespace kimi;

namespace {
/// The kernel without its name: what tells two kernels apart.
std::string kernelText(tile::KernelOp kernel) {
  std::string name = kernel.getSymName().str();
  kernel.setSymName("kernel");
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope().skipRegions(false).assumeVerified());
  kernel.setSymName(name);
  return text;
}
} // namespace

std::string kimi::symbolText(StringRef text) {
  std::string out;
  for (char c : text) {
    bool word = llvm::isAlnum(c);
    if (word) {
      out.push_back(llvm::toLower(c));
    } else if (!out.empty() && out.back() != '_') {
      out.push_back('_');
    }
  }
  while (!out.empty() && out.back() == '_') {
    out.pop_back();
  }
  return out;
}

void kimi::buildLoop(OpBuilder &builder, Location loc, Value lower, Value upper, Value step,
                     llvm::function_ref<void(Value)> fn) {
  auto loop = scf::ForOp::create(builder, loc, lower, upper, step);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  fn(loop.getInductionVar());
}

KernelPool::KernelPool(ModuleOp module) : module(module) {
  // Modules of large models hold thousands of weights: what is asked for each kernel is found once.
  for (Operation &op : *module.getBody()) {
    if (auto kernel = dyn_cast<tile::KernelOp>(op)) {
      symbols.try_emplace(kernelText(kernel), kernel.getSymName().str());
    }
    if (!firstFunc && isa<func::FuncOp>(op)) {
      firstFunc = &op;
    }
    if (auto symbol = dyn_cast<SymbolOpInterface>(op)) {
      taken.insert(symbol.getName());
    }
  }
}

tile::KernelOp KernelPool::create() {
  OpBuilder builder(module.getBodyRegion());
  builder.setInsertionPoint(firstFunc);
  Location unknown = UnknownLoc::get(module.getContext());
  return tile::KernelOp::create(builder, unknown, "kernel", builder.getFunctionType({}, {}));
}

FlatSymbolRefAttr KernelPool::add(tile::KernelOp kernel, StringRef stem) {
  auto [it, inserted] = symbols.try_emplace(kernelText(kernel), "");
  if (!inserted) {
    kernel.erase();
    return FlatSymbolRefAttr::get(module.getContext(), it->second);
  }
  std::string name = symbolText(stem);
  for (unsigned suffix = 2; !taken.insert(name).second; ++suffix) {
    name = symbolText(stem) + "_v" + std::to_string(suffix);
  }
  kernel.setSymName(name);
  it->second = name;
  return FlatSymbolRefAttr::get(module.getContext(), name);
}

void HostContext::replace(Operation *op, ValueRange values) {
  for (auto [from, to] : llvm::zip_equal(op->getResults(), values)) {
    replaceValue(from, to);
  }
  dead.push_back(op);
}

void HostContext::replaceValue(Value from, Value to) {
  replaced.push_back({from, to});
  from.replaceAllUsesWith(to);
}

void HostContext::finish() {
  for (Operation *op : llvm::reverse(dead)) {
    op->erase();
  }
  dead.clear();
  replaced.clear();
  // What only fed the replaced ops: fills, empties, shape arithmetic.
  SmallVector<Operation *> ops; // those of a body behind the op that erases them with itself
  func.walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops)) {
    if (isOpTriviallyDead(op)) {
      op->erase();
    }
  }
}

KernelWriter::KernelWriter(HostContext &context, Operation *host)
    : context(context), host(host), location(host->getLoc()), builder(host->getContext()) {
  kernel = context.pool.create(); // kernels stand in the order they were made
  location = kernel.getLoc();
  Block *block = new Block();
  kernel.getBody().push_back(block);
  builder.setInsertionPointToStart(block);
}

void KernelWriter::abandon() { kernel.erase(); }

void KernelWriter::setThreads(int64_t threads, int64_t blocksPerSm, bool specialized, int64_t cluster) {
  kernel.setThreads(threads);
  if (specialized) {
    kernel->setAttr("warp_specialized", builder.getUnitAttr());
  }
  if (!specialized || blocksPerSm > 1) {
    kernel->setAttr("blocks_per_sm", builder.getI64IntegerAttr(blocksPerSm));
  }
  if (cluster > 1) {
    kernel->setAttr("cluster", builder.getI64IntegerAttr(cluster));
  }
  aligned = true;
}

int64_t kimi::divisorOf(const SymbolicDim &dim, int64_t limit) {
  for (const auto &[monomial, coefficient] : dim.terms()) {
    while (coefficient % limit != 0) {
      limit /= 2;
    }
  }
  return limit;
}

int64_t kimi::alignmentOf(const ViewLayout &layout, Type element) {
  constexpr int64_t widest = 16; // bytes of the widest load, and what a tensor map asks for
  int64_t bytes = element.isIndex() ? 8 : std::max<int64_t>(element.getIntOrFloatBitWidth() / 8, 1);
  int64_t elements = divisorOf(layout.offset, std::max<int64_t>(widest / bytes, 1));
  for (auto [size, stride] : llvm::zip(layout.sizes, layout.strides)) {
    if (!stride.isConstant() && !size.is(1)) {
      elements = divisorOf(stride, elements);
    }
  }
  return elements * bytes;
}

Value KernelWriter::addArgument(unsigned position, Type type) {
  return kernel.getBody().front().insertArgument(position, type, location);
}

Value KernelWriter::input(Value tensor) {
  auto it = imported.find(tensor);
  if (it != imported.end()) {
    return it->second;
  }
  FailureOr<ViewLayout> layout = context.layouts.of(tensor);
  if (failed(layout)) {
    host->emitError() << "an operand is a reshape of memory with gaps; run --kimi-materialize-views first";
    return {};
  }
  Type elementType = cast<RankedTensorType>(tensor.getType()).getElementType();
  Value argument = addArgument(inputTensors.size(), layout->memrefType(elementType));
  inputTensors.push_back(tensor);
  alignments[argument] = alignmentOf(*layout, elementType);
  imported[tensor] = argument;
  return argument;
}

Value KernelWriter::state(Value state, const SymbolicDim &batch) {
  auto it = imported.find(state);
  if (it != imported.end()) {
    return it->second;
  }
  Type elementType = cast<StateType>(state.getType()).getShape().getElementType();
  ViewLayout layout = context.layouts.ofState(state, batch);
  Value argument = addArgument(inputTensors.size() + stateValues.size(), layout.memrefType(elementType));
  alignments[argument] = alignmentOf(layout, elementType);
  stateValues.push_back(state);
  imported[state] = argument;
  return argument;
}

Value KernelWriter::result(RankedTensorType type, ArrayRef<SymbolicDim> sizes) {
  ViewLayout layout;
  layout.sizes.assign(sizes.begin(), sizes.end());
  layout.strides = rowMajorStrides(sizes);
  // The host sees the extents that the type has; the kernel may know more.
  for (auto [axis, size] : llvm::enumerate(sizes)) {
    if (type.isDynamicDim(axis)) {
      resultDims.push_back(size);
    }
  }
  unsigned position = inputTensors.size() + stateValues.size() + resultTypes.size();
  resultTypes.push_back(type);
  Value argument = addArgument(position, layout.memrefType(type.getElementType()));
  alignments[argument] = alignmentOf(layout, type.getElementType());
  return argument;
}

Value KernelWriter::constant(int64_t value) { return arith::ConstantIndexOp::create(builder, location, value); }

Value KernelWriter::scalar(const SymbolicDim &value) {
  if (std::optional<int64_t> fixed = value.getConstant()) {
    return constant(*fixed);
  }
  auto [it, inserted] = scalarArguments.try_emplace(value.str());
  if (inserted) {
    it->second = addArgument(kernel.getBody().getNumArguments(), builder.getIndexType());
    scalarValues.push_back(value);
  }
  return it->second;
}

Value KernelWriter::extent(Value buffer, int64_t axis) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(axis)) {
    return constant(type.getDimSize(axis));
  }
  return memref::DimOp::create(builder, location, buffer, axis);
}

FailureOr<Value> KernelWriter::import(Value value) {
  auto it = imported.find(value);
  if (it != imported.end()) {
    return it->second;
  }
  if (isa<RankedTensorType>(value.getType())) {
    if (Value buffer = input(value)) {
      return buffer;
    }
    return failure();
  }
  Operation *op = value.getDefiningOp();
  if (op && op->hasTrait<OpTrait::ConstantLike>()) {
    Value copy = builder.clone(*op)->getResult(0);
    copy.getDefiningOp()->setLoc(location);
    return imported[value] = copy;
  }
  if (value.getType().isIntOrIndex()) {
    SymbolicDim dim = context.scalars.of(value);
    if (context.scalars.isComputable(dim)) {
      Value index = scalar(dim);
      if (value.getType().isInteger(1)) {
        index = arith::IndexCastUIOp::create(builder, location, value.getType(), index);
      } else if (!value.getType().isIndex()) {
        index = arith::IndexCastOp::create(builder, location, value.getType(), index);
      }
      return imported[value] = index;
    }
  }
  if (!op || op->getNumRegions() != 0 || op->getNumResults() != 1) {
    return failure();
  }
  SmallVector<Value> operands;
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    for (Value operand : op->getOperands()) {
      FailureOr<Value> inside = import(operand);
      if (failed(inside)) {
        return failure();
      }
      operands.push_back(*inside);
    }
    Value load = memref::LoadOp::create(builder, location, operands[0], ArrayRef<Value>(operands).drop_front());
    return imported[value] = load;
  }
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect())) {
    return failure();
  }
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    FailureOr<Value> inside = import(operand);
    if (failed(inside)) {
      return failure();
    }
    mapping.map(operand, *inside);
  }
  Operation *copy = builder.clone(*op, mapping);
  copy->setLoc(location);
  return imported[value] = copy->getResult(0);
}

FlatSymbolRefAttr KernelWriter::finish(StringRef stem) {
  Block &block = kernel.getBody().front();
  builder.setInsertionPointToEnd(&block);
  tile::ReturnOp::create(builder, location);
  kernel.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), {}));
  // Where all inputs are known at load time the launch goes there, and they are being computed just before it. What a
  // step computes all the same, an output for example, is being computed there.
  auto isReady = [](Value tensor) {
    return isLoadTimeValue(tensor) && cast<RankedTensorType>(tensor.getType()).hasStaticShape() &&
           llvm::none_of(ViewLayouts::base(tensor).getUsers(),
                         [](Operation *user) { return isa<func::ReturnOp>(user); });
  };
  if (aligned && !llvm::all_of(inputTensors, mayBeLaunchedAtLoadTime)) {
    for (auto [index, tensor] : llvm::enumerate(inputTensors)) {
      if (isReady(tensor)) {
        kernel.setArgAttr(index, "tile.constant", builder.getUnitAttr());
      }
    }
  }
  for (BlockArgument argument : block.getArguments()) {
    auto it = alignments.find(argument);
    if (aligned && it != alignments.end()) {
      kernel.setArgAttr(argument.getArgNumber(), tile::KernelOp::kAlignAttrName, builder.getI64IntegerAttr(it->second));
    }
  }
  return context.pool.add(kernel, stem);
}

DispatchOp KernelWriter::dispatch(ArrayRef<Variant> variants, int64_t flopsPerElement) {
  OpBuilder at(host);
  Location loc = host->getLoc();
  auto value = [&](const SymbolicDim &dim) { return context.scalars.materialize(at, loc, dim); };
  SmallVector<Attribute> kernels;
  SmallVector<Value> guards, grid, dims, scalarOperands;
  for (const Variant &variant : variants) {
    kernels.push_back(variant.kernel);
    if (kernels.size() < variants.size()) {
      Value zero = arith::ConstantIndexOp::create(at, loc, 0);
      guards.push_back(arith::CmpIOp::create(at, loc, arith::CmpIPredicate::ne, value(variant.guard), zero));
    }
    grid.append({value(variant.x), value(variant.y), value(variant.z)});
  }
  for (const SymbolicDim &dim : resultDims) {
    dims.push_back(value(dim));
  }
  for (const SymbolicDim &scalar : scalarValues) {
    scalarOperands.push_back(value(scalar));
  }
  SmallVector<Type> types(resultTypes.begin(), resultTypes.end());
  auto op = DispatchOp::create(at, loc, types, at.getArrayAttr(kernels), guards, grid, inputTensors, stateValues, dims,
                               scalarOperands);
  if (flopsPerElement > 0) {
    op->setAttr("kimi.flops_per_element", at.getI64IntegerAttr(flopsPerElement));
  }
  return op;
}
