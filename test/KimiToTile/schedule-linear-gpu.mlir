// RUN: kimi-opt %s --kimi-schedule-linear-gpu --canonicalize --split-input-file | FileCheck %s --check-prefix=ARGMAX
// RUN: kimi-opt %s --kimi-schedule-linear-gpu --canonicalize --split-input-file | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-linear-gpu --split-input-file 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: kimi-opt %s --kimi-schedule-linear-gpu=arch=90a --canonicalize --split-input-file | FileCheck %s --check-prefix=WGMMA
// RUN: not kimi-opt %s --kimi-schedule-linear-gpu=arch=75 --split-input-file 2>&1 | FileCheck %s --check-prefix=OLD

// OLD: error: there are no schedules for the compute capability '75'; the least is 80, 90a has its own

// A dynamic number of rows: kernels for one row and for four read the weight where they multiply it, the others go
// through a pipeline. The norm is taken along: statistics of the rows of x about their first element. What comes from
// weights is asked for before the row of x.
// CHECK: tile.kernel @linear_768x2304_layer_addf_m1({{.*}} attributes {blocks_per_sm = {{[0-9]+}} : i64, threads = 256 : i64}
// CHECK: tile.load {{.*}} from %arg2[
// CHECK: tile.load {{.*}} from %arg3[
// CHECK: tile.load {{.*}} from %arg4[
// CHECK: %[[OWN:.*]] = memref.subview %arg1
// CHECK: tile.load %[[W:.*]] from %[[OWN]]
// CHECK: tile.load %[[X:.*]] from %arg0
// CHECK: tile.mma {{.*}}, %[[X]], %[[W]] transpose_b : memref<1x16xf32{{.*}}, memref<1x768xf32, #tile.space<shared>>, memref<16x768xf32, #tile.space<fragment>>
// CHECK: tile.kernel @linear_768x2304_layer_addf_m4(
// CHECK: tile.kernel @linear_768x2304_layer_addf_m64({{.*}}threads = 128 : i64
// CHECK: tile.pipeline {{.*}} stages 4
// CHECK: tile.mma {{.*}} transpose_b
// CHECK: tile.reduce add {{.*}} accumulate
// CHECK: tile.reduce add {{.*}} accumulate
// CHECK: math.rsqrt
// CHECK: tile.store
// CHECK: tile.kernel @linear_768x2304_layer_addf({{.*}}threads = 256 : i64
// CHECK: tile.pipeline {{.*}} step %c16 stages 4
// CHECK: tile.mma {{.*}} : memref<128x128xf32

// The weight becomes rows scaled by gamma; their sums and those with beta are computed beside it.
// CHECK-LABEL: func.func @dynamic
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%arg1, %arg2 : tensor<768x2304xf32>, tensor<768xf32>)
// CHECK: -> tensor<2304x768xf32>
// CHECK: linalg.generic {{.*}} ins(%[[W]]
// CHECK: linalg.generic {{.*}} ins(%arg1, %arg3
// CHECK: kimi.dispatch [@linear_768x2304_layer_addf_m1, @linear_768x2304_layer_addf_m4,
// CHECK-SAME: @linear_768x2304_layer_addf] guards(
func.func @dynamic(%x: tensor<?x?x768xf32>, %w: tensor<768x2304xf32>, %g: tensor<768xf32>, %b: tensor<768xf32>, %c: tensor<2304xf32>) -> tensor<?x?x2304xf32> {
  %y = kimi.fused_linear %x, %w norm layer(%g, %b) eps 1.0e-5 extras(%c) maps [affine_map<(b, t, n) -> (n)>]
      : (tensor<?x?x768xf32>, tensor<768x2304xf32>, tensor<768xf32>, tensor<768xf32>, tensor<2304xf32>) -> tensor<?x?x2304xf32> {
  ^bb0(%acc: f32, %bias: f32):
    %0 = arith.addf %acc, %bias : f32
    kimi.yield %0 : f32
  }
  return %y : tensor<?x?x2304xf32>
}

// -----

