// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

!acc = memref<64x128xf32, #tile.space<fragment>>
!a = memref<64x256xf32, #tile.space<shared>>

// CHECK-LABEL: tile.kernel @copies
// CHECK-SAME: (%{{.*}}: memref<?x?x768xf32>, %{{.*}}: memref<?x768xf32, strided<[?, 1], offset: ?>>, %{{.*}}: index)
tile.kernel @copies(%x: memref<?x?x768xf32>, %y: memref<?x768xf32, strided<[?, 1], offset: ?>>, %m: index) {
  // CHECK: tile.block_id 0
  %b = tile.block_id 0
  // CHECK: tile.alloc : memref<64x256xf32, #tile.space<shared>>
  %a = tile.alloc : !a
  // CHECK: tile.load %{{.*}} from %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] dims [1, 2] : memref<?x?x768xf32>, memref<64x256xf32, #tile.space<shared>>
  tile.load %a from %x[%b, %m, %m] dims [1, 2] : memref<?x?x768xf32>, !a
  // CHECK: tile.load {{.*}} dims [2, 0] {pad = -1.000000e+00 : f32}
  tile.load %a from %x[%b, %m, %m] dims [2, 0] {pad = -1.0 : f32} : memref<?x?x768xf32>, !a
  // CHECK: tile.store %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] dims [0, 1] : memref<64x256xf32, #tile.space<shared>>, memref<?x768xf32, strided<[?, 1], offset: ?>>
  tile.store %a to %y[%m, %m] dims [0, 1] : !a, memref<?x768xf32, strided<[?, 1], offset: ?>>
  // CHECK: tile.return
  tile.return
}

// CHECK-LABEL: tile.kernel @products
tile.kernel @products(%b0: memref<256x128xf32>, %b1: memref<128x256xf32>, %b2: memref<8x256x16xf32>, %z: index) {
  %zero = arith.constant 0.0 : f32
  %acc = tile.alloc : !acc
  %a = tile.alloc : !a
  // CHECK: tile.fill %{{.*}}, %{{.*}} : memref<64x128xf32, #tile.space<fragment>>, f32
  tile.fill %acc, %zero : !acc, f32
  // CHECK: tile.mma %{{.*}}, %{{.*}}, %{{.*}} : memref<64x128xf32
  tile.mma %acc, %a, %b0 : !acc, !a, memref<256x128xf32>
  // CHECK: tile.mma %{{.*}}, %{{.*}}, %{{.*}} transpose_b :
  tile.mma %acc, %a, %b1 transpose_b : !acc, !a, memref<128x256xf32>
  // CHECK: tile.mma %{{.*}}, %{{.*}}, %{{.*}} panels :
  tile.mma %acc, %a, %b2 panels : !acc, !a, memref<8x256x16xf32>
  tile.return
}

// CHECK-LABEL: tile.kernel @elementwise
tile.kernel @elementwise() {
  %acc = tile.alloc : !acc
  %row = tile.alloc : memref<64x1xf32, #tile.space<fragment>>
  // CHECK: tile.reduce max %{{.*}} into %{{.*}} axis 1 : memref<64x128xf32
  tile.reduce max %acc into %row axis 1 : !acc, memref<64x1xf32, #tile.space<fragment>>
  // CHECK: tile.reduce add %{{.*}} into %{{.*}} axis 1 accumulate :
  tile.reduce add %acc into %row axis 1 accumulate : !acc, memref<64x1xf32, #tile.space<fragment>>
  // CHECK: tile.map ins(%{{.*}}, %{{.*}} : memref<64x128xf32, #tile.space<fragment>>, memref<64x1xf32, #tile.space<fragment>>) outs(%{{.*}} : memref<64x128xf32, #tile.space<fragment>>) {
  tile.map ins(%acc, %row : !acc, memref<64x1xf32, #tile.space<fragment>>) outs(%acc : !acc) {
  ^bb0(%s: f32, %m: f32):
    // CHECK: tile.element_index 1
    %j = tile.element_index 1
    %d = arith.subf %s, %m : f32
    %e = math.exp %d : f32
    // CHECK: tile.yield %{{.*}} : f32
    tile.yield %e : f32
  }
  // CHECK: tile.map outs(
  tile.map outs(%acc : !acc) {
    %one = arith.constant 1.0 : f32
    tile.yield %one : f32
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @gpu
// CHECK-SAME: (%{{.*}}: memref<?x64xbf16> {tile.align = 16 : i64}, %{{.*}}: memref<?x64xbf16>) attributes {threads = 128 : i64}
tile.kernel @gpu(%x: memref<?x64xbf16> {tile.align = 16 : i64}, %w: memref<?x64xbf16>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // CHECK: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : memref<64x64xf32, #tile.space<fragment>>
  %acc = tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : memref<64x64xf32, #tile.space<fragment>>
  // CHECK: tile.alloc {layout = #tile.layout<registers [2:8 at 0], lanes [4:0, 8:1 at 0], warps [4:16 at 0]>}
  %row = tile.alloc {layout = #tile.layout<registers [2:8 at 0], lanes [4:0, 8:1 at 0], warps [4:16 at 0]>} : memref<64x1xf32, #tile.space<fragment>>
  %a = tile.alloc : memref<64x32xbf16, #tile.space<shared>>
  %b = tile.alloc : memref<64x32xbf16, #tile.space<shared>>
  // CHECK: tile.pipeline %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} stages 4 buffers(%[[A:.*]], %[[B:.*]] : memref<64x32xbf16, #tile.space<shared>>, memref<64x32xbf16, #tile.space<shared>>) {
  // CHECK-NEXT: tile.load %[[A]] from %{{.*}}[%{{.*}}, %[[K]]]
  // CHECK-NEXT: tile.load %[[B]]
  // CHECK-NEXT: } compute {
  // CHECK-NEXT: tile.mma %{{.*}}, %[[A]], %[[B]] transpose_b tf32 :
  // CHECK-NEXT: }
  tile.pipeline %k = %c0 to %c64 step %c32 stages 4 buffers(%a, %b : memref<64x32xbf16, #tile.space<shared>>, memref<64x32xbf16, #tile.space<shared>>) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : memref<?x64xbf16>, memref<64x32xbf16, #tile.space<shared>>
    tile.load %b from %w[%c0, %k] dims [0, 1] : memref<?x64xbf16>, memref<64x32xbf16, #tile.space<shared>>
  } compute {
    tile.mma %acc, %a, %b transpose_b tf32 : memref<64x64xf32, #tile.space<fragment>>, memref<64x32xbf16, #tile.space<shared>>, memref<64x32xbf16, #tile.space<shared>>
  }
  // CHECK: tile.shared_access reads [0, 4096] writes []
  tile.shared_access reads [0, 4096] writes []
  tile.return
}
