//===- Passes.td - passes of passes/TileToLlvm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILE_TO_LLVM_PASSES
#define KIMI_PASSES_TILE_TO_LLVM_PASSES

include "mlir/Pass/PassBase.td"

def TileKernelToLlvm : Pass<"tile-kernel-to-llvm", "mlir::ModuleOp"> {
  let summary = "make each tile.kernel an exported function of the kernel ABI";
  let description = [{
    The exported symbol is `void sym(const int64_t *args, int64_t x, int64_t y, int64_t z)`. `args` holds, for each
    memref argument in order, its pointer, its sizes and its strides (in elements), and for each index argument its
    value. The body becomes an internal function of those words; the entry loads them and calls it. Extents and strides
    that are static in the memref type are trusted, their words are not read by the body. Arguments that the kernel
    writes are `noalias`, the others `readonly`: a buffer may be passed several times as long as the kernel only reads it.

    Before:
    ```mlir
    tile.kernel @id(%x: memref<?xf32, strided<[1], offset: ?>>) { %b = tile.block_id 0 ... tile.return }
    ```
    After:
    ```mlir
    llvm.func internal @id.body(%p: !llvm.ptr {llvm.readonly}, %size: i64, %stride: i64, %x: i64, %y: i64, %z: i64)
    llvm.func @id(%args: !llvm.ptr, %x: i64, %y: i64, %z: i64)
    ```
    Numeric effect: none.
  }];
  let dependentDialects = ["mlir::LLVM::LLVMDialect", "mlir::arith::ArithDialect"];
}

#endif // KIMI_PASSES_TILE_TO_LLVM_PASSES
