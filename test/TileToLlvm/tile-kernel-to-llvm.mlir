// RUN: kimi-opt %s --tile-kernel-to-llvm | FileCheck %s

// CHECK-LABEL: llvm.func internal @copy.body
// CHECK-SAME: (%{{.*}}: !llvm.ptr {llvm.readonly}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME: %[[ARGS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: llvm.getelementptr %[[ARGS]][0]
// CHECK: llvm.getelementptr %[[ARGS]][6]
// CHECK: llvm.call @copy.body
tile.kernel @copy(%x: memref<?xf32, strided<[1], offset: ?>>, %y: memref<?xf32, strided<[1], offset: ?>>, %n: index) {
  %i = tile.block_id 0
  %v = memref.load %x[%i] : memref<?xf32, strided<[1], offset: ?>>
  memref.store %v, %y[%i] : memref<?xf32, strided<[1], offset: ?>>
  tile.return
}
