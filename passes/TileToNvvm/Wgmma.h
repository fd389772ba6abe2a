//===- Wgmma.h - emission of warpgroup matrix products
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Accumulators travel as values through every instruction that may still write them: the instruction and the wait that
// ends it are one chain, so no pass of LLVM can move a use of a result before the wait.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_WGMMA_H
#define KIMI_PASSES_TILETONVVM_WGMMA_H

#include "mlir/IR/Builders.h"
#include "passes/TileToNvvm/WgmmaOperand.h"

namespace kimi::hopper {

enum class WgmmaType { f16, bf16, tf32 };

/// One wgmma.mma_async m64nNkK with fp32 accumulators: D[64, n] += A[64, K] . B[K, n], K = 32 bytes.
struct WgmmaInstruction {
  WgmmaType type = WgmmaType::bf16;
  int64_t n = 256; // a multiple of 8, 8 to 256
  bool aInRegisters = false;
  bool aMnMajor = false, bMnMajor = false; // operands in shared memory; 16-bit types only
  bool overwrite = false;                  // D = A . B

  /// fp32 accumulators of a thread.
  int64_t accumulatorCount() const { return n / 2; }
};

/// Issues the instruction: `a` is one i64 descriptor, or four i32 registers of the A fragment; `b` an i64 descriptor.
/// Returns the accumulators, which are not valid before emitWgmmaWait.
llvm::SmallVector<mlir::Value> emitWgmma(mlir::OpBuilder &b, mlir::Location loc, const WgmmaInstruction &instruction,
                                         mlir::ValueRange accumulators, mlir::ValueRange a, mlir::Value bDescriptor);

/// Waits until at most `pending` committed groups are in flight, and returns `values` (f32 accumulators or i32
/// fragments of A), which other instructions may touch from here on.
llvm::SmallVector<mlir::Value> emitWgmmaWait(mlir::OpBuilder &b, mlir::Location loc, int64_t pending,
                                             mlir::ValueRange values);

/// Orders ordinary writes of accumulators and A fragments before the next instruction.
void emitWgmmaFence(mlir::OpBuilder &b, mlir::Location loc);
/// Makes the instructions issued since the last commit a group.
void emitWgmmaCommit(mlir::OpBuilder &b, mlir::Location loc);

/// The descriptor (i64) of what lies at `address` (i32, in shared memory, the tile's start plus an `operand.offset`).
mlir::Value emitDescriptor(mlir::OpBuilder &b, mlir::Location loc, const WgmmaOperand &operand, mlir::Value address);
/// `descriptor` moved on by `bytes`, a multiple of 16.
mlir::Value advanceDescriptor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value descriptor, int64_t bytes);

/// A fragment of A (four i32) from the accumulators of an m64n16 block of fp32 (k16, 16-bit types), for products whose
/// A is an earlier result: registers 0..3 of the block's first 8 columns, then of the other 8.
llvm::SmallVector<mlir::Value> packAccumulators(mlir::OpBuilder &b, mlir::Location loc, WgmmaType type,
                                                mlir::ValueRange values);

} // namespace kimi::hopper

#endif // KIMI_PASSES_TILETONVVM_WGMMA_H