// Known rows need one kernel. A stored [N, K] is read as it is; an odd N is nobody's trouble.
// CHECK: tile.kernel @linear_768x50257_bf16(%{{.*}}: memref<1024x768xbf16{{.*}}, %{{.*}}: memref<50257x768xbf16
// CHECK: tile.mma {{.*}} : memref<128x128xf32, {{.*}}, memref<128x64xbf16, {{.*}}, memref<128x64xbf16
// CHECK-LABEL: func.func @stored_rows
// CHECK-NOT: linalg.generic
// CHECK: kimi.dispatch [@linear_768x50257_bf16] grid(%c3144,
func.func @stored_rows(%x: tensor<1024x768xbf16>, %w: tensor<50257x768xbf16>) -> tensor<1024x50257xf32> {
  %y = kimi.fused_linear %x, %w transpose : (tensor<1024x768xbf16>, tensor<50257x768xbf16>) -> tensor<1024x50257xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<1024x50257xf32>
}

// -----

// On 90a products of 16-bit elements are left to wgmma: a pipeline of nothing but the product, statistics of the rows by
// a launch before it. There are more tiles than multiprocessors: each block walks over several. What the epilogue reads of
// columns is in shared memory before the product starts.
// WGMMA: tile.kernel @statistics_768_layer(
// WGMMA-COUNT-2: tile.store
// WGMMA: tile.kernel @linear_768x2304_bf16_layer({{.*}}threads = 256 : i64, warp_specialized}
// WGMMA: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c132
// WGMMA: tile.load {{.*}}, memref<1x192xf32, #tile.space<shared>>
// WGMMA: tile.load {{.*}}, memref<128x1xf32, #tile.space<fragment>>
// WGMMA: tile.pipeline {{.*}} stages 5
// WGMMA: tile.mma {{.*}} transpose_b : memref<128x192xf32{{.*}}, memref<128x64xbf16{{.*}}, memref<192x64xbf16
// WGMMA-NEXT: }
// WGMMA-LABEL: func.func @wgmma
// WGMMA: %[[S:.*]]:2 = kimi.dispatch [@statistics_768_layer]
// WGMMA: kimi.dispatch [@linear_768x2304_bf16_layer] {{.*}}%[[S]]#0, %[[S]]#1
func.func @wgmma(%x: tensor<4096x768xbf16>, %w: tensor<2304x768xbf16>, %g: tensor<768xf32>) -> tensor<4096x2304xbf16> {
  %y = kimi.fused_linear %x, %w transpose norm layer(%g) eps 1.0e-5 : (tensor<4096x768xbf16>, tensor<2304x768xbf16>, tensor<768xf32>) -> tensor<4096x2304xbf16> {
  ^bb0(%acc: f32):
    %0 = arith.truncf %acc : f32 to bf16
    kimi.yield %0 : bf16
  }
  return %y : tensor<4096x2304xbf16>
}

// -----

// Decode of a batch on 90a: one warpgroup and few columns, so that there are many blocks; all of K is under way at once,
// and the block takes the statistics of its rows on the way.
// WGMMA: tile.kernel @linear_768x2304_bf16_layer({{.*}}threads = 128 : i64, warp_specialized}
// WGMMA: tile.pipeline {{.*}} step %c64 stages 8
// WGMMA: tile.mma {{.*}} transpose_b : memref<64x{{16|24|32}}xf32
// WGMMA: tile.reduce add
// WGMMA-LABEL: func.func @decode_batch
// WGMMA-NOT: @statistics
func.func @decode_batch(%x: tensor<64x768xbf16>, %w: tensor<2304x768xbf16>, %g: tensor<768xf32>) -> tensor<64x2304xbf16> {
  %y = kimi.fused_linear %x, %w transpose norm layer(%g) eps 1.0e-5 : (tensor<64x768xbf16>, tensor<2304x768xbf16>, tensor<768xf32>) -> tensor<64x2304xbf16> {
  ^bb0(%acc: f32):
    %0 = arith.truncf %acc : f32 to bf16
    kimi.yield %0 : bf16
  }
  return %y : tensor<64x2304xbf16>
}

// -----

