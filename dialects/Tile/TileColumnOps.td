//===- TileColumnOps.td - what is done along the rows of a tile --------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops in which a row depends on rows before it, one column at a time: what the chunkwise form of the delta rule needs
// beside products. On a GPU a thread holds whole columns of their fragments.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_TILE_TILECOLUMNOPS
#define KIMI_DIALECTS_TILE_TILECOLUMNOPS

include "dialects/Tile/TileBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_ScanOp : Tile_Op<"scan"> {
  let summary = "running sums along the rows";
  let description = [{
    out[i, j] = in[0, j] + .. + in[i, j], added in that order. `out` may be `in`.

    Constraints: [N1] fp32 tiles of rank 2 and static shape; [N2] one shape.

    Example: `tile.scan %g into %sums : memref<64x128xf32, #tile.space<fragment>>, memref<64x128xf32, #tile.space<fragment>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$input, Arg<AnyMemRef, "", [MemWrite]>:$out);
  let assemblyFormat = "$input `into` $out attr-dict `:` type($input) `,` type($out)";
  let hasVerifier = 1;
}

def Tile_PickRowsOp : Tile_Op<"pick_rows"> {
  let summary = "one row of each block of rows, for all of its rows";
  let description = [{
    out[i, j] = in[i - i mod block + row, j]: the anchors of blocks of rows. `out` is not `in`.

    Constraints: [K1] fp32 tiles of rank 2 and static shape; [K2] one shape; [K3] `block` divides the number of rows and
    `row` is one of a block's.

    Example: `tile.pick_rows %sums into %anchor block 16 row 8 : memref<64x128xf32, #tile.space<fragment>>, memref<64x128xf32, #tile.space<fragment>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$input, Arg<AnyMemRef, "", [MemWrite]>:$out, I64Attr:$block, I64Attr:$row);
  let assemblyFormat = "$input `into` $out `block` $block `row` $row attr-dict `:` type($input) `,` type($out)";
  let hasVerifier = 1;
}

def Tile_SolveOp : Tile_Op<"solve"> {
  let summary = "solve a unit lower triangular system in place";
  let description = [{
    x <- (I + L)^-1 x, L being the part of `a` below its diagonal; the rest of `a` is not read. Forward substitution in fp32:
    x[i, j] -= sum_{m < i} a[i, m] x[m, j] for i = 1, 2, ..

    Constraints: [V1] fp32 tiles of rank 2 and static shape; [V2] `a` is square, with as many rows as x.

    Example: `tile.solve %a, %x : memref<64x64xf32, #tile.space<shared>>, memref<64x128xf32, #tile.space<fragment>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$a, Arg<AnyMemRef, "", [MemRead, MemWrite]>:$x);
  let assemblyFormat = "$a `,` $x attr-dict `:` type($a) `,` type($x)";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_TILE_TILECOLUMNOPS
