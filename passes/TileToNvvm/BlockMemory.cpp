//===- BlockMemory.cpp - loads, stores and conversions of one thread
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNvvm/BlockEmitter.h"

using namespace mlir;
using namespace kimi;

Type BlockEmitter::rawType(int64_t bytes) {
  if (bytes <= 4) {
    return b.getIntegerType(8 * bytes);
  }
  return VectorType::get({bytes / 4}, b.getI32Type());
}

Value BlockEmitter::load(Value pointer, int64_t bytes, bool invariant) {
  auto op = LLVM::LoadOp::create(b, loc, rawType(bytes), pointer, static_cast<unsigned>(bytes));
  op.setInvariant(invariant);
  return op;
}

void BlockEmitter::store(Value raw, Value pointer, int64_t bytes) {
  LLVM::StoreOp::create(b, loc, raw, pointer, static_cast<unsigned>(bytes));
}

/// `{$0,$1,$2,$3}` or `$0`: registers of an access, from operand `first`.
static std::string registers(int64_t first, int64_t count) {
  std::string text = count > 1 ? "{" : "";
  for (int64_t i = 0; i < count; ++i) {
    text += (i ? ", $" : "$") + std::to_string(first + i);
  }
  return text + (count > 1 ? "}" : "");
}

/// `v4.b32`, `b16`: what an access of `bytes` moves.
static std::string width(int64_t bytes) {
  return bytes > 4 ? "v" + std::to_string(bytes / 4) + ".b32" : (bytes == 1 ? "u8" : "b" + std::to_string(8 * bytes));
}

/// A register holds 32 bits, or 16 for 1 and 2 bytes.
static std::string constraint(int64_t bytes) { return bytes < 4 ? "h" : "r"; }

Value BlockEmitter::loadIf(Value predicate, Value pointer, int64_t bytes, bool invariant) {
  if (!predicate) {
    return load(pointer, bytes, invariant);
  }
  // LLVM's loads have no predicate, and a branch around each would keep them from being in flight together.
  int64_t count = std::max<int64_t>(1, bytes / 4);
  std::string text, constraints;
  for (int64_t i = 0; i < count; ++i) {
    text += std::string(bytes < 4 ? "mov.b16 $" : "mov.b32 $") + std::to_string(i) + ", 0; ";
    constraints += "=&" + constraint(bytes) + ",";
  }
  text += "@$" + std::to_string(count + 1) + " ld.global." + (invariant ? "nc." : "") + width(bytes) + " " +
          registers(0, count) + ", [$" + std::to_string(count) + "];";
  constraints += "l,b";
  Type word = bytes < 4 ? b.getIntegerType(16) : b.getI32Type();
  Type result =
      count == 1 ? word : Type(LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, word)));
  auto op = LLVM::InlineAsmOp::create(b, loc, result, ValueRange{pointer, predicate}, text, constraints,
                                      /*has_side_effects=*/!invariant, /*is_align_stack=*/false,
                                      LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
  Value raw = op.getResult(0);
  if (count > 1) {
    Value vector = LLVM::PoisonOp::create(b, loc, rawType(bytes));
    for (int64_t i = 0; i < count; ++i) {
      Value part = LLVM::ExtractValueOp::create(b, loc, raw, i);
      vector = LLVM::InsertElementOp::create(b, loc, vector, part, i32(i));
    }
    return vector;
  }
  return bytes == 1 ? arith::TruncIOp::create(b, loc, b.getI8Type(), raw).getResult() : raw;
}

void BlockEmitter::storeIf(Value predicate, Value raw, Value pointer, int64_t bytes) {
  if (!predicate) {
    store(raw, pointer, bytes);
    return;
  }
  int64_t count = std::max<int64_t>(1, bytes / 4);
  SmallVector<Value> operands;
  std::string constraints;
  for (int64_t i = 0; i < count; ++i) {
    Value part = raw;
    if (count > 1) {
      part = LLVM::ExtractElementOp::create(b, loc, raw, i32(i));
    } else if (bytes == 1) {
      part = arith::ExtUIOp::create(b, loc, b.getIntegerType(16), raw);
    }
    operands.push_back(part);
    constraints += constraint(bytes) + ",";
  }
  bool global = cast<LLVM::LLVMPointerType>(pointer.getType()).getAddressSpace() == 1;
  std::string text = "@$" + std::to_string(count + 1) + (global ? " st.global." : " st.shared.") + width(bytes) +
                     " [$" + std::to_string(count) + "], " + registers(0, count) + ";";
  if (!global) { // shared addresses have 32 bits
    pointer = LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), pointer);
  }
  constraints += global ? "l,b,~{memory}" : "r,b,~{memory}";
  operands.append({pointer, predicate});
  LLVM::InlineAsmOp::create(b, loc, TypeRange(), operands, text, constraints, /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
                            ArrayAttr());
}

