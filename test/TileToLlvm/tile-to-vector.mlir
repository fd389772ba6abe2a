// RUN: kimi-opt %s --tile-to-vector --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --tile-to-vector=lanes=16 --canonicalize --cse | FileCheck %s --check-prefix=WIDE

// Tiles are stack buffers at the start of the kernel, out of any loop; 21 elements are two vectors and a short one.
// CHECK-LABEL: tile.kernel @fill
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<3x7xf32>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: vector.store {{.*}} vector<8xf32>
// CHECK: vector.store {{.*}} vector<5xf32>
// WIDE-LABEL: tile.kernel @fill
// WIDE: vector.store {{.*}} vector<16xf32>
tile.kernel @fill(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    %t = tile.alloc : memref<3x7xf32, #tile.space<fragment>>
    tile.fill %t, %zero : memref<3x7xf32, #tile.space<fragment>>, f32
  }
  tile.return
}

// A box that lies within its buffer is copied by vectors; otherwise the tile is padded and what is inside copied.
// CHECK-LABEL: tile.kernel @load
// CHECK: scf.if
// CHECK-NOT: memref.load
// CHECK: vector.load {{.*}} vector<8xf32>
// CHECK: } else {
// CHECK: vector.store %cst
// CHECK: vector.load {{.*}} vector<8xf32>
// CHECK: memref.load
tile.kernel @load(%x: memref<?x?xf32, strided<[?, 1], offset: ?>>, %i: index) {
  %t = tile.alloc : memref<4x16xf32, #tile.space<shared>>
  tile.load %t from %x[%i, %i] dims [0, 1] : memref<?x?xf32, strided<[?, 1], offset: ?>>, memref<4x16xf32, #tile.space<shared>>
  tile.return
}

// Squares are transposed in registers.
// CHECK-LABEL: tile.kernel @transpose
// CHECK-COUNT-8: vector.load
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.store
tile.kernel @transpose(%x: memref<16x16xf32>) {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : memref<16x16xf32, #tile.space<shared>>
  tile.load %t from %x[%c0, %c0] dims [1, 0] : memref<16x16xf32>, memref<16x16xf32, #tile.space<shared>>
  tile.return
}

// Operands of one shape are one run; what does not vary stays scalar.
// CHECK-LABEL: tile.kernel @map
// CHECK: scf.for {{.*}} to %c64 step %c8
// CHECK: vector.load
// CHECK: arith.mulf {{.*}} : vector<8xf32>
// CHECK: vector.store
tile.kernel @map() {
  %t = tile.alloc : memref<64x1xf32, #tile.space<fragment>>
  tile.map ins(%t : memref<64x1xf32, #tile.space<fragment>>) outs(%t : memref<64x1xf32, #tile.space<fragment>>) {
  ^bb0(%a: f32):
    %three = arith.constant 3.0 : f32
    %b = arith.mulf %a, %three : f32
    tile.yield %b : f32
  }
  tile.return
}

// Six rows of two vectors: twelve sums are carried.
// CHECK-LABEL: tile.kernel @mma
// CHECK: scf.for
// CHECK: scf.for
// CHECK: :12 = scf.for {{.*}} iter_args
// CHECK: vector.fma
tile.kernel @mma(%b: memref<2x64x16xf32>) {
  %a = tile.alloc : memref<12x64xf32, #tile.space<shared>>
  %acc = tile.alloc : memref<12x32xf32, #tile.space<fragment>>
  tile.mma %acc, %a, %b panels : memref<12x32xf32, #tile.space<fragment>>, memref<12x64xf32, #tile.space<shared>>, memref<2x64x16xf32>
  tile.return
}

// A pipeline is a loop over one copy of its buffers: loads, then the computation.
// CHECK-LABEL: tile.kernel @pipeline
// CHECK-COUNT-1: memref.alloca
// CHECK-NOT: memref.alloca
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8
// CHECK: vector.load
// CHECK: arith.addf
tile.kernel @pipeline(%x: memref<?xf32, strided<[1], offset: ?>>, %y: memref<8xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %t = tile.alloc : memref<8xf32, #tile.space<shared>>
  tile.pipeline %i = %c0 to %n step %c8 stages 3 buffers(%t : memref<8xf32, #tile.space<shared>>) {
    tile.load %t from %x[%i] dims [0] : memref<?xf32, strided<[1], offset: ?>>, memref<8xf32, #tile.space<shared>>
  } compute {
    tile.map ins(%y, %t : memref<8xf32>, memref<8xf32, #tile.space<shared>>) outs(%y : memref<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tile.yield %s : f32
    }
  }
  tile.return
}
