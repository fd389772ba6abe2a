// RUN: kimi-opt %s --kimi-schedule-head-linear --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-head-linear --verify-diagnostics -o /dev/null

// One row: the whole of a head's channels by columns that divide the width; the matrix is read where it lies.
// CHECK-LABEL: tile.kernel @head_linear_128x512
// CHECK: %[[X:.*]] = tile.alloc : memref<1x128xf32, #tile.space<shared>>
// CHECK: %[[S:.*]] = tile.alloc : memref<1x128xf32, #tile.space<fragment>>
// CHECK: tile.load %[[X]]
// CHECK: %[[W:.*]] = memref.subview %{{.*}}[%{{.*}}, 0, %{{.*}}] [1, 128, 128] [1, 1, 1]
// CHECK: tile.mma %[[S]], %[[X]], %[[W]]
// CHECK: tile.store %[[S]]

// Rows that are not a multiple of 16, a width of a prime number, and narrow types.
// CHECK-LABEL: tile.kernel @head_linear_20x13_bf16
// CHECK: tile.alloc : memref<16x20xf32, #tile.space<shared>>
// CHECK: tile.alloc : memref<16x13xf32, #tile.space<fragment>>

// CHECK-LABEL: func @one
// CHECK: kimi.dispatch [@head_linear_128x512] grid(%c4, %c1, %{{.*}})
func.func @one(%x: tensor<?x96x1x128xf32>, %w: tensor<96x128x512xf32>) -> tensor<?x96x1x512xf32> {
  %0 = kimi.head_linear %x, %w : tensor<?x96x1x128xf32>, tensor<96x128x512xf32> -> tensor<?x96x1x512xf32>
  return %0 : tensor<?x96x1x512xf32>
}

// CHECK-LABEL: func @many
// CHECK: kimi.dispatch [@head_linear_20x13_bf16] grid(%c1, %{{.*}}, %{{.*}})
func.func @many(%x: tensor<?x3x?x20xbf16>, %w: tensor<3x20x13xbf16>) -> tensor<?x3x?x13xf32> {
  %0 = kimi.head_linear %x, %w : tensor<?x3x?x20xbf16>, tensor<3x20x13xbf16> -> tensor<?x3x?x13xf32>
  return %0 : tensor<?x3x?x13xf32>
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
