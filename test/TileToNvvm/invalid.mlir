// RUN: kimi-opt %s --tile-assign-layouts --tile-to-nvvm=sm=86 --split-input-file --verify-diagnostics

// expected-error@+1 {{kernel 'k' has no block size; run --tile-assign-threads first}}
tile.kernel @k() {
  %t = tile.alloc : memref<4xf32, #tile.space<fragment>>
  tile.return
}

// -----

tile.kernel @k() attributes {threads = 32 : i64} {
  // expected-error@+1 {{needs 1024 registers of a thread}}
  %t = tile.alloc : memref<128x256xf32, #tile.space<fragment>>
  tile.return
}

// -----

// expected-error@+1 {{kernel 'k' needs 131072 bytes of shared memory; a block of sm_86 may use 101376: choose smaller tiles or fewer stages}}
tile.kernel @k() attributes {threads = 128 : i64} {
  %zero = arith.constant 0.0 : f32
  %t = tile.alloc : memref<128x256xf32, #tile.space<shared>>
  tile.fill %t, %zero : memref<128x256xf32, #tile.space<shared>>, f32
  tile.return
}

// -----

!acc = memref<16x32xf32, #tile.space<fragment>>
!a = memref<16x8xf32, #tile.space<shared>>
tile.kernel @k(%b: memref<2x8x16xf32>) attributes {threads = 128 : i64} {
  %acc = tile.alloc : !acc
  %a = tile.alloc : !a
  // expected-error@+1 {{has b in panels, which is a layout for CPUs}}
  tile.mma %acc, %a, %b panels : !acc, !a, memref<2x8x16xf32>
  tile.return
}

// -----

!acc = memref<16x32xf32, #tile.space<shared>>
!a = memref<16x8xf32, #tile.space<shared>>
!b = memref<8x32xf32, #tile.space<shared>>
tile.kernel @k() attributes {threads = 128 : i64} {
  %acc = tile.alloc : !acc
  %a = tile.alloc : !a
  %b = tile.alloc : !b
  // expected-error@+1 {{accumulators are fragments on a GPU}}
  tile.mma %acc, %a, %b : !acc, !a, !b
  tile.return
}

// -----

!t = memref<8x8xf32, #tile.space<fragment>>
!v = memref<4x8xf32, strided<[8, 1]>, #tile.space<fragment>>
tile.kernel @k() attributes {threads = 32 : i64} {
  %zero = arith.constant 0.0 : f32
  %t = tile.alloc : !t
  %v = memref.subview %t[0, 0] [4, 8] [1, 1] : !t to !v
  // expected-error@+1 {{works on a view of a fragment}}
  tile.fill %v, %zero : !v, f32
  tile.return
}

// -----

// Narrow types that no tensor core instruction fits: computed, with a remark.
!acc = memref<16x12xf32, #tile.space<fragment>>
!a = memref<16x16xbf16, #tile.space<shared>>
!b = memref<16x12xbf16, #tile.space<shared>>
tile.kernel @k() attributes {threads = 32 : i64} {
  %acc = tile.alloc : !acc
  %a = tile.alloc : !a
  %b = tile.alloc : !b
  // expected-remark@+1 {{is computed by fused multiply-adds instead of tensor cores: a product of 16x12x16 is no multiple of 16x8x16}}
  tile.mma %acc, %a, %b : !acc, !a, !b
  tile.return
}

// -----

tile.kernel @k() attributes {threads = 64 : i64} {
  %acc = tile.alloc : memref<1x3xf32, #tile.space<fragment>>
  %a = tile.alloc : memref<1x20xf32, #tile.space<shared>>
  %b = tile.alloc : memref<3x20xf32, #tile.space<fragment>>
  // expected-error@+1 {{has b in a fragment whose 20 values along K do not spread evenly over the lanes; leave it in global memory}}
  tile.mma %acc, %a, %b transpose_b : memref<1x3xf32, #tile.space<fragment>>, memref<1x20xf32, #tile.space<shared>>, memref<3x20xf32, #tile.space<fragment>>
  tile.return
}
