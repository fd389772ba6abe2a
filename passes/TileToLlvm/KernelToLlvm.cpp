//===- KernelToLlvm.cpp - a tile.kernel as an exported function of one ABI
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "passes/TileToLlvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEKERNELTOLLVM
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// The memref argument that `buffer` is a view of; null for a local buffer; failure when it cannot be told.
FailureOr<BlockArgument> rootArgument(Value buffer, Block *entry) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(buffer)) {
      if (argument.getOwner() == entry) {
        return argument;
      }
      return failure();
    }
    Operation *op = buffer.getDefiningOp();
    if (auto view = dyn_cast<ViewLikeOpInterface>(op)) {
      buffer = view.getViewSource();
      continue;
    }
    if (hasEffect<MemoryEffects::Allocate>(op, buffer)) {
      return BlockArgument();
    }
    return failure();
  }
}

/// Which arguments a kernel writes; failure if a write goes to a buffer whose origin is unknown.
FailureOr<SmallVector<bool>> writtenArguments(tile::KernelOp kernel) {
  Block *entry = &kernel.getBody().front();
  SmallVector<bool> written(entry->getNumArguments(), false);
  auto walk = kernel.walk([&](Operation *op) -> WalkResult {
    if (op == kernel.getOperation()) {
      return WalkResult::advance();
    }
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (!effects) {
      bool sound = op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || op->hasTrait<OpTrait::IsTerminator>();
      return sound ? WalkResult::advance() : WalkResult::interrupt();
    }
    SmallVector<MemoryEffects::EffectInstance> instances;
    effects.getEffects(instances);
    for (MemoryEffects::EffectInstance &instance : instances) {
      if (!isa<MemoryEffects::Write>(instance.getEffect())) {
        continue;
      }
      Value value = instance.getValue();
      FailureOr<BlockArgument> argument = failure();
      if (value) {
        argument = rootArgument(value, entry);
      }
      if (failed(argument)) {
        return WalkResult::interrupt();
      }
      if (*argument) {
        written[argument->getArgNumber()] = true;
      }
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted()) {
    return failure();
  }
  return written;
}

/// How many 64-bit words of the argument block `type` takes.
unsigned wordCount(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref ? 1 + 2 * memref.getRank() : 1;
}

LogicalResult checkSignature(tile::KernelOp kernel) {
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref) {
      if (type.isIndex()) {
        continue;
      }
      return kernel.emitError() << "kernel '" << kernel.getSymName() << "': argument " << index << " is " << type
                                << "; a kernel takes memrefs and index values";
    }
    int64_t offset;
    SmallVector<int64_t> strides;
    if (failed(memref.getStridesAndOffset(strides, offset)) || (offset != 0 && !ShapedType::isDynamic(offset))) {
      return kernel.emitError() << "kernel '" << kernel.getSymName() << "': argument " << index << " is " << memref
                                << "; its layout must be strided with offset 0 or ? (the pointer already points at the "
                                   "first element)";
    }
  }
  return success();
}

/// Rebuilds the memref descriptor of an argument from its pointer and words; static extents and strides are trusted.
Value rebuildMemRef(OpBuilder &b, Location loc, const LLVMTypeConverter &converter, MemRefType type, ValueRange words) {
  int64_t offset;
  SmallVector<int64_t> strides;
  (void)type.getStridesAndOffset(strides, offset); // checked by checkSignature
  unsigned rank = type.getRank();
  auto descriptor = MemRefDescriptor::poison(b, loc, converter.convertType(type));
  descriptor.setAllocatedPtr(b, loc, words[0]);
  descriptor.setAlignedPtr(b, loc, words[0]);
  descriptor.setConstantOffset(b, loc, 0);
  for (unsigned i = 0; i < rank; ++i) {
    if (type.isDynamicDim(i)) {
      descriptor.setSize(b, loc, i, words[1 + i]);
    } else {
      descriptor.setConstantSize(b, loc, i, type.getDimSize(i));
    }
    if (ShapedType::isDynamic(strides[i])) {
      descriptor.setStride(b, loc, i, words[1 + rank + i]);
    } else {
      descriptor.setConstantStride(b, loc, i, strides[i]);
    }
  }
  Value value = descriptor;
  return UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0);
}

