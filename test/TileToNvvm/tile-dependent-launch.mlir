// RUN: kimi-opt %s --tile-dependent-launch --split-input-file | FileCheck %s

!w = memref<32x768xbf16>
!x = memref<?x768xbf16, strided<[768, 1], offset: ?>>

// The wait stands before the first access to what is no constant: the weights come before it. Few blocks let the next
// kernel start at once.
// CHECK-LABEL: tile.kernel @weights_first
// CHECK-SAME: %arg0: memref<32x768xbf16> {tile.constant, tile.dependent}
// CHECK-SAME: %arg1: memref<?x768xbf16, strided<[768, 1], offset: ?>> {tile.dependent}
// CHECK-SAME: tile.pdl
// CHECK-NEXT: llvm.inline_asm has_side_effects "{{.*}}%nctaid.x{{.*}}@few griddepcontrol.launch_dependents; }", "~{memory}"
// CHECK: tile.load {{.*}} from %arg0
// CHECK-NOT: griddepcontrol
// CHECK: llvm.inline_asm has_side_effects "griddepcontrol.wait;", "~{memory}"
// CHECK-NEXT: tile.load {{.*}} from %arg1
tile.kernel @weights_first(%w: !w {tile.constant}, %x: !x) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %b = tile.alloc : memref<32x768xbf16, #tile.space<fragment>>
  %a = tile.alloc : memref<1x768xbf16, #tile.space<shared>>
  tile.load %b from %w[%c0, %c0] dims [0, 1] : !w, memref<32x768xbf16, #tile.space<fragment>>
  tile.load %a from %x[%c0, %c0] dims [0, 1] : !x, memref<1x768xbf16, #tile.space<shared>>
  tile.return
}

// -----

!v = memref<?xf32, strided<[1], offset: ?>>

// A task program is left alone.
// CHECK-LABEL: tile.kernel @task
// CHECK-NOT: tile.pdl
// CHECK-NOT: griddepcontrol
// CHECK: tile.return
tile.kernel @task(%y: !v) attributes {threads = 128 : i64, tile.tasks} {
  %i = tile.block_id 0
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %y[%i] : !v
  tile.return
}

// -----

!w = memref<100x768xbf16>
!x = memref<?x768xbf16, strided<[768, 1], offset: ?>>
!a = memref<32x256xbf16, #tile.space<shared>>
!b = memref<16x256xbf16, #tile.space<shared>>

// With shared memory for a pipeline the next kernel starts when this one ends.
// CHECK-LABEL: tile.kernel @pipeline
// CHECK-NOT: launch_dependents
// CHECK: llvm.inline_asm has_side_effects "griddepcontrol.wait;"
// CHECK-NEXT: tile.pipeline
tile.kernel @pipeline(%w: !w {tile.constant}, %x: !x) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c256 = arith.constant 256 : index
  %c768 = arith.constant 768 : index
  %block = tile.block_id 0
  %n = arith.muli %block, %c16 : index
  %a = tile.alloc : !a
  %b = tile.alloc : !b
  tile.pipeline %k = %c0 to %c768 step %c256 stages 3 buffers(%a, %b : !a, !b) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !a
    tile.load %b from %w[%n, %k] dims [0, 1] : !w, !b
  } compute {
  }
  tile.return
}
