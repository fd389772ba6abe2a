// RUN: kimi-opt %s --kimi-schedule-attention-gpu --canonicalize --split-input-file | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-attention-gpu --split-input-file 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: kimi-opt %s --kimi-schedule-attention-gpu=arch=90a --canonicalize --split-input-file | FileCheck %s --check-prefix=WGMMA

// Kernels for one query, for a few and for many; the transpose of the result is not a copy.
// CHECK: tile.kernel @attention_d64_causal_t1({{.*}}threads = 128 : i64
// CHECK-NOT: tile.pipeline
// CHECK-NOT: tile.mma
// CHECK: tile.kernel @attention_d64_causal_t16(
// CHECK: tile.kernel @attention_d64_causal({{.*}}threads = 256 : i64
// CHECK: tile.pipeline
// CHECK: tile.mma {{.*}} transpose_b : memref<64x64xf32
// CHECK: scf.if
// CHECK: tile.element_index
// CHECK: tile.reduce max
// CHECK: math.exp2
// CHECK: tile.reduce add
// CHECK: tile.mma
// CHECK: tile.store {{.*}} dims [1, 3]
// CHECK-LABEL: func.func @causal
// CHECK: kimi.dispatch [@attention_d64_causal_t1, @attention_d64_causal_combine, @attention_d64_causal_t16, @attention_d64_causal] guards(
// CHECK-SAME: -> tensor<?x?x12x64xf32>
// CHECK-NOT: linalg.transpose
func.func @causal(%q: tensor<?x12x?x64xf32>, %k: tensor<?x12x?x64xf32>, %v: tensor<?x12x?x64xf32>, %b: index, %t: index) -> tensor<?x?x12x64xf32> {
  %o = kimi.attention %q, %k, %v causal scale 0.125 : tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x?x64xf32>
  %e = tensor.empty(%b, %t) : tensor<?x?x12x64xf32>
  %r = linalg.transpose ins(%o : tensor<?x12x?x64xf32>) outs(%e : tensor<?x?x12x64xf32>) permutation = [0, 2, 1, 3]
  return %r : tensor<?x?x12x64xf32>
}

// -----

// Shares of the keys: a block takes those of its number, leaves what it has undivided, and the next launch adds them up.
// CHECK: tile.kernel @attention_d64_causal_append_share(
// CHECK: %[[SHARE:.*]] = tile.block_id 1
// CHECK: arith.minsi
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[SHARE]], %c0
// CHECK: arith.select %[[FIRST]]
// CHECK: scf.for
// CHECK: tile.store {{.*}} dims [1, 3]
// CHECK: tile.store {{.*}} dims [1, 3]
// CHECK: tile.store {{.*}} dims [1, 3]

// One token: the appends are done by the kernel, which reads the held rows from the state and this step's from where they
// were computed: its score is the first maximum. Keys and values of a step are loaded before anything is computed of
// them; each slot has maximum and sums of its own, and they meet after the loop.
// CHECK: tile.kernel @attention_d64_causal_append_t1(
// CHECK: tile.load %[[KEY:.*]] from %arg1[
// CHECK: tile.load %[[VALUE:.*]] from %arg2[
// CHECK: tile.reduce add {{.*}} : memref<1x64xf32{{.*}}, memref<1x1xf32
// CHECK: scf.for {{.*}} step %c64
// CHECK-COUNT-16: tile.load {{.*}} memref<8x64xf32
// CHECK-NOT: tile.load
// CHECK: tile.reduce add {{.*}} axis 1 : memref<8x64xf32{{.*}}, memref<8x1xf32
// CHECK-NOT: axis 0
// CHECK: }
// CHECK: tile.reduce max {{.*}} axis 0 : memref<8x1xf32{{.*}}, memref<1x1xf32
// CHECK: tile.reduce add {{.*}} axis 0 : memref<8x1xf32
// CHECK: tile.reduce add {{.*}} axis 0 : memref<8x64xf32
// CHECK: tile.store
// CHECK: tile.store %[[KEY]] to {{.*}} dims [2, 3]
// CHECK: tile.store %[[VALUE]] to {{.*}} dims [2, 3]
// CHECK-LABEL: func.func @decode
// CHECK: %[[S:.*]]:3 = kimi.dispatch [@attention_d64_causal_append_share] grid({{.*}} states(%arg3, %arg4
// CHECK: kimi.dispatch [@attention_d64_causal_append_t1, @attention_d64_causal_append_combine] guards({{.*}}%[[S]]#0, %[[S]]#1, %[[S]]#2 {{.*}} states(%arg3, %arg4
// CHECK-NOT: kimi.cache_append
func.func @decode(%q: tensor<?x12x1x64xf32>, %k: tensor<?x12x1x64xf32>, %v: tensor<?x12x1x64xf32>,
                  %ks: !kimi.state<tensor<?x12x?x64xf32>, 2>, %vs: !kimi.state<tensor<?x12x?x64xf32>, 2>) -> tensor<?x12x1x64xf32> {
  %past = kimi.state_length %ks : !kimi.state<tensor<?x12x?x64xf32>, 2>
  %ka = kimi.cache_append %ks, %k at %past : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x1x64xf32> -> tensor<?x12x?x64xf32>
  %va = kimi.cache_append %vs, %v at %past : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x1x64xf32> -> tensor<?x12x?x64xf32>
  %o = kimi.attention %q, %ka, %va causal scale 0.125 : tensor<?x12x1x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x1x64xf32>
  return %o : tensor<?x12x1x64xf32>
}

// -----

// An append that something else reads stays an op of its own.
// CHECK-LABEL: func.func @shared_append
// CHECK: kimi.cache_append
// CHECK: kimi.cache_append
// CHECK: kimi.dispatch [@attention_d64_causal_t1,
func.func @shared_append(%q: tensor<1x2x1x64xf32>, %k: tensor<1x2x1x64xf32>,
                         %ks: !kimi.state<tensor<?x2x?x64xf32>, 2>, %vs: !kimi.state<tensor<?x2x?x64xf32>, 2>) -> (tensor<1x2x1x64xf32>, tensor<1x2x?x64xf32>) {
  %past = kimi.state_length %ks : !kimi.state<tensor<?x2x?x64xf32>, 2>
  %ka = kimi.cache_append %ks, %k at %past : !kimi.state<tensor<?x2x?x64xf32>, 2>, tensor<1x2x1x64xf32> -> tensor<1x2x?x64xf32>
  %va = kimi.cache_append %vs, %k at %past : !kimi.state<tensor<?x2x?x64xf32>, 2>, tensor<1x2x1x64xf32> -> tensor<1x2x?x64xf32>
  %o = kimi.attention %q, %ka, %va causal scale 0.125 : tensor<1x2x1x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x2x1x64xf32>
  return %o, %ka : tensor<1x2x1x64xf32>, tensor<1x2x?x64xf32>
}

// -----

