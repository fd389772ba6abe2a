//===- TileDialect.td - the kernel level: one block's program ---------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_TILE_TILEDIALECT
#define KIMI_DIALECTS_TILE_TILEDIALECT

include "dialects/Tile/TileAsyncOps.td"
include "dialects/Tile/TileColumnOps.td"
include "dialects/Tile/TilePackedOps.td"
include "dialects/Tile/TileBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_KernelOp : Tile_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, AutomaticAllocationScope]> {
  let summary = "one block's program";
  let description = [{
    Arguments: input buffers, state buffers, result buffers (memrefs with strided layouts; the innermost stride is
    static where a kernel relies on it), then scalars (index). The grid is given by the launch. Buffers that the kernel
    writes overlap no other argument. An argument attribute `tile.align = N` promises that the buffer's address and its
    dynamic strides are multiples of N bytes; without it, of one element.

    `threads` is the size of a block on a GPU: how many threads share the kernel's tile ops. The CPU does not look at it.

    Constraints: [K1] there is a body; [K2] no results; arguments are [K3] memrefs or index, [K4] the memrefs strided with
    offset 0 or ?; [K5] threads are a multiple of 32, at most 1024; [K6] `tile.align` is a power of two.

    Example:
    ```mlir
    tile.kernel @scale(%x: memref<?xf32, strided<[1], offset: ?>>, %y: memref<?xf32, strided<[1], offset: ?>>) {
      %bx = tile.block_id 0
      ...
      tile.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                   OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs,
                   OptionalAttr<I64Attr>:$threads);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let extraClassDeclaration = [{
    /// The argument attribute that promises the alignment of a buffer's address and dynamic strides, in bytes.
    static constexpr ::llvm::StringLiteral kAlignAttrName = "tile.align";

    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "end of a kernel";
  let description = [{ Example: `tile.return`. }];
  let assemblyFormat = "attr-dict";
}

def Tile_BlockIdOp : Tile_Op<"block_id", [Pure]> {
  let summary = "this block's place in the grid";
  let description = [{ Constraint: [B1] `dim` is 0, 1 or 2. Example: `%bx = tile.block_id 0`. }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
  let hasVerifier = 1;
}

def Tile_AllocOp : Tile_Op<"alloc"> {
  let summary = "a tile";
  let description = [{
    Lives until the end of the kernel, wherever it stands. Constraints: [A1] static shape; [A2] row-major without gaps;
    [A3] in shared memory or in fragments; [A4] a `layout` belongs to a fragment and covers its shape, [A5] with as many
    threads as the kernel has. `tile-assign-layouts` gives fragments their layout.

    Example: `%acc = tile.alloc : memref<64x128xf32, #tile.space<fragment>>`.
  }];
  let arguments = (ins OptionalAttr<Tile_LayoutAttr>:$layout);
  let builders = [OpBuilder<(ins "::mlir::MemRefType":$type), [{ build($_builder, $_state, type, LayoutAttr()); }]>];
  let results = (outs Res<AnyMemRef, "", [MemAlloc]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load"> {
  let summary = "copy a box of a buffer into a tile";
  let description = [{
    tile[i0, i1, ..] = source[offsets + ik along dims[k]]. `dims` names, for each dim of the tile, the dim of the source
    it runs along (a permutation transposes); the other dims of the source stay at their offset. Elements outside the
    source's extents (before 0 or past the end) become `pad` (zero unless given). Element types may differ (fp narrowing
    or widening). It is fastest where source and tile have a static innermost stride of 1, or where the tile transposes a
    dim of the source whose stride is a static 1.

    Constraints: [C1] the tile's shape is static; [C2] layouts are strided; [C3] one offset for each dim of the source;
    [C4] one of `dims` for each dim of the tile, [C5] within the source, [C6] named once; [C7] equal or floating point
    element types.

    Example: `tile.load %a from %x[%b, %m, %k] dims [1, 2] : memref<?x?x768xf32>, memref<64x128xf32, #tile.space<shared>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemWrite]>:$tile, Arg<AnyMemRef, "", [MemRead]>:$source, Variadic<Index>:$offsets, DenseI64ArrayAttr:$dims,
                   DefaultValuedAttr<F32Attr, "0.0f">:$pad);
  let assemblyFormat = "$tile `from` $source `[` $offsets `]` `dims` $dims attr-dict `:` type($source) `,` type($tile)";
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store"> {
  let summary = "copy a tile into a box of a buffer";
  let description = [{
    The reverse of `tile.load`, with the same constraints [C1]-[C7]; elements that fall outside the destination's extents
    are not written.

    Example: `tile.store %acc to %y[%m, %n] dims [0, 1] : memref<64x128xf32, #tile.space<fragment>>, memref<?x768xf32>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$tile, Arg<AnyMemRef, "", [MemWrite]>:$dest, Variadic<Index>:$offsets, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$tile `to` $dest `[` $offsets `]` `dims` $dims attr-dict `:` type($tile) `,` type($dest)";
  let hasVerifier = 1;
}

def Tile_FillOp : Tile_Op<"fill"> {
  let summary = "set every element of a tile";
  let description = [{
    Constraints: [F1] static shape; [F2] the value has the tile's element type.

    Example: `tile.fill %acc, %zero : memref<64x128xf32, #tile.space<fragment>>, f32`.
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemWrite]>:$tile, AnyType:$value);
  let assemblyFormat = "$tile `,` $value attr-dict `:` type($tile) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_MmaOp : Tile_Op<"mma"> {
  let summary = "acc += a . b on tiles";
  let description = [{
    acc: [M, N] fp32 fragment; a: [M, K]; b: [K, N], or [N, K] with `transpose_b`, or [N/P, K, P] with `panels` (the
    layout of `kimi.pack_weight`: column j is lane j mod P of panel j div P). All shapes static; a and b may be tiles or
    in-bounds `memref.subview`s of global buffers. Products and sums in fp32 (the order of the sum is not fixed); with
    `tf32` the factors of fp32 operands may be rounded to 10 bits of mantissa first, where the target gains by it.

    Constraints: [M1] floating point memrefs of static shape and strided layout; [M2] not both `transpose_b` and `panels`;
    [M3] ranks 2, 2 and 2 (3 with `panels`); [M4] acc is fp32 with unit stride innermost; [M5] the extents fit.

    Example: `tile.mma %acc, %a, %b panels : memref<64x128xf32, #tile.space<fragment>>, memref<64x256xf32, #tile.space<shared>>, memref<8x256x16xf32, strided<[?, 16, 1], offset: ?>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead, MemWrite]>:$acc, Arg<AnyMemRef, "", [MemRead]>:$a,
                   Arg<AnyMemRef, "", [MemRead]>:$b, UnitAttr:$transpose_b, UnitAttr:$panels,
                   UnitAttr:$tf32);
  let assemblyFormat = [{
    $acc `,` $a `,` $b (`transpose_b` $transpose_b^)? (`panels` $panels^)? (`tf32` $tf32^)? attr-dict
    `:` type($acc) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [SingleBlock]> {
  let summary = "elementwise scalar region over tiles";
  let description = [{
    out[i, j, ..] = region(ins[i, j, ..]...). The tiles have one rank; an extent of 1 in an input is broadcast against the
    output's extent. `out` may also be an input. The region holds arith/math ops and `tile.element_index`, one argument
    per input, and ends in `tile.yield`. All elements are independent.

    Constraints: [P1] the output's shape is static; [P2] one region argument for each input; [P3] inputs have the output's
    rank and extents, or 1; [P4] arguments have the inputs' element types; [P5] the region yields one element of the
    output; [P6] it holds elementwise ops and constants only.

    Example:
    ```mlir
    tile.map ins(%acc, %bias : memref<64x128xf32, #tile.space<fragment>>, memref<1x128xf32, #tile.space<shared>>)
             outs(%acc : memref<64x128xf32, #tile.space<fragment>>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tile.yield %s : f32
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<AnyMemRef>, "", [MemRead]>:$inputs, Arg<AnyMemRef, "", [MemWrite]>:$out);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`ins` `(` $inputs^ `:` type($inputs) `)`)? `outs` `(` $out `:` type($out) `)` attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Tile_ElementIndexOp : Tile_Op<"element_index", [Pure, ParentOneOf<["MapOp"]>]> {
  let summary = "the position of the element within the tile";
  let description = [{ Along `dim`, counted from 0. Constraint: [E1] the map has such a dim. Example: `%i = tile.element_index 0`. }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
}

def Tile_ReduceOp : Tile_Op<"reduce"> {
  let summary = "reduce a tile along one axis";
  let description = [{
    out has the shape of in with extent 1 along `axis`. Without `accumulate` out is overwritten, with it the result is
    combined with what out holds. The order of the sum is not fixed; `max` of anything and NaN is NaN.

    Constraints: [R1] fp32, static shapes; [R2] the axis exists; [R3] the shapes fit.

    Example: `tile.reduce max %s into %m axis 1 accumulate : memref<64x64xf32, #tile.space<fragment>>, memref<64x1xf32, #tile.space<fragment>>`
  }];
  let arguments = (ins Tile_ReduceKind:$kind, Arg<AnyMemRef, "", [MemRead]>:$input,
                   Arg<AnyMemRef, "", [MemRead, MemWrite]>:$out, I64Attr:$axis, UnitAttr:$accumulate);
  let assemblyFormat = "$kind $input `into` $out `axis` $axis (`accumulate` $accumulate^)? attr-dict `:` type($input) `,` type($out)";
  let hasVerifier = 1;
}

def Tile_PipelineOp : Tile_Op<"pipeline", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "a loop whose loads run ahead of its computation";
  let description = [{
    For each value k of the loop, in order: the load region fills `buffers`, then the compute region runs. Loads may run
    up to `stages - 1` iterations ahead: the lowering keeps `stages` copies of each buffer (cp.async or TMA on a GPU; on
    the CPU it is a loop over one copy). Within an iteration both regions see its own copies; the compute region may also
    write them. What the buffers hold after the loop is not specified, and what the loads read must not be written by the
    loop.

    Constraints: [T1] 1 to 8 stages; [T2] the buffers are shared tiles made by `tile.alloc`, each named once; [T3] both
    regions have one index argument; [T4] the load region holds `tile.load`s into the buffers and scalar arithmetic,
    subviews and extents of buffers; [T5] it fills each buffer once.

    Example:
    ```mlir
    tile.pipeline %k = %lo to %hi step %s stages 4 buffers(%a, %b : !a, !b) {
      tile.load %a from %x[%m, %k] dims [0, 1] : memref<?x768xf32>, !a
      tile.load %b from %w[%n, %k] dims [0, 1] : memref<2304x768xf32>, !b
    } compute {
      tile.mma %acc, %a, %b transpose_b : !acc, !a, !b
    }
    ```
  }];
  let arguments = (ins Index:$lower, Index:$upper, Index:$step, Variadic<AnyMemRef>:$buffers, I64Attr:$stages);
  let regions = (region SizedRegion<1>:$loads, SizedRegion<1>:$compute);
  let builders = [OpBuilder<(ins "::mlir::Value":$lower, "::mlir::Value":$upper, "::mlir::Value":$step,
    "::mlir::ValueRange":$buffers, "int64_t":$stages,
    "::llvm::function_ref<void(::mlir::OpBuilder &, ::mlir::Location, ::mlir::Value)>":$loads,
    "::llvm::function_ref<void(::mlir::OpBuilder &, ::mlir::Location, ::mlir::Value)>":$compute)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_SharedAccessOp : Tile_Op<"shared_access"> {
  let summary = "all threads access shared memory next";
  let description = [{
    Stands in a kernel only while its tile ops are being lowered to threads: the code that follows reads and writes these
    bytes of the block's shared memory, given as pairs of offset and length. `tile-insert-barriers` removes it.

    Constraint: [S1] pairs of an offset and a length, neither negative.

    Example: `tile.shared_access reads [0, 4096] writes [8192, 512]`.
  }];
  let arguments = (ins DenseI64ArrayAttr:$reads, DenseI64ArrayAttr:$writes);
  let assemblyFormat = "`reads` $reads `writes` $writes attr-dict";
  let hasVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, HasParent<"MapOp">]> {
  let summary = "the element of a `tile.map`";
  let description = [{ Example: `tile.yield %s : f32`. }];
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif // KIMI_DIALECTS_TILE_TILEDIALECT
