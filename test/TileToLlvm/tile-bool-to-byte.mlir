// RUN: kimi-opt %s --tile-bool-to-byte | FileCheck %s

// CHECK-LABEL: tile.kernel @not(%{{.*}}: memref<?xi8>)
// CHECK: %[[B:.*]] = memref.load {{.*}} : memref<?xi8>
// CHECK: %[[V:.*]] = arith.cmpi ne, %[[B]], %c0_i8
// CHECK: %[[N:.*]] = arith.xori %[[V]]
// CHECK: %[[S:.*]] = arith.extui %[[N]] : i1 to i8
// CHECK: memref.store %[[S]]
tile.kernel @not(%x: memref<?xi1>) {
  %i = tile.block_id 0
  %true = arith.constant true
  %v = memref.load %x[%i] : memref<?xi1>
  %n = arith.xori %v, %true : i1
  memref.store %n, %x[%i] : memref<?xi1>
  tile.return
}
