// RUN: kimi-opt %s --tile-assign-layouts --split-input-file | FileCheck %s --check-prefix=LAYOUT
// RUN: kimi-opt %s --tile-assign-layouts --tile-to-nvvm --tile-insert-barriers --canonicalize --cse --split-input-file | FileCheck %s

!t = memref<8x128xf32, #tile.space<fragment>>

// A thread holds a column, so nothing is exchanged; what is picked costs nothing.
// LAYOUT-LABEL: tile.kernel @scan
// LAYOUT-COUNT-2: tile.alloc {layout = #tile.layout<registers [8:1 at 0], lanes [32:1 at 1], warps [4:32 at 1]>} : memref<8x128xf32
// CHECK-LABEL: tile.kernel @scan
// CHECK-COUNT-7: arith.addf
// CHECK-NOT: arith.addf
// CHECK-NOT: nvvm.shfl
// CHECK-NOT: nvvm.barrier
// CHECK: tile.return
tile.kernel @scan(%x: memref<8x128xf32>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : !t
  %p = tile.alloc : !t
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<8x128xf32>, !t
  tile.scan %t into %t : !t, !t
  tile.pick_rows %t into %p block 4 row 2 : !t, !t
  tile.store %p to %x[%c0, %c0] dims [0, 1] : !t, memref<8x128xf32>
  tile.return
}

// -----

!t = memref<8x256xf32, #tile.space<fragment>>
!a = memref<8x8xf32, #tile.space<shared>>

// Two columns a thread; the matrix is read by fours, the same for all threads: 7 * 8 / 2 products of each column, of
// which the first of the second sum of a row is no more than a product.
// LAYOUT-LABEL: tile.kernel @solve
// LAYOUT: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 8:1 at 0], lanes [32:2 at 1], warps [4:64 at 1]>} : memref<8x256xf32
// CHECK-LABEL: tile.kernel @solve
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-44: math.fma
// CHECK-NOT: math.fma
// CHECK: tile.return
tile.kernel @solve(%m: memref<8x8xf32> {tile.align = 16 : i64}, %x: memref<8x256xf32>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.alloc : !a
  %t = tile.alloc : !t
  tile.load %a from %m[%c0, %c0] dims [0, 1] : memref<8x8xf32>, !a
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<8x256xf32>, !t
  tile.solve %a, %t : !a, !t
  tile.store %t to %x[%c0, %c0] dims [0, 1] : !t, memref<8x256xf32>
  tile.return
}