// A step of many tokens: on 90a the first one has a kernel of its own, fed by the copy engine from whole buffers; of 64
// rows, since there are few blocks.
// WGMMA: tile.kernel @attention_d64_bf16_causal_append_fresh_r64({{.*}}threads = 128 : i64, warp_specialized}
// WGMMA: tile.pipeline
// WGMMA: tile.mma {{.*}} transpose_b : memref<64x128xf32{{.*}}, memref<64x64xbf16{{.*}}, memref<128x64xbf16
// WGMMA-NOT: tile.pipeline
// WGMMA: tile.kernel @attention_d64_bf16_causal_append({{.*}}threads = 256 : i64}
// WGMMA-LABEL: func.func @prefill
// WGMMA: kimi.dispatch [@attention_d64_bf16_causal_append_fresh_r64, @attention_d64_bf16_causal_append] guards(
// CHECK-LABEL: func.func @prefill
// CHECK: kimi.dispatch [@attention_d64_bf16_causal_append] grid
func.func @prefill(%q: tensor<1x12x100x64xbf16>, %k: tensor<1x12x100x64xbf16>, %v: tensor<1x12x100x64xbf16>,
                   %ks: !kimi.state<tensor<?x12x?x64xbf16>, 2>, %vs: !kimi.state<tensor<?x12x?x64xbf16>, 2>) -> tensor<1x12x100x64xbf16> {
  %past = kimi.state_length %ks : !kimi.state<tensor<?x12x?x64xbf16>, 2>
  %ka = kimi.cache_append %ks, %k at %past : !kimi.state<tensor<?x12x?x64xbf16>, 2>, tensor<1x12x100x64xbf16> -> tensor<1x12x?x64xbf16>
  %va = kimi.cache_append %vs, %v at %past : !kimi.state<tensor<?x12x?x64xbf16>, 2>, tensor<1x12x100x64xbf16> -> tensor<1x12x?x64xbf16>
  %o = kimi.attention %q, %ka, %va causal scale 0.125 : tensor<1x12x100x64xbf16>, tensor<1x12x?x64xbf16>, tensor<1x12x?x64xbf16> -> tensor<1x12x100x64xbf16>
  return %o : tensor<1x12x100x64xbf16>
}

// -----

// Where the number of blocks shows when it runs, the rows of a block are chosen by it: one, two or three warpgroups. Wider
// heads leave no registers for three.
// WGMMA: tile.kernel @attention_d64_bf16_causal_r64({{.*}}threads = 128 : i64
// WGMMA: tile.kernel @attention_d64_bf16_causal_r192({{.*}}threads = 384 : i64
// WGMMA: tile.kernel @attention_d64_bf16_causal({{.*}}threads = 256 : i64
// WGMMA-LABEL: func.func @rows
// WGMMA: kimi.dispatch [{{.*}}, @attention_d64_bf16_causal_r64, @attention_d64_bf16_causal_r192, @attention_d64_bf16_causal] guards(
// WGMMA: kimi.dispatch [{{.*}}, @attention_d128_bf16_causal_r64, @attention_d128_bf16_causal] guards(
func.func @rows(%q: tensor<?x12x?x64xbf16>, %k: tensor<?x12x?x64xbf16>, %v: tensor<?x12x?x64xbf16>,
                %r: tensor<?x12x?x128xbf16>, %l: tensor<?x12x?x128xbf16>, %w: tensor<?x12x?x128xbf16>) -> (tensor<?x12x?x64xbf16>, tensor<?x12x?x128xbf16>) {
  %o = kimi.attention %q, %k, %v causal scale 0.125 : tensor<?x12x?x64xbf16>, tensor<?x12x?x64xbf16>, tensor<?x12x?x64xbf16> -> tensor<?x12x?x64xbf16>
  %p = kimi.attention %r, %l, %w causal scale 0.125 : tensor<?x12x?x128xbf16>, tensor<?x12x?x128xbf16>, tensor<?x12x?x128xbf16> -> tensor<?x12x?x128xbf16>
  return %o, %p : tensor<?x12x?x64xbf16>, tensor<?x12x?x128xbf16>
}

// -----

// Grouped heads of one query share what a block reads of keys and values.
// CHECK: tile.kernel @attention_d128_bf16_t1(
// CHECK-COUNT-4: tile.load {{.*}} dims [1, 3] {{.*}} memref<1x128xf32
// CHECK: scf.for {{.*}} step %c64
// CHECK-COUNT-16: tile.load {{.*}} memref<8x128xbf16
// CHECK-NOT: tile.load
// CHECK: arith.extf
// CHECK: tile.return
// CHECK-LABEL: func.func @grouped
// CHECK: grid(%c8, %c1, %c1)
func.func @grouped(%q: tensor<1x32x1x128xbf16>, %k: tensor<1x8x300x128xbf16>, %v: tensor<1x8x300x128xbf16>) -> tensor<1x32x1x128xbf16> {
  %o = kimi.attention %q, %k, %v scale 0.0883 : tensor<1x32x1x128xbf16>, tensor<1x8x300x128xbf16>, tensor<1x8x300x128xbf16> -> tensor<1x32x1x128xbf16>
  return %o : tensor<1x32x1x128xbf16>
}

