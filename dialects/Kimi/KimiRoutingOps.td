//===- KimiRoutingOps.td - experts: who computes, and what ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIROUTINGOPS
#define KIMI_DIALECTS_KIMI_KIMIROUTINGOPS

include "dialects/Kimi/KimiDialect.td"

def Kimi_RouterScores : I32EnumAttr<"RouterScores", "how logits become scores of experts", [
    I32EnumAttrCase<"sigmoid", 0>, I32EnumAttrCase<"softmax", 1>]> {
  let cppNamespace = "::kimi";
}

def Kimi_ExpertKind : I32EnumAttr<"ExpertKind", "the activation between the matrices of an expert", [
    I32EnumAttrCase<"swiglu", 0>, I32EnumAttrCase<"situ_glu", 1>]> {
  let cppNamespace = "::kimi";
}

def Kimi_RouterOp : Kimi_Op<"router", [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "the experts of each token, and their weights";
  let description = [{
    logits: [N, E]; bias: [E] (optional). In fp32:

        s = sigmoid(logits), or softmax(logits) over the experts      scores
        c = s + bias                                                  what chooses; the weights do not see the bias
        with groups > 1: a group's value is the sum of the `group_top` (1 or 2) largest c among its E/groups experts; in all
        but the `keep_groups` groups of largest value c is `masked` (-inf by default)
        indices = the `top` experts of largest c, largest first       [N, k]
        w = s[indices];  w = w / (sum(w) + normalise) where `normalise` is given;  weights = w * scale      [N, k]

    Equal values are ordered by index, lowest first, in both selections. A NaN counts as the largest value.
    DeepSeek-V3 report, eq. 12-16 (sigmoid, bias, groups); Kimi K3's noaux_tc gate. Imported from: TopK and what surrounds it.

    Constraints: [Q1] logits are [N, E] of floats, E static; [Q2] bias is [E] of floats; [Q3] 1 <= top <= E; [Q4] groups
    divides E, 1 <= keep_groups <= groups; [Q5] group_top is 1 or 2, and at most the experts of a group; [Q6] the kept groups
    have `top` experts or more, unless `masked` is finite; [Q7] normalise is finite and at least 0, scale is finite; [Q8]
    indices are [N, top] of i64 or i32; [Q9] weights are [N, top] of f32.

    Example:
    ```mlir
    %i, %w = kimi.router %logits, %bias sigmoid top 16 {normalise = 1.0e-20 : f32, scale = 2.446 : f32}
           : tensor<?x896xf32>, tensor<896xf32> -> tensor<?x16xi64>, tensor<?x16xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$logits, Optional<AnyRankedTensor>:$bias, Kimi_RouterScores:$scores, I64Attr:$top,
                   DefaultValuedAttr<I64Attr, "1">:$groups, DefaultValuedAttr<I64Attr, "1">:$keep_groups,
                   DefaultValuedAttr<I64Attr, "2">:$group_top,
                   DefaultValuedAttr<F32Attr, "-std::numeric_limits<float>::infinity()">:$masked,
                   OptionalAttr<F32Attr>:$normalise, DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs AnyRankedTensor:$indices, AnyRankedTensor:$weights);
  let assemblyFormat = [{
    $logits (`,` $bias^)? $scores `top` $top attr-dict
    `:` type($logits) (`,` type($bias)^)? `->` type($indices) `,` type($weights)
  }];
  let hasVerifier = 1;
}

def Kimi_MoeOp : Kimi_Op<"moe", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "the weighted sum of the outputs of each token's experts";
  let description = [{
    x: [N, D]; indices: [N, k]; weights: [N, k]; stacked expert matrices w1 (gate), w3 (up): [E, F, D], w2 (down): [E, D', F],
    as `y = x.Wᵀ` takes them. With e = indices[n, j]:

        h_j = act(w1[e] x_n, w3[e] x_n)       [F]       act: swiglu, or situ_glu with `beta` and `linear_beta`
        y_n = sum_j weights[n, j] * round(w2[e] h_j)    [D']

    Sums are fp32; h and an expert's output are rounded to x's element type, the weighted sum once to y's. Only the experts
    that `indices` names are computed. An index outside [0, E) reads the nearest expert.

    The matrices are floats, or all three MXFP4: f4E2M1FN with `scales` s1, s3, s2 (f8E8M0FNU), one for each 32 elements along
    the last axis; they are dequantised where they are multiplied (see `kimi.dequantize`).
    The Kimi K3 report (latent MoE); the norm, the projection to and from the latent and the shared experts are other ops.
    Imported from: products with all stacked experts and a mask, gathered experts, and loops over all experts.

    Constraints: [M1] x is [N, D] of floats; [M2] indices are [N, k] of signless integers; [M3] weights are [N, k] of floats;
    [M4] w1 and w3 are [E, F, D], w2 is [E, D', F], static; [M5] of floats of 16 bits or more without scales, of f4E2M1FN with
    them; [M6] scales are the shape of the matrix with its last extent divided by 32, of f8E8M0FNU; [M7] beta and linear_beta
    belong to situ_glu, which has beta; they are finite and above 0; [M8] y is [N, D'], of x's element type or f32.

    Example:
    ```mlir
    %y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) swiglu
       : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$indices, AnyRankedTensor:$weights, AnyRankedTensor:$w1,
                   AnyRankedTensor:$w3, AnyRankedTensor:$w2, Optional<AnyRankedTensor>:$s1, Optional<AnyRankedTensor>:$s3,
                   Optional<AnyRankedTensor>:$s2, Kimi_ExpertKind:$activation, OptionalAttr<F32Attr>:$beta,
                   OptionalAttr<F32Attr>:$linear_beta);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $x `,` $indices `,` $weights `experts` `(` $w1 `,` $w3 `,` $w2 `:` type($w1) `,` type($w3) `,` type($w2) `)`
    (`scales` `(` $s1^ `,` $s3 `,` $s2 `:` type($s1) `,` type($s3) `,` type($s2) `)`)?
    $activation (`beta` $beta^)? (`linear_beta` $linear_beta^)? attr-dict
    `:` type($x) `,` type($indices) `,` type($weights) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIROUTINGOPS
