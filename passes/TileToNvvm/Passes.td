//===- Passes.td - passes of passes/TileToNvvm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILE_TO_NVVM_PASSES
#define KIMI_PASSES_TILE_TO_NVVM_PASSES

include "mlir/Pass/PassBase.td"

def TileAssignThreads : Pass<"tile-assign-threads", "mlir::ModuleOp"> {
  let summary = "decide what a thread of a kernel does: share the tiles of a block, or compute one point of the grid";
  let description = [{
    A kernel that holds tiles is a *block program*: a thread block computes one point of the grid, and its `threads`
    threads share the work of each tile op. A kernel of plain loops is a *task program*: each thread computes one point,
    `threads` neighbours along x make a block. The pass writes down which of the two a kernel is (`tile.tasks` on task
    programs), its block size where it has none (`threads`, the option), and which of its buffers it writes
    (`tile.written` on arguments, for all of them or, where a write cannot be traced to an argument, for none, with
    `tile.untraced` on the kernel). Run it before tile ops are lowered.

    Before: `tile.kernel @copy(%x: memref<?xf32, ...>, %y: memref<?xf32, ...>) { ... }`

    After: `tile.kernel @copy(%x: memref<?xf32, ...>, %y: memref<?xf32, ...> {tile.written}) attributes {threads = 128, tile.tasks} { ... }`

    Numeric effect: none.
  }];
  let options = [Option<"threads", "threads", "int64_t", "128", "block size of kernels that do not name one">];
}

def TileKernelToNvvm : Pass<"tile-kernel-to-nvvm", "mlir::ModuleOp"> {
  let summary = "make each tile.kernel a CUDA kernel of the kernel ABI";
  let description = [{
    `.visible .entry sym(a0, a1, ..., grid_x)`: 64-bit parameters by value. For each memref argument its pointer, its
    sizes and its strides (in elements), for each index argument its value, and at the end the x extent of the grid.
    Extents and strides that are static in the memref type are trusted, their parameters are not read. Pointers are
    global; buffers that the kernel writes overlap nothing else it is given, so all pointers are `noalias`, and those
    that are only read `readonly` (loads through the read-only cache).

    `tile.block_id` becomes the block's place in the grid; in a task program (`tile.tasks`) `tile.block_id 0` is
    `ctaid.x * threads + tid.x`, and threads past the end of the grid leave at once. Run after --tile-assign-threads and
    after tile ops are lowered.

    Before:
    ```mlir
    tile.kernel @id(%x: memref<?xf32, strided<[1], offset: ?>>) attributes {threads = 128, tile.tasks} { ... }
    ```
    After:
    ```mlir
    llvm.func @id(%p: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %size: i64, %stride: i64, %grid_x: i64)
        attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128>, ...} { ... }
    ```
    Numeric effect: none.
  }];
  let dependentDialects = ["mlir::LLVM::LLVMDialect", "mlir::NVVM::NVVMDialect", "mlir::arith::ArithDialect"];
}

#endif // KIMI_PASSES_TILE_TO_NVVM_PASSES
