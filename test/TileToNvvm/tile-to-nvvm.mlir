// RUN: kimi-opt %s --tile-assign-threads --tile-assign-layouts --tile-to-nvvm --tile-insert-barriers --canonicalize --cse \
// RUN:   --split-input-file | FileCheck %s

!t = memref<16x64xf32, #tile.space<fragment>>
!s = memref<16x64xf32, #tile.space<shared>>

// Sixteen bytes at a time where the address is known to allow it; rows past the end are padded (no load there) and not
// stored. The tile is swizzled: the row's low bits are mixed into the 16-byte column.
// CHECK-LABEL: llvm.mlir.global external @rows_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK: tile.kernel @rows
// CHECK-SAME: tile.shared_bytes = 4096 : i64
// CHECK-COUNT-2: llvm.inline_asm "{{.*}}@$5 ld.global.nc.v4.b32 {$0, $1, $2, $3}, [$4];"
// CHECK: arith.xori
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-NOT: nvvm.barrier
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32 [$4], {$0, $1, $2, $3};"
tile.kernel @rows(%x: memref<?x64xf32, strided<[64, 1], offset: ?>> {tile.align = 16 : i64},
                  %y: memref<?x64xf32, strided<[64, 1], offset: ?>> {tile.align = 16 : i64}) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %b = tile.block_id 0
  %m = arith.muli %b, %c16 : index
  %s = tile.alloc : !s
  tile.load %s from %x[%m, %c0] dims [0, 1] : memref<?x64xf32, strided<[64, 1], offset: ?>>, !s
  tile.store %s to %y[%m, %c0] dims [0, 1] : !s, memref<?x64xf32, strided<[64, 1], offset: ?>>
  tile.return
}

// -----

!t = memref<4x64xf32, #tile.space<fragment>>

// Nothing is promised about addresses: element by element. An odd extent: as well. Inside for certain: no checks.
// CHECK-LABEL: tile.kernel @unaligned
// CHECK-COUNT-8: llvm.inline_asm {{.*}} ld.global.nc.b32 $0
// CHECK-NOT: ld.global
// CHECK-COUNT-4: llvm.load {{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK: tile.return
tile.kernel @unaligned(%x: memref<?x63xf32, strided<[63, 1], offset: ?>>, %y: memref<8x63xf32, strided<[63, 1], offset: ?>> {tile.align = 16 : i64},
                       %z: memref<4x64xf32>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : !t
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<?x63xf32, strided<[63, 1], offset: ?>>, !t
  tile.store %t to %z[%c0, %c0] dims [0, 1] : !t, memref<4x64xf32>
  %u = tile.alloc : memref<4x32xf32, #tile.space<fragment>>
  tile.load %u from %y[%c0, %c0] dims [0, 1] : memref<8x63xf32, strided<[63, 1], offset: ?>>, memref<4x32xf32, #tile.space<fragment>>
  tile.store %u to %z[%c0, %c0] dims [0, 1] : memref<4x32xf32, #tile.space<fragment>>, memref<4x64xf32>
  tile.return
}

// -----

// One row in 128 threads: four hold each element, one of them stores; bf16 is widened and narrowed on the way, in pairs.
// CHECK-LABEL: tile.kernel @one_row
// CHECK: arith.extf {{.*}} : bf16 to f32
// CHECK: nvvm.convert.f32x2.to.bf16x2
// CHECK: llvm.inline_asm has_side_effects "@$2 st.global.b32 [$1], $0;"
tile.kernel @one_row(%x: memref<1x64xbf16> {tile.align = 16 : i64}, %y: memref<1x64xbf16> {tile.align = 16 : i64}) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 1], lanes [32:2 at 1], warps [4:0]>} : memref<1x64xf32, #tile.space<fragment>>
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<1x64xbf16>, memref<1x64xf32, #tile.space<fragment>>
  tile.store %t to %y[%c0, %c0] dims [0, 1] : memref<1x64xf32, #tile.space<fragment>>, memref<1x64xbf16>
  tile.return
}

// -----

!t = memref<16x64xf32, #tile.space<fragment>>
!r = memref<16x1xf32, #tile.space<fragment>>

// Sixteen lanes share a row: in the thread, then across lanes by halves; no shared memory, no barrier. A slice is read
// where it is, element by element.
// CHECK-LABEL: tile.kernel @softmax
// CHECK-NOT: nvvm.barrier
// CHECK-COUNT-6: llvm.intr.maximum
// CHECK-COUNT-8: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK-COUNT-8: math.exp
// CHECK-NOT: nvvm.barrier
tile.kernel @softmax(%x: memref<16x64xf32> {tile.align = 16 : i64}) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : !t
  %top = tile.alloc : !r
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<16x64xf32>, !t
  tile.reduce max %t into %top axis 1 : !t, !r
  tile.map ins(%t, %top : !t, !r) outs(%t : !t) {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %e = math.exp %d fastmath<afn> : f32
    tile.yield %e : f32
  }
  tile.store %t to %x[%c0, %c0] dims [0, 1] : !t, memref<16x64xf32>
  tile.return
}

// -----

!t = memref<1x1024xf32, #tile.space<fragment>>
!r = memref<1x1xf32, #tile.space<fragment>>

// A row over four warps: lanes, then one value a warp through shared memory.
// CHECK-LABEL: tile.kernel @long_row
// CHECK-SAME: tile.shared_bytes = 16 : i64
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: st.shared.b32
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-3: arith.addf
tile.kernel @long_row(%x: memref<1x1024xf32> {tile.align = 16 : i64}, %y: memref<1x1xf32>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc : !t
  %sum = tile.alloc : !r
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<1x1024xf32>, !t
  tile.reduce add %t into %sum axis 1 : !t, !r
  tile.store %sum to %y[%c0, %c0] dims [0, 1] : !r, memref<1x1xf32>
  tile.return
}

// -----

!t = memref<1x1024xf32, #tile.space<fragment>>
!r = memref<1x1xf32, #tile.space<fragment>>

// Sums that do not depend on each other: the parts of all of them meet at one barrier, and those of one are read together.
// CHECK-LABEL: tile.kernel @together
// CHECK-SAME: tile.shared_bytes = 32 : i64
// CHECK-COUNT-2: st.shared.b32
// CHECK: nvvm.barrier
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// The third one depends on both.
// CHECK: nvvm.barrier
// CHECK: st.shared.b32
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
tile.kernel @together(%x: memref<1x1024xf32> {tile.align = 16 : i64}, %y: memref<1x1xf32>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.alloc : !t
  %b = tile.alloc : !t
  %s0 = tile.alloc : !r
  %s1 = tile.alloc : !r
  %s2 = tile.alloc : !r
  tile.load %a from %x[%c0, %c0] dims [0, 1] : memref<1x1024xf32>, !t
  tile.map ins(%a : !t) outs(%b : !t) {
  ^bb0(%e: f32):
    %n = arith.negf %e : f32
    tile.yield %n : f32
  }
  tile.reduce add %a into %s0 axis 1 : !t, !r
  tile.reduce max %b into %s1 axis 1 : !t, !r
  tile.map ins(%a, %s0, %s1 : !t, !r, !r) outs(%a : !t) {
  ^bb0(%e: f32, %f: f32, %g: f32):
    %n = arith.mulf %f, %g : f32
    %m = arith.mulf %n, %e : f32
    tile.yield %m : f32
  }
  tile.reduce add %a into %s2 axis 1 : !t, !r
  tile.store %s2 to %y[%c0, %c0] dims [0, 1] : !r, memref<1x1xf32>
  tile.return
}

// -----

// Positions are a run-time part that all of a thread's elements share, and a constant.
// CHECK-LABEL: tile.kernel @index
// CHECK: %[[BASE:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK: arith.addi %[[BASE]], %c1{{.*}} : index
// CHECK: arith.addi %[[BASE]], %c2{{.*}} : index
tile.kernel @index(%y: memref<1x128xindex>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc {layout = #tile.layout<registers [4:1 at 1], lanes [32:4 at 1], warps []>} : memref<1x128xindex, #tile.space<fragment>>
  tile.map outs(%t : memref<1x128xindex, #tile.space<fragment>>) {
    %j = tile.element_index 1
    tile.yield %j : index
  }
  tile.store %t to %y[%c0, %c0] dims [0, 1] : memref<1x128xindex, #tile.space<fragment>>, memref<1x128xindex>
  tile.return
}

// -----

// Tiles in use at different times share their bytes; what threads overwrite there has been read by all.
// CHECK-LABEL: tile.kernel @reuse
// CHECK-SAME: tile.shared_bytes = 8192 : i64
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
tile.kernel @reuse(%x: memref<64x32xf32>, %y: memref<64x32xf32>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %s = tile.alloc : memref<64x32xf32, #tile.space<shared>>
  %t = tile.alloc : memref<64x32xf32, #tile.space<shared>>
  tile.load %s from %x[%c0, %c0] dims [0, 1] : memref<64x32xf32>, memref<64x32xf32, #tile.space<shared>>
  tile.store %s to %y[%c0, %c0] dims [0, 1] : memref<64x32xf32, #tile.space<shared>>, memref<64x32xf32>
  tile.load %t from %x[%c0, %c0] dims [0, 1] : memref<64x32xf32>, memref<64x32xf32, #tile.space<shared>>
  tile.store %t to %y[%c0, %c0] dims [0, 1] : memref<64x32xf32, #tile.space<shared>>, memref<64x32xf32>
  tile.return
}

// -----

!box = memref<16x64xf32, #tile.space<shared>>

// A view keeps what its offsets leave of the alignment: whole rows are copied by 16 bytes, rows from an odd column on by 4.
// CHECK-LABEL: tile.kernel @views
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 4, cache = ca
tile.kernel @views(%x: memref<?x64xf32, strided<[64, 1], offset: ?>> {tile.align = 16 : i64}, %n: index) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %rows = memref.subview %x[%n, 0] [%n, 64] [1, 1] : memref<?x64xf32, strided<[64, 1], offset: ?>> to memref<?x64xf32, strided<[64, 1], offset: ?>>
  %columns = memref.subview %x[0, 1] [%n, 63] [1, 1] : memref<?x64xf32, strided<[64, 1], offset: ?>> to memref<?x63xf32, strided<[64, 1], offset: ?>>
  %a = tile.alloc : !box
  %b = tile.alloc : !box
  tile.pipeline %k = %c0 to %n step %c16 stages 2 buffers(%a : !box) {
    tile.load %a from %rows[%k, %c0] dims [0, 1] : memref<?x64xf32, strided<[64, 1], offset: ?>>, !box
  } compute {
  }
  tile.pipeline %k = %c0 to %n step %c16 stages 2 buffers(%b : !box) {
    tile.load %b from %columns[%k, %c0] dims [0, 1] : memref<?x63xf32, strided<[64, 1], offset: ?>>, !box
  } compute {
  }
  tile.return
}

// -----

// Kernels without tiles are left alone.
// CHECK-LABEL: tile.kernel @loops
// CHECK-NEXT: tile.return
tile.kernel @loops() {
  tile.return
}

// -----

// One row times weights that are held in registers: they are asked for before the row is, a warp has whole columns, the
// lanes split K. Nothing meets at a barrier but the row.
// CHECK-LABEL: tile.kernel @held_weights
// CHECK-COUNT-6: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: ld.global.nc
// CHECK: nvvm.barrier
// CHECK: llvm.intr.fma
// CHECK: nvvm.shfl.sync
// CHECK-NOT: nvvm.barrier
// CHECK: tile.return
tile.kernel @held_weights(%w: memref<16x768xbf16> {tile.align = 16 : i64}, %x: memref<?x768xbf16, strided<[768, 1], offset: ?>> {tile.align = 16 : i64},
                          %y: memref<1x16xf32>) attributes {threads = 256 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %acc = tile.alloc : memref<1x16xf32, #tile.space<fragment>>
  tile.fill %acc, %zero : memref<1x16xf32, #tile.space<fragment>>, f32
  %b = tile.alloc : memref<16x768xbf16, #tile.space<fragment>>
  %a = tile.alloc : memref<1x768xbf16, #tile.space<shared>>
  tile.load %b from %w[%c0, %c0] dims [0, 1] : memref<16x768xbf16>, memref<16x768xbf16, #tile.space<fragment>>
  tile.load %a from %x[%c0, %c0] dims [0, 1] : memref<?x768xbf16, strided<[768, 1], offset: ?>>, memref<1x768xbf16, #tile.space<shared>>
  tile.mma %acc, %a, %b transpose_b : memref<1x16xf32, #tile.space<fragment>>, memref<1x768xbf16, #tile.space<shared>>, memref<16x768xbf16, #tile.space<fragment>>
  tile.store %acc to %y[%c0, %c0] dims [0, 1] : memref<1x16xf32, #tile.space<fragment>>, memref<1x16xf32>
  tile.return
}

// -----

!acc = memref<64x72xf32, #tile.space<fragment>>
!out = memref<?x72xbf16, strided<[72, 1], offset: ?>>

// Accumulators of matrix instructions, two elements a thread and row, pass through shared memory of the warp's own (2304
// bytes each), 16 rows of 128 bytes at a time, and go out by 16 bytes: 64 columns, then the 8 that are left, which half of the
// lanes store. No barrier of the block.
// CHECK-LABEL: tile.kernel @staged_store
// CHECK-SAME: tile.shared_bytes = 8192 : i64
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-16: llvm.store {{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-4: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK: %[[HALF:.*]] = arith.cmpi slt, %{{.*}}, %c16_i32
// CHECK: arith.select %[[HALF]]
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK: arith.andi {{.*}}, %[[HALF]]
// CHECK: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK-NOT: nvvm.barrier
// CHECK: tile.return
tile.kernel @staged_store(%y: !out {tile.align = 16 : i64}) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %b = tile.block_id 0
  %m = arith.muli %b, %c64 : index
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 9:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : !acc
  tile.fill %t, %zero : !acc, f32
  tile.store %t to %y[%m, %c0] dims [0, 1] : !acc, !out
  tile.return
}

// -----

!acc = memref<16x32xf32, #tile.space<fragment>>
!odd = memref<?x50257xf32, strided<[50257, 1], offset: ?>>

// Rows that start anywhere: words are read back from where a vector of 16 bytes of memory starts. Where all of the tile
// is inside, nothing is checked but where a row's first whole sector starts; the elements ahead of it, and those behind
// the last one, go out one by one. Otherwise vectors that are not whole do so, too.
// CHECK-LABEL: tile.kernel @staged_odd
// CHECK-SAME: tile.shared_bytes = 2816 : i64
// CHECK: scf.if
// CHECK: llvm.ptrtoint
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// The heads of 16 rows, four at a time, and their tails.
// CHECK-COUNT-8: llvm.inline_asm has_side_effects "@$2 st.global.b32 [$1], $0;"
// CHECK: } else {
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<3>
// CHECK: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK: scf.if
// CHECK-COUNT-4: llvm.inline_asm has_side_effects "@$2 st.global.b32 [$1], $0;"
// CHECK: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK: tile.return
tile.kernel @staged_odd(%y: !odd) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %b = tile.block_id 0
  %n = arith.muli %b, %c32 : index
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 4:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps []>} : !acc
  tile.fill %t, %zero : !acc, f32
  tile.store %t to %y[%c0, %n] dims [0, 1] : !acc, !odd
  tile.return
}

// -----

!acc = memref<16x64xf32, #tile.space<fragment>>
!odd = memref<?x50257xf32, strided<[50257, 1], offset: ?>>

// The second 32 columns: the last sector of the first is kept for the vectors that begin with it, a vector a lane.
// CHECK-LABEL: tile.kernel @staged_odd_two
// CHECK: scf.if
// CHECK-COUNT-4: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK: nvvm.bar.warp.sync
// CHECK: %[[LAST:.*]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-NEXT: llvm.store %[[LAST]], {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: } else {
tile.kernel @staged_odd_two(%y: !odd) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps []>} : !acc
  tile.fill %t, %zero : !acc, f32
  tile.store %t to %y[%c0, %c0] dims [0, 1] : !acc, !odd
  tile.return
}

// -----

!acc = memref<16x64xf32, #tile.space<fragment>>
!odd = memref<?x50257xbf16, strided<[50257, 1], offset: ?>>

// Elements of two bytes may begin within a word: of five words, shifted, a vector is made. Four rows of 128 bytes are
// stored at once, from the start of a sector on.
// CHECK-LABEL: tile.kernel @staged_odd_bf16
// CHECK: scf.if
// CHECK-COUNT-16: llvm.store {{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-5: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-4: llvm.intr.fshr
// CHECK-COUNT-5: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-4: llvm.intr.fshr
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK-COUNT-8: llvm.intr.fshr
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK-COUNT-16: llvm.inline_asm has_side_effects "@$2 st.global.b16 [$1], $0;"
// CHECK: } else {
// CHECK: llvm.inline_asm has_side_effects "@$5 st.global.v4.b32
// CHECK: scf.if
// CHECK-COUNT-8: llvm.inline_asm has_side_effects "@$2 st.global.b16 [$1], $0;"
// CHECK: tile.return
tile.kernel @staged_odd_bf16(%y: !odd) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps []>} : !acc
  tile.fill %t, %zero : !acc, f32
  tile.store %t to %y[%c0, %c0] dims [0, 1] : !acc, !odd
  tile.return
}

// -----

!acc = memref<64x64xf32, #tile.space<fragment>>
!in = memref<?x64xbf16, strided<[64, 1], offset: ?>>

// The way in: all loads, then through the warp's shared memory to where its threads want them; rows past the end are zero.
// CHECK-LABEL: tile.kernel @staged_load
// CHECK-COUNT-4: llvm.inline_asm {{.*}}@$5 ld.global.nc.v4.b32
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-16: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
tile.kernel @staged_load(%x: !in {tile.align = 16 : i64}, %y: memref<64x64xf32> {tile.align = 16 : i64}) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : !acc
  tile.load %t from %x[%c0, %c0] dims [0, 1] : !in, !acc
  tile.store %t to %y[%c0, %c0] dims [0, 1] : !acc, memref<64x64xf32>
  tile.return
}
