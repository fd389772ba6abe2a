//===- KernelAbi.h - what a kernel's arguments are in machine words
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The flattened arguments are the same on every target: for each memref its pointer, its sizes and its strides (in
// elements), for each index its value. They differ in how they are handed over: an array in memory on a CPU, parameters
// by value on a GPU.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETOLLVM_KERNELABI_H
#define KIMI_PASSES_TILETOLLVM_KERNELABI_H

#include "dialects/Tile/TileDialect.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/IR/Builders.h"

namespace kimi {

/// The memref argument that `buffer` is a view of (`entry` is the kernel's entry block); null for a local buffer;
/// failure when it cannot be told.
mlir::FailureOr<mlir::BlockArgument> rootArgument(mlir::Value buffer, mlir::Block *entry);

/// Which arguments a kernel writes; failure if a write goes to a buffer whose origin is unknown.
mlir::FailureOr<llvm::SmallVector<bool>> writtenArguments(tile::KernelOp kernel);

/// How many 64-bit words an argument of type `type` takes.
unsigned wordCount(mlir::Type type);

/// An error at `kernel` where an argument is neither an index nor a memref with a strided layout of offset 0 or ?.
mlir::LogicalResult checkSignature(tile::KernelOp kernel);

/// Rebuilds the memref descriptor of an argument from its pointer and words; static extents and strides are trusted.
mlir::Value rebuildMemRef(mlir::OpBuilder &b, mlir::Location loc, const mlir::LLVMTypeConverter &converter,
                          mlir::MemRefType type, mlir::ValueRange words);

} // namespace kimi

#endif // KIMI_PASSES_TILETOLLVM_KERNELABI_H
