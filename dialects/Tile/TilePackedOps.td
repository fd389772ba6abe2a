//===- TilePackedOps.td - packed numbers -----------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_TILE_TILEPACKEDOPS
#define KIMI_DIALECTS_TILE_TILEPACKEDOPS

include "dialects/Tile/TileBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_DequantizeOp : Tile_Op<"dequantize"> {
  let summary = "the numbers of a tile of MXFP4 bytes";
  let description = [{
    codes: [N, K / 2] bytes of two E2M1 numbers each, the low half first; scales: [N, K / 32] bytes of E8M0;

        out[n, k] = e2m1(codes[n, k div 2], k mod 2) * 2^(scales[n, k div 32] - 127)

    rounded to out's type; a bf16 holds every product but those below its range. OCP Microscaling Formats 1.0, section 6.3.

    On a GPU a thread writes the numbers of the bytes that it holds, and the scales of their groups are in its registers:
    codes is a fragment best. Eight numbers of bf16 take about thirty instructions.

    Constraints: [Q1] tiles of rank 2 and static shape, codes and scales of i8, out of bf16, f16 or f32; [Q2] K is a multiple
    of 32, codes have K / 2 and scales K / 32 columns, all N rows.

    Example:
    ```mlir
    tile.dequantize %codes, %scales into %out : memref<64x64xi8, #tile.space<fragment>>,
      memref<64x4xi8, #tile.space<fragment>>, memref<64x128xbf16, #tile.space<shared>>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$codes, Arg<AnyMemRef, "", [MemRead]>:$scales,
                   Arg<AnyMemRef, "", [MemWrite]>:$out);
  let assemblyFormat = "$codes `,` $scales `into` $out attr-dict `:` type($codes) `,` type($scales) `,` type($out)";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_TILE_TILEPACKEDOPS
