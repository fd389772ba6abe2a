//===- Passes.td - passes of passes/KimiToTile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_TO_TILE_PASSES
#define KIMI_PASSES_KIMI_TO_TILE_PASSES

include "mlir/Pass/PassBase.td"

def KimiGeneralizeTensorOps : Pass<"kimi-generalize-tensor-ops", "mlir::ModuleOp"> {
  let summary = "bring tensor work of every kind to linalg.generic, constants to weights, transposes to their producers";
  let description = [{
    Named linalg ops, `tensor.concat`, `tensor.pad`, `tensor.insert_slice`, `tensor.generate`, `tensor.from_elements` and
    `tensor.splat` become `linalg.generic`, so that one pass makes kernels of them all. Tensor constants become inline
    `kimi.weight` symbols (a splat that only feeds `linalg.generic` stays). A `linalg.transpose` that is the only user of
    a `linalg.generic` is folded into its output map; other transposes stay, they are views.

    Before: `%c = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>`

    After: a `linalg.generic` over 2x8 that reads `%a` or `%b` by its column.

    Numeric effect: exact.
  }];
  let dependentDialects = ["mlir::linalg::LinalgDialect", "mlir::scf::SCFDialect", "mlir::tensor::TensorDialect",
                           "mlir::arith::ArithDialect", "kimi::KimiDialect"];
}

def KimiMaterializeViews : Pass<"kimi-materialize-views", "mlir::ModuleOp"> {
  let summary = "copy where a reshape or a result cannot be a view";
  let description = [{
    Between kernels a tensor is a strided view of a buffer. A `tensor.collapse_shape` of axes that are not one run of
    memory needs a copy first, and so does a function result that is not the whole of a freshly computed buffer (an
    input, a weight, a slice, the same value returned twice), and an input of `kimi.loops` with gaps that the body
    handles as a whole. Each becomes a copying `linalg.generic`. Run after --kimi-generalize-tensor-ops.

    Before: `%t = linalg.transpose ins(%x : tensor<4x8xf32>) ...; %f = tensor.collapse_shape %t [[0, 1]] : ...`

    After: the transpose is read by a `linalg.generic` that writes a new tensor<8x4xf32>, which is collapsed.

    Numeric effect: exact.
  }];
  let dependentDialects = ["mlir::linalg::LinalgDialect", "mlir::tensor::TensorDialect", "mlir::arith::ArithDialect"];
}

