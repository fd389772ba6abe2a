//===- KimiMixerOps.td - ops that carry memory along the sequence ----------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIMIXEROPS
#define KIMI_DIALECTS_KIMI_KIMIMIXEROPS

include "dialects/Kimi/KimiDialect.td"
include "dialects/Kimi/MixerInterface.td"

def Kimi_AttentionOp : Kimi_Op<"attention", [Pure,
    DeclareOpInterfaceMethods<MixerOpInterface, ["getStateOperand"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "softmax attention";
  let description = [{
    q: [B, Hq, T, Dk], k: [B, Hkv, S, Dk], v: [B, Hkv, S, Dv], Hq a multiple of Hkv (query head h reads key head
    h div (Hq/Hkv)). Result: [B, Hq, T, Dv], of q's element type or f32; the arithmetic is fp32:

      s[i,j] = scale * (q_i . k_j);  softcap c > 0: s = c*tanh(s/c);  s += mask (f32)  or  s = -inf where mask (i1) is 0
      p[i,:] = softmax(s[i,:]);  o_i = sum_j p[i,j] v_j

    `causal`: query i sees key j iff j <= i + (S - T) (bottom-right aligned: the last query sees every key). A row that
    sees no key gives zeros. `mask` is [B|1, Hq|1, T|1, S]: only a static extent of 1 is broadcast, a dynamic one is the
    full extent.

    State (mixer interface): a K cache [B, Hkv, S, Dk] and a V cache [B, Hkv, S, Dv], both growing on axis 2.
    It can be run step by step where it is causal, heads and channels are static, and there are as many keys as queries.
    The step over T new tokens is the same attention with k and v replaced by `kimi.cache_append` of their rows.
    Imported from: Attention-23/24/25, and the decomposed forms of every exporter (see --onnx-raise-attention).

    Constraints: [A1] q, k, v and the result are [batch, heads, tokens, channels] of floats; [A2] q's heads are a
    multiple of k's; [A3] k and v have as many heads; [A4] q and k have as many channels; [A5] k and v have as many rows;
    [A6] all batches agree; [A7] the result is [B, Hq, T, Dv] of q's element type or f32; [A8] mask elements are i1
    or floats;
    [A9] the mask's shape is as above; [A10] scale and softcap are finite, softcap is at least 0.

    Example:
    ```mlir
    %o = kimi.attention %q, %k, %v causal scale 0.125
       : tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x?x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, Optional<AnyRankedTensor>:$mask,
                   UnitAttr:$causal, F32Attr:$scale, DefaultValuedAttr<F32Attr, "0.0f">:$softcap);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^ `:` type($mask))? (`causal` $causal^)? `scale` $scale attr-dict
    `:` type($q) `,` type($k) `,` type($v) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kimi_MlaOp : Kimi_Op<"mla", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MixerOpInterface, ["getStateOperand"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "multi-head latent attention";
  let description = [{
    Softmax attention whose keys and values are made from one latent row a token (DeepSeek-V2, arXiv 2405.04434, section
    2.1.2). q: [B, H, T, N+P], latent c: [B, S, R], kv_b: [R, H*(N+V)] (with `transpose` [H*(N+V), R]), shared r:
    [B, S, P] (absent: P = 0). Result: [B, H, T, V], of q's element type or f32. With columns [N keys | V values] a head,

      [k_h ; v_h] = c kv_b[:, h];  o_h = attention(q_h, [k_h ; r], v_h)

    where attention, `causal`, `mask`, `scale` and `softcap` are those of `kimi.attention`. The columns of r meet the last
    P channels of every head of q; whether they were rotated by position is not seen here (in K3 they are not).

    State (mixer interface): one cache of rows [c ; r], [B, S, R+P], growing on axis 1: R+P numbers a token, where keys and
    values of all heads would be H*(N+P+V).
    The step over T new tokens is the same op over the latents of all tokens seen. --kimi-absorb-mla chooses how it is
    computed: keys and values made from the latents, or kv_b absorbed into queries and results.
    Imported from: attention whose keys are a projection of a latent beside a part that all heads share (--kimi-raise-mla).

    Constraints: [ML1] q and the result are [batch, heads, tokens, channels], c and r [batch, tokens, channels], kv_b is a
    matrix, all of floats; [ML2] heads, channels and the extents of kv_b are static; [ML3] kv_b has R rows, and a head has
    N of q's channels beside the P shared ones, and N+V columns, N and V at least 1; [ML4] batches agree, and c and r have as
    many rows, of one element type; [ML5] the result is [B, H, T, V] of q's element type or f32; [ML6] mask elements are i1
    or floats; [ML7] the mask is [B|1, H|1, T|1, S]; [ML8] scale and softcap are finite, softcap is at least 0.

    Example (K3):
    ```mlir
    %o = kimi.mla %q, %c, %kv_b shared %r : tensor<?x?x64xf32> causal scale 0.0721687824
       : tensor<?x96x?x192xf32>, tensor<?x?x512xf32>, tensor<512x24576xf32> -> tensor<?x96x?x128xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$latent, AnyRankedTensor:$kv_b,
                   Optional<AnyRankedTensor>:$shared, Optional<AnyRankedTensor>:$mask, UnitAttr:$causal,
                   F32Attr:$scale, DefaultValuedAttr<F32Attr, "0.0f">:$softcap, UnitAttr:$transpose);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $q `,` $latent `,` $kv_b (`transpose` $transpose^)? (`shared` $shared^ `:` type($shared))?
    (`mask` $mask^ `:` type($mask))? (`causal` $causal^)? `scale` $scale attr-dict
    `:` type($q) `,` type($latent) `,` type($kv_b) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The extents in the description's letters: heads H, channels N of keys of a head's own, P shared, V of values, and
    /// rank R.
    struct Extents {
      int64_t heads, own, shared, values, rank;
    };
    Extents getExtents();
  }];
}

def Kimi_StateLengthOp : Kimi_Op<"state_length", [Pure]> {
  let summary = "tokens already held by a growing state";
  let description = [{
    The value at entry of the step: appends of this step do not change it.

    Constraint: [L1] the state grows.

    Example: `%past = kimi.state_length %cache : !kimi.state<tensor<?x12x?x64xf32>, 2>`
  }];
  let arguments = (ins Kimi_StateType:$state);
  let results = (outs Index:$length);
  let hasVerifier = 1;
  let assemblyFormat = "$state attr-dict `:` qualified(type($state))";
}

def Kimi_CacheAppendOp : Kimi_Op<"cache_append", [
    MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "write this step's rows into a growing state, give the whole of it";
  let description = [{
    Writes `rows` (extent T on the growing axis) at positions [past, past+T) of `state`, in place, and gives the first
    past+T rows as a tensor that lives in the state's buffer (no copy). Replaces `Concat(past, new)`. It reads and writes
    memory: it is never removed, merged with another or moved across one.

    Constraints: [C1] the state grows; [C2] rows and result have its element type; [C3] rows, [C4] and the result, differ
    from its shape on the growing axis only.

    Example:
    ```mlir
    %k_all = kimi.cache_append %state, %k at %past
       : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x?x64xf32> -> tensor<?x12x?x64xf32>
    ```
  }];
  let arguments = (ins Kimi_StateType:$state, AnyRankedTensor:$rows, Index:$past);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$state `,` $rows `at` $past attr-dict `:` qualified(type($state)) `,` type($rows) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIMIXEROPS
