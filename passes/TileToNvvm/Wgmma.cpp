//===- Wgmma.cpp - wgmma as inline PTX
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// nvvm.wgmma.mma_async takes A from shared memory only, and nvvm.wgmma.wait.group ties nothing: so both are inline PTX.
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/Wgmma.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kimi::hopper;

/// `text` with `inouts` tied to its results $0, $1, ..., and `inputs` behind them (after the ties). Returns the
/// results.
static SmallVector<Value> emitTied(OpBuilder &b, Location loc, StringRef text, ValueRange inouts, ValueRange inputs) {
  SmallVector<std::string> constraints, ties;
  SmallVector<Value> operands(inouts);
  for (auto [index, value] : llvm::enumerate(inouts)) {
    constraints.push_back(value.getType().isF32() ? "=f" : "=r");
    ties.push_back(std::to_string(index));
  }
  llvm::append_range(constraints, ties);
  for (Value input : inputs) {
    constraints.push_back(input.getType().isInteger(64) ? "l" : "r");
    operands.push_back(input);
  }
  SmallVector<Type> types(inouts.getTypes());
  Type result = types.empty()       ? Type(LLVM::LLVMVoidType::get(b.getContext()))
                : types.size() == 1 ? types.front()
                                    : Type(LLVM::LLVMStructType::getLiteral(b.getContext(), types));
  auto dialect = LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT);
  auto op = LLVM::InlineAsmOp::create(b, loc, types.empty() ? TypeRange() : TypeRange(result), operands, text,
                                      llvm::join(constraints, ","), /*has_side_effects=*/true,
                                      /*is_align_stack=*/false, LLVM::TailCallKind::None, dialect, ArrayAttr());
  SmallVector<Value> results;
  if (types.size() == 1) {
    results.push_back(op.getRes());
  } else {
    for (size_t i = 0; i < types.size(); ++i) {
      results.push_back(LLVM::ExtractValueOp::create(b, loc, op.getRes(), int64_t(i)));
    }
  }
  return results;
}

/// "{$first,...}" of `count` operands.
static std::string operandList(int64_t first, int64_t count) {
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i) {
    text += (i ? ",$" : "$") + std::to_string(first + i);
  }
  return text + "}";
}

SmallVector<Value> kimi::hopper::emitWgmma(OpBuilder &b, Location loc, const WgmmaInstruction &instruction,
                                           ValueRange accumulators, ValueRange a, Value bDescriptor) {
  bool narrow = instruction.type != WgmmaType::tf32;
  const char *type = instruction.type == WgmmaType::f16 ? "f16" : instruction.type == WgmmaType::bf16 ? "bf16" : "tf32";
  int64_t count = instruction.accumulatorCount();
  int64_t next = 2 * count; // operands after the results and their ties
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(instruction.n) + (narrow ? "k16" : "k8") +
                     ".f32." + type + "." + type + " " + operandList(0, count) + ", ";
  text += instruction.aInRegisters ? operandList(next, 4) : "$" + std::to_string(next);
  next += instruction.aInRegisters ? 4 : 1;
  text += ", $" + std::to_string(next) + (instruction.overwrite ? ", 0, 1, 1" : ", 1, 1, 1");
  if (narrow) {
    if (!instruction.aInRegisters) {
      text += instruction.aMnMajor ? ", 1" : ", 0";
    }
    text += instruction.bMnMajor ? ", 1" : ", 0";
  }
  SmallVector<Value> inputs(a);
  inputs.push_back(bDescriptor);
  return emitTied(b, loc, text + ";", accumulators, inputs);
}

SmallVector<Value> kimi::hopper::emitWgmmaWait(OpBuilder &b, Location loc, int64_t pending, ValueRange values) {
  return emitTied(b, loc, "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";", values, {});
}

void kimi::hopper::emitWgmmaFence(OpBuilder &b, Location loc) { NVVM::WgmmaFenceAlignedOp::create(b, loc); }

void kimi::hopper::emitWgmmaCommit(OpBuilder &b, Location loc) { NVVM::WgmmaGroupSyncAlignedOp::create(b, loc); }

static Value constant(OpBuilder &b, Location loc, Type type, uint64_t value) {
  return LLVM::ConstantOp::create(b, loc, type, b.getIntegerAttr(type, static_cast<int64_t>(value)));
}

Value kimi::hopper::emitDescriptor(OpBuilder &b, Location loc, const WgmmaOperand &operand, Value address) {
  Type half = b.getI32Type(), word = b.getI64Type();
  // Shared memory is below 256 KiB, so the address needs no mask beyond its 18 bits.
  Value units = LLVM::LShrOp::create(b, loc, address, constant(b, loc, half, 4));
  Value low = LLVM::ZExtOp::create(b, loc, word,
                                   LLVM::AndOp::create(b, loc, units, constant(b, loc, half, 0x3fff)).getResult());
  return LLVM::OrOp::create(b, loc, low, constant(b, loc, word, operand.descriptorBits()));
}

Value kimi::hopper::advanceDescriptor(OpBuilder &b, Location loc, Value descriptor, int64_t bytes) {
  if (bytes == 0) {
    return descriptor;
  }
  return LLVM::AddOp::create(b, loc, descriptor, constant(b, loc, b.getI64Type(), bytes / 16));
}

SmallVector<Value> kimi::hopper::packAccumulators(OpBuilder &b, Location loc, WgmmaType type, ValueRange values) {
  Type element = type == WgmmaType::bf16 ? Type(b.getBF16Type()) : Type(b.getF16Type());
  auto pair = VectorType::get({2}, element);
  SmallVector<Value> packed;
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    Value both = LLVM::PoisonOp::create(b, loc, VectorType::get({2}, b.getF32Type()));
    for (unsigned half = 0; half < 2; ++half) {
      both = LLVM::InsertElementOp::create(b, loc, both, values[i + half], constant(b, loc, b.getI32Type(), half));
    }
    both = LLVM::FPTruncOp::create(b, loc, pair, both);
    packed.push_back(LLVM::BitcastOp::create(b, loc, b.getI32Type(), both));
  }
  return packed;
}