// Rows of an odd K are padded, and what lies past the end of a row is no part of its statistics.
// CHECK: tile.kernel @linear_33x8_layer(
// CHECK: tile.element_index 1
// CHECK: arith.cmpi ult
// CHECK-LABEL: func.func @odd
// CHECK: tensor.pad {{.*}} high[0, 3]
// CHECK: tensor<8x33xf32> to tensor<8x36xf32>
func.func @odd(%x: tensor<40x33xf32>, %w: tensor<33x8xf32>, %g: tensor<33xf32>) -> tensor<40x8xf32> {
  %y = kimi.fused_linear %x, %w norm layer(%g) eps 1.0e-5 : (tensor<40x33xf32>, tensor<33x8xf32>, tensor<33xf32>) -> tensor<40x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<40x8xf32>
}

// -----

// A grid that is smaller than the GPU: the sum over K is split, the parts are added in a fixed order.
// CHECK: tile.kernel @linear_3072x768_part(
// CHECK: tile.block_id 1
// CHECK: tile.store {{.*}} dims [1, 2]
// CHECK: tile.kernel @linear_3072x768_sum(
// CHECK: tile.load {{.*}} dims [1, 2]
// CHECK-LABEL: func.func @split
// CHECK: %[[P:.*]] = kimi.dispatch [@linear_3072x768_part] grid({{.*}} -> tensor<8x128x768xf32>
// CHECK: kimi.dispatch [@linear_3072x768_sum] {{.*}}%[[P]]
func.func @split(%x: tensor<128x3072xf32>, %w: tensor<768x3072xf32>) -> tensor<128x768xf32> {
  %y = kimi.fused_linear %x, %w transpose : (tensor<128x3072xf32>, tensor<768x3072xf32>) -> tensor<128x768xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<128x768xf32>
}

// -----

// Operands of different types are multiplied in fp32; a result is rounded by the store.
// CHECK: tile.kernel @linear_64x32_bf16(
// CHECK: tile.mma {{.*}}, memref<16x32xf32, {{.*}}, memref<16x32xf32
// CHECK: tile.store {{.*}} memref<20x32xbf16
func.func @mixed(%x: tensor<20x64xf32>, %w: tensor<32x64xbf16>) -> tensor<20x32xbf16> {
  %y = kimi.fused_linear %x, %w transpose : (tensor<20x64xf32>, tensor<32x64xbf16>) -> tensor<20x32xbf16> {
  ^bb0(%acc: f32):
    %0 = arith.truncf %acc : f32 to bf16
    kimi.yield %0 : bf16
  }
  return %y : tensor<20x32xbf16>
}

// -----

// tf32 is a permission that products carry.
// CHECK: tile.mma {{.*}} transpose_b tf32
module attributes {kimi.precision = "tf32"} {
  func.func @tf32(%x: tensor<200x64xf32>, %w: tensor<32x64xf32>) -> tensor<200x32xf32> {
    %y = kimi.fused_linear %x, %w transpose : (tensor<200x64xf32>, tensor<32x64xf32>) -> tensor<200x32xf32> {
    ^bb0(%acc: f32):
      kimi.yield %acc : f32
    }
    return %y : tensor<200x32xf32>
  }
}

// -----

