// RUN: kimi-opt %s --tile-warp-specialize --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!sa = memref<128x64xbf16, #tile.space<shared>>
!sb = memref<256x64xbf16, #tile.space<shared>>
!acc = memref<128x256xf32, #tile.space<fragment>>

// A persistent product: one pair of barriers for both operands, positions run on from tile to tile, products stay in
// flight until the next one is issued.
// CHECK-LABEL: tile.kernel @persistent
// CHECK-SAME: attributes {threads = 256 : i64} {
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-DAG: %[[STAGES:.*]] = arith.constant 4 : i32
// CHECK: %[[ACC:.*]] = tile.alloc : memref<128x256xf32
// CHECK: %[[A:.*]] = tile.alloc : memref<4x128x64xbf16, #tile.space<shared>>
// CHECK: %[[B:.*]] = tile.alloc : memref<4x256x64xbf16, #tile.space<shared>>
// CHECK: %[[FULL:.*]] = tile.alloc : memref<4xi64
// CHECK: %[[EMPTY:.*]] = tile.alloc : memref<4xi64
// CHECK-NOT: tile.alloc
// CHECK: tile.barrier_init %[[FULL]] arrivals 1
// CHECK: tile.barrier_init %[[EMPTY]] arrivals 8
// CHECK: tile.roles registers [40, 232] producer {
// CHECK: %[[P:.*]]:2 = scf.for {{.*}} iter_args(%[[S0:.*]] = %[[ZERO]], %[[Q0:.*]] = %[[ZERO]]) -> (i32, i32)
// CHECK-NOT: tile.fill
// CHECK: %[[PK:.*]]:2 = scf.for %[[K:.*]] = {{.*}} iter_args(%[[S:.*]] = %[[S0]], %[[Q:.*]] = %[[Q0]]) -> (i32, i32)
// CHECK: %[[FREE:.*]] = arith.xori %[[Q]], %[[ONE]]
// CHECK: tile.barrier_wait %[[EMPTY]][%[[S]]] parity %[[FREE]]
// CHECK: tile.barrier_expect %[[FULL]][%[[S]]] bytes 49152
// CHECK: tile.load_async %[[A]][%[[S]]] from %{{.*}}[%{{.*}}, %[[K]]] dims [0, 1] barrier %[[FULL]]
// CHECK: tile.load_async %[[B]][%[[S]]] from %{{.*}}[%{{.*}}, %[[K]]] dims [0, 1] barrier %[[FULL]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[S]], %[[ONE]]
// CHECK: %[[WRAPS:.*]] = arith.cmpi eq, %[[NEXT]], %[[STAGES]]
// CHECK: arith.select %[[WRAPS]], %[[ZERO]], %[[NEXT]]
// CHECK: arith.select %[[WRAPS]], %[[FREE]], %[[Q]]
// CHECK: scf.yield %[[PK]]#0, %[[PK]]#1
// CHECK-NOT: tile.store
// CHECK: } consumer {
// CHECK: scf.for {{.*}} iter_args(%[[S0:.*]] = %[[ZERO]], %[[Q0:.*]] = %[[ZERO]])
// CHECK: tile.fill %[[ACC]]
// CHECK: %[[CK:.*]]:2 = scf.for %[[K:.*]] = %[[LO:.*]] to %[[HI:.*]] step {{.*}} iter_args(%[[S:.*]] = %[[S0]], %[[Q:.*]] = %[[Q0]])
// CHECK: %[[MORE:.*]] = arith.cmpi ne, %[[K]], %[[LO]]
// CHECK: tile.barrier_wait %[[FULL]][%[[S]]] parity %[[Q]]
// CHECK-NEXT: tile.mma_async %[[ACC]], %[[A]][%[[S]]], %[[B]][%[[S]]] transpose_b
// CHECK-NEXT: tile.mma_wait pending 1
// CHECK-NEXT: scf.if %[[MORE]] {
// CHECK: tile.barrier_arrive %[[EMPTY]][%{{.*}}]
// CHECK: %[[ANY:.*]] = arith.cmpi sgt, %[[HI]]
// CHECK: tile.mma_wait pending 0 %[[ACC]] :
// CHECK-NEXT: scf.if %[[ANY]] {
// CHECK: tile.barrier_arrive %[[EMPTY]]
// CHECK: tile.store %[[ACC]]
// CHECK: scf.yield %[[CK]]#0, %[[CK]]#1
tile.kernel @persistent(%x: !x {tile.align = 16 : i64}, %w: !x {tile.align = 16 : i64}, %y: !x, %tiles: index)
    attributes {threads = 256 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %k = memref.dim %x, %c1 : !x
  %id = tile.block_id 0
  %a = tile.alloc : !sa
  %b = tile.alloc : !sb
  %acc = tile.alloc : !acc
  scf.for %t = %id to %tiles step %c128 {
    %r = arith.muli %t, %c128 : index
    tile.fill %acc, %zero : !acc, f32
    tile.pipeline %kk = %c0 to %k step %c64 stages 4 buffers(%a, %b : !sa, !sb) {
      tile.load %a from %x[%r, %kk] dims [0, 1] : !x, !sa
      tile.load %b from %w[%c0, %kk] dims [0, 1] : !x, !sb
    } compute {
      tile.mma %acc, %a, %b transpose_b : !acc, !sa, !sb
    }
    tile.store %acc to %y[%r, %c0] dims [0, 1] : !acc, !x
  }
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!q = memref<64x64xbf16, #tile.space<shared>>
!s = memref<64x64xf32, #tile.space<fragment>>
!p = memref<64x64xbf16, #tile.space<fragment>>

// The inner part of attention: keys and values have barriers of their own. The product with the values, whose operand the
// threads make of the first product's result, is issued behind the first product of the next iteration, and the last one
// behind the loop. What threads store for the matrix units is fenced.
// CHECK-LABEL: tile.kernel @attention
// CHECK: tile.roles registers [] producer {
// CHECK: tile.barrier_wait %[[KEMPTY:[0-9]+]][
// CHECK: tile.barrier_expect %[[KFULL:[0-9]+]][%{{.*}}] bytes 8192
// CHECK: tile.load_async %[[K:[0-9]+]][
// CHECK: tile.barrier_wait %[[VEMPTY:[0-9]+]][
// CHECK: tile.barrier_expect %[[VFULL:[0-9]+]][%{{.*}}] bytes 8192
// CHECK: tile.load_async %[[V:[0-9]+]][
// CHECK: } consumer {
// CHECK: tile.load %[[Q:[0-9]+]] from
// CHECK-NEXT: tile.async_fence
// CHECK: tile.fill %[[O:[0-9]+]],
// CHECK: scf.if
// CHECK: tile.fill %[[S:[0-9]+]],
// CHECK: tile.barrier_wait %[[KFULL]][%[[ZERO:.*]]] parity %[[ZERO]]
// CHECK-NEXT: tile.mma_async %[[S]], %[[Q]], %[[K]][%[[ZERO]]] transpose_b
// CHECK-NEXT: tile.mma_wait pending 0 %[[S]] :
// CHECK-NEXT: tile.barrier_arrive %[[KEMPTY]][%[[ZERO]]]
// CHECK-NEXT: tile.map ins(%[[S]] : {{.*}}) outs(%[[S]] :
// CHECK: tile.map ins(%[[S]] : {{.*}}) outs(%[[P:[0-9]+]] :
// CHECK: %[[LOOP:[0-9]+]]:4 = scf.for {{.*}} iter_args(%[[SLOT:.*]] = %{{.*}}, %[[PARITY:.*]] = %[[ZERO]], %[[OLD:.*]] = %[[ZERO]], %[[OLDPARITY:.*]] = %[[ZERO]])
// CHECK: tile.fill %[[S]]
// CHECK-NEXT: tile.barrier_wait %[[KFULL]][%[[SLOT]]] parity %[[PARITY]]
// CHECK-NEXT: tile.mma_async %[[S]], %[[Q]], %[[K]][%[[SLOT]]] transpose_b
// CHECK-NEXT: tile.barrier_wait %[[VFULL]][%[[OLD]]] parity %[[OLDPARITY]]
// CHECK-NEXT: tile.mma_async %[[O]], %[[P]], %[[V]][%[[OLD]]] :
// CHECK-NEXT: tile.mma_wait pending 1 %[[S]] :
// CHECK-NEXT: tile.barrier_arrive %[[KEMPTY]][%[[SLOT]]]
// CHECK-NEXT: tile.map ins(%[[S]] : {{.*}}) outs(%[[S]] :
// CHECK: tile.mma_wait pending 0 %[[O]], %[[P]] :
// CHECK-NEXT: tile.barrier_arrive %[[VEMPTY]][%[[OLD]]]
// CHECK-NEXT: tile.map ins(%[[S]] : {{.*}}) outs(%[[P]] :
// CHECK: scf.yield %{{.*}}, %{{.*}}, %[[SLOT]], %[[PARITY]]
// CHECK: tile.barrier_wait %[[VFULL]][%[[LOOP]]#2] parity %[[LOOP]]#3
// CHECK-NEXT: tile.mma_async %[[O]], %[[P]], %[[V]][%[[LOOP]]#2]
// CHECK-NEXT: tile.mma_wait pending 0 %[[O]], %[[P]] :
// CHECK-NEXT: tile.barrier_arrive %[[VEMPTY]][%[[LOOP]]#2]
// CHECK: tile.store %[[O]]
tile.kernel @attention(%q: !x, %k: !x {tile.align = 32 : i64}, %v: !x {tile.align = 32 : i64}, %y: !x)
    attributes {threads = 128 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %n = memref.dim %k, %c0 : !x
  %qs = tile.alloc : !q
  %ks = tile.alloc : !q
  %vs = tile.alloc : !q
  %s = tile.alloc : !s
  %p = tile.alloc : !p
  %o = tile.alloc : !s
  tile.load %qs from %q[%c0, %c0] dims [0, 1] : !x, !q
  tile.fill %o, %zero : !s, f32
  tile.pipeline %i = %c0 to %n step %c64 stages 2 buffers(%ks, %vs : !q, !q) {
    tile.load %ks from %k[%i, %c0] dims [0, 1] : !x, !q
    tile.load %vs from %v[%i, %c0] dims [0, 1] : !x, !q
  } compute {
    tile.fill %s, %zero : !s, f32
    tile.mma %s, %qs, %ks transpose_b : !s, !q, !q
    tile.map ins(%s : !s) outs(%s : !s) {
    ^bb0(%e: f32):
      %t = math.exp2 %e : f32
      tile.yield %t : f32
    }
    tile.map ins(%s : !s) outs(%p : !p) {
    ^bb0(%e: f32):
      %t = arith.truncf %e : f32 to bf16
      tile.yield %t : bf16
    }
    tile.mma %o, %p, %vs : !s, !p, !q
  }
  tile.store %o to %y[%c0, %c0] dims [0, 1] : !s, !x
  tile.return
}

// -----

!x = memref<?x64xbf16, strided<[64, 1], offset: ?>>
!q = memref<128x64xbf16, #tile.space<shared>>
!k = memref<64x64xbf16, #tile.space<shared>>
!s = memref<128x64xf32, #tile.space<fragment>>
!p = memref<128x64xbf16, #tile.space<fragment>>

// Two warpgroups issue the products of an iteration one after the other: each exponentiates while the other multiplies.
// CHECK-LABEL: tile.kernel @turns
// CHECK: } consumer {
// CHECK: scf.if
// CHECK: tile.turn_wait
// CHECK-NEXT: tile.mma_async
// CHECK-NEXT: tile.turn_pass
// CHECK: scf.for
// CHECK: tile.turn_wait
// CHECK-NEXT: tile.mma_async
// CHECK-NEXT: tile.barrier_wait
// CHECK-NEXT: tile.mma_async
// CHECK-NEXT: tile.turn_pass
// CHECK-NEXT: tile.mma_wait
// CHECK-NOT: tile.turn
tile.kernel @turns(%q: !x, %k: !x {tile.align = 32 : i64}, %v: !x {tile.align = 32 : i64}, %y: !x)
    attributes {threads = 256 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %n = memref.dim %k, %c0 : !x
  %qs = tile.alloc : !q
  %ks = tile.alloc : !k
  %vs = tile.alloc : !k
  %s = tile.alloc : !s
  %p = tile.alloc : !p
  %o = tile.alloc : !s
  tile.load %qs from %q[%c0, %c0] dims [0, 1] : !x, !q
  tile.fill %o, %zero : !s, f32
  tile.pipeline %i = %c0 to %n step %c64 stages 2 buffers(%ks, %vs : !k, !k) {
    tile.load %ks from %k[%i, %c0] dims [0, 1] : !x, !k
    tile.load %vs from %v[%i, %c0] dims [0, 1] : !x, !k
  } compute {
    tile.fill %s, %zero : !s, f32
    tile.mma %s, %qs, %ks transpose_b : !s, !q, !k
    tile.map ins(%s : !s) outs(%p : !p) {
    ^bb0(%e: f32):
      %t = arith.truncf %e : f32 to bf16
      tile.yield %t : bf16
    }
    tile.mma %o, %p, %vs : !s, !p, !k
  }
  tile.store %o to %y[%c0, %c0] dims [0, 1] : !s, !x
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>

// Blocks of a cluster have rows of their own and the weight in common: each fetches half of it for both, and a stage is
// free when the warps of both are done with it.
// CHECK-LABEL: tile.kernel @cluster
// CHECK-SAME: cluster = 2
// CHECK: tile.barrier_init %{{.*}} arrivals 1 :
// CHECK: tile.barrier_init %{{.*}} arrivals 8 :
// CHECK: tile.barrier_expect %{{.*}} bytes 16384
// CHECK: tile.load_async %{{.*}} from %arg0[{{.*}} barrier %{{[0-9]+}} :
// CHECK: tile.load_async %{{.*}} from %arg1[{{.*}} barrier %{{[0-9]+}} multicast :
// CHECK: tile.barrier_arrive %{{.*}} cluster :
tile.kernel @cluster(%x: !x {tile.align = 16 : i64}, %w: !x {tile.align = 16 : i64}, %n: index)
    attributes {threads = 128 : i64, warp_specialized, cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %b = tile.alloc : !t
  %acc = tile.alloc : !acc
  %id = tile.block_id 0
  %unit = arith.divui %id, %c2 : index
  %row = arith.muli %id, %c64 : index
  %column = arith.muli %unit, %c64 : index
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a, %b : !t, !t) {
    tile.load %a from %x[%row, %k] dims [0, 1] : !x, !t
    tile.load %b from %w[%column, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %a, %b transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>

// CHECK-LABEL: tile.kernel @uneven
// CHECK-NOT: cluster
// CHECK: tile.pipeline
tile.kernel @uneven(%x: !x {tile.align = 16 : i64}) attributes {threads = 128 : i64, warp_specialized, cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  %id = tile.block_id 0
  // expected-remark @+1 {{the blocks of a cluster may run it differently often}}
  tile.pipeline %k = %c0 to %id step %c64 stages 2 buffers(%a : !t) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>

// A pipeline that some blocks skip: the position behind the branch is that of the branch taken.
// CHECK-LABEL: tile.kernel @branch
// CHECK: producer {
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %[[ZERO:.*]], %[[P:.*]] = %[[ZERO]])
// CHECK: %[[AFTER:[0-9]+]]:2 = scf.if %{{.*}} -> (i32, i32) {
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[S]], %{{.*}} = %[[P]])
// CHECK: } else {
// CHECK-NEXT: scf.yield %[[S]], %[[P]] : i32, i32
// CHECK: scf.yield %[[AFTER]]#0, %[[AFTER]]#1
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[ZERO]], %{{.*}} = %[[ZERO]])
// CHECK: } consumer {
// CHECK: scf.if %{{.*}} -> (i32, i32) {
tile.kernel @branch(%x: !x {tile.align = 16 : i64}, %n: index) attributes {threads = 128 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %b = tile.alloc : !t
  %acc = tile.alloc : !acc
  %some = arith.cmpi ugt, %n, %c64 : index
  scf.for %j = %c0 to %n step %c64 {
    scf.if %some {
      tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a : !t) {
        tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
      } compute {
        tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
      }
    }
  }
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%b : !t) {
    tile.load %b from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %b, %b transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>

// Without the promise of alignment the kernel stays as it is.
// CHECK-LABEL: tile.kernel @unaligned
// CHECK-NOT: warp_specialized
// CHECK: tile.pipeline
tile.kernel @unaligned(%x: !x, %n: index) attributes {threads = 128 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a : !t) {
    // expected-remark @+1 {{kernel 'unaligned' is not split into producer and consumers: the copy engine cannot fetch a box of its source: its address is not known to be a multiple of 16 bytes (tile.align)}}
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x100xbf16, strided<[100, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>
// CHECK-LABEL: tile.kernel @stride
// CHECK: tile.pipeline
tile.kernel @stride(%x: !x {tile.align = 16 : i64}, %n: index) attributes {threads = 128 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a : !t) {
    // expected-remark @+1 {{a stride of 100 elements is no multiple of 16 bytes}}
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>
// CHECK-LABEL: tile.kernel @rows
// CHECK: tile.pipeline
tile.kernel @rows(%x: !x {tile.align = 16 : i64}, %n: index) attributes {threads = 256 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a : !t) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    // expected-remark @+1 {{64 rows do not split over 2 warpgroups in blocks of 64}}
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x?xf32, strided<[?, 1], offset: ?>>
!t = memref<64x32xf32, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>
// CHECK-LABEL: tile.kernel @exact
// CHECK: tile.pipeline
tile.kernel @exact(%x: !x {tile.align = 16 : i64}, %n: index) attributes {threads = 128 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  tile.pipeline %k = %c0 to %n step %c32 stages 2 buffers(%a : !t) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    // expected-remark @+1 {{operands are not both bf16, both f16, or both f32 with tf32 allowed}}
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  tile.return
}

// -----

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>
// CHECK-LABEL: tile.kernel @race
// CHECK: tile.pipeline
tile.kernel @race(%x: !x {tile.align = 16 : i64}, %n: index) attributes {threads = 128 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a : !t) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  // expected-remark @+1 {{writes what a pipeline of the kernel loads}}
  tile.store %acc to %x[%c0, %c0] dims [0, 1] : !acc, !x
  tile.return
}

// -----

// CHECK-LABEL: tile.kernel @none
// CHECK-SAME: threads = 128
// expected-remark @+1 {{it has no tile.pipeline}}
tile.kernel @none(%n: index) attributes {threads = 128 : i64, warp_specialized} {
  tile.return
}

// -----

// A kernel that does not ask for it.
// CHECK-LABEL: tile.kernel @plain
// CHECK: tile.pipeline
!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!t = memref<64x64xbf16, #tile.space<shared>>
!acc = memref<64x64xf32, #tile.space<fragment>>
tile.kernel @plain(%x: !x {tile.align = 16 : i64}, %n: index) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = tile.alloc : !t
  %acc = tile.alloc : !acc
  tile.pipeline %k = %c0 to %n step %c64 stages 2 buffers(%a : !t) {
    tile.load %a from %x[%c0, %k] dims [0, 1] : !x, !t
  } compute {
    tile.mma %acc, %a, %a transpose_b : !acc, !t, !t
  }
  tile.return
}
