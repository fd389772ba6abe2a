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
  let summary = "a recurrence in Scan to kimi.delta_rule";
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
    A Scan that stays is remarked on. Numeric effect: the recurrence is computed in fp32, whatever the element type.
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
