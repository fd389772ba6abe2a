// RUN: kimi-opt %s --tile-assign-threads --tile-kernel-to-nvvm --split-input-file --verify-diagnostics | FileCheck %s

!v = memref<?xf32, strided<[1], offset: ?>>

// A task a thread: pointers are global and alias nothing, what is only read is readonly, threads go on to
// tasks a grid further until they are past the end.
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME: %[[X:.*]]: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr<1> {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64, %[[N:.*]]: i64, %[[GRID:.*]]: i64)
// CHECK-SAME: nvvm.kernel, nvvm.reqntid = array<i32: 128>, tile.tasks
// CHECK: %[[CTA:.*]] = nvvm.read.ptx.sreg.ctaid.x : i32
// CHECK: %[[BLOCK:.*]] = llvm.zext %[[CTA]]
// CHECK: %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x : i32
// CHECK: %[[THREAD:.*]] = llvm.zext %[[TID]]
// CHECK: %[[FIRST:.*]] = llvm.mul %[[BLOCK]], %{{.*}} overflow<nsw, nuw>
// CHECK: %[[POINT:.*]] = llvm.add %[[FIRST]], %[[THREAD]] overflow<nsw, nuw>
// CHECK: %[[BLOCKS:.*]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK: %[[COUNT:.*]] = llvm.zext %[[BLOCKS]]
// CHECK: %[[STRIDE:.*]] = llvm.mul %[[COUNT]], %{{.*}} overflow<nsw, nuw>
// CHECK: llvm.br ^[[HEAD:.*]](%[[POINT]] : i64)
// CHECK: ^[[HEAD]](%[[TASK:.*]]: i64):
// CHECK: %[[IN:.*]] = llvm.icmp "ult" %[[TASK]], %[[GRID]]
// CHECK: llvm.cond_br %[[IN]], ^[[BODY:.*]], ^[[EXIT:.*]]
// CHECK: ^[[BODY]]:
// CHECK: nvvm.read.ptx.sreg.ctaid.y
// CHECK: llvm.addrspacecast %[[X]] : !llvm.ptr<1> to !llvm.ptr
// CHECK: arith.index_cast %[[N]] : i64 to index
// CHECK: arith.index_cast %[[TASK]] : i64 to index
// CHECK: memref.load
// CHECK: llvm.br ^[[NEXT:.*]]{{$}}
// CHECK: ^[[NEXT]]:
// CHECK: %[[FOLLOWING:.*]] = llvm.add %[[TASK]], %[[STRIDE]] overflow<nsw, nuw>
// CHECK: llvm.br ^[[HEAD]](%[[FOLLOWING]] : i64)
// CHECK: ^[[EXIT]]:
// CHECK-NEXT: llvm.return
tile.kernel @copy(%x: !v, %y: !v, %n: index) {
  %i = tile.block_id 0
  %j = tile.block_id 1
  %at = arith.addi %i, %n : index
  %v = memref.load %x[%at] : !v
  memref.store %v, %y[%j] : !v
  tile.return
}

// A block a point: no guard. Tensor maps follow the other parameters; the rest is for the module writer.
// CHECK-LABEL: llvm.func @tiles(
// CHECK-SAME: %{{.*}}: i64, %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
// CHECK-SAME: nvvm.reqntid = array<i32: 256>
// CHECK-SAME: tile.shared_bytes = 4096 : i64, tile.tensor_maps
// CHECK-NOT: llvm.icmp
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK-NOT: tid.x
tile.kernel @tiles(%y: !v) attributes {threads = 256, tile.shared_bytes = 4096, tile.tensor_maps = [{arg = 0}]} {
  %t = tile.alloc : memref<64xf32, #tile.space<shared>>
  %i = tile.block_id 0
  %v = memref.load %t[%i] : memref<64xf32, #tile.space<shared>>
  memref.store %v, %y[%i] : !v
  tile.return
}

// What is promised about a buffer's address is passed on.
// CHECK-LABEL: llvm.func @aligned(
// CHECK-SAME: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly}
tile.kernel @aligned(%x: memref<4xf32> {tile.align = 16}) {
  tile.return
}

// Extents and strides of the type are constants of the descriptor.
// CHECK-LABEL: llvm.func @static(
// CHECK-SAME: !llvm.ptr<1>
// CHECK: llvm.mlir.constant(7 : index)
// CHECK: llvm.mlir.constant(3 : index)
tile.kernel @static(%y: memref<7x3xf32>) {
  %i = tile.block_id 0
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %y[%i, %i] : memref<7x3xf32>
  tile.return
}

// -----

// A buffer of unknown origin is written: nothing is said about aliasing.
// CHECK-LABEL: llvm.func @untraced(
// CHECK-NOT: noalias
// CHECK: llvm.return
tile.kernel @untraced(%x: memref<4xf32>, %y: memref<4xf32>, %n: index) {
  %i = tile.block_id 0
  %c = arith.cmpi eq, %i, %n : index
  %z = arith.select %c, %x, %y : memref<4xf32>
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %z[%i] : memref<4xf32>
  tile.return
}

// -----

// Registers are allotted for the blocks that are to share a multiprocessor.
// CHECK-LABEL: llvm.func @shared_sm
// CHECK-SAME: nvvm.minctasm = 2 : i32, nvvm.reqntid = array<i32: 256>
tile.kernel @shared_sm(%n: index) attributes {blocks_per_sm = 2 : i64, threads = 256 : i64} {
  tile.return
}
