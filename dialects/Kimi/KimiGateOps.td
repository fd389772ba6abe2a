//===- KimiGateOps.td - gated activations, gates of decay, norms of heads ---===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIGATEOPS
#define KIMI_DIALECTS_KIMI_KIMIGATEOPS

include "dialects/Kimi/KimiDialect.td"

def Kimi_GateKind : I32EnumAttr<"GateKind", "the function of a gate", [
    I32EnumAttrCase<"sigmoid", 0>, I32EnumAttrCase<"silu", 1>]> {
  let cppNamespace = "::kimi";
}

// The constraints that these ops share, and their ids: [G1] the first operand holds floats, and has an axis where the op
// runs along one; [G2] the result has its shape; [G3] and its element type or f32; [G4] a second operand of the same kind
// has the shape and the element type of the first; [G5] gamma is [D] of floats; [G6] eps is finite and at least 0.
class Kimi_GateOp<string mnemonic> : Kimi_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let hasVerifier = 1;
}

def Kimi_SwigluOp : Kimi_GateOp<"swiglu"> {
  let summary = "SiLU-gated linear unit";
  let description = [{
    gate, up: [...]. y = gate * sigmoid(gate) * up, in fp32, rounded once. Shazeer 2020, "GLU Variants Improve
    Transformer", eq. 6. Imported from: products of x * sigmoid(x) (or Swish-24) with another tensor of the shape.

    Constraints: [G1] gate is of floats; [G2] y has its shape; [G3] and its element type or f32; [G4] up has gate's shape
    and element type.

    Example: `%y = kimi.swiglu %gate, %up : tensor<?x?x1024xf32>, tensor<?x?x1024xf32> -> tensor<?x?x1024xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$gate, AnyRankedTensor:$up);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($gate) `,` type($up) `->` type($result)";
}

def Kimi_SituGluOp : Kimi_GateOp<"situ_glu"> {
  let summary = "gated linear unit of a bounded SiLU and a bounded line";
  let description = [{
    gate, up: [...]. y = [beta * tanh(gate/beta) * sigmoid(gate)] * [linear_beta * tanh(up/linear_beta)], in fp32, rounded
    once; |y| <= beta * linear_beta. Without `linear_beta` the second factor is up. The Kimi K3 report, eq. 12 (SiTU; beta
    4, linear_beta 25). Imported from: the chain of Div, Tanh, Mul and Sigmoid, in any order of the factors.

    Constraints: [G1] gate is of floats; [G2] y has its shape; [G3] and its element type or f32; [G4] up has gate's shape
    and element type; [G7] beta and linear_beta are finite and above 0.

    Example:
    ```mlir
    %y = kimi.situ_glu %gate, %up beta 4.0 linear_beta 25.0
       : tensor<?x?x3072xf32>, tensor<?x?x3072xf32> -> tensor<?x?x3072xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$gate, AnyRankedTensor:$up, F32Attr:$beta, OptionalAttr<F32Attr>:$linear_beta);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $gate `,` $up `beta` $beta (`linear_beta` $linear_beta^)? attr-dict
    `:` type($gate) `,` type($up) `->` type($result)
  }];
}

def Kimi_L2NormOp : Kimi_GateOp<"l2_norm"> {
  let summary = "division by the Euclidean length along the last axis";
  let description = [{
    x: [..., D]. y = x / sqrt(sum(x^2) + eps), in fp32, rounded once: eps is added to the sum of squares, not to a mean.
    With eps 0 a row of zeros gives zeros. As the delta rules normalise queries and keys (eps 1e-6), per head.
    Imported from: LpNormalization-22 with p = 2 along the last axis, and the spelled-out forms.

    Constraints: [G1] x is [..., D] of floats; [G2] y has x's shape; [G3] and x's element type or f32; [G6] eps is finite and
    at least 0.

    Example: `%y = kimi.l2_norm %x eps 1.0e-6 : tensor<?x?x96x128xf32> -> tensor<?x?x96x128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$x, F32Attr:$eps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `eps` $eps attr-dict `:` type($x) `->` type($result)";
}

def Kimi_KdaGateOp : Kimi_GateOp<"kda_gate"> {
  let summary = "the logarithm of the decay of a delta rule";
  let description = [{
    z: [..., H, C] (per channel, dt_bias: [H, C]) or [..., H] (per head, dt_bias: [H]); rate: [H], which is exp(A_log).
    Without `bound`: y = -rate[h] * softplus(z + dt_bias), in (-inf, 0] (Gated DeltaNet; Kimi Linear). With `bound` = L < 0:
    y = L * sigmoid(rate[h] * (z + dt_bias)), in [L, 0] (the Kimi K3 report, eq. 5). fp32, rounded once;
    softplus(t) = max(t, 0) + log1p(exp(-|t|)). The decay itself is exp(y).
    Imported from: the spelled-out forms, `bound` of either sign.

    Constraints: [G1] z is of floats; [G2] y has z's shape; [G3] and z's element type or f32; [G8] dt_bias is [H, C] or [H] of
    floats, the last extents of z; [G9] rate is [H] of floats; [G10] bound is finite and below 0.

    Example:
    ```mlir
    %g = kimi.kda_gate %z, %rate, %dt bound -5.0
       : tensor<?x?x96x128xf32>, tensor<96xf32>, tensor<96x128xf32> -> tensor<?x?x96x128xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$z, AnyRankedTensor:$rate, AnyRankedTensor:$dt_bias,
                   OptionalAttr<F32Attr>:$bound);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $z `,` $rate `,` $dt_bias (`bound` $bound^)? attr-dict
    `:` type($z) `,` type($rate) `,` type($dt_bias) `->` type($result)
  }];
}

def Kimi_GatedRmsNormOp : Kimi_GateOp<"gated_rms_norm"> {
  let summary = "root-mean-square normalisation over the last axis, times a gate";
  let description = [{
    x, gate: [..., D], gamma: [D]. y = x * rsqrt(mean(x^2) + eps) * gamma * f(gate), all in fp32 and rounded once, with f the
    sigmoid (Kimi Delta Attention) or SiLU (Gated DeltaNet). With x of the heads, D is the channels of one.
    Imported from: RMSNormalization (or its decomposed forms) times Sigmoid, or times x * Sigmoid(x), of another tensor.

    Constraints: [G1] x is [..., D] of floats; [G2] y has x's shape; [G3] and x's element type or f32; [G4] gate has x's
    shape and element type; [G5] gamma is [D] of floats; [G6] eps is finite and at least 0.

    Example:
    ```mlir
    %y = kimi.gated_rms_norm %x, %gate, %gamma sigmoid eps 1.0e-5
       : tensor<?x?x96x128xf32>, tensor<?x?x96x128xf32>, tensor<128xf32> -> tensor<?x?x96x128xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gate, AnyRankedTensor:$gamma, Kimi_GateKind:$activation,
                   F32Attr:$eps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $x `,` $gate `,` $gamma $activation `eps` $eps attr-dict
    `:` type($x) `,` type($gate) `,` type($gamma) `->` type($result)
  }];
}

#endif // KIMI_DIALECTS_KIMI_KIMIGATEOPS
