// RUN: kimi-opt %s --kimi-schedule-greedy-token --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-greedy-token=columns=4096 --canonicalize --cse | FileCheck %s --check-prefix=WIDE
// RUN: not kimi-opt %s --kimi-schedule-greedy-token=columns=0 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: kimi-schedule-greedy-token: columns is 0; expected at least 1

// CHECK: tile.kernel @greedy_50257(%[[X:.*]]: memref<?x50257xf32, {{.*}}>, %{{.*}}: memref<?x50xf32{{.*}}, %{{.*}}: memref<?x50xf32
// CHECK: %[[V:.*]] = tile.alloc : memref<1x1024xf32, #tile.space<fragment>>
// CHECK: tile.load %[[V]] from %[[X]]{{.*}} {pad = 0xFF800000 : f32}
// CHECK: tile.reduce max %[[V]] into %[[M:.*]] axis 1
// CHECK: tile.map ins(%[[V]], %[[M]]
// CHECK: arith.cmpf oeq
// CHECK: tile.reduce max
// CHECK: tile.store
// CHECK: tile.store
// CHECK: tile.kernel @greedy_last(
// CHECK: tile.load {{.*}} memref<1x64xf32
// CHECK: arith.fptosi
// CHECK: tile.store {{.*}} : memref<1x1xi64, #tile.space<fragment>>, memref<?x1xi64

// CHECK-LABEL: func @step
// CHECK: %[[P:.*]]:2 = kimi.dispatch [@greedy_50257] grid(%c50, %[[B:.*]], %c1) ins(%{{.*}} : tensor<?x50257xf32>) {{.*}} -> tensor<?x50xf32>, tensor<?x50xf32>
// CHECK: %[[T:.*]] = kimi.dispatch [@greedy_last] grid(%[[B]], %c1, %c1) ins(%[[P]]#0, %[[P]]#1 {{.*}} -> tensor<?x1xi64>
// WIDE: kimi.dispatch [@greedy_50257] grid(%c13,
func.func @step(%l: tensor<?x1x50257xf32>) -> tensor<?x1xi64> {
  %t = kimi.greedy_token %l : tensor<?x1x50257xf32> -> tensor<?x1xi64>
  return %t : tensor<?x1xi64>
}

// Fewer tokens than a block holds, no batch, 16-bit logits.
// CHECK-LABEL: func @small
// CHECK: kimi.dispatch [@greedy_7] grid(%c1, %c1, %c1) ins(%{{.*}} : tensor<1x7xbf16>)
// CHECK: return %{{.*}} : tensor<i64>
func.func @small(%l: tensor<7xbf16>) -> tensor<i64> {
  %t = kimi.greedy_token %l : tensor<7xbf16> -> tensor<i64>
  return %t : tensor<i64>
}
