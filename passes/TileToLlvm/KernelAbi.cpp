//===- KernelAbi.cpp - what a kernel's arguments are in machine words
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/KernelAbi.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace kimi;

FailureOr<BlockArgument> kimi::rootArgument(Value buffer, Block *entry) {
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

FailureOr<SmallVector<bool>> kimi::writtenArguments(tile::KernelOp kernel) {
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

unsigned kimi::wordCount(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref ? 1 + 2 * memref.getRank() : 1;
}

LogicalResult kimi::checkSignature(tile::KernelOp kernel) {
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

Value kimi::rebuildMemRef(OpBuilder &b, Location loc, const LLVMTypeConverter &converter, MemRefType type,
                          ValueRange words) {
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
