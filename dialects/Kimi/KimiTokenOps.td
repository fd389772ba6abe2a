//===- KimiTokenOps.td - from logits to tokens ------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMITOKENOPS
#define KIMI_DIALECTS_KIMI_KIMITOKENOPS

include "dialects/Kimi/KimiDialect.td"

def Kimi_GreedyTokenOp : Kimi_Op<"greedy_token", [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "the likeliest token of each row of logits";
  let description = [{
    logits: [..., V] of floats; y: [...] of i64 or i32. y = the lowest index at which the row has its maximum. A row that names no
    token gives -1: one that holds NaN or +inf, or nothing but -inf (where the host's sampler reports an error too).
    Built by --kimi-add-next-token.

    Constraints: [T1] logits are [..., V] of floats; [T2] V is static, at least 1 and at most 2^24 (indices are exact in
    fp32); [T3] y is [...] of i64 or i32.

    Example: `%t = kimi.greedy_token %logits : tensor<?x50257xf32> -> tensor<?xi64>`
  }];
  let arguments = (ins AnyRankedTensor:$logits);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$logits attr-dict `:` type($logits) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMITOKENOPS
