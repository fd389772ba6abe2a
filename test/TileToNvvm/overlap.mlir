// RUN: kimi-opt %s --tile-assign-threads --tile-kernel-to-nvvm=overlap=true --split-input-file | FileCheck %s
// RUN: kimi-opt %s --tile-assign-threads --tile-kernel-to-nvvm --split-input-file | FileCheck %s --check-prefix=OFF

!v = memref<?xf32, strided<[1], offset: ?>>

// A task waits for the grids before it, then asks whether it is within its own.
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME: tile.pdl
// CHECK: llvm.inline_asm has_side_effects "griddepcontrol.wait; griddepcontrol.launch_dependents;", "~{memory}"
// CHECK: llvm.cond_br
// CHECK: memref.load
// OFF-NOT: tile.pdl
// OFF-NOT: griddepcontrol
tile.kernel @copy(%x: !v, %y: !v) {
  %i = tile.block_id 0
  %v = memref.load %x[%i] : !v
  memref.store %v, %y[%i] : !v
  tile.return
}

// -----

!v = memref<?xf32, strided<[1], offset: ?>>

// A branch keeps loads of what the kernel only reads from moving ahead of the wait. Arrays stay in the entry block.
// CHECK-LABEL: llvm.func @tiles(
// CHECK-SAME: %[[GRID:[a-z0-9]*]]: i64) attributes
// CHECK-NOT: llvm.addrspacecast
// CHECK: griddepcontrol.wait
// CHECK: llvm.alloca
// CHECK: %[[SOME:.*]] = llvm.icmp "ne" %[[GRID]], %{{.*}}
// CHECK: llvm.cond_br %[[SOME]], ^[[BODY:.*]], ^{{.*}}
// CHECK: ^[[BODY]]:
// CHECK: memref.load
tile.kernel @tiles(%x: !v, %y: !v) attributes {threads = 256, tile.shared_bytes = 4096} {
  %t = tile.alloc : memref<64xf32, #tile.space<shared>>
  %one = arith.constant 1 : i32
  %array = llvm.alloca %one x !llvm.array<4 x f32> : (i32) -> !llvm.ptr
  %i = tile.block_id 0
  %v = memref.load %x[%i] : !v
  memref.store %v, %t[%i] : memref<64xf32, #tile.space<shared>>
  tile.return
}

// -----

!v = memref<?xf32, strided<[1], offset: ?>>

// The barriers of a kernel with a producer are ready by then; its roles are branches.
// CHECK-LABEL: llvm.func @roles(
// CHECK: nvvm.barrier0
// CHECK-NEXT: llvm.inline_asm {{.*}}griddepcontrol.wait
// CHECK-NOT: llvm.cond_br
// CHECK: scf.if
// CHECK: memref.load
tile.kernel @roles(%x: !v, %y: !v) attributes {threads = 160, tile.consumers = 128 : i64, tile.shared_bytes = 4096} {
  %t = tile.alloc : memref<64xf32, #tile.space<shared>>
  %i = tile.block_id 0
  %c = nvvm.read.ptx.sreg.tid.x : i32
  nvvm.barrier0
  %limit = arith.constant 128 : i32
  %consumes = arith.cmpi ult, %c, %limit : i32
  scf.if %consumes {
    %v = memref.load %x[%i] : !v
    memref.store %v, %t[%i] : memref<64xf32, #tile.space<shared>>
  }
  tile.return
}
