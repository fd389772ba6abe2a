//===- KimiDepthOps.td - mixers along depth --------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIDEPTHOPS
#define KIMI_DIALECTS_KIMI_KIMIDEPTHOPS

include "dialects/Kimi/KimiDialect.td"

def Kimi_AttnResOp : Kimi_Op<"attn_res", [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "attention residual: a softmax over what earlier blocks left";
  let description = [{
    sources v_1 .. v_n: [..., D] each (the bank of a depth, then the running sum); score: [D], the product of the norm's
    weight and the score projection. Per row, in fp32, rounded once:

        s_i = sum_d v_i[d] * rsqrt(mean(v_i^2) + eps) * score[d]       no 1/sqrt(D)
        y   = sum_i softmax_i(s) * v_i                                 the raw v_i, not the normalised ones

    Attention Residuals, arXiv 2603.15031; the Kimi K3 report, eq. 8-10. It mixes along depth: no state is kept between tokens
    or steps. Imported from: a stack of the sources (Unsqueeze, Concat), its norm, a product with the score vector, Softmax
    over the stack, the weighted sum.

    Constraints: [X1] there is a source; sources are [..., D] of floats; [X2] all of one shape and element type; [X3] score is
    [D] of floats; [X4] y has the sources' shape; [X5] and their element type or f32; [X6] eps is finite and at least 0.

    Example:
    ```mlir
    %h = kimi.attn_res(%b0, %b1, %p) score %s eps 1.0e-5
       : (tensor<?x?x96xf32>, tensor<?x?x96xf32>, tensor<?x?x96xf32>), tensor<96xf32> -> tensor<?x?x96xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$sources, AnyRankedTensor:$score, F32Attr:$eps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `(` $sources `)` `score` $score `eps` $eps attr-dict
    `:` `(` type($sources) `)` `,` type($score) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kimi_AttnResBankOp : Kimi_Op<"attn_res_bank", [Pure, AttrSizedOperandSegments, SameVariadicResultSize,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "the part of several attention residuals that only the bank decides";
  let description = [{
    sources v_1 .. v_n: [..., D] each, the bank of a depth; scores q_1 .. q_m: [D] each, those of the attention residuals
    that mix this bank with something else. For each score vector j, per row, in fp32, a softmax over the bank that is
    not divided by its sum yet:

        s_ij = sum_d v_i[d] * rsqrt(mean(v_i^2) + eps) * q_j[d]
        statistics_j = [m_j, l_j]                              m_j = max_i s_ij, l_j = sum_i exp(s_ij - m_j)
        sums_j       = sum_i exp(s_ij - m_j) * v_i

    statistics_j: [..., 2] f32; sums_j: [..., D], f32 or the sources' type. All of the bank is read once, however many
    score vectors there are. `kimi.attn_res_merge` adds the source that is still missing. Made by
    --kimi-share-attn-res-bank; k3_spec section 3.5, "two-phase" in Attention Residuals, arXiv 2603.15031.

    Constraints: [X7] there is a source and a score; sources are [..., D] of floats, of one type; [X8] scores are [D] of
    floats; [X9] statistics are [..., 2] of f32; [X10] sums have the sources' shape and [X11] f32 or the sources' element
    type; [X12] statistics and sums: one of each for each score; [X6] as for `kimi.attn_res`.

    Example:
    ```mlir
    %l:2, %a:2 = kimi.attn_res_bank(%b0, %b1) scores(%s, %t) eps 1.0e-5
       : (tensor<?x96xf32>, tensor<?x96xf32>), (tensor<96xf32>, tensor<96xf32>)
       -> (tensor<?x2xf32>, tensor<?x2xf32>), (tensor<?x96xf32>, tensor<?x96xf32>)
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$sources, Variadic<AnyRankedTensor>:$scores, F32Attr:$eps);
  let results = (outs Variadic<AnyRankedTensor>:$statistics, Variadic<AnyRankedTensor>:$sums);
  let assemblyFormat = [{
    `(` $sources `)` `scores` `(` $scores `)` `eps` $eps attr-dict
    `:` `(` type($sources) `)` `,` `(` type($scores) `)` `->` `(` type($statistics) `)` `,` `(` type($sums) `)`
  }];
  let hasVerifier = 1;
}

def Kimi_AttnResMergeOp : Kimi_Op<"attn_res_merge", [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "an attention residual over a bank and one more source";
  let description = [{
    p: [..., D]; statistics: [..., 2], the m and l, and sum: [..., D], of one score vector of `kimi.attn_res_bank`;
    score: [D], the same vector. The online softmax, per row, in fp32, rounded once:

        t  = sum_d p[d] * rsqrt(mean(p^2) + eps) * score[d]
        m' = max(m, t)
        y  = (exp(m - m') * sum + exp(t - m') * p) / (exp(m - m') * l + exp(t - m'))

    That is `kimi.attn_res` of the bank's sources and p, with its sums in another order.

    Constraints: [X13] p is [..., D] of floats; [X14] score is [D] of floats; [X15] statistics are [..., 2] of f32; [X16]
    sum has p's shape, elements f32 or p's; [X4], [X5] and [X6] as for `kimi.attn_res`.

    Example:
    ```mlir
    %h = kimi.attn_res_merge %p with %l, %a score %s eps 1.0e-5
       : tensor<?x96xbf16>, tensor<?x2xf32>, tensor<?x96xf32>, tensor<96xf32> -> tensor<?x96xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$p, AnyRankedTensor:$statistics, AnyRankedTensor:$sum, AnyRankedTensor:$score,
                   F32Attr:$eps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $p `with` $statistics `,` $sum `score` $score `eps` $eps attr-dict
    `:` type($p) `,` type($statistics) `,` type($sum) `,` type($score) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIDEPTHOPS
