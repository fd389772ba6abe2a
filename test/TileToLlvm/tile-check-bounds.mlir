// RUN: kimi-opt %s --tile-check-bounds | FileCheck %s
// RUN: kimi-opt %s --tile-to-llvm=check-bounds=true | FileCheck %s --check-prefix=LLVM

// CHECK-LABEL: tile.kernel @access(
// CHECK: memref.dim %{{.*}}, %c0
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi sle
// CHECK: scf.if
// CHECK-NEXT: llvm.intr.trap
// CHECK: memref.load
// CHECK: %[[LANES:.*]] = arith.constant 8 : index
// CHECK: arith.addi %{{.*}}, %[[LANES]]
// CHECK: llvm.intr.trap
// CHECK: vector.load
// CHECK: llvm.intr.trap
// CHECK: memref.store
// LLVM-LABEL: llvm.func @access
// LLVM-COUNT-3: llvm.intr.trap
tile.kernel @access(%x: memref<?xf32>, %y: memref<4x?xf32>) {
  %i = tile.block_id 0
  %a = memref.load %x[%i] : memref<?xf32>
  %v = vector.load %y[%i, %i] : memref<4x?xf32>, vector<8xf32>
  %b = vector.extract %v[0] : f32 from vector<8xf32>
  %s = arith.addf %a, %b : f32
  memref.store %s, %x[%i] : memref<?xf32>
  tile.return
}

// A view of no elements may begin anywhere.
// CHECK-LABEL: tile.kernel @view(
// CHECK: %[[EMPTY:.*]] = arith.cmpi sle
// CHECK: arith.ori %[[EMPTY]]
// CHECK: llvm.intr.trap
// CHECK: memref.subview
tile.kernel @view(%x: memref<?xf32>, %n: index) {
  %i = tile.block_id 0
  %view = memref.subview %x[%i] [%n] [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
  %c0 = arith.constant 0 : index
  %a = memref.load %view[%c0] : memref<?xf32, strided<[1], offset: ?>>
  memref.store %a, %x[%c0] : memref<?xf32>
  tile.return
}