SmallVector<Value> BlockEmitter::unpack(Value raw, Type element) {
  int64_t bytes = 1, size = elementBytes(element);
  if (auto vector = dyn_cast<VectorType>(raw.getType())) {
    bytes = 4 * vector.getNumElements();
  } else {
    bytes = raw.getType().getIntOrFloatBitWidth() / 8;
  }
  int64_t count = bytes / size;
  Type stored = element.isIndex() ? b.getI64Type() : element.isInteger(1) ? b.getI8Type() : element;
  SmallVector<Value> elements;
  if (count == 1) {
    elements.push_back(raw.getType() == stored ? raw : LLVM::BitcastOp::create(b, loc, stored, raw).getResult());
  } else {
    auto type = VectorType::get({count}, stored);
    Value vector = raw.getType() == type ? raw : LLVM::BitcastOp::create(b, loc, type, raw).getResult();
    for (int64_t i = 0; i < count; ++i) {
      elements.push_back(LLVM::ExtractElementOp::create(b, loc, vector, i32(i)));
    }
  }
  for (Value &value : elements) {
    if (element.isIndex()) {
      value = toIndex(value);
    } else if (element.isInteger(1)) {
      value = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value,
                                    arith::ConstantIntOp::create(b, loc, b.getI8Type(), 0));
    }
  }
  return elements;
}

Value BlockEmitter::pack(ArrayRef<Value> elements) {
  Type element = elements[0].getType();
  Type stored = element.isIndex() ? b.getI64Type() : element.isInteger(1) ? b.getI8Type() : element;
  auto toStored = [&](Value value) -> Value {
    if (element.isIndex()) {
      return toI64(value);
    }
    return element.isInteger(1) ? arith::ExtUIOp::create(b, loc, stored, value).getResult() : value;
  };
  int64_t count = elements.size();
  Type raw = rawType(count * elementBytes(element));
  Value packed = toStored(elements[0]);
  if (count > 1) {
    auto type = VectorType::get({count}, stored);
    Value vector = LLVM::PoisonOp::create(b, loc, type);
    for (auto [i, value] : llvm::enumerate(elements)) {
      vector = LLVM::InsertElementOp::create(b, loc, vector, toStored(value), i32(i));
    }
    packed = vector;
  }
  return packed.getType() == raw ? packed : LLVM::BitcastOp::create(b, loc, raw, packed).getResult();
}

SmallVector<Value> BlockEmitter::convert(ArrayRef<Value> values, Type type) {
  SmallVector<Value> result;
  for (size_t i = 0; i < values.size(); ++i) {
    Type from = values[i].getType();
    if (from == type) {
      result.push_back(values[i]);
      continue;
    }
    auto floatFrom = cast<FloatType>(from), floatTo = cast<FloatType>(type);
    bool narrow = floatTo.getWidth() == 16 && from.isF32();
    if (narrow && i + 1 < values.size()) {
      auto pair = VectorType::get({2}, type);
      auto rounding = NVVM::FPRoundingMode::RN;
      auto none = NVVM::SaturationMode::NONE;
      Value both;
      if (type.isBF16()) {
        both = NVVM::ConvertF32x2ToBF16x2Op::create(b, loc, pair, values[i + 1], values[i], Value(), rounding, none);
      } else {
        both = NVVM::ConvertF32x2ToF16x2Op::create(b, loc, pair, values[i + 1], values[i], Value(), rounding, none);
      }
      result.push_back(LLVM::ExtractElementOp::create(b, loc, both, i32(0)));
      result.push_back(LLVM::ExtractElementOp::create(b, loc, both, i32(1)));
      ++i;
      continue;
    }
    if (floatFrom.getWidth() == floatTo.getWidth()) { // bf16 and f16
      Value wide = arith::ExtFOp::create(b, loc, b.getF32Type(), values[i]);
      result.push_back(arith::TruncFOp::create(b, loc, type, wide));
    } else if (floatFrom.getWidth() > floatTo.getWidth()) {
      result.push_back(arith::TruncFOp::create(b, loc, type, values[i]));
    } else {
      result.push_back(arith::ExtFOp::create(b, loc, type, values[i]));
    }
  }
  return result;
}