/// The kernel's body as a function of unpacked words. Written buffers are noalias: nothing else the kernel is given
/// overlaps them, so the vectoriser needs no run-time checks.
LLVM::LLVMFuncOp outlineBody(OpBuilder &b, tile::KernelOp kernel, const LLVMTypeConverter &converter) {
  Location loc = kernel.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type word = b.getI64Type();
  FailureOr<SmallVector<bool>> written = writtenArguments(kernel);

  SmallVector<Type> inputs;
  SmallVector<std::pair<unsigned, StringRef>> attributes;
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    if (isa<MemRefType>(type)) {
      if (succeeded(written)) {
        attributes.emplace_back(inputs.size(), (*written)[index] ? LLVM::LLVMDialect::getNoAliasAttrName()
                                                                 : LLVM::LLVMDialect::getReadonlyAttrName());
      }
      inputs.push_back(pointer);
      inputs.append(wordCount(type) - 1, word);
    } else {
      inputs.push_back(word);
    }
  }
  inputs.append(3, word);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), inputs);
  auto function =
      LLVM::LLVMFuncOp::create(b, loc, (kernel.getSymName() + ".body").str(), type, LLVM::Linkage::Internal);
  function.setNoInline(true); // noalias holds best as long as it belongs to parameters
  for (auto [index, name] : attributes) {
    function.setArgAttr(index, name, b.getUnitAttr());
  }

  Region &region = function.getBody();
  region.takeBody(kernel.getBody());
  Block *entry = &region.front();
  unsigned oldCount = entry->getNumArguments();
  for (Type input : inputs) {
    entry->addArgument(input, loc);
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  unsigned next = oldCount;
  for (unsigned i = 0; i < oldCount; ++i) {
    BlockArgument old = entry->getArgument(i);
    unsigned count = wordCount(old.getType());
    Value replacement;
    if (auto memref = dyn_cast<MemRefType>(old.getType())) {
      ValueRange words = entry->getArguments().slice(next, count);
      replacement = rebuildMemRef(b, loc, converter, memref, words);
    } else {
      replacement = arith::IndexCastOp::create(b, loc, b.getIndexType(), entry->getArgument(next));
    }
    old.replaceAllUsesWith(replacement);
    next += count;
  }
  SmallVector<Value, 3> ids;
  for (unsigned i = 0; i < 3; ++i) {
    ids.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), entry->getArgument(next + i)));
  }
  function.walk([&](Operation *op) {
    if (auto id = dyn_cast<tile::BlockIdOp>(op)) {
      id.replaceAllUsesWith(ids[id.getDim()]);
      id.erase();
    } else if (auto ret = dyn_cast<tile::ReturnOp>(op)) {
      OpBuilder at(ret);
      LLVM::ReturnOp::create(at, ret.getLoc(), ValueRange());
      ret.erase();
    }
  });
  entry->eraseArguments(0, oldCount);
  return function;
}

/// `void sym(const int64_t *args, int64_t x, int64_t y, int64_t z)`: loads the words and calls the body.
void buildEntry(OpBuilder &b, Location loc, StringRef symbol, LLVM::LLVMFuncOp body) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type word = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer, word, word, word});
  auto function = LLVM::LLVMFuncOp::create(b, loc, symbol, type);
  OpBuilder::InsertionGuard guard(b);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  ArrayRef<Type> inputs = body.getFunctionType().getParams();
  SmallVector<Value> operands;
  for (auto [index, input] : llvm::enumerate(inputs.drop_back(3))) {
    Value address =
        LLVM::GEPOp::create(b, loc, pointer, word, entry->getArgument(0), ArrayRef<LLVM::GEPArg>{int32_t(index)});
    operands.push_back(LLVM::LoadOp::create(b, loc, input, address));
  }
  llvm::append_range(operands, entry->getArguments().drop_front());
  LLVM::CallOp::create(b, loc, body, operands);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

struct TileKernelToLlvm : kimi::impl::TileKernelToLlvmBase<TileKernelToLlvm> {
  void runOnOperation() override {
    LLVMTypeConverter converter(&getContext());
    for (tile::KernelOp kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      if (failed(checkSignature(kernel))) {
        return signalPassFailure();
      }
      OpBuilder b(kernel);
      std::string symbol = kernel.getSymName().str();
      LLVM::LLVMFuncOp body = outlineBody(b, kernel, converter);
      buildEntry(b, kernel.getLoc(), symbol, body);
      kernel.erase();
    }
  }
};
} // namespace
