//===- Passes.td - passes of passes/TileToLlvm
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILE_TO_LLVM_PASSES
#define KIMI_PASSES_TILE_TO_LLVM_PASSES

include "mlir/Pass/PassBase.td"

def TileBoolToByte : Pass<"tile-bool-to-byte"> {
  let summary = "make buffers of i1 buffers of bytes";
  let description = [{
    A truth value in memory is a byte, 0 or 1, while LLVM packs a vector of i1 to bits. Buffers and tiles of i1 become
    i8; loads compare with zero, stores extend. Run after linalg ops are loops.

    Before: `%v = memref.load %x[%i] : memref<?xi1>`
    After: `%b = memref.load %x[%i] : memref<?xi8>`, `%v = arith.cmpi ne, %b, %c0_i8 : i8`

    Numeric effect: none.
  }];
  let dependentDialects = ["mlir::arith::ArithDialect"];
}

def TileCheckBounds : Pass<"tile-check-bounds"> {
  let summary = "end the program where a kernel leaves a buffer";
  let description = [{
    For tests of kernels on data that a model does not expect (`kimi-compile --check-bounds`): ahead of each load, store and
    view, its positions are compared with the extents of what it reaches into; outside of them the program ends by a trap.
    Masked accesses are not looked at.

    Before: `%v = memref.load %x[%i] : memref<?xf32>`
    After: `scf.if` (`%i` < 0 or `%i` + 1 > `memref.dim %x`) { `llvm.intr.trap` }, and the load.

    Numeric effect: none.
  }];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::scf::SCFDialect", "mlir::memref::MemRefDialect",
                           "mlir::LLVM::LLVMDialect"];
}

def TileBf16ToBits : Pass<"tile-bf16-to-bits"> {
  let summary = "make bf16 values 16-bit integers";
  let description = [{
    Once conversions are bit arithmetic and sums are fp32, a bf16 is only moved. As an integer it never meets the
    conversions that LLVM inserts when it takes odd vectors of bf16 apart, which call a compiler's runtime library.

    Before: `%b = arith.bitcast %i : i16 to bf16`, `memref.store %b, %x[%k] : memref<?xbf16>`
    After: `memref.store %i, %x[%k] : memref<?xi16>`

    Numeric effect: none.
  }];
  let dependentDialects = ["mlir::arith::ArithDialect"];
}

def TileExpandMath : Pass<"tile-expand-math"> {
  let summary = "expand exp, exp2, expm1, log, log1p, tanh and erf of fp32 to arithmetic";
  let description = [{
    On scalars and vectors, without branches, so that loops vectorise. Infinities, NaN and values below the normal range
    are treated as libm treats them. Other functions go to libm later, or, with `all`, are expanded as well: sin, cos,
    tan, their inverses, the hyperbolic functions and their inverses, powf, arith.remf of fp32, and all of math in fp64. Those
    of fp32 are computed in fp64 and rounded. sin and cos of arguments beyond 2^50 are those of 0.

    Before: `%y = math.exp %x : vector<8xf32>`
    After: a reduction by `log(2)`, a polynomial of degree 7 and a product with powers of two.

    Numeric effect: relative error below 2e-7 for exp and log, 5e-7 for tanh and erf; those of fp64 are within 1e-14, pow
    within 2e-13.
  }];
  let options = [Option<"all", "all", "bool", "false", "for targets without libm: every function, fp64 too">];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::math::MathDialect"];
}

def TileToVector : Pass<"tile-to-vector", "mlir::ModuleOp"> {
  let summary = "lower tile ops to loops of 1-D vectors over stack buffers";
  let description = [{
    `tile.alloc` becomes a 64-byte aligned `memref.alloca` at the start of the kernel (an error when the tiles of a kernel
    exceed `stack-limit` bytes); `tile.load` and `tile.store` become vector copies with a slower path for boxes that stick
    out of the buffer, transposing in registers where the tile runs across the rows of the buffer; `tile.map` and
    `tile.reduce` become vector loops with a short vector for what is left of a row; `tile.mma` becomes a
    register-blocked microkernel; `tile.pipeline` becomes a loop over one copy of its buffers.

    Before:
    ```mlir
    tile.fill %t, %zero : memref<64x128xf32, #tile.space<fragment>>, f32
    ```
    After (8 lanes):
    ```mlir
    %v = vector.broadcast %zero : f32 to vector<8xf32>
    scf.for %i = %c0 to %c8192 step %c8 { vector.store %v, %flat[%i] : memref<?xf32, strided<[1]>>, vector<8xf32> }
    ```
    Numeric effect: sums of `tile.reduce add` and `tile.mma` are reassociated, products and sums of `tile.mma` fused.
  }];
  let options = [
    Option<"lanes", "lanes", "unsigned", /*default=*/"8", "f32 lanes of a vector register (a power of two)">,
    Option<"stackLimit", "stack-limit", "int64_t", /*default=*/"512 * 1024", "bytes of tiles a kernel may use">
  ];
  let dependentDialects = ["mlir::math::MathDialect", "mlir::arith::ArithDialect", "mlir::LLVM::LLVMDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::vector::VectorDialect"];
}

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