def KimiScheduleElementwiseGpu : Pass<"kimi-schedule-elementwise-gpu", "mlir::ModuleOp"> {
  let summary = "make block programs of elementwise linalg.generic for a GPU";
  let description = [{
    Axes that follow each other in memory of all operands become one dim; operands that are broadcast along a dim have
    extent 1 there. A block computes a tile of 128 threads times one to four vectors of 16 bytes of the widest result:
    loads to fragments, a `tile.map`, stores. Where an operand is the same along a dim (a bias, rates of heads) the
    tile extends along it, so that it is read once a thread. An innermost extent that is only known to be a multiple of a
    power of two (the axis of a flat tensor) is split by it, so that vectors need no bounds of their own.
    Where all results have 16 bits, tanh, exp and quotients have only the digits that those keep.

    Run after --kimi-materialize-views; --kimi-outline-generic takes what is left alone, with a remark: reductions, bodies
    with indices or lookups (gathers, paddings), operands with gaps along the innermost axis of the result or read in an
    order that is not a permutation, element types other than f32, bf16 and f16, results of no or one element.

    Before:
    ```mlir
    %y = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x, %bias : tensor<?x768xbf16>, tensor<768xbf16>) outs(%e : tensor<?x768xbf16>) { ... math.tanh ... }
    ```
    After:
    ```mlir
    tile.kernel @map_tanh(%x: memref<?x768xbf16, ..>, %b: memref<1x768xbf16, ..>, %y: memref<..>) attributes {threads = 128} {
      tile.load %0 from %x[%row, %column] ... ; tile.load %1 from %b[%c0, %column] ...
      tile.map ins(%0, %1 : ..) outs(%2 : memref<8x256xbf16, #tile.space<fragment>>) { ... }
      tile.store %2 to %y[%row, %column] ...
    }
    ```
    Numeric effect: none for f32 results; for 16-bit results at most 2^-10 of the value before it is rounded.
  }];
  let statistics = [Statistic<"numScheduled", "scheduled", "elementwise ops that became block programs">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiOutlineGeneric : Pass<"kimi-outline-generic", "mlir::ModuleOp"> {
  let summary = "make a kernel of plain loops from each linalg.generic, kimi.loops and kimi.cache_append";
  let description = [{
    A kernel's tasks share the rows (all parallel loops but the innermost, or pieces of a long innermost loop), at least
    `task-work` element operations each; reductions are loops inside, with the accumulator in registers. Fills that
    initialise a reduction, scalars and lookups (`tensor.extract`) move into the kernel. `kimi.cache_append` becomes a
    copy into the state (key and value of one layer in one launch) and a `kimi.state_view`.

    Before:
    ```mlir
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<?x768xf32>) outs(%e : tensor<?x768xf32>) { ... math.tanh ... }
    ```
    After:
    ```mlir
    tile.kernel @map_tanh(%x: memref<?x768xf32, strided<[768, 1], offset: ?>>, %y: memref<...>) { scf.for ... }
    %y = kimi.dispatch [@map_tanh] grid(%tasks, %c1, %c1) ins(%x : tensor<?x768xf32>) dims(%t) -> tensor<?x768xf32>
    ```
    Numeric effect: exact (sums keep their order).
  }];
  let options = [Option<"taskWork", "task-work", "int64_t", "16384", "element operations that make a task worth its start">];
  let statistics = [Statistic<"numDispatches", "dispatches", "launches made">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect"];
}

def KimiScheduleLinear : Pass<"kimi-schedule-linear", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.fused_linear";
  let description = [{
    A block of the grid computes TM rows by TN columns: it loads its rows of x, normalises them, multiplies them with the
    packed weight (`kimi.pack_weight`, once when weights are loaded), runs the epilogue on the tile and stores it. Guards
    choose between a kernel for one row, for a few, and for many. The last block of columns starts early where the columns
    are not a multiple of TN, so that every product has static sizes.

    x, w, extras and y are f32, bf16 or f16 each; a block works in fp32 and the store rounds.

    Left to the reference lowering, with a remark: dynamic K or N, other element types, rows too long to normalise within
    one block.

    Before: `%y = kimi.fused_linear %x, %w norm layer(%g, %b) eps 1.0e-5 ... { ... }`

    After: `%y = kimi.dispatch [@linear_768x2304_layer_m1, @linear_768x2304_layer_m4, @linear_768x2304_layer] guards(..) ...`

    Numeric effect: reassociates sums over K.
  }];
  let options = [Option<"panel", "panel", "int64_t", "16", "columns of a panel of the packed weights">];
  let statistics = [Statistic<"numScheduled", "scheduled", "fused_linear ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleAttention : Pass<"kimi-schedule-attention", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.attention";
  let description = [{
    A block of the grid computes TM queries of one head: an online softmax in fp32 over blocks of TS keys, up to the last
    key that the block may see. Guards choose between a kernel for one query and for many. Keys and values are strided
    views (a cache, slices of the projection). A result that is only transposed to [B, T, H, D] is written in that order.

    q, k, v and the result are f32, bf16 or f16 each; a block works in fp32 and the store rounds.

    Left to the reference lowering, with a remark: dynamic heads or channels, other element types.

    Before: `%o = kimi.attention %q, %k, %v causal scale 0.125 : ...`

    After: `%o = kimi.dispatch [@attention_d64_causal_t1, @attention_d64_causal] guards(%one) grid(...) ins(%q, %k, %v : ...)`

    Numeric effect: reassociates sums over keys and channels.
  }];
  let statistics = [Statistic<"numScheduled", "scheduled", "attention ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleHeadLinear : Pass<"kimi-schedule-head-linear", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.head_linear";
  let description = [{
    A block of the grid computes up to 16 rows of a head by some columns, all channels at once. Columns divide the width, so
    that matrices are read where they lie (a view of a weight). x, w and the result are f32, bf16 or f16 each; a block works
    in fp32 and the store rounds.

    Left to the reference lowering, with a remark: other element types, matrices of unknown extents, more than 4096
    channels.

    Before: `%y = kimi.head_linear %x, %w : tensor<?x96x1x128xf32>, tensor<96x128x512xf32> -> tensor<?x96x1x512xf32>`

    After: `%y = kimi.dispatch [@head_linear_128x512] grid(%c4, %c1, %bh) ins(%x, %w : ..) dims(%b) -> tensor<?x96x1x512xf32>`

    Numeric effect: reassociates sums over channels.
  }];
  let statistics = [Statistic<"numScheduled", "scheduled", "head_linear ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::linalg::LinalgDialect"];
}

def KimiScheduleHeadLinearGpu : Pass<"kimi-schedule-head-linear-gpu", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.head_linear for a GPU";
  let description = [{
    A block of the grid computes 16 or 64 rows of a head by up to 128 columns: a pipeline over the channels loads tiles of x
    and of the head's matrix, which is read where it lies (a view of a weight), to shared memory and multiplies them, by
    tensor cores where both are bf16 or f16. The rows of a block are tokens of a sequence; where sequences have one token
    each (decode), they are sequences, so that a matrix is read once for all of them. x, w and the result are f32, bf16 or
    f16 each; sums are taken in fp32 and the store rounds. Guards choose among one token a sequence, few and many rows.

    Left to the reference lowering, with a remark: other element types, matrices of unknown extents or none.

    Before: `%y = kimi.head_linear %x, %w : tensor<?x96x1x128xbf16>, tensor<96x128x512xbf16> -> tensor<?x96x1x512xbf16>`

    After: `%y = kimi.dispatch [@head_linear_128x512_bf16_b16, @head_linear_128x512_bf16_b] guards(%few)
    grid(%c8, %rows, %c96, ..) ins(%x, %w : ..) dims(%b) -> tensor<?x96x1x512xbf16>`

    Numeric effect: reassociates sums over channels.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"90\"", "compute capability times ten; 90a has the same kernels as 90">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "head_linear ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::linalg::LinalgDialect"];
}

def KimiScheduleLinearGpu : Pass<"kimi-schedule-linear-gpu", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.fused_linear for a GPU";
  let description = [{
    A block of the grid computes TM rows by TN columns: a pipeline over K loads tiles of x and of the weight to shared
    memory and multiplies them; the norm and the epilogue run on the accumulators. Weights are rows [N, K'], K' being K
    rounded up to 16 bytes (transposed, scaled and padded once, when weights are loaded; a stored [N, K] with aligned rows
    is read as it is), for many rows and for few alike: every load is aligned, whatever N is. The norm is folded: the weight is scaled by gamma when it is
    loaded, rows of x are multiplied as they come, their statistics are taken from the tiles on the way, and the epilogue
    subtracts mean times the sums of the weight's rows and multiplies with the reciprocal deviation.

    TM, TN and the rest follow from a model of a block's time (GpuSchedule.cpp) for each range of M; guards choose. Up to
    four rows read the weights where they multiply them (`_m1`, `_m4`). Where the grid is smaller than the GPU, the sum
    over K is split: one launch writes partial sums (`_part`), the next adds them up in a fixed order (`_sum`).

    Where kimi.greedy_token reads all rows of y, its first half is part of the epilogue: each tile leaves the maximum of
    its part of a row and minus the lowest place of it, a launch of a block a row takes the best (GreedyKernels.h).

    Left to the reference lowering, with a remark: dynamic K or N, element types other than f32, bf16 and f16.

    Before: `%y = kimi.fused_linear %x, %w norm layer(%g, %b) eps 1.0e-5 ... { ... }`

    After:
    ```mlir
    %r = linalg.generic ins(%w, %g : tensor<768x2304xf32>, tensor<768xf32>) ... -> tensor<2304x768xf32>
    %y = kimi.dispatch [@linear_768x2304_layer_m1, .., @linear_768x2304_layer] guards(..) ... ins(%x, %r, %sums, ..)
    ```
    Numeric effect: reassociates sums over K; the norm is applied after the product.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"90\"", "compute capability times ten; 90a: with wgmma">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "fused_linear ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleDeltaRuleGpu : Pass<"kimi-schedule-delta-rule-gpu", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.delta_rule for a GPU";
  let description = [{
    More than 16 tokens are computed in chunks, in the chunkwise WY form (DeltaRuleGpuKernel.h gives the formulas). A
    first launch, a block a chunk and head, computes what does not depend on the state (`_prepare`): running sums of the
    gates, products of the chunk's keys and queries with their decays, the triangular system. A second one (`_chunks`),
    a block a head and up to 128 value channels, takes the state, in registers, from chunk to chunk: four products each.
    Up to 16 tokens are taken one by one (`_tokens`), the state in registers as well; the first launch is empty then.
    Where there are never more, as in a decode step, there is no such launch, and `_tokens` computes the L2 norms of q and
    k and the elementwise formulas of the gates as well, if nothing else reads them.

    All rules but those with `normalize`: with a decay of a head, of a channel or none, beta, or vectors of erase and
    write, or none. Gates are not bounded: every exponential is of a difference that is at most 0.

    Left to kimi-schedule-delta-rule, with a remark: `normalize`, several queries of one state, dynamic channels, channels that are
    no multiples of 16 or do not fit a block, element types other than f32, bf16 and f16.

    Before: `%o, %s1 = kimi.delta_rule %q, %k, %v decay %g : .. beta %b : .. initial %s0 : .. scale 0.1 : ..`
    After:
    ```mlir
    %u, %qe, %ke, %p, %w, %e = kimi.dispatch [@delta_rule_h96_d128x128_channel_beta_prepare] grid(...) ins(%q, %k, %v, %g, %b : ...)
    %o, %s1 = kimi.dispatch [@.._tokens, @.._chunks] grid(...) ins(%q, %k, %v, %g, %b, %s0, %u, %qe, %ke, %p, %w, %e : ...)
    ```

    Numeric effect: reassociates sums over tokens; with 16-bit operands the factors of products are rounded to them, sums
    and the state stay fp32. Log-decays below -100 a token count as -100.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"90\"", "compute capability times ten; 90a: with wgmma">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "delta rules that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::math::MathDialect", "mlir::scf::SCFDialect", "mlir::arith::ArithDialect",
                           "mlir::tensor::TensorDialect"];
}

def KimiScheduleAttentionGpu : Pass<"kimi-schedule-attention-gpu", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.attention for a GPU";
  let description = [{
    A block of the grid computes a block of queries of one head: an online softmax in fp32 over blocks of keys, which a
    pipeline loads to shared memory. Blocks of keys past the diagonal are skipped, those that every query sees are not
    compared, blocks with the most keys start first. For one query (`_t1`) the rows of a block are the heads that share a
    key head; where these blocks are too few for the device, one launch takes shares of the keys (`_share`) and the next
    combines them in a fixed order (`_combine`): the number of shares follows from the number of keys when it runs. Heads
    of up to 256 channels, widths of values of their own, grouped heads, masks, a cap.

    `kimi.cache_append` of keys and values that only feed the attention are done by its kernel (`_append`): it reads the
    rows that are held from the state and this step's from where they were computed, and copies them into the state. On
    90a a step that finds the state empty has a kernel for wgmma of its own (`_fresh`).
    A result that is only transposed to [B, T, H, D] is written in that order.

    Left to the reference lowering, with a remark: dynamic channels, more than 256 channels, element types other than
    f32, bf16 and f16.

    Before:
    ```mlir
    %ks = kimi.cache_append %keys, %k at %past ...
    %vs = kimi.cache_append %values, %v at %past ...
    %o = kimi.attention %q, %ks, %vs causal scale 0.125 : ...
    ```
    After: `%o = kimi.dispatch [@attention_d64_causal_append_t1, ..] grid(...) ins(%q, %k, %v : ...) states(%keys, %values : ..) scalars(%past)`

    Numeric effect: reassociates sums over keys and channels; exponents are taken as powers of 2.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"90\"", "compute capability times ten; 90a: with wgmma">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "attention ops that became kernels">,
                    Statistic<"numAppends", "appends", "cache_append ops done by attention kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleDeltaRule : Pass<"kimi-schedule-delta-rule", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.delta_rule, token by token";
  let description = [{
    The recurrent schedule: one launch whatever the number of tokens. A block holds 32 value columns (on the CPU 16 where
    a head has more than 128 key channels) of one state in registers, transposed, and runs over the tokens; the loads of the next
    tokens are under way meanwhile. State columns do not depend on each other, so the grid is value columns x (batch x
    heads). A state that is read before and written after by --kimi-derive-decode's `kimi.state_read`/`state_write` is
    updated in place; the copy between them is gone. A transpose of the result to tokens first is taken in.

    Before:
    ```mlir
    %s = kimi.state_read %state sizes(%b) : !kimi.state<tensor<?x4x32x32xf32>, -1> -> tensor<?x4x32x32xf32>
    %o, %n = kimi.delta_rule %q, %k, %v beta %beta : tensor<?x4x?xf32> initial %s : tensor<?x4x32x32xf32> scale 0.5 : ..
    kimi.state_write %n, %state : tensor<?x4x32x32xf32>, !kimi.state<tensor<?x4x32x32xf32>, -1>
    ```
    After:
    ```mlir
    %o = kimi.dispatch [@delta_rule_d32_beta] grid(%c1, %bh, %c1) ins(%q, %k, %v, %beta : ..) states(%state : ..) dims(%b, %t) -> ..
    ```
    Left to the reference lowering, with a remark: `normalize`, heads of more than 256 key channels, more than 8 query
    heads a state, channels that are not known. Numeric effect: the order of the sums over the key channels.
  }];
  let options = [Option<"gpu", "gpu", "bool", "false", "give the kernels a block size">];
  let statistics = [Statistic<"numScheduled", "scheduled", "delta_rule ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleAttnRes : Pass<"kimi-schedule-attn-res", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.attn_res, kimi.attn_res_bank and kimi.attn_res_merge";
  let description = [{
    A block of the grid computes whole rows (tokens): one where a row is long, several where it is short. All three are
    one launch each, which reads every source once and works in fp32:

    - `attn_res`: source after source, an online softmax; the load of the next source is under way while one is mixed.
    - `attn_res_bank`: the sources of a row are held, in registers in their own type, or in shared memory where those do
      not do; then one score vector after the other, whose products with all sources meet at one barrier.
    - `attn_res_merge`: one step of the online softmax that continues with what the bank gave.

    On a GPU (`arch`) lanes and then warps lie along a row, 16 bytes a lane and load where rows are aligned to that; any
    number of channels fits, up to 32 elements of a row in a thread of a block of 1024.

    Left to the reference lowering, with a remark: a number of channels that is not known, rows or banks that do not fit
    a block, element types other than f32, bf16 and f16.

    Before: `%y = kimi.attn_res(%b0, %b1, %p) score %s eps 1.0e-5 : ..`

    After: `%y = kimi.dispatch [@attn_res_7168_n3] grid(%m, %c1, %c1) ins(%b0, %b1, %p, %s : ..) dims(%m) -> ..`

    Numeric effect: reassociates sums over channels and sources.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"\"", "compute capability times ten; empty: for the CPU">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "attention residuals that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleRouterGpu : Pass<"kimi-schedule-router-gpu", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.router for a GPU";
  let description = [{
    A warp a token holds the scores of all experts in registers and takes one expert after another: the maximum, the first
    place that has it, its score; nothing goes through memory in between. Then the weights are normalised and scaled.

    Left to the reference lowering, with a remark: a choice among groups of experts, more than 1,024 experts, element types
    other than f32, bf16 and f16.

    Before: `%i, %w = kimi.router %logits, %bias sigmoid top 16 : tensor<?x896xf32>, tensor<896xf32> -> tensor<?x16xi64>, tensor<?x16xf32>`

    After: `%i, %w = kimi.dispatch [@router_896_16] grid(%n, %c1, %c1) ins(%logits, %bias : ..) dims(%n, %n) -> tensor<?x16xi64>, tensor<?x16xf32>`

    Numeric effect: reassociates the sum of the weights, and of a softmax.
  }];
  let statistics = [Statistic<"numScheduled", "scheduled", "routers that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleMoeGpu : Pass<"kimi-schedule-moe-gpu", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.moe for a GPU";
  let description = [{
    Launches that group the work by expert, so that a matrix is read for all pairs (token, slot) of its expert together:

    1. `moe_count`, `moe_sum`, `moe_place`: tasks of a chunk of tokens and an expert count pairs and give them rows, in tiles
       of one expert each.
    2. `moe_.._gather`: the rows of x in that order.
    3. `moe_.._hidden`: a block multiplies a tile of rows with 64 rows of both w1 and w3 of their expert, in a pipeline over
       the channels, and stores the activation; `moe_.._output`: the same with w2.
    4. `moe_.._combine`: the weighted sum of a token's outputs, in the order of its slots.

    Tiles have 16 rows where there are up to 8 pairs an expert, 64 otherwise: guards and scalars choose when the number of
    tokens is known. Products run on tensor cores where x and the matrices are both bf16 or both f16. Results do not depend
    on what other tokens there are: a row of a tile is computed by itself, in the same order always.

    Left to the reference lowering, with a remark: packed experts, element types other than f32, bf16 and f16, empty matrices.

    Before: `%y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : ..) swiglu : tensor<?x64xbf16>, .. -> tensor<?x64xbf16>`

    After:
    ```mlir
    %counts = kimi.dispatch [@moe_count] grid(%tasks, ..) ins(%i : tensor<?x3xi64>) .. -> tensor<?xi32>
    %before, %totals = kimi.dispatch [@moe_sum] grid(%c8, ..) ins(%counts : tensor<?xi32>) .. -> tensor<?xi32>, tensor<8xi32>
    %pairs, %experts, %rows = kimi.dispatch [@moe_place] grid(%tasks, ..) ins(%i, %before, %totals : ..) ..
    %xs = kimi.dispatch [@moe_64x32_bf16_gather] grid(%m, ..) ins(%x, %pairs : ..) .. -> tensor<?x64xbf16>
    %h = kimi.dispatch [@moe_64x32_bf16_hidden_few, @moe_64x32_bf16_hidden] guards(%few) .. -> tensor<?x32xbf16>
    %o = kimi.dispatch [@moe_64x32_bf16_output_few, @moe_64x32_bf16_output] guards(%few) .. -> tensor<?x64xbf16>
    %y = kimi.dispatch [@moe_64x32_bf16_combine] grid(%n, ..) ins(%o, %rows, %w : ..) .. -> tensor<?x64xbf16>
    ```

    Numeric effect: reassociates sums over channels.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"90\"", "compute capability times ten; 90a has the same kernels as 90">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "mixtures that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleRowNormsGpu : Pass<"kimi-schedule-row-norms-gpu", "mlir::ModuleOp"> {
  let summary = "make block programs of norms and softmax over the last axis for a GPU";
  let description = [{
    `kimi.l2_norm`, `rms_norm`, `gated_rms_norm`, `layer_norm` and `softmax` of the last axis: a launch each that reads
    every row once, 16 bytes a lane where rows are aligned to that, sums in fp32 and writes it once. Rows of up to 32 such
    vectors lie within a warp, several of them where they are short (two of 128 channels in bf16); longer ones are shared by
    the warps of a block (7168: 448 threads). Rows that are not one stride apart (heads of a part of a wider projection)
    are taken as [tokens, heads, channels].

    An elementwise op that computes x for the norm alone, from operands that lie like x, is done by its kernel, and so is an
    elementwise op of the result that is its only reader: activations, conversions. Where what is stored has 16 bits,
    exponentials and quotients have only the digits that those keep.

    Left to the reference lowering, with a remark: other axes, numbers of channels that are not known, element types other
    than f32, bf16 and f16, rows that do not fit a block.

    Before: `%y = kimi.l2_norm %x eps 1.0e-6 : tensor<?x?x96x128xbf16> -> tensor<?x?x96x128xbf16>`

    After: `%y = kimi.dispatch [@l2_norm_128] grid(%n, %c1, %c1) ins(%rows : tensor<?x128xbf16>) dims(%m) -> tensor<?x128xbf16>`

    Numeric effect: reassociates sums over channels; multiplies with reciprocals instead of dividing.
  }];
  let options = [Option<"archName", "arch", "std::string", "\"90\"", "compute capability times ten; 90a: with wgmma">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "SMs of the device; 0: the usual number">];
  let statistics = [Statistic<"numScheduled", "scheduled", "norms that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiScheduleGreedyToken : Pass<"kimi-schedule-greedy-token", "mlir::ModuleOp"> {
  let summary = "make tile kernels of kimi.greedy_token";
  let description = [{
    For logits that are not the result of a kimi.fused_linear for GPUs, which begins the search itself (see
    kimi-schedule-linear-gpu). Two launches. A block of the first finds the maximum of `columns` logits of a row and its first place, a block of the
    second the best among the blocks of a row. Places are fp32 numbers, so that both are `tile.reduce max`.

    Before: `%t = kimi.greedy_token %logits : tensor<?x50257xf32> -> tensor<?xi64>`

    After:
    ```mlir
    %p:2 = kimi.dispatch [@greedy_50257] grid(%c50, %m, %c1) ins(%logits : ..) dims(%m, %m) -> tensor<?x50xf32>, tensor<?x50xf32>
    %t = kimi.dispatch [@greedy_last] grid(%m, %c1, %c1) ins(%p#0, %p#1 : ..) dims(%m) -> tensor<?x1xi64>
    ```

    Numeric effect: exact.
  }];
  let options = [Option<"columns", "columns", "int64_t", "1024", "logits of a block">];
  let statistics = [Statistic<"numScheduled", "scheduled", "greedy_token ops that became kernels">];
  let dependentDialects = ["kimi::tile::TileDialect", "kimi::KimiDialect", "mlir::memref::MemRefDialect",
                           "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::tensor::TensorDialect",
                           "mlir::math::MathDialect", "mlir::linalg::LinalgDialect"];
}

def KimiPrintPlan : Pass<"kimi-print-plan", "mlir::ModuleOp"> {
  let summary = "print the plan of the host functions";
  let description = [{
    What `kimi-compile --emit=plan` prints, on standard output: weights, states, and for each entry its signature, checks,
    arena and launches. The module is not changed. Run after --kimi-outline-generic.

    Example line: `0: map_tanh<batch*seq> ('x'[batch, seq, 768 : 768*seq, 768, 1], out 'y'[...])`.
  }];
}

#endif // KIMI_PASSES_KIMI_TO_TILE_PASSES
