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
    DeclareOpInterfaceMethods<MixerOpInterface>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "softmax attention";
  let description = [{
    q: [B, Hq, T, Dk], k: [B, Hkv, S, Dk], v: [B, Hkv, S, Dv], Hq a multiple of Hkv (query head h reads key head
    h div (Hq/Hkv)). Result: [B, Hq, T, Dv], of q's element type; the arithmetic is fp32:

      s[i,j] = scale * (q_i . k_j);  softcap c > 0: s = c*tanh(s/c);  s += mask (f32)  or  s = -inf where mask (i1) is 0
      p[i,:] = softmax(s[i,:]);  o_i = sum_j p[i,j] v_j

    `causal`: query i sees key j iff j <= i + (S - T) (bottom-right aligned: the last query sees every key). A row that
    sees no key gives zeros. `mask` is [B|1, Hq|1, T|1, S].

    State (mixer interface): a K cache [B, Hkv, S, Dk] and a V cache [B, Hkv, S, Dv], both growing on axis 2.
    Imported from: Attention-23/24/25, and the decomposed forms of every exporter (see --onnx-raise-attention).

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

def Kimi_StateLengthOp : Kimi_Op<"state_length", [Pure]> {
  let summary = "tokens already held by a growing state";
  let description = [{
    The value at entry of the step: appends of this step do not change it.
    Example: `%past = kimi.state_length %cache : !kimi.state<tensor<?x12x?x64xf32>, 2>`.
  }];
  let arguments = (ins Kimi_StateType:$state);
  let results = (outs Index:$length);
  let assemblyFormat = "$state attr-dict `:` type($state)";
}

def Kimi_CacheAppendOp : Kimi_Op<"cache_append", [
    MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "write this step's rows into a growing state, give the whole of it";
  let description = [{
    Writes `rows` (extent T on the growing axis) at positions [past, past+T) of `state`, in place, and gives the first
    past+T rows as a tensor that lives in the state's buffer (no copy). Replaces `Concat(past, new)`.

    Example:
    ```mlir
    %k_all = kimi.cache_append %state, %k at %past
       : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x?x64xf32> -> tensor<?x12x?x64xf32>
    ```
  }];
  let arguments = (ins Kimi_StateType:$state, AnyRankedTensor:$rows, Index:$past);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$state `,` $rows `at` $past attr-dict `:` type($state) `,` type($rows) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIMIXEROPS
