//===- DeltaRuleGpuKernel.cpp - tile kernels of a delta rule for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/DeltaRuleGpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

static Type elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }

std::string kimi::deltaRuleStem(DeltaRuleOp op) {
  auto type = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  std::string stem = "delta_rule_h" + std::to_string(op.getStateHeads()) + "_d" +
                     std::to_string(type(op.getK()).getDimSize(3)) + "x" +
                     std::to_string(type(op.getV()).getDimSize(3));
  if (op.getDecay()) {
    stem += type(op.getDecay()).getRank() == 4 ? "_channel" : "_head";
  }
  stem += op.getBeta() ? "_beta" : op.getErase() ? "_erase" : "";
  return stem + (op.getWrite() ? "_write" : "");
}

/// Blocks of `tokens` on an SM: one loads its state while others compute. A thread keeps its part of the state twice,
/// before and after a token, and works with as little else as is possible without spills.
static int64_t blocksOfTokens(int64_t stateElements, int64_t threads) {
  constexpr int64_t otherRegisters = 16, leastRegisters = 64;
  int64_t registers = std::max(2 * stateElements / threads + otherRegisters, leastRegisters);
  return std::max<int64_t>(GpuArch::registersPerSm / (registers * threads), 1);
}

DeltaRuleGpuKernel::DeltaRuleGpuKernel(HostContext &context, DeltaRuleProblem &problem, const DeltaRuleInputs &inputs,
                                       const DeltaRuleTile &tile, DeltaRulePart part, const DeltaRuleChunks *chunks)
    : context(context), p(problem), inputs(inputs), op(problem.op), s(tile), part(part), chunks(chunks),
      writer(context, op), t(writer), b(writer.body()), loc(writer.loc()),
      depth(cast<RankedTensorType>(op.getK().getType()).getDimSize(3)),
      width(cast<RankedTensorType>(op.getV().getType()).getDimSize(3)), heads(op.getStateHeads()),
      scale(op.getScale().convertToFloat()), erases(op.erases()) {
  if (part == DeltaRulePart::prepare) {
    writer.setThreads(s.prepareThreads, s.prepareBlocks);
  } else {
    writer.setThreads(s.threads, part == DeltaRulePart::tokens ? blocksOfTokens(depth * s.columns, s.threads) : 1);
  }
}

FailureOr<KernelWriter::Variant> DeltaRuleGpuKernel::build(const std::string &stem, const SymbolicDim &guard,
                                                           const SymbolicDim &used) {
  if (!importArguments(used)) {
    writer.abandon();
    return failure();
  }
  place();
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getQ());
  SymbolicDim rows = sizes[0] * heads, y((width + s.columns - 1) / s.columns);
  switch (part) {
  case DeltaRulePart::prepare:
    prepare();
    y = SymbolicDim::ceilDiv(sizes[2], s.chunk) * used;
    break;
  case DeltaRulePart::chunks:
    runChunks();
    break;
  case DeltaRulePart::tokens:
    runTokens();
    break;
  }
  return KernelWriter::Variant{writer.finish(stem), guard, rows, y};
}

/// The operands, in an order that the variants of a launch share.
bool DeltaRuleGpuKernel::importOperands() {
  auto take = [&](Value &buffer, Value tensor) { return !tensor || (buffer = writer.input(tensor)); };
  if (part != DeltaRulePart::tokens) {
    return take(q, op.getQ()) && take(k, op.getK()) && take(v, op.getV()) && take(decay, op.getDecay()) &&
           take(beta, op.getBeta()) && take(erase, op.getErase()) && take(write, op.getWrite());
  }
  auto import = [&](Source &source, const DeltaRuleInput &input, Value tensor) {
    return !tensor || importSource(source, input, tensor);
  };
  return import(sources.q, inputs.q, op.getQ()) && import(sources.k, inputs.k, op.getK()) && take(v, op.getV()) &&
         import(sources.decay, inputs.decay, op.getDecay()) && import(sources.beta, inputs.beta, op.getBeta()) &&
         import(sources.erase, inputs.erase, op.getErase()) && import(sources.write, inputs.write, op.getWrite());
}

bool DeltaRuleGpuKernel::importArguments(const SymbolicDim &used) {
  zero = writer.constant(0);
  if (!importOperands()) {
    return false;
  }
  auto take = [&](Value tensor) { return tensor ? writer.input(tensor) : Value(); };
  operand = elementOf(op.getQ());
  for (Value value : {op.getK(), op.getV()}) {
    if (elementOf(value) != operand) {
      operand = b.getF32Type();
    }
  }
  SmallVector<SymbolicDim> sizes = context.scalars.shape(op.getQ());
  auto extent = [](const SymbolicDim &dim) { return dim.getConstant().value_or(ShapedType::kDynamic); };
  auto result = [&](Type element, ArrayRef<SymbolicDim> shape) {
    SmallVector<int64_t> extents;
    for (const SymbolicDim &dim : shape) {
      extents.push_back(extent(dim));
    }
    return writer.result(RankedTensorType::get(extents, element), shape);
  };
  if (part == DeltaRulePart::prepare) {
    SymbolicDim count = SymbolicDim::ceilDiv(sizes[2], s.chunk) * used, padded = count * s.chunk, all(heads);
    writes = result(operand, {sizes[0], all, padded, SymbolicDim(width)});
    queries = result(operand, {sizes[0], all, padded, SymbolicDim(depth)});
    keys = result(operand, {sizes[0], all, count * depth, SymbolicDim(s.chunk)});
    pairs = result(operand, {sizes[0], all, padded, SymbolicDim(s.chunk)});
    reads = erases ? result(operand, {sizes[0], all, padded, SymbolicDim(depth)}) : Value();
    ends = decay ? result(b.getF32Type(), {sizes[0], all, count, SymbolicDim(depth)}) : Value();
    return true;
  }
  if (p.write) {
    initial = state = writer.state(p.write.getState(), sizes[0]);
  } else {
    initial = take(op.getInitial());
    if (!initial != !op.getInitial()) {
      return false;
    }
  }
  if (chunks) {
    writes = take(chunks->writes);
    queries = take(chunks->queries);
    keys = take(chunks->keys);
    pairs = take(chunks->pairs);
    reads = take(chunks->reads);
    ends = take(chunks->ends);
  }
  out = p.addResult(context, writer);
  if (!p.write && !op.getState().use_empty()) {
    state = writer.result(cast<RankedTensorType>(op.getState().getType()), context.scalars.shape(op.getState()));
  }
  return true;
}

Value DeltaRuleGpuKernel::keyRow(Value token) {
  return mulIndex(divide(token, writer.constant(s.chunk)), writer.constant(depth));
}

/// Which head, and which rows or columns of it, this block computes.
void DeltaRuleGpuKernel::place() {
  Value x = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
  Value y = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1));
  Value all = writer.constant(heads);
  head = remainder(x, all);
  batchIndex = divide(x, all);
  if (part == DeltaRulePart::prepare) {
    first = mulIndex(y, writer.constant(s.chunk));
    firstColumn = zero;
  } else {
    firstColumn = mulIndex(y, writer.constant(s.columns));
  }
}

Value DeltaRuleGpuKernel::headOf(Value buffer) {
  int64_t own = cast<MemRefType>(buffer.getType()).getDimSize(1);
  return own == heads ? head : divide(head, writer.constant(heads / own));
}

void DeltaRuleGpuKernel::loadRows(Value tile, Value buffer, Value row, Value column) {
  if (cast<MemRefType>(buffer.getType()).getRank() == 3) { // one number a token: the other dim of the tile has extent 1
    bool isRow = cast<MemRefType>(tile.getType()).getDimSize(1) == 1;
    t.load(tile, buffer, {batchIndex, headOf(buffer), row}, isRow ? ArrayRef<int64_t>{2, 1} : ArrayRef<int64_t>{1, 2});
    return;
  }
  t.load(tile, buffer, {batchIndex, headOf(buffer), row, column}, {2, 3});
}

void DeltaRuleGpuKernel::storeResult(Value tile, Value row) {
  if (p.tokensFirst()) {
    t.store(tile, out, {batchIndex, row, head, firstColumn}, {1, 3});
  } else {
    t.store(tile, out, {batchIndex, head, row, firstColumn}, {2, 3});
  }
}

Value DeltaRuleGpuKernel::castTo(Value x, Type type) { return castFloat(b, loc, x, type); }

/// e^x; where results are rounded to 16 bits, by the fast power of two.
Value DeltaRuleGpuKernel::exponential(Value x) {
  if (operand.isF32()) {
    return math::ExpOp::create(b, loc, x);
  }
  return power(mul(x, t.number(kLog2e)));
}

Value DeltaRuleGpuKernel::power(Value x) {
  if (operand.isF32()) {
    return math::ExpOp::create(b, loc, x);
  }
  return math::Exp2Op::create(b, loc, x, arith::FastMathFlags::afn);
}

void DeltaRuleGpuKernel::assign(Value out, ValueRange ins, llvm::function_ref<Value(ValueRange)> fn) {
  t.map(ins, out, [&](ValueRange e) { return castTo(fn(e), elementOf(out)); });
}
