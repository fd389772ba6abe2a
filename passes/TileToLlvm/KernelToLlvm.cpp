//===- KernelToLlvm.cpp - a tile.kernel as an exported function of one ABI
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/TileToLlvm/KernelAbi.h"
#include "passes/TileToLlvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEKERNELTOLLVM
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
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