// -----

// More heads to a key head are rows of matrix instructions; bf16 is multiplied as it is, the weights are rounded for it.
// CHECK: tile.kernel @attention_d128_bf16_t1(
// CHECK: tile.load {{.*}} dims [1, 3]
// CHECK: tile.mma {{.*}} transpose_b : memref<16x64xf32{{.*}} memref<16x128xbf16
// CHECK: arith.truncf
// CHECK: tile.mma {{.*}} memref<16x64xbf16
// CHECK-LABEL: func.func @wide_groups
func.func @wide_groups(%q: tensor<1x64x1x128xbf16>, %k: tensor<1x8x300x128xbf16>, %v: tensor<1x8x300x128xbf16>) -> tensor<1x64x1x128xbf16> {
  %o = kimi.attention %q, %k, %v scale 0.0883 : tensor<1x64x1x128xbf16>, tensor<1x8x300x128xbf16>, tensor<1x8x300x128xbf16> -> tensor<1x64x1x128xbf16>
  return %o : tensor<1x64x1x128xbf16>
}

// -----

// Another width for values, a boolean mask (made additive), a cap; channels are rounded up to what a matrix instruction
// takes.
// CHECK: tile.kernel @attention_d192_v20_mask(
// CHECK: tile.mma {{.*}} transpose_b : memref<64x32xf32{{.*}} memref<64x192xf32
// CHECK: math.tanh
// CHECK: tile.mma {{.*}} memref<32x32xf32
// CHECK-LABEL: func.func @masked
// CHECK: linalg.generic
// CHECK: kimi.dispatch [@attention_d192_v20_mask] grid
func.func @masked(%q: tensor<1x4x50x192xf32>, %k: tensor<1x2x70x192xf32>, %v: tensor<1x2x70x20xf32>, %m: tensor<1x1x50x70xi1>) -> tensor<1x4x50x20xf32> {
  %o = kimi.attention %q, %k, %v mask %m : tensor<1x1x50x70xi1> scale 0.125 {softcap = 30.0 : f32} : tensor<1x4x50x192xf32>, tensor<1x2x70x192xf32>, tensor<1x2x70x20xf32> -> tensor<1x4x50x20xf32>
  return %o : tensor<1x4x50x20xf32>
}

// -----

// REMARK: remark: is computed by the reference lowering: heads of 512 and 512 channels do not fit a block
// CHECK-LABEL: func.func @left_alone
// CHECK: kimi.attention
func.func @left_alone(%q: tensor<1x1x8x512xf32>, %k: tensor<1x1x8x512xf32>, %v: tensor<1x1x8x512xf32>) -> tensor<1x1x8x512xf32> {
  %o = kimi.attention %q, %k, %v scale 1.0 : tensor<1x1x8x512xf32>, tensor<1x1x8x512xf32>, tensor<1x1x8x512xf32> -> tensor<1x1x8x512xf32>
  return %o : tensor<1x1x8x512xf32>
}

// -----

// REMARK: remark: is computed by the reference lowering: the number of channels is not known
func.func @unknown(%q: tensor<1x1x?x?xf32>, %k: tensor<1x1x?x?xf32>, %v: tensor<1x1x?x16xf32>) -> tensor<1x1x?x16xf32> {
  %o = kimi.attention %q, %k, %v scale 1.0 : tensor<1x1x?x?xf32>, tensor<1x1x?x?xf32>, tensor<1x1x?x16xf32> -> tensor<1x1x?x16xf32>
  return %o : tensor<1x1x?x16xf32>
}
