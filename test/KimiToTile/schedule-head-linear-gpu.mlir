// RUN: kimi-opt %s --kimi-schedule-head-linear-gpu --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-head-linear-gpu=arch=90a --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-head-linear-gpu --verify-diagnostics -o /dev/null
// RUN: not kimi-opt %s --kimi-schedule-head-linear-gpu=arch=75 -o /dev/null 2>&1 | FileCheck %s --check-prefix=OLD

// OLD: error: there are no schedules for the compute capability '75'

// Decode: the rows of a block are sequences, so that a head's matrix is read once for all; it is multiplied as it lies.
// CHECK: tile.kernel @head_linear_128x512_bf16_b16(
// CHECK-SAME: threads = 128 : i64
// CHECK: %[[A:.*]] = tile.alloc : memref<16x64xbf16, #tile.space<shared>>
// CHECK: %[[B:.*]] = tile.alloc : memref<64x64xbf16, #tile.space<shared>>
// CHECK: tile.pipeline
// CHECK: tile.load %[[A]] from %arg0[%[[ROW:.*]], %[[HEAD:.*]], %c0, %{{.*}}] dims [0, 3]
// CHECK: tile.load %[[B]] from %arg1[%[[HEAD]], %{{.*}}, %{{.*}}] dims [1, 2]
// CHECK: tile.mma %{{.*}}, %[[A]], %[[B]] :
// CHECK: tile.store {{.*}} dims [0, 3]
// CHECK: tile.kernel @head_linear_128x512_bf16_b(
// CHECK: memref<64x128xf32, #tile.space<fragment>>

// Any number of tokens, few channels: no deeper than a matrix instruction, no wider than there is something.
// CHECK: tile.kernel @head_linear_20x13_bf16_b16(
// CHECK: tile.alloc : memref<16x16xf32, #tile.space<fragment>>
// CHECK: tile.alloc : memref<16x32xbf16, #tile.space<shared>>
// CHECK: tile.kernel @head_linear_20x13_bf16_b(
// CHECK: tile.kernel @head_linear_20x13_bf16_t16(
// CHECK: tile.load {{.*}} dims [2, 3]
// CHECK: tile.kernel @head_linear_20x13_bf16(

// x and w of different types meet in fp32.
// CHECK: tile.kernel @head_linear_32x32_f16(
// CHECK: memref<64x32xf32, #tile.space<shared>>

// CHECK-LABEL: func @one
// CHECK: kimi.dispatch [@head_linear_128x512_bf16_b16, @head_linear_128x512_bf16_b] guards(%{{.*}}) grid(%c8, %{{.*}}, %c96, %c4, %{{.*}}, %c96)
func.func @one(%x: tensor<?x96x1x128xbf16>, %w: tensor<96x128x512xbf16>) -> tensor<?x96x1x512xbf16> {
  %0 = kimi.head_linear %x, %w : tensor<?x96x1x128xbf16>, tensor<96x128x512xbf16> -> tensor<?x96x1x512xbf16>
  return %0 : tensor<?x96x1x512xbf16>
}

// CHECK-LABEL: func @many
// CHECK: kimi.dispatch [@head_linear_20x13_bf16_b16, @head_linear_20x13_bf16_b, @head_linear_20x13_bf16_t16, @head_linear_20x13_bf16] guards(
func.func @many(%x: tensor<?x3x?x20xbf16>, %w: tensor<3x20x13xbf16>) -> tensor<?x3x?x13xf32> {
  %0 = kimi.head_linear %x, %w : tensor<?x3x?x20xbf16>, tensor<3x20x13xbf16> -> tensor<?x3x?x13xf32>
  return %0 : tensor<?x3x?x13xf32>
}

// CHECK-LABEL: func @mixed
// CHECK: kimi.dispatch [@head_linear_32x32_f16] grid(
func.func @mixed(%x: tensor<2x3x100x32xf32>, %w: tensor<3x32x32xf16>) -> tensor<2x3x100x32xf32> {
  %0 = kimi.head_linear %x, %w : tensor<2x3x100x32xf32>, tensor<3x32x32xf16> -> tensor<2x3x100x32xf32>
  return %0 : tensor<2x3x100x32xf32>
}

// CHECK-LABEL: func @unknown
// CHECK: kimi.head_linear
func.func @unknown(%x: tensor<?x3x?x?xf32>, %w: tensor<3x?x8xf32>) -> tensor<?x3x?x8xf32> {
  // expected-remark @below {{is computed by the reference lowering: the extents of its matrices are not known}}
  %0 = kimi.head_linear %x, %w : tensor<?x3x?x?xf32>, tensor<3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %0 : tensor<?x3x?x8xf32>
}

// CHECK-LABEL: func @wide
// CHECK: kimi.head_linear
func.func @wide(%x: tensor<?x3x?x8xf64>, %w: tensor<3x8x8xf64>) -> tensor<?x3x?x8xf64> {
  // expected-remark @below {{is computed by the reference lowering: there is no kernel for tensors that are not f32, bf16 or f16}}
  %0 = kimi.head_linear %x, %w : tensor<?x3x?x8xf64>, tensor<3x8x8xf64> -> tensor<?x3x?x8xf64>
  return %0 : tensor<?x3x?x8xf64>
}
