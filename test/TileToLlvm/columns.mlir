// RUN: kimi-opt %s --tile-to-vector --canonicalize --cse | FileCheck %s

// Twelve columns: a vector and four more. Sums run over the rows in order.
// CHECK-LABEL: tile.kernel @scan
// CHECK: scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (vector<8xf32>)
// CHECK: %[[ROW:.*]] = vector.load
// CHECK: %[[NEXT:.*]] = arith.addf %[[SUM]], %[[ROW]] : vector<8xf32>
// CHECK: vector.store %[[NEXT]]
// CHECK: scf.yield %[[NEXT]]
// CHECK: scf.for {{.*}} -> (vector<4xf32>)
tile.kernel @scan(%x: memref<6x12xf32>) {
  tile.scan %x into %x : memref<6x12xf32>, memref<6x12xf32>
  tile.return
}

// The row of each block is loaded once and stored to all of its rows.
// CHECK-LABEL: tile.kernel @pick_rows
// CHECK: scf.for %[[FIRST:.*]] = %c0 to %c6 step %c3
// CHECK: %[[PICKED:.*]] = vector.load {{.*}} vector<8xf32>
// CHECK: scf.for
// CHECK: vector.store %[[PICKED]]
tile.kernel @pick_rows(%x: memref<6x8xf32>, %y: memref<6x8xf32>) {
  tile.pick_rows %x into %y block 3 row 1 : memref<6x8xf32>, memref<6x8xf32>
  tile.return
}

// Row i less its products with the rows before it, which are known by then.
// CHECK-LABEL: tile.kernel @solve
// CHECK: scf.for %[[I:.*]] = %c1 to %c6
// CHECK: scf.for %[[M:.*]] = %c0 to %[[I]] {{.*}} iter_args(%[[ROW:.*]] = %{{.*}})
// CHECK: arith.negf
// CHECK: vector.broadcast {{.*}} : f32 to vector<8xf32>
// CHECK: math.fma
tile.kernel @solve(%a: memref<6x6xf32>, %x: memref<6x8xf32>) {
  tile.solve %a, %x : memref<6x6xf32>, memref<6x8xf32>
  tile.return
}
