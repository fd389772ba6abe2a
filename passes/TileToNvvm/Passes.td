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

def TileAssignLayouts : Pass<"tile-assign-layouts", "mlir::ModuleOp"> {
  let summary = "decide which thread of a block holds which element of a fragment";
  let description = [{
    Products come first: accumulators of tensor cores get the layout of mma.sync (warps over rows and columns so that they
    read little, over rows alone where the result is a factor of another product), those of fused multiply-adds blocks of
    rows and columns, those of few rows times a weight in global memory vectors of it. The rest follows: the operands of a
    `tile.map` share a layout, what a `tile.reduce` leaves has the slice of its input's, a factor held in a fragment has the
    accumulators' layout, so that the result of one product is the operand of the next as it lies. Fragments that no
    product reaches get blocks: 16 bytes a thread, neighbours beside each other. Layouts that are there already stay.

    Before: `%acc = tile.alloc : memref<64x64xf32, #tile.space<fragment>>`

    After: `%acc = tile.alloc {layout = #tile.layout<registers [...], lanes [...], warps [...]>} : ...`

    Errors: a fragment that takes more than 512 registers of a thread. Numeric effect: none.
  }];
}

def TileToNvvm : Pass<"tile-to-nvvm", "mlir::ModuleOp"> {
  let summary = "lower the tile ops of block programs to the work of one thread";
  let description = [{
    Fragments become arrays of the thread, indexed by constants (LLVM makes registers of them); shared tiles become bytes
    of the block's dynamic shared memory, swizzled so that neither ldmatrix nor vectors of 16 bytes meet bank conflicts,
    tiles that are never in use together at the same place. Copies move up to 16 bytes at a time where the alignment of
    addresses is known (`tile.align`), elements outside of buffers are padded or skipped. `tile.pipeline` keeps `stages`
    copies of its buffers and fills them ahead by cp.async. `tile.mma` is computed by mma.sync and ldmatrix (bf16 and fp16,
    `tf32` on request), by fused multiply-adds of fp32 otherwise; a product of up to 8 rows with a weight in global memory
    streams the weight. A fragment that is used in another layout than its own goes through shared memory, with a remark.

    Kernels without tiles are left alone. Run after --tile-assign-layouts; --tile-insert-barriers follows.

    Before: `tile.fill %acc, %zero : memref<64x64xf32, #tile.space<fragment>>, f32`

    After: 32 stores of `%zero` to the thread's array.

    Errors: more shared memory than the processor has; what the lowering has no road for.

    Numeric effect: sums of `tile.reduce add` and `tile.mma` are reassociated, products and sums of `tile.mma` fused.
  }];
  let options = [Option<"sm", "sm", "int64_t", "80", "compute capability, major * 10 + minor">];
  let dependentDialects = ["mlir::math::MathDialect", "mlir::LLVM::LLVMDialect", "mlir::NVVM::NVVMDialect", "mlir::arith::ArithDialect",
                           "mlir::scf::SCFDialect"];
}

def TileInsertBarriers : Pass<"tile-insert-barriers", "mlir::ModuleOp"> {
  let summary = "insert a barrier where threads meet the accesses of others to shared memory";
  let description = [{
    Follows `tile.shared_access` through branches and around loops: a barrier stands before an access only if, since the
    last one, other threads may have written what it reads or writes, or read what it writes.

    Before: `tile.shared_access reads [] writes [0, 64]`, ..., `tile.shared_access reads [0, 64] writes []`

    After: ..., `nvvm.barrier`, ...

    Numeric effect: none.
  }];
  let statistics = [Statistic<"numBarriers", "num-barriers", "barriers inserted">];
  let dependentDialects = ["mlir::NVVM::NVVMDialect"];
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
    With `overlap` (compute capability 9.0 and later) a kernel may be launched while the one before it ends: nothing
    before `griddepcontrol.wait` accesses global memory (`tile.pdl`), barriers in shared memory are initialised by then.
    Behind it the next kernel is let in. Kernels that wait already (--tile-dependent-launch) are left as they are.

    Numeric effect: none.
  }];
  let options = [Option<"overlap", "overlap", "bool", /*default=*/"false",
                        "kernels wait for the grids before them, and may be launched ahead of that">];
  let dependentDialects = ["mlir::LLVM::LLVMDialect", "mlir::NVVM::NVVMDialect", "mlir::arith::ArithDialect"];
}

