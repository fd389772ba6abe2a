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

#endif // KIMI_DIALECTS_KIMI_KIMIDEPTHOPS