// REMARK: remark: is computed by the reference lowering: the weight has a dynamic extent
// CHECK-LABEL: func.func @left_alone
// CHECK: kimi.fused_linear
func.func @left_alone(%x: tensor<4x?xf32>, %w: tensor<?x16xf32>) -> tensor<4x16xf32> {
  %y = kimi.fused_linear %x, %w : (tensor<4x?xf32>, tensor<?x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<4x16xf32>
}

// -----

kimi.weight @wte : tensor<32x512xbf16> from #kimi.external<"m", 0, 32768>

// What is known when weights are loaded is constant to the kernel; x is not.
// CHECK: tile.kernel @linear_512x32_bf16({{%[a-z0-9]+}}: memref<16x512xbf16, {{[^%]*}}{tile.align = 16 : i64}, {{%[a-z0-9]+}}: memref<32x512xbf16, {{[^%]*}}{tile.align = 16 : i64, tile.constant}
// CHECK-LABEL: func.func @constant
func.func @constant(%x: tensor<16x512xbf16>) -> tensor<16x32xbf16> {
  %w = kimi.weight_ref @wte : tensor<32x512xbf16>
  %y = kimi.fused_linear %x, %w transpose : (tensor<16x512xbf16>, tensor<32x512xbf16>) -> tensor<16x32xbf16> {
  ^bb0(%acc: f32):
    %narrow = arith.truncf %acc : f32 to bf16
    kimi.yield %narrow : bf16
  }
  return %y : tensor<16x32xbf16>
}

// -----

// The likeliest token of every row: each tile of logits leaves its rows' maxima and minus their places, as many parts as
// the variant that is taken has tiles of columns; one more launch takes the best. Columns past the end are no tokens.
// ARGMAX: tile.kernel @linear_64x1037_m1(
// ARGMAX: tile.kernel @linear_64x1037(
// ARGMAX: tile.store %[[ACC:[0-9]+]] to %arg2[
// ARGMAX: tile.map ins(%[[ACC]] :
// ARGMAX: arith.cmpi ult, %{{.*}}, %c1037
// ARGMAX: tile.reduce max %[[ACC]] into %[[M:[0-9]+]] axis 1
// ARGMAX: arith.cmpf oeq
// ARGMAX: tile.reduce max %[[ACC]] into %[[P:[0-9]+]] axis 1
// ARGMAX: tile.store %[[M]] to %arg3[
// ARGMAX: tile.store %[[P]] to %arg4[
// ARGMAX-LABEL: func.func @argmax
// ARGMAX: %[[Y:.*]]:3 = kimi.dispatch [@linear_64x1037_m1,
// ARGMAX: %[[T:.*]] = kimi.dispatch [@greedy_last] {{.*}} ins(%[[Y]]#1, %[[Y]]#2 : {{.*}} -> tensor<?x1xi64>
// ARGMAX-NOT: kimi.greedy_token
func.func @argmax(%x: tensor<?x1x64xf32>, %w: tensor<64x1037xf32>) -> (tensor<?x1x1037xf32>, tensor<?x1xi64>) {
  %y = kimi.fused_linear %x, %w : (tensor<?x1x64xf32>, tensor<64x1037xf32>) -> tensor<?x1x1037xf32> {
  ^bb0(%v: f32):
    kimi.yield %v : f32
  }
  %t = kimi.greedy_token %y : tensor<?x1x1037xf32> -> tensor<?x1xi64>
  return %y, %t : tensor<?x1x1037xf32>, tensor<?x1xi64>
}

// -----

// Tokens of some rows only: left to a launch over the logits.
// ARGMAX-LABEL: func.func @some_rows
// ARGMAX: kimi.dispatch [@linear_64x1037
// ARGMAX: kimi.greedy_token
func.func @some_rows(%x: tensor<?x64xf32>, %w: tensor<64x1037xf32>) -> (tensor<?x1037xf32>, tensor<1xi64>) {
  %y = kimi.fused_linear %x, %w : (tensor<?x64xf32>, tensor<64x1037xf32>) -> tensor<?x1037xf32> {
  ^bb0(%v: f32):
    kimi.yield %v : f32
  }
  %last = tensor.extract_slice %y[0, 0] [1, 1037] [1, 1] : tensor<?x1037xf32> to tensor<1x1037xf32>
  %t = kimi.greedy_token %last : tensor<1x1037xf32> -> tensor<1xi64>
  return %y, %t : tensor<?x1037xf32>, tensor<1xi64>
}

// -----

// One number for all of the result: a tile of one element, read at (0, 0) by every block.
// CHECK: tile.kernel @linear_64x256_addf(%[[X:.*]]: memref<{{.*}}, %[[W:.*]]: memref<{{.*}}, %[[C:.*]]: memref<1x1xf32
// CHECK: %[[ONE:.*]] = tile.alloc : memref<1x1xf32
// CHECK: tile.load %[[ONE]] from %[[C]][%c0, %c0]
// CHECK-LABEL: func.func @one_number
func.func @one_number(%x: tensor<512x64xf32>, %w: tensor<64x256xf32>, %c: tensor<f32>) -> tensor<512x256xf32> {
  %y = kimi.fused_linear %x, %w extras(%c) maps [affine_map<(m, n) -> ()>]
      : (tensor<512x64xf32>, tensor<64x256xf32>, tensor<f32>) -> tensor<512x256xf32> {
  ^bb0(%acc: f32, %shift: f32):
    %0 = arith.addf %acc, %shift : f32
    kimi.yield %0 : f32
  }
  return %y : tensor<512x256xf32>
}