def TileDependentLaunch : Pass<"tile-dependent-launch", "mlir::ModuleOp"> {
  let summary = "let kernels start while the one before them still runs, and wait where they must";
  let description = [{
    For sm_90 and later. A kernel of few blocks that needs no shared memory for pipelines begins with
    `griddepcontrol.launch_dependents`: the next kernel may start. Others let it start when they end: its blocks would
    gather on the multiprocessors that are free first.
    `griddepcontrol.wait` stands before the first access to anything but the kernel's own tiles and buffers marked
    `tile.constant`, so that weights are fetched while the kernel before is still at work. The kernel is marked
    `tile.pdl`, which tells the runtime to launch it so, and its buffers `tile.dependent`: accesses are not to be moved
    across the wait, so they are neither read through the read-only cache nor assumed to be unaliased. Kernels with roles
    and task programs are left to --tile-kernel-to-nvvm=overlap. Run after --tile-warp-specialize, before tile ops are lowered.

    Before: `tile.load %w from %weights[%c0] ...`, `tile.load %x from %rows[%c0] ...`

    After: `griddepcontrol.launch_dependents`, `tile.load %w ...`, `griddepcontrol.wait`, `tile.load %x ...`

    Numeric effect: none.
  }];
  let statistics = [Statistic<"numKernels", "num-kernels", "kernels that wait on their own">];
  let dependentDialects = ["mlir::LLVM::LLVMDialect"];
}

def TileWarpSpecialize : Pass<"tile-warp-specialize", "mlir::ModuleOp"> {
  let summary = "split kernels marked warp_specialized into a producer that fetches and consumers that compute";
  let description = [{
    For sm_90a. A kernel with the attribute `warp_specialized` (set by its schedule), one to three warpgroups of threads
    and pipelines becomes a `tile.roles`. The producer, one thread of a warpgroup of its own, follows the kernel's control
    flow with nothing but the loads of its pipelines, as bulk copies (TMA); the consumers do the rest, with `tile.mma` as
    asynchronous wgmma. Two barriers a stage connect them, for each set of buffers that the computation needs from and to
    the same ops: `full` counts the bytes of the copies, `empty` the warps that are done. Where a pipeline is in its
    stages travels through the loops around it, so a persistent kernel runs on into its next tile. Products that only
    accumulate stay in flight until the first product of the next iteration is issued.

    A kernel whose loads the copy engine cannot do (innermost stride not 1, other strides or the address no multiple of 16
    bytes, which `tile.align` promises, elements converted, transposed), whose products wgmma cannot do, or whose control
    flow the producer cannot follow, is left as it is, with a remark that says why.

    Before:
    ```mlir
    tile.kernel @k(...) attributes {threads = 256, warp_specialized} {
      tile.pipeline %k = %lo to %hi step %s stages 4 buffers(%a, %b : !a, !b) {
        tile.load %a from %x[%m, %k] dims [0, 1] : ...
        tile.load %b from %w[%n, %k] dims [0, 1] : ...
      } compute {
        tile.mma %acc, %a, %b transpose_b : ...
      }
      tile.store %acc to %y[%m, %n] dims [0, 1] : ...
    }
    ```
    After:
    ```mlir
    tile.roles registers [40, 232] producer {
      scf.for %k = %lo to %hi step %s iter_args(%slot = %0, %parity = %0) -> (i32, i32) {
        tile.barrier_wait %empty[%slot] parity %other : ...
        tile.barrier_expect %full[%slot] bytes 49152 : ...
        tile.load_async %as[%slot] from %x[%m, %k] dims [0, 1] barrier %full : ...
        tile.load_async %bs[%slot] from %w[%n, %k] dims [0, 1] barrier %full : ...
        ...
      }
    } consumer {
      scf.for %k = %lo to %hi step %s iter_args(%slot = %0, %parity = %0) -> (i32, i32) {
        tile.barrier_wait %full[%slot] parity %parity : ...
        tile.mma_async %acc, %as[%slot], %bs[%slot] transpose_b : ...
        tile.mma_wait pending 1
        scf.if %continued { tile.barrier_arrive %empty[%previous] : ... }
        ...
      }
      tile.mma_wait pending 0 %acc : ...
      tile.store %acc to %y[%m, %n] dims [0, 1] : ...
    }
    ```
    Numeric effect: as tile.mma (the order of sums is not fixed).
  }];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::memref::MemRefDialect", "mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numSplit", "num-split", "kernels split by role">,
                    Statistic<"numRefused", "num-refused", "kernels left as they are, with a remark">];
}

def TileMathToNvvm : Pass<"tile-math-to-nvvm"> {
  let summary = "compute exp, exp2, tanh, erf and rsqrt of fp32 by the special function unit";
  let description = [{
    Scalars only; run after tile ops are the work of one thread, and --tile-expand-math after it for the rest. Infinities,
    NaN and values below the normal range are treated as libm treats them. Functions that carry `afn` are quicker: values
    below the normal range are flushed to zero, exp is one product and ex2.approx, tanh is tanh.approx.

    Before: `%y = math.exp2 %x : f32`

    After: `%y = llvm.call_intrinsic "llvm.nvvm.ex2.approx.f32"(%x) : (f32) -> f32`

    Numeric effect: relative error below 3e-7 for exp2 and exp, 5e-7 for tanh and erf, 2e-7 for rsqrt; with `afn`
    |x| * 6e-8 + 3e-7 for exp and 5e-4 for tanh.
  }];
  let dependentDialects = ["mlir::LLVM::LLVMDialect", "mlir::arith::ArithDialect", "mlir::math::MathDialect"];
}

#endif // KIMI_PASSES_TILE_TO_NVVM_PASSES
