// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

!x = memref<?x?xbf16, strided<[?, 1], offset: ?>>
!bars = memref<4xi64, #tile.space<shared>>
!sa = memref<4x128x64xbf16, #tile.space<shared>>
!sb = memref<4x64x256xbf16, #tile.space<shared>>
!q = memref<64x128xbf16, #tile.space<shared>>
!p = memref<128x64xbf16, #tile.space<fragment>>
!acc = memref<128x256xf32, #tile.space<fragment>>

// CHECK-LABEL: tile.kernel @roles
tile.kernel @roles(%x: !x, %w: !x) attributes {tile.tensor_maps = [{}]} {
  %c0 = arith.constant 0 : index
  %slot = arith.constant 0 : i32
  %a = tile.alloc : !sa
  %b = tile.alloc : !sb
  %p = tile.alloc : !p
  %acc = tile.alloc : !acc
  %full = tile.alloc : !bars
  // CHECK: tile.barrier_init %[[FULL:.*]] arrivals 1 : memref<4xi64, #tile.space<shared>>
  tile.barrier_init %full arrivals 1 : !bars
  // CHECK: tile.tensor_map 0 : !llvm.ptr
  %map = tile.tensor_map 0 : !llvm.ptr
  // CHECK: tile.roles registers [40, 232] producer {
  tile.roles registers [40, 232] producer {
    // CHECK: tile.barrier_expect %[[FULL]][%{{.*}}] bytes 16384 : memref<4xi64
    tile.barrier_expect %full[%slot] bytes 16384 : !bars
    // CHECK: tile.load_async %{{.*}}[%{{.*}}] from %{{.*}}[%{{.*}}, %{{.*}}] dims [0, 1] barrier %[[FULL]] :
    tile.load_async %a[%slot] from %x[%c0, %c0] dims [0, 1] barrier %full : !x, !sa, !bars
    // CHECK: tile.role_end
    tile.role_end
  // CHECK: } consumer {
  } consumer {
    // CHECK: tile.barrier_wait %[[FULL]][%{{.*}}] parity %{{.*}} : memref<4xi64
    tile.barrier_wait %full[%slot] parity %slot : !bars
    // CHECK: tile.async_fence
    tile.async_fence
    // CHECK: tile.turn_wait
    tile.turn_wait
    // CHECK: tile.turn_pass
    tile.turn_pass
    // CHECK: tile.mma_async %{{.*}}, %{{.*}}[%{{.*}}], %{{.*}}[%{{.*}}] : memref<128x256xf32
    tile.mma_async %acc, %a[%slot], %b[%slot] : !acc, !sa, !sb
    // CHECK: tile.mma_async %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] : memref<128x256xf32
    tile.mma_async %acc, %p, %b[%slot] : !acc, !p, !sb
    // CHECK: tile.mma_wait pending 1
    tile.mma_wait pending 1
    // CHECK: tile.mma_wait pending 0 %{{.*}}, %{{.*}} : memref<128x256xf32, #tile.space<fragment>>, memref<128x64xbf16
    tile.mma_wait pending 0 %acc, %p : !acc, !p
    // CHECK: tile.barrier_arrive %[[FULL]][%{{.*}}] : memref<4xi64
    tile.barrier_arrive %full[%slot] : !bars
    tile.role_end
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @transposed
tile.kernel @transposed() {
  %a = tile.alloc : !q
  %b = tile.alloc : memref<16x64xbf16, #tile.space<shared>>
  %acc = tile.alloc : memref<128x16xf32, #tile.space<fragment>>
  // CHECK: tile.mma_async %{{.*}}, %{{.*}}, %{{.*}} transpose_a transpose_b : memref<128x16xf32
  tile.mma_async %acc, %a, %b transpose_a transpose_b
    : memref<128x16xf32, #tile.space<fragment>>, !q, memref<16x64xbf16, #tile.space<shared>>
  // CHECK: tile.roles registers [] producer {
  tile.roles registers [] producer {
    tile.role_end
  } consumer {
    tile.role_end
  }
  tile.return
}
