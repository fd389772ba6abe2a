// RUN: kimi-opt %s --tile-assign-threads | FileCheck %s
// RUN: kimi-opt %s --tile-assign-threads=threads=256 | FileCheck %s --check-prefix=WIDE
// RUN: not kimi-opt %s --tile-assign-threads=threads=100 2>&1 | FileCheck %s --check-prefix=ODD

// ODD: error: a block of 100 threads; accepted are multiples of 32 up to 1024

!v = memref<?xf32, strided<[1], offset: ?>>

// Plain loops: a thread a point. Only the buffer that is stored to is written.
// CHECK-LABEL: tile.kernel @task(
// CHECK-SAME: %arg0: memref<?xf32, strided<[1], offset: ?>>, %arg1: memref<?xf32, strided<[1], offset: ?>> {tile.written}, %arg2: index)
// CHECK-SAME: threads = 128 : i64, tile.tasks
// WIDE: @task
// WIDE-SAME: threads = 256 : i64, tile.tasks
tile.kernel @task(%x: !v, %y: !v, %n: index) {
  %i = tile.block_id 0
  %v = memref.load %x[%i] : !v
  memref.store %v, %y[%i] : !v
  tile.return
}

// A kernel keeps the size it names.
// CHECK-LABEL: tile.kernel @named
// CHECK-SAME: threads = 64 : i64, tile.tasks
// WIDE: @named
// WIDE-SAME: threads = 64 : i64
tile.kernel @named(%y: !v) attributes {threads = 64} {
  tile.return
}

// Tiles: the block shares them.
// CHECK-LABEL: tile.kernel @block
// CHECK-SAME: threads = 128 : i64
// CHECK-NOT: tile.tasks
// CHECK: tile.alloc
tile.kernel @block(%x: !v) {
  %t = tile.alloc : memref<64xf32, #tile.space<shared>>
  %zero = arith.constant 0 : index
  tile.load %t from %x[%zero] dims [0] : !v, memref<64xf32, #tile.space<shared>>
  tile.return
}
