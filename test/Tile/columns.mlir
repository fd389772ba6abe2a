// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

!t = memref<64x128xf32, #tile.space<fragment>>
!a = memref<64x64xf32, #tile.space<shared>>

// CHECK-LABEL: tile.kernel @columns
tile.kernel @columns() {
  %g = tile.alloc : !t
  %x = tile.alloc : !t
  %a = tile.alloc : !a
  // CHECK: tile.scan %[[G:.*]] into %[[G]] : memref<64x128xf32, #tile.space<fragment>>, memref<64x128xf32, #tile.space<fragment>>
  tile.scan %g into %g : !t, !t
  // CHECK: tile.pick_rows %[[G]] into %[[X:.*]] block 16 row 8 : memref<64x128xf32
  tile.pick_rows %g into %x block 16 row 8 : !t, !t
  // CHECK: tile.solve %{{.*}}, %[[X]] : memref<64x64xf32, #tile.space<shared>>, memref<64x128xf32, #tile.space<fragment>>
  tile.solve %a, %x : !a, !t
  tile.return
}
