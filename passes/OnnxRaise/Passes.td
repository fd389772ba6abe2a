//===- Passes.td - passes of passes/OnnxRaise
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNX_RAISE_PASSES
#define KIMI_PASSES_ONNX_RAISE_PASSES

include "mlir/Pass/PassBase.td"

class OnnxRaisePass<string flag> : Pass<flag, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::kimi::KimiDialect", "::kimi::onnx::OnnxDialect"];
}

def OnnxRaiseLayerNorm : OnnxRaisePass<"onnx-raise-layer-norm"> {
  let summary = "layer normalisation, as one operator or spelled out, to kimi.layer_norm";
  let description = [{
    Takes LayerNormalization over the last axis, com.microsoft SkipLayerNormalization, and the spelled-out form
    `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * gamma + beta` of older exporters.

    ```mlir
    %y = onnx.node "LayerNormalization"(%x, %g, %b) {attrs = {axis = -1 : i64, epsilon = 1.0e-5 : f32}, ...}
    // becomes
    %y = kimi.layer_norm %x, %g, %b eps 1.0e-5 : ...
    ```
    Numeric effect: the statistics are computed in fp32, whatever the element type.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "layer norms raised">];
}

def OnnxRaiseRmsNorm : OnnxRaisePass<"onnx-raise-rms-norm"> {
  let summary = "root-mean-square normalisation to kimi.rms_norm";
  let description = [{
    Takes RMSNormalization over the last axis, SimplifiedLayerNormalization, and `x * rsqrt(mean(x^2) + eps) * gamma`,
    also where x is cast to fp32 before and back to its own type before the product with gamma.

    ```mlir
    %2 = onnx.node "ReduceMean"(%sq) ...
    %6 = onnx.node "Mul"(%gamma, %n) ...
    // becomes
    %6 = kimi.rms_norm %x, %gamma eps 1.0e-6 : ...
    ```
    Numeric effect: the mean is computed in fp32, whatever the element type.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "rms norms raised">];
}

def OnnxRaiseDeltaRule : OnnxRaisePass<"onnx-raise-delta-rule"> {
  let summary = "a recurrence in Scan or Loop to kimi.delta_rule";
  let description = [{
    Reads the body of a Scan with one state as sums of products over named axes (elementwise operators, Exp, MatMul,
    ReduceSum, and whatever moves axes), so that products, contractions and axes may stand in any order and spelling.
    What is then `S' = [exp(g) *] S; S1 = S' + k * (w * v - b * sum(k * S')); o = scale * sum(q * S1)` becomes one
    kimi.delta_rule: linear attention, delta rule, gated forms, gates a head or a channel. Query heads may outnumber
    states (the state is expanded). This is what LinearAttention's function body, mobius' functions and hand-written
    recurrences of torch.scan look like.

    ```mlir
    %s, %o = onnx.node "Scan"(%s0, %q, %k, %v, %g, %b) ({ ... })
    // becomes
    %o, %s = kimi.delta_rule %q, %k, %v decay %g beta %b initial %s0 scale 1.0 : ...
    ```
    A Loop is read as a Scan first, where its condition never changes and its counter only gathers slices of tensors from
    around it, over the whole of their axis. One that stays is remarked on, as a Scan that stays. Numeric effect: the recurrence is computed in fp32, whatever the element type.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "recurrences raised">];
}

def OnnxRaiseGelu : OnnxRaisePass<"onnx-raise-gelu"> {
  let summary = "GELU in any spelling to kimi.gelu";
  let description = [{
    Takes Gelu-20, com.microsoft Gelu, BiasGelu and FastGelu, and products `x * 1/2 * (1 + erf(u))` and
    `x * 1/2 * (1 + tanh(u))` in any order of factors. What decides is u as a polynomial in x: x/sqrt(2) for erf,
    sqrt(2/pi) (x + 0.044715 x^3) for tanh, however it is spelled (Pow, products, coefficients multiplied out).

    ```mlir
    %t = onnx.node "Tanh"(%u) ...
    %a = onnx.node "Add"(%t, %one) ...
    %y = onnx.node "Mul"(%half_x, %a) ...
    // becomes
    %y = kimi.gelu %x tanh : ...
    ```
    Numeric effect: reassociates; coefficients within 0.1 % of the definition are taken for it.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "GELUs raised">];
}

def OnnxRaiseGlu : OnnxRaisePass<"onnx-raise-glu"> {
  let summary = "gated linear units to kimi.swiglu and kimi.situ_glu";
  let description = [{
    Takes products of `g * sigmoid(g)` (or Swish(g)) and another tensor of the shape, and of SiTU,
    `b tanh(g/b) sigmoid(g)`, and `u` or `c tanh(u/c)`, in any order of factors and however the constants are spelled. The
    constants must agree: the product of all is b, or b c.

    ```mlir
    %t = onnx.node "Tanh"(%g_4) ...
    %s = onnx.node "Sigmoid"(%g) ...
    %y = onnx.node "Mul"(%ts, %u25) ...
    // becomes
    %y = kimi.situ_glu %g, %u beta 4.0 linear_beta 25.0 : ...
    ```
    Numeric effect: reassociates; in fp16 and bf16 one rounding instead of several.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "gated units raised">];
}

def OnnxRaiseL2Norm : OnnxRaisePass<"onnx-raise-l2-norm"> {
  let summary = "division by the Euclidean length to kimi.l2_norm";
  let description = [{
    Takes LpNormalization (p = 2, last axis) and `x / sqrt(sum(x^2) + eps)`, as Div, as a product with Reciprocal or 1 / .., the
    sum of squares as ReduceSumSquare, ReduceSum of a square or ReduceL2. A length that is clipped from below is left alone.

    ```mlir
    %s = onnx.node "ReduceSumSquare"(%x) ...
    %y = onnx.node "Div"(%x, %root) ...
    // becomes
    %y = kimi.l2_norm %x eps 1.0e-6 : ...
    ```
    Numeric effect: computed in fp32, whatever the element type. Without an eps a row of zeros gives zeros, not NaN.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "norms raised">];
}

def OnnxRaiseGatedNorm : OnnxRaisePass<"onnx-raise-gated-norm"> {
  let summary = "rms norms times a gate to kimi.gated_rms_norm";
  let description = [{
    Takes a `kimi.rms_norm` (run --onnx-raise-rms-norm before) that nothing but a product with the sigmoid or the SiLU of a
    tensor of its shape reads.

    ```mlir
    %n = kimi.rms_norm %x, %g eps 1.0e-5 : ...
    %s = onnx.node "Sigmoid"(%gate) ...
    %y = onnx.node "Mul"(%n, %s) ...
    // becomes
    %y = kimi.gated_rms_norm %x, %gate, %g sigmoid eps 1.0e-5 : ...
    ```
    Numeric effect: in fp16 and bf16 one rounding instead of several.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "gated norms raised">];
}

def OnnxRaiseKdaGate : OnnxRaisePass<"onnx-raise-kda-gate"> {
  let summary = "the log-decay of a delta rule to kimi.kda_gate";
  let description = [{
    Takes `-exp(A) * softplus(z + bias)`, also where -exp(A) was folded into a weight and where softplus is written
    out or guarded by a threshold, and `L * sigmoid(exp(A) * (z + bias))` of a negative L (or the negative of a positive one), with A a vector of
    heads, before or after the channels are split into heads.

    ```mlir
    %s = onnx.node "Sigmoid"(%scaled) ...
    %g = onnx.node "Mul"(%minus_five, %s) ...
    // becomes
    %g = kimi.kda_gate %z, %rate, %dt bound -5.0 : ...
    ```
    Numeric effect: computed in fp32; softplus beyond its threshold is no longer cut (the difference is below 1e-6).
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "gates raised">];
}

def OnnxRaiseAttnRes : OnnxRaisePass<"onnx-raise-attn-res"> {
  let summary = "attention residuals to kimi.attn_res";
  let description = [{
    Takes the sum over a stack (Concat of tensors with an axis of extent 1) of the stack times a softmax along it, whose
    scores are products of the stack's rms-normalised rows with a vector of weights: a MatMul with one column, or a ReduceSum
    of a product; the norm with or without a weight. The vectors are multiplied once, when weights are loaded.

    ```mlir
    %v = onnx.node "Concat"(%b0, %b1, %p) ...
    %n = kimi.rms_norm %v, %g eps 1.0e-5 : ...
    %s = onnx.node "MatMul"(%n, %w) ...
    %a = onnx.node "Softmax"(%s) ...
    %h = onnx.node "ReduceSum"(%weighted, %axis) ...
    // becomes
    %h = kimi.attn_res(%0, %1, %2) score %gw eps 1.0e-5 : ...
    ```
    Numeric effect: reassociates; computed in fp32.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "mixes raised">];
}

def OnnxRaiseRouter : OnnxRaisePass<"onnx-raise-router"> {
  let summary = "the choice of experts to kimi.router";
  let description = [{
    Takes TopK along the last axis of sigmoid or softmax scores, perhaps with a bias for each expert, and the scores gathered
    at its indices (or its values), divided by their sum and scaled by a constant. Groups: what chooses is replaced by a
    constant in all but the groups that another TopK chose, by the sum of their best two or their best. However the kept
    groups are marked (ScatterElements, OneHot, comparisons, Not), what the mark holds is computed for a group that was chosen
    and for one that was not.

    ```mlir
    %s = onnx.node "Sigmoid"(%logits) ...
    %c = onnx.node "Add"(%s, %bias) ...
    %v, %i = onnx.node "TopK"(%c, %k) ...
    %w = onnx.node "GatherElements"(%s, %i) ...
    // becomes
    %i, %w = kimi.router %logits, %bias sigmoid top 4 : ...
    ```
    Numeric effect: scores in fp32, whatever the element type.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "routers raised">];
}

def OnnxRaiseMoe : OnnxRaisePass<"onnx-raise-moe"> {
  let summary = "mixtures of experts to kimi.moe";
  let description = [{
    Takes the weighted sum of the experts of a `kimi.router`, whose activation is a gated unit (run --onnx-raise-router and
    --onnx-raise-glu before), in three forms: products with all stacked experts (MatMul or Einsum) times a dense mask that
    holds the weights; products with matrices that GatherND or Gather picked by the indices, gate and up apart or as halves of
    one; and a chain of Add over every expert, each with its own matrices, times the weights where the indices are equal to its
    number. Only the experts that were chosen are computed then. The matrices of a chain are stacked once, when weights are
    loaded. DequantizeLinear of MXFP4 weights goes into the op: the weights stay packed.

    ```mlir
    %m = onnx.node "Mul"(%outputs_of_all, %mask) ...
    %y = onnx.node "ReduceSum"(%m, %axis) ...
    // becomes
    %y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : ...) swiglu : ...
    ```
    Numeric effect: reassociates; the terms of experts that were not chosen, zeros, are left out.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "mixtures raised">];
}

def OnnxRaiseLinear : OnnxRaisePass<"onnx-raise-linear"> {
  let summary = "products with a weight matrix to kimi.linear";
  let description = [{
    Takes Gemm and MatMul whose right side is a weight of rank 2 (a transpose of it becomes the `transpose` flag), the
    Reshape to and from two dims around a Gemm, and the Add of a weight of rank 1 after it.

    ```mlir
    %r = onnx.node "Reshape"(%x, %s) ... -> tensor<?x64xf32>
    %g = onnx.node "Gemm"(%r, %w, %b) ...
    %y = onnx.node "Reshape"(%g, %t) ... -> tensor<?x?x192xf32>
    // becomes
    %y = kimi.linear %x, %w, %b : tensor<?x?x64xf32>, tensor<64x192xf32>, tensor<192xf32> -> tensor<?x?x192xf32>
    ```
    Numeric effect: accumulation in fp32, whatever the element type.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "linear layers raised">];
}

def OnnxRaiseAttention : OnnxRaisePass<"onnx-raise-attention"> {
  let summary = "softmax attention, as one operator or spelled out, to kimi.attention";
  let description = [{
    Takes Attention-23/24 and `softmax(scale * q k^T [+ mask]) v` as every exporter spells it: the scale on q, on k, on
    both or on the scores; k transposed by any permutation; soft-capped scores; additive or Where masks; the guard that
    turns NaN rows into zeros; key heads repeated for grouped queries.

    The mask is understood by its meaning, not by its spelling: the value of each of its terms at query i and key j is
    traced back through the graph to a formula. Terms that are always true vanish, `j <= i + (S - T)` becomes `causal`,
    the others (such as a key-padding mask) stay as the `mask` operand. Where there is doubt the original mask stays.

    ```mlir
    %p = onnx.node "Softmax"(%masked) ...
    %o = onnx.node "MatMul"(%p, %v) ...
    // becomes
    %o = kimi.attention %q, %k, %v causal scale 0.125 : ...
    ```
    Numeric effect: reassociates. A masking value of -1e4 or less is taken for minus infinity; a row that sees no key
    gives zeros, where the file may give the mean over all keys or NaN. A slice of a stored mask is taken to cover the
    sequence.
  }];
  let options = [Option<"modelDir", "model-dir", "std::string", "\"\"",
    "folder of the weight files, to recognise a stored triangular mask; empty: stored masks stay operands">];
  let statistics = [Statistic<"numRaised", "num-raised", "attentions raised">,
                    Statistic<"numCausal", "num-causal", "attentions with a mask found causal">,
                    Statistic<"numMasked", "num-masked", "attentions with a mask operand left">];
}

#endif // KIMI_PASSES_ONNX_RAISE_PASSES
