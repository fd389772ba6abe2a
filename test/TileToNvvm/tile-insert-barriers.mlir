// RUN: kimi-opt %s --tile-insert-barriers | FileCheck %s

// Reading what was written, and writing what was read, takes a barrier; reading twice and other bytes do not.
// CHECK-LABEL: tile.kernel @straight
// CHECK-NEXT: %[[A:.*]] = arith.constant 1
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: arith.constant 2
// CHECK-NEXT: arith.constant 3
// CHECK-NEXT: arith.constant 4
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: arith.constant 5
// CHECK-NEXT: tile.return
tile.kernel @straight() attributes {threads = 64 : i64} {
  tile.shared_access reads [] writes [0, 64]
  %1 = arith.constant 1 : i32
  tile.shared_access reads [32, 16] writes []
  %2 = arith.constant 2 : i32
  tile.shared_access reads [0, 64] writes []
  %3 = arith.constant 3 : i32
  tile.shared_access reads [] writes [64, 64]
  %4 = arith.constant 4 : i32
  tile.shared_access reads [] writes [0, 8]
  %5 = arith.constant 5 : i32
  tile.return
}

// What the end of a loop leaves pending meets its start.
// CHECK-LABEL: tile.kernel @loop
// CHECK: scf.for
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: arith.constant 1
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: arith.constant 2
// CHECK-NEXT: }
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: arith.constant 3
tile.kernel @loop(%n: index) attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    tile.shared_access reads [] writes [0, 64]
    %1 = arith.constant 1 : i32
    tile.shared_access reads [0, 64] writes []
    %2 = arith.constant 2 : i32
  }
  tile.shared_access reads [] writes [0, 64]
  %3 = arith.constant 3 : i32
  tile.return
}

// Either branch may have been taken; a barrier in both is enough, one that is there already counts.
// CHECK-LABEL: tile.kernel @branch
// CHECK: scf.if
// CHECK-NEXT: arith.constant 1
// CHECK-NEXT: }
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: arith.constant 2
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: } else {
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: }
// CHECK-NEXT: arith.constant 3
tile.kernel @branch(%n: index) attributes {threads = 64 : i64} {
  %c1 = arith.constant 1 : index
  %b = arith.cmpi eq, %n, %c1 : index
  scf.if %b {
    tile.shared_access reads [] writes [0, 64]
    %1 = arith.constant 1 : i32
  }
  tile.shared_access reads [0, 64] writes []
  %2 = arith.constant 2 : i32
  scf.if %b {
    nvvm.barrier
  } else {
    nvvm.barrier
  }
  tile.shared_access reads [] writes [0, 64]
  %3 = arith.constant 3 : i32
  tile.return
}

// Part of the block at a named barrier does not count for the whole.
// CHECK-LABEL: tile.kernel @named
// CHECK: nvvm.barrier id
// CHECK-NEXT: nvvm.barrier{{$}}
tile.kernel @named() attributes {threads = 64 : i64} {
  %id = arith.constant 1 : i32
  %count = arith.constant 32 : i32
  tile.shared_access reads [] writes [0, 64]
  nvvm.barrier id = %id number_of_threads = %count
  tile.shared_access reads [0, 64] writes []
  tile.return
}
