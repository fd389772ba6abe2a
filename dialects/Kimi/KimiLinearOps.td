//===- KimiLinearOps.td - projections and lookups ---------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMILINEAROPS
#define KIMI_DIALECTS_KIMI_KIMILINEAROPS

include "dialects/Kimi/KimiDialect.td"

def Kimi_NormKind : I32EnumAttr<"NormKind", "normalisation applied to the input rows of a linear layer", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"layer", 1>, I32EnumAttrCase<"rms", 2>]> {
  let cppNamespace = "::kimi";
}

def Kimi_LinearOp : Kimi_Op<"linear", [Pure, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "a matrix product with a weight matrix, and a bias";
  let description = [{
    x: [..., K], w: [K, N] (or [N, K] with `transpose`), bias: [N] (optional). y = x.w + bias: [..., N], accumulated in
    fp32; the bias is added in fp32, then the sum is rounded to y's element type.
    Imported from: MatMul and Gemm of a weight, with the Add of a bias.

    Constraints: [F1] x is [..., K] and w a matrix, of floats; [F2] w has K rows; [F3] y is [..., N] of floats; [F4] bias
    is [N] of floats.

    Example:
    ```mlir
    %y = kimi.linear %x, %w, %b
       : tensor<?x?x768xf32>, tensor<768x2304xf32>, tensor<2304xf32> -> tensor<?x?x2304xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, Optional<AnyRankedTensor>:$bias, UnitAttr:$transpose);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $x `,` $w (`,` $bias^)? (`transpose` $transpose^)? attr-dict
    `:` type($x) `,` type($w) (`,` type($bias)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kimi_HeadLinearOp : Kimi_Op<"head_linear", [Pure, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "a matrix product a head";
  let description = [{
    x: [B, H, T, K], w: [H, K, N]; y[b, h] = x[b, h].w[h]: [B, H, T, N], accumulated in fp32 and rounded once to y's element
    type. Made by --kimi-absorb-mla.

    Constraints: [HL1] x is [B, H, T, K] and w [H, K, N], of floats; [HL2] w has a matrix for each head of x, and K rows;
    [HL3] y is [B, H, T, N] of floats.

    Example: `%y = kimi.head_linear %x, %w : tensor<?x96x1x128xf32>, tensor<96x128x512xf32> -> tensor<?x96x1x512xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `,` $w attr-dict `:` type($x) `,` type($w) `->` type($result)";
  let hasVerifier = 1;
}

def Kimi_FusedLinearOp : Kimi_Op<"fused_linear", [Pure, AttrSizedOperandSegments, SingleBlock, IsolatedFromAbove,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "norm, projection and elementwise epilogue as one kernel";
  let description = [{
    y[m, n] = epilogue(sum_k norm(x)[m, k] * w[k, n], extras...), with x: [..., K], w: [K, N] ([N, K] with `transpose`),
    y: [..., N]. `norm` is none, layer or rms over K with `gamma`: [K], `beta`: [K] and `eps`. The epilogue is a scalar
    region: its first argument is the fp32 accumulator, then one argument per `extras` tensor, read through its map of
    `extra_maps` (from the dims of y to the dims of that tensor), as in linalg.generic. It ends in `kimi.yield` of y's
    element; it holds arith and math ops only and sees no value from outside. The norm is not rounded before the product.
    Built by --kimi-fuse-linear from the unfused ops.

    Constraints: [F1], [F2], [F3] as for `kimi.linear`; [F5] norm none has no gamma and beta, rms has gamma, layer has
    gamma and perhaps beta, each [K] of floats; [F6] one map for each extra, from the dims of y to dims of the same extent
    or 0; [F7] the epilogue takes f32 and one element of each extra; [F8] it holds arith and math ops only and yields one
    element of y; [F9] eps is finite and at least 0.

    Example:
    ```mlir
    %y = kimi.fused_linear %x, %w norm layer(%g, %b) eps 1.0e-5 extras(%bias) maps [affine_map<(b, t, n) -> (n)>]
        : (tensor<?x?x768xf32>, tensor<768x3072xf32>, tensor<768xf32>, tensor<768xf32>, tensor<3072xf32>)
          -> tensor<?x?x3072xf32> {
    ^bb0(%acc: f32, %bb: f32):
      %0 = arith.addf %acc, %bb : f32
      kimi.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, Optional<AnyRankedTensor>:$gamma,
                   Optional<AnyRankedTensor>:$beta, Variadic<AnyRankedTensor>:$extras, Kimi_NormKind:$norm,
                   DefaultValuedAttr<F32Attr, "0.0f">:$eps, UnitAttr:$transpose, AffineMapArrayAttr:$extra_maps);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$epilogue);
  let hasVerifier = 1;
  let hasCustomAssemblyFormat = 1;
}

def Kimi_EmbeddingOp : Kimi_Op<"embedding", [Pure, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "rows of a table";
  let description = [{
    ids: [...] of any signless integer type, table: [V, D]; y: [..., D], y[i] = table[ids[i]]. A negative id counts from the end;
    an id outside [-V, V) reads the nearest row (the runtime checks token ids before a step).
    Imported from: Gather along axis 0 of a matrix of weights.

    Constraints: [E1] ids are signless integers or index; [E2] the table is a matrix; [E3] y is [..., D] of the table's element type.

    Example: `%y = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<50257x768xf32> -> tensor<?x?x768xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$ids, AnyRankedTensor:$table);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$ids `,` $table attr-dict `:` type($ids) `,` type($table) `->` type($result)";
  let hasVerifier = 1;
}

def Kimi_YieldOp : Kimi_Op<"yield", [Pure, Terminator, ParentOneOf<["FusedLinearOp", "LoopsOp"]>]> {
  let summary = "the value of a region";
  let description = [{ Ends the regions of `kimi.fused_linear` and `kimi.loops`. Example: `kimi.yield %0 : f32`. }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // KIMI_DIALECTS_KIMI_KIMILINEAROPS
