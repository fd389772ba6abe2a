//===- Passes.td - passes of passes/Kimi
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_PASSES
#define KIMI_PASSES_KIMI_PASSES

include "mlir/Pass/PassBase.td"

def DeriveDecode : Pass<"kimi-derive-decode", "::mlir::ModuleOp"> {
  let summary = "entries that keep a state, from a function of whole sequences";
  let description = [{
    From `@main`, which maps token ids to logits, makes `@prefill` (any number of new tokens) and `@decode` (one new
    token): functions that read and update states (`!kimi.state` arguments) in place. `@main` stays as it is.

    A graph with states among its arguments: each `present = concat(past, rows)` whose `past` is an argument and whose
    `present` is a result becomes `kimi.cache_append` on a state that grows. What a mixer takes as its state from an
    argument, and gives as its state to a result of the same type (casts and reshapes between do not matter), becomes a
    state of fixed size, `kimi.state_read` before and `kimi.state_write` after; so does an argument `past...` beside a
    result `present...` of the same type. Arguments and results of states disappear from the signature. Every mixer must
    have its state among them: where one has not, a remark at it says so. A graph for exactly one token becomes
    `@decode` alone.

    A graph without states: the token axis is followed from the ids through the graph. Every op must treat tokens alike,
    mixers excepted: they are rewritten through MixerOpInterface, and whatever counts positions (`linalg.index` along the
    token axis, slices of tables) counts from the number of tokens seen. Where an op mixes tokens, a remark at the op says
    so, and no entries are made.

    ```mlir
    func.func @main(%ids: tensor<?x?xi64>) -> tensor<?x?x512xf32> {
      ...
      %o = kimi.attention %q, %k, %v causal scale 0.25 : ...
    // also becomes
    func.func @prefill(%ids: tensor<?x?xi64> {kimi.role = "token_ids"}, %0: !kimi.state<tensor<?x4x?x16xf32>, 2>, ...)
        -> (tensor<?x?x512xf32> {kimi.role = "logits"}) attributes {kimi.entry = "prefill"} {
      %past = kimi.state_length %0 : ...
      %ks = kimi.cache_append %0, %k at %past : ...
      %vs = kimi.cache_append %1, %v at %past : ...
      %o = kimi.attention %q, %ks, %vs causal scale 0.25 : ...
    ```
    In `@decode` the number of new tokens is the constant 1. Attributes: `kimi.entry` and `kimi.step_dim` (argument and
    axis of the new tokens) on the functions, `kimi.role` on arguments and results, `kimi.input`/`kimi.output` (names in
    the file) on states, `kimi.max_context` (rows of the position table) on the module.

    Numeric effect: exact.
  }];
  let statistics = [Statistic<"numStates", "num-states", "states made">,
                    Statistic<"numMixers", "num-mixers", "mixers rewritten into steps">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def RaiseMla : Pass<"kimi-raise-mla", "::mlir::ModuleOp"> {
  let summary = "attention over keys and values that are made from latents as kimi.mla";
  let description = [{
    Keys and values that are projections of one latent row a token, the keys perhaps beside a part that all heads share,
    are followed back through reshapes, slices, concats and broadcasts (latents may be the rows of one head, [B, 1, S, R], as
    a cache of them is); the attention becomes one `kimi.mla` of the latent,
    the shared part and the matrix kv_b. The latents are then what a sequence keeps (see --kimi-derive-decode), and
    --kimi-absorb-mla may absorb kv_b. Columns of kv_b that do not lie as [keys | values] a head (two matrices, all keys
    before all values) are put so once, when weights are loaded; a quantised kv_b is one that is expanded then.

    Any projection that serves keys and values has this form. It is taken as one of latents where rows get narrower: with a
    shared part, where a latent row is narrower than the rows of all heads; without one, where it has at most a quarter of
    what is made from it. Everything else (a plain, a grouped attention) is left alone.

    A remark says why latent attention stays expanded: where a cache of expanded keys and values is an input of the graph,
    whose interface cannot change; where kv_b is computed at run time, has a bias or changes the element type; where the
    expanded rows are used by something else as well.

    Before:
    ```mlir
    %kv = kimi.linear %c, %kv_b : tensor<?x?x64xf32>, tensor<64x384xf32> -> tensor<?x?x384xf32>
    %h = tensor.expand_shape %kv [[0], [1], [2, 3]] ..  // [B, T, 6, 64]
    %k = tensor.concat dim(3) %h[.., 0:32], %r broadcast to heads, then transposed
    %o = kimi.attention %q, %k, %v causal scale 0.14 : tensor<?x6x?x48xf32>, ..
    ```
    After:
    ```mlir
    %o = kimi.mla %q, %c, %kv_b shared %r : tensor<?x?x16xf32> causal scale 0.14 : tensor<?x6x?x48xf32>, ..
    ```

    Numeric effect: exact.
  }];
  let statistics = [Statistic<"numRaised", "num-raised", "attentions over latents found">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def AbsorbMla : Pass<"kimi-absorb-mla", "::mlir::ModuleOp"> {
  let summary = "latent attention with kv_b absorbed into queries and results, or expanded";
  let description = [{
    With W_UK[h]: [N, R] and W_UV[h]: [R, V] the two halves of kv_b of head h, the score of a query q = [q_n ; q_p] and a
    latent row [c ; r], and the result, are (DeepSeek-V2, arXiv 2405.04434, section 2.1.2: W_UK goes into W_UQ, W_UV into
    W_O)

      q_n . k_h + q_p . r = q_n . (W_UK[h] c) + q_p . r = (q_n W_UK[h]) . c + q_p . r
      sum_j p_j v_hj      = sum_j p_j (c_j W_UV[h])     = (sum_j p_j c_j) W_UV[h]

    so the rows [c ; r] can be read as they are held: one key head of R+P channels, whose first R are its values, for all H
    query heads; then two products a head (`kimi.head_linear`). In multiplications a head, for T queries over S rows:

      expanded  S R (N+V) + T S (N+P+V)        absorbed  T R (N+V) + T S (2R+P)

    The smaller is taken. Where S is not known the factors of S decide: for K3 (R 512, N 128, P 64, V 128) up to 170 queries
    are absorbed. Where T is not known (prefill, whole sequences) it is expanded: keys and values are made of the rows that
    the cache holds, those of earlier chunks of a prompt included, so that chunks should be long; they are of one layer at
    a time. Either way the state is the cache of latents. A remark says what was chosen. The half of kv_b that is read
    across its rows is transposed once, when weights are loaded.

    Before:
    ```mlir
    %o = kimi.mla %q, %c, %kv_b shared %r : tensor<?x?x16xf32> causal scale 0.14
       : tensor<?x6x1x48xf32>, tensor<?x?x64xf32>, tensor<64x384xf32> -> tensor<?x6x1x32xf32>
    ```
    After, where %c and %r are slices of one %rows:
    ```mlir
    %n = tensor.extract_slice %q[0, 0, 0, 0] [%b, 6, 1, 32] [1, 1, 1, 1] : ..
    %l = kimi.head_linear %n, %uk : tensor<?x6x1x32xf32>, tensor<6x32x64xf32> -> tensor<?x6x1x64xf32>
    %a = tensor.concat dim(3) %l, %p : ..
    %k = tensor.expand_shape %rows [[0], [1, 2], [3]] .. : tensor<?x?x80xf32> into tensor<?x1x?x80xf32>
    %v = tensor.extract_slice %k[0, 0, 0, 0] [%b, 1, %s, 64] [1, 1, 1, 1] : ..
    %m = kimi.attention %a, %k, %v causal scale 0.14 : .. -> tensor<?x6x1x64xf32>
    %o = kimi.head_linear %m, %uv : tensor<?x6x1x64xf32>, tensor<6x64x32xf32> -> tensor<?x6x1x32xf32>
    ```

    Numeric effect: absorbed, products are associated another way, and what is rounded to a narrow type is latents and
    absorbed queries instead of keys and values; expanded, exact.
  }];
  let options = [Option<"form", "form", "std::string", "\"auto\"", "auto (the form that does less), absorbed or expanded">];
  let statistics = [Statistic<"numAbsorbed", "num-absorbed", "latent attentions with kv_b absorbed">,
                    Statistic<"numExpanded", "num-expanded", "latent attentions with keys and values expanded">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ChunkDeltaRule : Pass<"kimi-chunk-delta-rule"> {
  let summary = "kimi.delta_rule as matrix products over chunks of tokens (WY form)";
  let description = [{
    Rewrites every rule that `kimi.delta_rule` holds. With C rows a chunk, `K` the keys, `b`/`w` the erase and write
    gates, the steps (each carries its name in `kimi.step`) are, for each chunk:

    | step | what |
    | --- | --- |
    | `G` | G_i = sum_{m <= i} g_m, the decay's logarithms summed within the chunk (a kimi.loops) |
    | `A` | A_ij = sum_d (b k)_i k_j exp(G_i - G_j), j < i |
    | `T` | T = (I + A)^-1, unit lower triangular, by forward substitution (a kimi.loops) |
    | `U`, `W` | U = T (w V), W = T (b K exp(G)) |
    | `scan` | chunk by chunk V' = U - W S; S <- Diag(exp(G_C)) S + (K exp(G_C - G))^T V' (a kimi.loops) |
    | `P` | P_ij = sum_d q_i k_j exp(G_i - G_j), j <= i |
    | (result) | scale * ((Q exp(G)) S + P V') |

    A rule without erase has no A, T, W (U = w V); one without decay no G; one with a decay a head multiplies the
    products of rows with exp(G_i - G_j), masked. With a decay a channel, exponents are safe for any gate: rows of
    sub-chunk r (16 rows) and columns before it are both measured from the first row of r, exp(G_i - a_r) and
    exp(a_r - G_j), neither exponent positive (`across`, a plain product); within a sub-chunk the difference is taken pair
    by pair, masked before the exponential (`within`). Gates below -104 (exp is 0 in fp32) are taken as -104, so that -inf
    stays finite. A last chunk that is not full has keys of 0 and gates of 0 (no decay). An op of one token stays.

    How a kernel takes it: everything but `scan` and what reads S is independent for each chunk and head: one block a
    (chunk, head) computes G, A, T, U, W, P from tiles of 16 rows, A's off-diagonal blocks and P as `tile.mma` of the
    anchored factors, T by blocks of 16 (forward substitution on the diagonal, T_ij = -T_ii sum_m A_im T_mj off it), and
    leaves U, W, P (or T and P, where recomputing W is cheaper than its trip through memory). The second kernel has a
    block a (head, tile of value columns), keeps S in registers through the chunks, and does three products a chunk: W S,
    (K exp(G_C-G))^T V', and the two of the result.

    Before: `%o, %s = kimi.delta_rule %q, %k, %v decay %g : .. beta %b : .. scale 0.125 : ..`

    After: `linalg.generic` products and maps, and `kimi.loops`, over tensors [B, H, T/C, C, ..].

    Numeric effect: sums in another order; exp of sums of gates instead of products of exps. All in fp32.
  }];
  let options = [Option<"chunk", "chunk", "int64_t", "64", "tokens of a chunk: 16, 32 or 64">];
  let statistics = [Statistic<"numChunked", "num-chunked", "delta rules rewritten">];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def LowerToReference : Pass<"kimi-lower-to-reference"> {
  let summary = "every kimi op as plain fp32 tensor loops";
  let description = [{
    The executable meaning of the dialect: each op becomes `linalg.generic` on tensors, slow and obvious. Operands are
    widened to fp32 element by element, the arithmetic is fp32, the result is rounded to its element type at the end.
    Ops that are no arithmetic stay: weights, `kimi.pack_weight`, states, `kimi.loops`, `kimi.dispatch`.

    Before:
    ```mlir
    %y = kimi.gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
    ```
    After:
    ```mlir
    %e = tensor.empty(%m) : tensor<?x8xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      ... // x/2 * (1 + erf(x/sqrt(2)))
      linalg.yield %r : f32
    } -> tensor<?x8xf32>
    ```

    Numeric effect: defines the numbers. Sums run in the order of the loops.
  }];
  let options = [Option<"remarkUnscheduled", "remark-unscheduled", "bool", "false",
                        "remark on each fused linear, mixer and mixture of experts that is left">];
  let statistics = [Statistic<"lowered", "ops-lowered", "kimi ops lowered to linalg">];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def RefineShapes : Pass<"kimi-refine-shapes"> {
  let summary = "extents that a cast hides become part of the types";
  let description = [{
    A derived entry knows extents that the graph it was made from does not: in `@decode` there is one new token. Such an
    extent enters by a `tensor.cast`, which the upstream ops absorb and the ops of this dialect do not, so that a
    projection and its residual no longer have one type. Here `kimi.linear`, `kimi.embedding`, `kimi.gelu`, `kimi.softmax`
    and the norms absorb it as well: their types take every extent that the first operand has, or that the cast which is
    the only user of the result asks for. Mixers keep their types, which are those of their states.

    Before:
    ```mlir
    %a = tensor.cast %x : tensor<?x1x8xf32> to tensor<?x?x8xf32>
    %h = kimi.linear %a, %w : tensor<?x?x8xf32>, tensor<8x6xf32> -> tensor<?x?x6xf32>
    %c = tensor.cast %h : tensor<?x?x6xf32> to tensor<?x1x6xf32>
    ```
    After:
    ```mlir
    %c = kimi.linear %x, %w : tensor<?x1x8xf32>, tensor<8x6xf32> -> tensor<?x1x6xf32>
    ```

    Numeric effect: exact.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def MergeLinears : Pass<"kimi-merge-linears"> {
  let summary = "projections of one input as one";
  let description = [{
    `kimi.linear` ops that read the same x with weight matrices of one orientation and element type become one, over the
    concatenated columns, and slices of its result: the queries, keys and values of an attention in one kernel, which
    reads and normalises x once. The matrices and biases are concatenated once, when weights are loaded.

    A linear that an elementwise op follows is left alone: as the epilogue of its own kernel that op costs nothing, after
    a slice it would be a kernel. So is one whose result leaves the function, and one that --kimi-fuse-linear cannot take.
    A remark tells what was merged.

    Before:
    ```mlir
    %q = kimi.linear %x, %wq : tensor<?x?x8xf32>, tensor<8x8xf32> -> tensor<?x?x8xf32>
    %k = kimi.linear %x, %wk : tensor<?x?x8xf32>, tensor<8x4xf32> -> tensor<?x?x4xf32>
    ```
    After:
    ```mlir
    %w = tensor.concat dim(1) %wq, %wk : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x12xf32>
    %y = kimi.linear %x, %w : tensor<?x?x8xf32>, tensor<8x12xf32> -> tensor<?x?x12xf32>
    %q = tensor.extract_slice %y[0, 0, 0] [%b, %t, 8] [1, 1, 1] : ..
    %k = tensor.extract_slice %y[0, 0, 8] [%b, %t, 4] [1, 1, 1] : ..
    ```

    Numeric effect: exact.
  }];
  let statistics = [Statistic<"numMerged", "merged", "linears that became part of another">,
                    Statistic<"numGroups", "groups", "linears made of several">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::tensor::TensorDialect"];
}

def ShareAttnResBank : Pass<"kimi-share-attn-res-bank"> {
  let summary = "scores and weighted sums of a bank once for all attention residuals that mix it";
  let description = [{
    The `kimi.attn_res` ops of one block of layers mix the same bank of earlier blocks, each with its own last source, the
    running sum. What the bank contributes to each of them is computed together, by one `kimi.attn_res_bank`, which reads
    the bank once; where a mix stood, `kimi.attn_res_merge` adds the last source by the online softmax. Mixes belong
    together if all sources but the last are the same values in the same order, and eps is the same. At most `queries`
    of them go together: their sums, [..., D] in fp32 each, are held from the bank's launch to the last merge.

    When it pays is decided by bytes moved. With n sources in the bank, m mixes, e bytes an element of a source, s = 4
    bytes one of a sum, for each row and channel:

        direct   m (n + 1) e              every mix reads the bank and its last source
        shared   n e + m (2 s + e)        the bank once; every sum is written, and read with the last source

    (the results are written in both), so it pays if (m - 1) n e > 2 m s: for 8 mixes, banks of 3 sources in fp32, of 5
    in bf16. Where the number of rows is known, what is saved must also be worth one more launch: `launch-bytes`. A mix
    whose score vector is computed after the first mix, from something other than weights, stays as it is. Remarks tell
    which banks are not shared, and why.

    Before:
    ```mlir
    %h = kimi.attn_res(%b0, %b1, %b2, %p) score %s eps 1.0e-5 : ..
    ...
    %i = kimi.attn_res(%b0, %b1, %b2, %q) score %t eps 1.0e-5 : ..
    ```
    After:
    ```mlir
    %l:2, %a:2 = kimi.attn_res_bank(%b0, %b1, %b2) scores(%s, %t) eps 1.0e-5 : ..
    %h = kimi.attn_res_merge %p with %l#0, %a#0 score %s eps 1.0e-5 : ..
    ...
    %i = kimi.attn_res_merge %q with %l#1, %a#1 score %t eps 1.0e-5 : ..
    ```

    Numeric effect: reassociates the sums over sources, in fp32.
  }];
  let options = [Option<"queries", "queries", "int64_t", "8", "attention residuals that share one reading of a bank">,
                 Option<"launchBytes", "launch-bytes", "int64_t", "2097152",
                        "bytes that must be saved to be worth a launch, where rows are known">];
  let statistics = [Statistic<"numBanks", "banks", "attn_res_bank ops made">,
                    Statistic<"numShared", "shared", "attn_res ops that became merges">];
  let dependentDialects = ["::kimi::KimiDialect"];
}

def FuseLinear : Pass<"kimi-fuse-linear"> {
  let summary = "norm, projection and what follows it as one kernel";
  let description = [{
    Each `kimi.linear` with a weight matrix (a value known when the weights are loaded) becomes a `kimi.fused_linear`:

    - the bias and every elementwise consumer that is the only user of the result (`kimi.gelu`, and `linalg.generic` over
      the same shape: activation, residual, scale) become its epilogue, as long as the result keeps shape and element type
      (a consumer that converts the element type is taken in as the last one);
    - a `kimi.layer_norm` or `kimi.rms_norm` all of whose users are such linears becomes the prologue of each;
    - a transposed weight becomes the `transpose` flag.

    A linear that cannot be taken (x of rank 1, dynamic extents of the matrix, a matrix computed at run time) stays as it
    is, with a remark that says why. Linears with nothing to fuse become a `kimi.fused_linear` with an empty epilogue, so
    that one kernel road serves all.

    Before:
    ```mlir
    %n = kimi.layer_norm %x, %g, %b eps 1.0e-5 : ...
    %h = kimi.linear %n, %w, %bias : ...
    %y = kimi.gelu %h tanh : ...
    ```
    After:
    ```mlir
    %y = kimi.fused_linear %x, %w norm layer(%g, %b) eps 1.0e-5 extras(%bias) maps [#n] : ... {
    ^bb0(%acc: f32, %bias_n: f32):
      %h = arith.addf %acc, %bias_n : f32
      ... // gelu of %h
      kimi.yield %y : f32
    }
    ```

    Numeric effect: exact in fp32. In fp16 and bf16 the norm is no longer rounded before the product; the epilogue keeps
    the roundings of the ops it was made from.
  }];
  let statistics = [Statistic<"linears", "linears", "linears turned into kimi.fused_linear">,
                    Statistic<"norms", "norms", "norms folded into linears">,
                    Statistic<"consumers", "consumers", "elementwise consumers folded into epilogues">,
                    Statistic<"refused", "refused", "linears left alone">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def FuseElementwise : Pass<"kimi-fuse-elementwise"> {
  let summary = "chains of elementwise ops and lookups as one kernel";
  let description = [{
    Fuses elementwise `linalg.generic` ops into their elementwise consumers (upstream's fusion), after turning
    `kimi.embedding` into a generic with `tensor.extract` and `kimi.gelu` into a generic, so that `wte[ids] + wpe[pos]`
    becomes one kernel. A producer is fused where it has one user and is not evaluated more often than before, or where it
    costs next to nothing (fills, index arithmetic, constants). Reshapes between elementwise ops are moved out of the way.
    Views stay views: slices, transposes and reshapes cost nothing later; those that change nothing go. Dead ops go, equal ones are merged; ops that
    write (`kimi.cache_append`) stay where they are.

    Before:
    ```mlir
    %t = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<50257x768xf32> -> tensor<?x?x768xf32>
    %p = kimi.embedding %pos, %wpe : tensor<?xi64>, tensor<1024x768xf32> -> tensor<?x768xf32>
    %h = linalg.generic ... ins(%t, %p) { arith.addf }
    ```
    After:
    ```mlir
    %h = linalg.generic ... ins(%ids, %pos) { tensor.extract %wte, tensor.extract %wpe, arith.addf }
    ```

    Numeric effect: exact.
  }];
  let statistics = [Statistic<"lookups", "lookups", "kimi.embedding ops turned into generics">,
                    Statistic<"fused", "fused", "elementwise producers fused into their consumer">];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def FoldCasts : Pass<"kimi-fold-casts", "::mlir::ModuleOp"> {
  let summary = "bring conversions of floats to the ops that can do them";
  let description = [{
    Kernels compute in fp32 whatever the types of their tensors are, so a conversion that is a launch of its own only moves
    memory. Views (transposes, reshapes, slices, casts) are taken of the narrow tensor: those of a widened one are widened
    instead, those that are only rounded are views of the rounded one. A tensor that is widened and rounded back is the tensor.
    `kimi.l2_norm`, `gated_rms_norm`, `layer_norm`, `softmax`, `kda_gate` and `attn_res` read what is widened for them as it
    was, and they and `kimi.delta_rule` give their result rounded where it is only read so and their operands have that
    type. `kimi.rms_norm` rounds to the type of x before gamma: it stays as it is.

    Before:
    ```mlir
    %w = linalg.generic ins(%q : tensor<?x?x256xbf16>) { arith.extf } -> tensor<?x?x256xf32>
    %h = tensor.expand_shape %w [[0], [1], [2, 3]] ... into tensor<?x?x2x128xf32>
    %n = kimi.l2_norm %h eps 1.0e-6 : tensor<?x?x2x128xf32> -> tensor<?x?x2x128xf32>
    %r = linalg.generic ins(%n : tensor<?x?x2x128xf32>) { arith.truncf } -> tensor<?x?x2x128xbf16>
    ```
    After:
    ```mlir
    %h = tensor.expand_shape %q [[0], [1], [2, 3]] ... into tensor<?x?x2x128xbf16>
    %r = kimi.l2_norm %h eps 1.0e-6 : tensor<?x?x2x128xbf16> -> tensor<?x?x2x128xbf16>
    ```
    Numeric effect: exact.
  }];
  let statistics = [Statistic<"folded", "folded", "conversions that became part of an op, or nothing">];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def AddNextToken : Pass<"kimi-add-next-token", "::mlir::ModuleOp"> {
  let summary = "the greedy token as an output, and an entry that computes the last logits only";
  let description = [{
    `@prefill` and `@decode` (see --kimi-derive-decode) get one more result, of role `next_token`: `kimi.greedy_token` of
    the logits of the last position, [batch, 1] of the ids' type, as the next step takes it in.

    From `@prefill` also `@prefill_last` is made, whose logits are [batch, 1, V]: those of the last position only, which
    is all that a generator reads. It slices them out at its end; --kimi-sink-slices moves the slice up. Where the graph
    gives no more than that itself there is no `@prefill_last`. `@main` stays as it is.

    Before:
    ```mlir
    func.func @prefill(..) -> (tensor<?x?x512xf32> {kimi.role = "logits"})
    ```
    After:
    ```mlir
    func.func @prefill(..) -> (tensor<?x?x512xf32> {kimi.role = "logits"}, tensor<?x1xi64> {kimi.role = "next_token"})
    func.func @prefill_last(..) -> (tensor<?x1x512xf32> {kimi.role = "logits"}, tensor<?x1xi64> {kimi.role = "next_token"})
    ```
    An entry whose logits are not known, or that chooses among an unknown number of tokens, is left alone, with a remark.

    Numeric effect: none on what was there.
  }];
  let statistics = [Statistic<"numTokens", "num-tokens", "results made">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def SinkSlices : Pass<"kimi-sink-slices", "::mlir::ModuleOp"> {
  let summary = "compute only what slices take";
  let description = [{
    Where all that reads a tensor are equal slices of it (`tensor.extract_slice` with unit steps that keeps the rank), and
    each element comes from its own place of the operands, the operands are sliced instead: projections and norms along
    any axis but the last, softmax along any but its own, elementwise `linalg.generic`, transposes, reshapes of whole
    axes, and attention along its queries (causal attention: the last ones, which are aligned with the last keys).

    From the last logits of a language model this leaves the last row of everything after the last attention's keys and
    values.

    Before:
    ```mlir
    %l = kimi.linear %x, %w : tensor<?x?x8xf32>, tensor<8x50xf32> -> tensor<?x?x50xf32>
    %s = tensor.extract_slice %l[0, %last, 0] [%n, 1, 50] [1, 1, 1] : tensor<?x?x50xf32> to tensor<?x1x50xf32>
    ```
    After:
    ```mlir
    %r = tensor.extract_slice %x[0, %last, 0] [%n, 1, 8] [1, 1, 1] : tensor<?x?x8xf32> to tensor<?x1x8xf32>
    %s = kimi.linear %r, %w : tensor<?x1x8xf32>, tensor<8x50xf32> -> tensor<?x1x50xf32>
    ```

    Numeric effect: exact.
  }];
  let statistics = [Statistic<"sunk", "sunk", "ops that compute less">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::linalg::LinalgDialect"];
}

def NarrowPrecision : Pass<"kimi-narrow-precision", "::mlir::ModuleOp"> {
  let summary = "weights and activations in bf16 or f16";
  let description = [{
    What kernels pass to each other becomes `type`, what they compute with stays fp32:

    - weight matrices of projections and embedding tables: rounded once, when weights are loaded (see the `init` entry);
    - activations: the results of projections, attention, norms, embeddings and elementwise ops on activations (the
      residual stream among them), rounded once where they are stored. Fused epilogues widen what they read;
    - states that grow by rows (KV caches).

    fp32 stay: sums, norm statistics, softmax and its scores, masks, rotary angles and all else that no activation goes
    into, vectors (biases, gammas, betas), states of fixed size, inputs of `kimi.loops` (routing), and the signature of
    every function. A result of projections that only leaves the function (logits) is stored in fp32 without having been
    rounded. Tensors that are not fp32 are left alone. An fp32 value that an op takes rounded and that no kernel could
    round at its store is rounded by a kernel of its own, with a remark.

    The module gets the attribute `kimi.precision`, the type. `tf32` changes nothing else: it allows schedules to multiply
    with 10 bits of mantissa.

    Before:
    ```mlir
    %w = kimi.weight_ref @w : tensor<8x8xf32>
    %h = kimi.fused_linear %x, %w ... -> tensor<?x8xf32> { ... kimi.yield %s : f32 }
    %y = kimi.fused_linear %h, %w ... -> tensor<?x8xf32>
    ```
    After (bf16):
    ```mlir
    %w = kimi.weight_ref @w : tensor<8x8xf32>
    %n = linalg.generic ins(%w : tensor<8x8xf32>) ... { arith.truncf } -> tensor<8x8xbf16>
    %h = kimi.fused_linear %x, %n ... -> tensor<?x8xbf16> { ... %r = arith.truncf %s : f32 to bf16
                                                            kimi.yield %r : bf16 }
    %y = kimi.fused_linear %h, %n ... -> tensor<?x8xf32>
    ```

    Numeric effect: weights and activations keep 8 (bf16) or 11 (fp16) significant bits. In fp16 what exceeds 65504 is
    infinite.
  }];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "bf16, fp16 or tf32">];
  let statistics = [Statistic<"weights", "weights", "weights rounded when they are loaded">,
                    Statistic<"activations", "activations", "values that kernels exchange made narrow">,
                    Statistic<"states", "states", "states made narrow">,
                    Statistic<"casts", "casts", "conversions that take a kernel of their own">];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

#endif // KIMI_PASSES_KIMI_PASSES
