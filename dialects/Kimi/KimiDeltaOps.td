//===- KimiDeltaOps.td - mixers with a state of fixed size ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIDELTAOPS
#define KIMI_DIALECTS_KIMI_KIMIDELTAOPS

include "dialects/Kimi/KimiMixerOps.td"

def Kimi_DeltaRuleOp : Kimi_Op<"delta_rule", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MixerOpInterface, ["getStateOperand", "getStateResult"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "linear attention, delta rule, and both with decay: one matrix of memory a head";
  let description = [{
    q: [B, Hq, T, Dk], k: [B, Hk, T, Dk], v: [B, Hv, T, Dv]. Each of H = max(Hk, Hv) heads keeps a matrix S: [Dk, Dv],
    zero or `initial` at first. For each token t (row vectors, everything in fp32):

      S  <- Diag(exp(g_t)) S                         g = `decay`; none: S stays
      S  <- S + k_t^T (w_t * v_t - (b_t * k_t) S)    b = `erase`, w = `write`; `beta` is both, of a head
      o_t = scale * q_t S

    `decay` (logarithms, <= 0 for a memory that fades), `erase` and `beta` are one number a head [B, H', T] or, decay and
    erase, one a key channel [B, H', T, Dk]; `write` is [B, H', T] or one a value channel [B, H', T, Dv]. Without beta and
    erase nothing is read back (b = 0); without beta and write w = 1. The known rules are settings of this one op:

    | rule | decay | beta, erase, write |
    | --- | --- | --- |
    | linear attention | none | none; `normalize` for the form that divides by the sum of the keys |
    | gated linear attention, RetNet | a head or a channel | none |
    | DeltaNet | none | beta |
    | Gated DeltaNet | a head | beta |
    | Kimi Delta Attention | a channel | beta |
    | Gated DeltaNet-2 | a head or a channel | erase a channel, write a channel |

    `normalize e`: z <- Diag(exp(g_t)) z + k_t and o_t = scale*q_t S / (scale*q_t . z + e). z is the last column of the
    state, which is [Dk, Dv+1] then (a column of ones beside v).

    Heads: the operands of the state (k, v and the gates) have a number of heads that divides H; head h of H reads head
    h div (H/H'). Result head h of max(Hq, H) reads q's head h div (max/Hq) and the state of head h div (max/H), so that
    several queries share a state (grouped queries) or several states a query (grouped values).

    Results: o: [B, max(Hq, H), T, Dv], of q's element type or f32, and the state after the last token:
    [B, H, Dk, Dv] of f32. T may be 0.

    State (mixer interface): the matrices [B, H, Dk, Dv], of fixed size. The step over T new tokens is the same op with
    the state read before and written after. --kimi-chunk-delta-rule rewrites it to matrix products over chunks.
    Imported from: LinearAttention-27, com.microsoft.LinearAttention, functions of that name, recurrences in Scan or Loop.
    Source: arXiv 2006.16236 (linear), 2102.11174 and 2406.06484 (delta), 2412.06464 (gated), 2510.26692 (KDA).

    Constraints: [DR1] q, k, v and the results are tensors of rank 4 of floats, with static heads; [DR2] k's, v's and the
    gates' heads divide H, [DR3] and one of Hq and H divides the other; [DR4] batch, tokens and channels agree; [DR5] gates
    are floats of the shapes above; [DR6] beta excludes erase and write; [DR7] `initial` and the state are
    [B, H, Dk, Dv(+1)] of f32; [DR8] the result is as above; [DR9] `normalize` excludes beta, erase and write; [DR10] scale
    and the epsilon of `normalize` are finite, the epsilon is at least 0.

    Example:
    ```mlir
    %o, %state = kimi.delta_rule %q, %k, %v decay %g : tensor<?x6x?x32xf32> beta %b : tensor<?x6x?xf32>
        initial %s : tensor<?x6x32x32xf32> scale 0.125
       : tensor<?x6x?x32xf32>, tensor<?x6x?x32xf32>, tensor<?x6x?x32xf32> -> tensor<?x6x?x32xf32>, tensor<?x6x32x32xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, Optional<AnyRankedTensor>:$decay,
                   Optional<AnyRankedTensor>:$beta, Optional<AnyRankedTensor>:$erase, Optional<AnyRankedTensor>:$write,
                   Optional<AnyRankedTensor>:$initial, F32Attr:$scale, OptionalAttr<F32Attr>:$normalize);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$state);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`decay` $decay^ `:` type($decay))? (`beta` $beta^ `:` type($beta))?
    (`erase` $erase^ `:` type($erase))? (`write` $write^ `:` type($write))? (`initial` $initial^ `:` type($initial))?
    `scale` $scale (`normalize` $normalize^)? attr-dict
    `:` type($q) `,` type($k) `,` type($v) `->` type($result) `,` type($state)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// H: the heads that keep a matrix.
    int64_t getStateHeads();
    /// The heads of the result: as many as q has, or H where that is more.
    int64_t getResultHeads();
    /// Whether the state is read before it is written (beta or erase).
    bool erases() { return getBeta() || getErase(); }
  }];
}

def Kimi_ConvActivation : I32EnumAttr<"ConvActivation", "what follows a causal convolution", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"silu", 1>]> {
  let cppNamespace = "::kimi";
}

def Kimi_CausalConvOp : Kimi_Op<"causal_conv", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MixerOpInterface, ["getStateOperand", "getStateResult"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "short depthwise convolution over the tokens seen so far";
  let description = [{
    x: [B, C, T], weight: [C, K], bias: [C], past: [B, C, K-1] (the inputs before the first token, zeros if absent). With
    p = concat(past, x) along time, everything in fp32:

      y[b,c,t] = act(bias[c] + sum_{j<K} weight[c,j] p[b,c,t+j]),   act: y, or silu: y / (1 + exp(-y))

    weight[c,K-1] multiplies the current token. Results: y: [B, C, T], of x's element type or f32, and the window for the
    next tokens: the last K-1 columns of p, [B, C, K-1].

    State (mixer interface): the window, of fixed size.
    Imported from: CausalConvWithState-27, com.microsoft.CausalConvWithState, functions of that name.

    Constraints: [CC1] x and the results are tensors of rank 3 of floats; [CC2] the weight is [C, K] with K static and at
    least 1; [CC3] the bias is [C]; [CC4] past and the window are [B, C, K-1]; [CC5] y is [B, C, T] of x's element type or
    f32.

    Example:
    ```mlir
    %y, %window = kimi.causal_conv %x, %w past %p : tensor<?x96x3xf32> activation silu
       : tensor<?x96x?xf32>, tensor<96x4xf32> -> tensor<?x96x?xf32>, tensor<?x96x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$weight, Optional<AnyRankedTensor>:$bias,
                   Optional<AnyRankedTensor>:$past, DefaultValuedAttr<Kimi_ConvActivation, "ConvActivation::none">:$activation);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$window);
  let assemblyFormat = [{
    $x `,` $weight (`bias` $bias^ `:` type($bias))? (`past` $past^ `:` type($past))? `activation` $activation attr-dict
    `:` type($x) `,` type($weight) `->` type($result) `,` type($window)
  }];
  let hasVerifier = 1;
}

def Kimi_StateReadOp : Kimi_Op<"state_read", [MemoryEffects<[MemRead]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "what a state of fixed size holds";
  let description = [{
    The contents at this place of the program: writes that follow do not change the result. `sizes` gives the dynamic
    extents of the result, in order (the batch).

    Constraints: [SR1] the state has a fixed size; [SR2] the result has its elements and extents; [SR3] `sizes` has one
    extent for each dynamic dim of the result.

    Example: `%s = kimi.state_read %state sizes(%b) : !kimi.state<tensor<?x6x32x32xf32>, -1> -> tensor<?x6x32x32xf32>`
  }];
  let arguments = (ins Kimi_StateType:$state, Variadic<Index>:$sizes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$state (`sizes` `(` $sizes^ `)`)? attr-dict `:` qualified(type($state)) `->` type($result)";
  let hasVerifier = 1;
}

def Kimi_StateWriteOp : Kimi_Op<"state_write", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "replace what a state of fixed size holds";
  let description = [{
    Where the value is what a mixer makes of the state's own contents, the mixer's kernel updates the state in place and
    nothing is copied.

    Constraints: [SW1] the state has a fixed size; [SW2] the value has its elements and extents.

    Example: `kimi.state_write %new, %state : tensor<?x6x32x32xf32>, !kimi.state<tensor<?x6x32x32xf32>, -1>`
  }];
  let arguments = (ins AnyRankedTensor:$value, Kimi_StateType:$state);
  let assemblyFormat = "$value `,` $state attr-dict `:` type($value) `,` qualified(type($state))";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIDELTAOPS
