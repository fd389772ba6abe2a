// RUN: kimi-opt %s --split-input-file --verify-diagnostics

tile.kernel @o1() {
  // expected-error @+1 {{[O1] gives a thread 42 registers; counts are multiples of 8 in 24 to 256}}
  tile.roles registers [40, 42] producer {
    tile.role_end
  } consumer {
    tile.role_end
  }
  tile.return
}

// -----

tile.kernel @o1_count() {
  // expected-error @+1 {{[O1] has 1 register counts; it has two roles, or leaves them be}}
  tile.roles registers [40] producer {
    tile.role_end
  } consumer {
    tile.role_end
  }
  tile.return
}

// -----

tile.kernel @o2(%c: index) {
  scf.for %i = %c to %c step %c {
    // expected-error @+1 {{[O2] stands inside 'scf.for'; it stands at the top of a tile.kernel}}
    tile.roles registers [] producer {
      tile.role_end
    } consumer {
      tile.role_end
    }
  }
  tile.return
}

// -----

tile.kernel @h1(%slot: index) {
  %b = tile.alloc : memref<4xi32, #tile.space<shared>>
  // expected-error @+1 {{[H1] has barriers of type 'memref<4xi32, #tile.space<shared>>'; they are a memref of i64 of rank 1 and static shape in #tile.space<shared>}}
  tile.barrier_init %b arrivals 1 : memref<4xi32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @h2() {
  %b = tile.alloc : memref<4xi64, #tile.space<shared>>
  // expected-error @+1 {{[H2] waits for 0 arrivals; 1 to 2^20 - 1 complete a phase}}
  tile.barrier_init %b arrivals 0 : memref<4xi64, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @h3() {
  %slot = arith.constant 0 : i32
  %b = tile.alloc : memref<4xi64, #tile.space<shared>>
  // expected-error @+1 {{[H3] announces 1048576 bytes; a phase counts 1 to 2^20 - 1}}
  tile.barrier_expect %b[%slot] bytes 1048576 : memref<4xi64, #tile.space<shared>>
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!bars = memref<4xi64, #tile.space<shared>>
tile.kernel @n1(%x: !x, %c: index) {
  %slot = arith.constant 0 : i32
  %b = tile.alloc : !bars
  %t = tile.alloc : memref<64x64xbf16, #tile.space<shared>>
  // expected-error @+1 {{[N1] has a tile of type 'memref<64x64xbf16, #tile.space<shared>>'; it is a shared tile.alloc of rank 3}}
  tile.load_async %t[%slot] from %x[%c, %c] dims [0, 1] barrier %b : !x, memref<64x64xbf16, #tile.space<shared>>, !bars
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<4x64x64xbf16, #tile.space<shared>>
!bars = memref<4xi64, #tile.space<shared>>
tile.kernel @n2(%x: !x, %c: index) {
  %slot = arith.constant 0 : i32
  %b = tile.alloc : !bars
  %t = tile.alloc : !t
  %v = memref.subview %x[%c, 0] [64, 64] [1, 1] : !x to memref<64x64xbf16, strided<[?, 1], offset: ?>>
  // expected-error @+1 {{[N2] has a source of type}}
  tile.load_async %t[%slot] from %v[%c, %c] dims [0, 1] barrier %b : memref<64x64xbf16, strided<[?, 1], offset: ?>>, !t, !bars
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<4x64x64xbf16, #tile.space<shared>>
!bars = memref<4xi64, #tile.space<shared>>
tile.kernel @n3(%x: !x, %c: index) {
  %slot = arith.constant 0 : i32
  %b = tile.alloc : !bars
  %t = tile.alloc : !t
  // expected-error @+1 {{[N3] has 1 offsets for a source of rank 2}}
  tile.load_async %t[%slot] from %x[%c] dims [0, 1] barrier %b : !x, !t, !bars
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<4x64x64xbf16, #tile.space<shared>>
!bars = memref<4xi64, #tile.space<shared>>
tile.kernel @n4(%x: !x, %c: index) {
  %slot = arith.constant 0 : i32
  %b = tile.alloc : !bars
  %t = tile.alloc : !t
  // expected-error @+1 {{[N4] has dims [1, 0] of 'memref<?x?xbf16, strided<[?, 1], offset: ?>>'; they are two ascending dims, the last one innermost with stride 1}}
  tile.load_async %t[%slot] from %x[%c, %c] dims [1, 0] barrier %b : !x, !t, !bars
  tile.return
}

// -----

!x = memref<?x?xf16, strided<[?, 1], offset: ?>>
!t = memref<4x64x64xbf16, #tile.space<shared>>
!bars = memref<4xi64, #tile.space<shared>>
tile.kernel @n5(%x: !x, %c: index) {
  %slot = arith.constant 0 : i32
  %b = tile.alloc : !bars
  %t = tile.alloc : !t
  // expected-error @+1 {{[N5] moves 'f16' to 'bf16'; it moves elements of 2 or 4 bytes as they are}}
  tile.load_async %t[%slot] from %x[%c, %c] dims [0, 1] barrier %b : !x, !t, !bars
  tile.return
}

// -----

!t = memref<64x64xbf16, #tile.space<shared>>
tile.kernel @y1() {
  %t = tile.alloc : !t
  %acc = tile.alloc : memref<64x64xf32, #tile.space<shared>>
  // expected-error @+1 {{[Y1] has an accumulator of type 'memref<64x64xf32, #tile.space<shared>>'; it is a fragment of f32, rank 2}}
  tile.mma_async %acc, %t, %t : memref<64x64xf32, #tile.space<shared>>, !t, !t
  tile.return
}

// -----

!t = memref<64x64xbf16, #tile.space<shared>>
tile.kernel @y2() {
  %t = tile.alloc : !t
  %h = tile.alloc : memref<64x64xf16, #tile.space<shared>>
  %acc = tile.alloc : memref<64x64xf32, #tile.space<fragment>>
  // expected-error @+1 {{[Y2] has operands of type}}
  tile.mma_async %acc, %t, %h : memref<64x64xf32, #tile.space<fragment>>, !t, memref<64x64xf16, #tile.space<shared>>
  tile.return
}

// -----

!t = memref<64x64xbf16, #tile.space<shared>>
tile.kernel @y3() {
  %t = tile.alloc : !t
  %f = tile.alloc : memref<64x64xbf16, #tile.space<fragment>>
  %acc = tile.alloc : memref<64x64xf32, #tile.space<fragment>>
  // expected-error @+1 {{[Y3] has operands of type}}
  tile.mma_async %acc, %t, %f : memref<64x64xf32, #tile.space<fragment>>, !t, memref<64x64xbf16, #tile.space<fragment>>
  tile.return
}

// -----

!t = memref<64x64xbf16, #tile.space<shared>>
tile.kernel @y4() {
  %t = tile.alloc : !t
  %acc = tile.alloc : memref<64x128xf32, #tile.space<fragment>>
  // expected-error @+1 {{[Y4] adds a product of 64x64 and 64x64 to 'memref<64x128xf32, #tile.space<fragment>>'}}
  tile.mma_async %acc, %t, %t : memref<64x128xf32, #tile.space<fragment>>, !t, !t
  tile.return
}

// -----

!t = memref<2x64x64xbf16, #tile.space<shared>>
tile.kernel @y5() {
  %slot = arith.constant 0 : i32
  %t = tile.alloc : !t
  %acc = tile.alloc : memref<64x64xf32, #tile.space<fragment>>
  // expected-error @+1 {{[Y5] has an operand of type 'memref<2x64x64xbf16, #tile.space<shared>>' without a slot; operands of rank 3 have one, those of rank 2 none}}
  tile.mma_async %acc, %t[%slot], %t : memref<64x64xf32, #tile.space<fragment>>, !t, !t
  tile.return
}

// -----

tile.kernel @y6() {
  // expected-error @+1 {{[Y6] leaves 8 groups in flight; 0 to 7}}
  tile.mma_wait pending 8
  tile.return
}

// -----

tile.kernel @v1() attributes {tile.tensor_maps = [{}]} {
  // expected-error @+1 {{[V1] takes map 1 of the 1 that kernel 'v1' lists in tile.tensor_maps}}
  %map = tile.tensor_map 1 : !llvm.ptr
  tile.return
}

// -----

tile.kernel @w1_outside() {
  // expected-error @+1 {{[W1] stands outside of consumers; warpgroups take turns in the consumer region of tile.roles}}
  tile.turn_wait
  tile.return
}

// -----

tile.kernel @w1_producer() {
  tile.roles registers [] producer {
    // expected-error @+1 {{[W1] stands outside of consumers; warpgroups take turns in the consumer region of tile.roles}}
    tile.turn_pass
    tile.role_end
  } consumer {
    tile.role_end
  }
  tile.return
}
