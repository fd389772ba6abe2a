// RUN: kimi-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{[K1] 'k' has no body}}
tile.kernel @k(memref<4xf32>)

// -----

// expected-error@+1 {{[K2] 'k' returns values}}
tile.kernel @k(%x: memref<4xf32>) -> f32 {
  tile.return
}

// -----

// expected-error@+1 {{[K3] 'k': argument 1 is 'f32'}}
tile.kernel @k(%x: memref<4xf32>, %y: f32) {
  tile.return
}

// -----

// expected-error@+1 {{[K4] 'k': argument 0 is}}
tile.kernel @k(%x: memref<4xf32, strided<[1], offset: 8>>) {
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error@+1 {{[B1] dim is 3}}
  %b = tile.block_id 3
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error@+1 {{[A1] has type}}
  %t = tile.alloc : memref<?x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error@+1 {{[A2] has type}}
  %t = tile.alloc : memref<4x8xf32, strided<[16, 1]>, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error@+1 {{[A3] has type}}
  %t = tile.alloc : memref<4x8xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xf32>, %i: index) {
  // expected-error@+1 {{[C1] has a tile of type}}
  tile.load %x from %x[%i, %i] dims [0, 1] : memref<?x?xf32>, memref<?x?xf32>
  tile.return
}

// -----

tile.kernel @k(%i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  %s = memref.alloc() : memref<4x8xf32, affine_map<(d0, d1) -> (d0 mod 2, d1)>>
  // expected-error@+1 {{[C2] needs strided layouts}}
  tile.load %t from %s[%i, %i] dims [0, 1] : memref<4x8xf32, affine_map<(d0, d1) -> (d0 mod 2, d1)>>, memref<4x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xf32>, %i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[C3] has 1 offsets for a source of rank 2}}
  tile.load %t from %x[%i] dims [0, 1] : memref<?x?xf32>, memref<4x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xf32>, %i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[C3] has 3 offsets for a destination of rank 2}}
  tile.store %t to %x[%i, %i, %i] dims [0, 1] : memref<4x8xf32, #tile.space<shared>>, memref<?x?xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xf32>, %i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[C4] has 1 dims for a tile of rank 2}}
  tile.load %t from %x[%i, %i] dims [0] : memref<?x?xf32>, memref<4x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xf32>, %i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[C5] dim 2 is no dim}}
  tile.load %t from %x[%i, %i] dims [0, 2] : memref<?x?xf32>, memref<4x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xf32>, %i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[C6] dim 1 is named twice}}
  tile.load %t from %x[%i, %i] dims [1, 1] : memref<?x?xf32>, memref<4x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?x?xi32>, %i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[C7] cannot convert between 'f32' and 'i32'}}
  tile.load %t from %x[%i, %i] dims [0, 1] : memref<?x?xi32>, memref<4x8xf32, #tile.space<shared>>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?xf32>) {
  %v = arith.constant 0.0 : f32
  // expected-error@+1 {{[F1] has a tile of type}}
  tile.fill %x, %v : memref<?xf32>, f32
  tile.return
}

// -----

tile.kernel @k(%i: index) {
  %t = tile.alloc : memref<4x8xf32, #tile.space<shared>>
  // expected-error@+1 {{[F2] fills a tile of 'f32' with 'index'}}
  tile.fill %t, %i : memref<4x8xf32, #tile.space<shared>>, index
  tile.return
}

// -----

tile.kernel @k(%acc: memref<4x8xf32>, %a: memref<4x?xf32>, %b: memref<2x8xf32>) {
  // expected-error@+1 {{[M1] works on floating point memrefs}}
  tile.mma %acc, %a, %b : memref<4x8xf32>, memref<4x?xf32>, memref<2x8xf32>
  tile.return
}

// -----

tile.kernel @k(%acc: memref<4x8xf32>, %a: memref<4x2xf32>, %b: memref<1x2x8xf32>) {
  // expected-error@+1 {{[M2] is both transpose_b and panels}}
  tile.mma %acc, %a, %b transpose_b panels : memref<4x8xf32>, memref<4x2xf32>, memref<1x2x8xf32>
  tile.return
}

// -----

tile.kernel @k(%acc: memref<4x8xf32>, %a: memref<4x2xf32>, %b: memref<2x8xf32>) {
  // expected-error@+1 {{[M3] needs acc and a of rank 2 and b of rank 3}}
  tile.mma %acc, %a, %b panels : memref<4x8xf32>, memref<4x2xf32>, memref<2x8xf32>
  tile.return
}

// -----

tile.kernel @k(%acc: memref<4x8xf16>, %a: memref<4x2xf32>, %b: memref<2x8xf32>) {
  // expected-error@+1 {{[M4] accumulates in fp32}}
  tile.mma %acc, %a, %b : memref<4x8xf16>, memref<4x2xf32>, memref<2x8xf32>
  tile.return
}

// -----

tile.kernel @k(%acc: memref<4x8xf32>, %a: memref<4x2xf32>, %b: memref<2x8xf32>) {
  // expected-error@+1 {{[M5] has shapes that do not fit: acc 4x8, a 4x2, b 8x2 (k x n)}}
  tile.mma %acc, %a, %b transpose_b : memref<4x8xf32>, memref<4x2xf32>, memref<2x8xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<?xf32>) {
  %v = arith.constant 0.0 : f32
  // expected-error@+1 {{[P1] has an output of type}}
  tile.map outs(%x : memref<?xf32>) {
    tile.yield %v : f32
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf32>) {
  %v = arith.constant 0.0 : f32
  // expected-error@+1 {{[P2] has 1 inputs and a region of 0 arguments}}
  tile.map ins(%x : memref<4xf32>) outs(%x : memref<4xf32>) {
    tile.yield %v : f32
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf32>, %y: memref<3xf32>) {
  // expected-error@+1 {{[P3] input 0 is}}
  tile.map ins(%y : memref<3xf32>) outs(%x : memref<4xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf32>) {
  %v = arith.constant 0.0 : f32
  // expected-error@+1 {{[P4] input 0 holds 'f32', region argument 0 is 'i32'}}
  tile.map ins(%x : memref<4xf32>) outs(%x : memref<4xf32>) {
  ^bb0(%a: i32):
    tile.yield %v : f32
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf32>, %i: index) {
  // expected-error@+1 {{[P5] must end in a tile.yield of one 'f32'}}
  tile.map outs(%x : memref<4xf32>) {
    tile.yield %i : index
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf32>, %i: index) {
  tile.map outs(%x : memref<4xf32>) {
  // expected-error@+1 {{[P6] cannot stand in a tile.map}}
    %v = memref.load %x[%i] : memref<4xf32>
    tile.yield %v : f32
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xindex>) {
  tile.map outs(%x : memref<4xindex>) {
  // expected-error@+1 {{[E1] dim is 1; the map has rank 1}}
    %v = tile.element_index 1
    tile.yield %v : index
  }
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf16>, %y: memref<1xf16>) {
  // expected-error@+1 {{[R1] reduces fp32 tiles}}
  tile.reduce add %x into %y axis 0 : memref<4xf16>, memref<1xf16>
  tile.return
}

// -----

tile.kernel @k(%x: memref<4xf32>, %y: memref<1xf32>) {
  // expected-error@+1 {{[R2] axis is 1}}
  tile.reduce add %x into %y axis 1 : memref<4xf32>, memref<1xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<4x3xf32>, %y: memref<4x3xf32>) {
  // expected-error@+1 {{[R3] reduces}}
  tile.reduce add %x into %y axis 1 : memref<4x3xf32>, memref<4x3xf32>
  tile.return
}

// -----

// expected-error@+1 {{[K5] 'k' has 48 threads}}
tile.kernel @k() attributes {threads = 48 : i64} {
  tile.return
}

// -----

// expected-error@+1 {{[K6] 'k': argument 0 has tile.align = 12 : i64}}
tile.kernel @k(%x: memref<4xf32> {tile.align = 12 : i64}) {
  tile.return
}

// -----

// expected-error@+1 {{[L1] has the mode 0:1 at 0}}
#l = #tile.layout<registers [0:1 at 0], lanes [32:0], warps []>

// -----

// expected-error@+1 {{[L2] has 16 lanes}}
#l = #tile.layout<registers [], lanes [16:1 at 0], warps []>

// -----

// expected-error@+1 {{[L3] repeats registers}}
#l = #tile.layout<registers [2:0], lanes [32:0], warps []>

// -----

// expected-error@+1 {{[L4] has a mode of stride 4 along dim 0 where 2 comes next}}
#l = #tile.layout<registers [2:1 at 0], lanes [32:4 at 0], warps []>

// -----

// expected-error@+1 {{expected 'at' and a dim}}
#l = #tile.layout<registers [2:1], lanes [32:0], warps []>

// -----

tile.kernel @k() {
  // expected-error@+1 {{[A4] has type}}
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 0], lanes [32:2 at 0], warps []>} : memref<32xf32, #tile.space<fragment>>
  tile.return
}

// -----

tile.kernel @k() attributes {threads = 64 : i64} {
  // expected-error@+1 {{[A5] has a layout of 32 threads; kernel 'k' has 64}}
  %t = tile.alloc {layout = #tile.layout<registers [2:1 at 0], lanes [32:2 at 0], warps []>} : memref<64xf32, #tile.space<fragment>>
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<shared>>
tile.kernel @k(%x: memref<?xf32>, %n: index) {
  %t = tile.alloc : !t
  // expected-error@+1 {{[T1] has 9 stages}}
  tile.pipeline %i = %n to %n step %n stages 9 buffers(%t : !t) {
    tile.load %t from %x[%i] dims [0] : memref<?xf32>, !t
  } compute {
  }
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<fragment>>
tile.kernel @k(%x: memref<?xf32>, %n: index) {
  %t = tile.alloc : !t
  // expected-error@+1 {{[T2] has a buffer 0}}
  tile.pipeline %i = %n to %n step %n stages 2 buffers(%t : !t) {
    tile.load %t from %x[%i] dims [0] : memref<?xf32>, !t
  } compute {
  }
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<shared>>
tile.kernel @k(%n: index) {
  %t = tile.alloc : !t
  // expected-error@+1 {{[T3] has a region}}
  "tile.pipeline"(%n, %n, %n, %t) <{stages = 2 : i64}> ({
  ^bb0(%i: index, %j: index):
  }, {
  ^bb0(%i: index):
  }) : (index, index, index, !t) -> ()
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<shared>>
tile.kernel @k(%x: memref<?xf32>, %n: index) {
  %t = tile.alloc : !t
  %u = tile.alloc : !t
  tile.pipeline %i = %n to %n step %n stages 2 buffers(%t : !t) {
    // expected-error@+1 {{[T4] fills a tile that is no buffer}}
    tile.load %u from %x[%i] dims [0] : memref<?xf32>, !t
  } compute {
  }
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<shared>>
tile.kernel @k(%x: memref<?xf32>, %n: index) {
  %t = tile.alloc : !t
  tile.pipeline %i = %n to %n step %n stages 2 buffers(%t : !t) {
    // expected-error@+1 {{[T4] cannot stand in the load region}}
    tile.store %t to %x[%i] dims [0] : !t, memref<?xf32>
  } compute {
  }
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<shared>>
tile.kernel @k(%x: memref<?xf32>, %n: index) {
  %t = tile.alloc : !t
  tile.pipeline %i = %n to %n step %n stages 2 buffers(%t : !t) {
    tile.load %t from %x[%i] dims [0] : memref<?xf32>, !t
    // expected-error@+1 {{[T5] fills a buffer of the pipeline a second time}}
    tile.load %t from %x[%i] dims [0] : memref<?xf32>, !t
  } compute {
  }
  tile.return
}

// -----

!t = memref<4xf32, #tile.space<shared>>
tile.kernel @k(%x: memref<?xf32>, %n: index) {
  %t = tile.alloc : !t
  // expected-error@+1 {{[T5] fills 0 of its 1 buffers}}
  tile.pipeline %i = %n to %n step %n stages 2 buffers(%t : !t) {
  } compute {
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error@+1 {{[S1] needs pairs of an offset and a length}}
  tile.shared_access reads [0] writes []
  tile.return
}
