// What ptxas makes of kernels with a producer: nothing spilled, no product serialised (it says so: C7510 and others), the
// registers of each role as asked for (C7508 where it is ignored), copies and products by the units meant for them.
// REQUIRES: ptxas
// RUN: kimi-opt %s --tile-to-cuda="sm=90 hopper=true" | mlir-translate --mlir-to-llvmir \
// RUN:   | opt -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -S \
// RUN:   | llc -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -mattr=+ptx83 -o %t.ptx
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// RUN: %ptxas -v -arch=sm_90a %t.ptx -o %t.cubin 2>&1 | FileCheck %s --implicit-check-not=C75 --implicit-check-not=warning \
// RUN:     --implicit-check-not="{{[1-9][0-9]*}} bytes spill" --implicit-check-not="{{[1-9][0-9]*}} bytes stack"

!x = memref<?x768xbf16, strided<[768, 1], offset: ?>>
!w = memref<2304x768xbf16, strided<[768, 1], offset: ?>>
!y = memref<?x2304xbf16, strided<[2304, 1], offset: ?>>
!sa = memref<128x64xbf16, #tile.space<shared>>
!sb = memref<256x64xbf16, #tile.space<shared>>
!acc = memref<128x256xf32, #tile.space<fragment>>

// A persistent product in clusters of two blocks, which fetch the weight for each other.
// PTX-LABEL: .visible .entry product(
// PTX: .reqntid 384
// PTX: .reqnctapercluster 2
// PTX: barrier.cluster.wait
// PTX: setmaxnreg.dec.sync.aligned.u32 {{.*}}40
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [
// PTX: setmaxnreg.inc.sync.aligned.u32 {{.*}}232
// PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// PTX: mapa.shared::cluster
// CHECK-DAG: Compiling entry function 'product'
tile.kernel @product(%x: !x {tile.align = 16 : i64}, %w: !w {tile.align = 16 : i64}, %y: !y {tile.align = 16 : i64})
    attributes {threads = 256 : i64, warp_specialized, cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c9 = arith.constant 9 : index
  %c64 = arith.constant 64 : index
  %c66 = arith.constant 66 : index
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %c768 = arith.constant 768 : index
  %zero = arith.constant 0.0 : f32
  %m = memref.dim %x, %c0 : !x
  %id = tile.block_id 0
  %unit = arith.divui %id, %c2 : index
  %rank = arith.remui %id, %c2 : index
  %rows = arith.ceildivui %m, %c256 : index
  %units = arith.muli %rows, %c9 : index
  %a = tile.alloc : !sa
  %b = tile.alloc : !sb
  %acc = tile.alloc : !acc
  scf.for %t = %unit to %units step %c66 {
    %column = arith.remui %t, %c9 : index
    %pair = arith.divui %t, %c9 : index
    %even = arith.muli %pair, %c2 : index
    %row = arith.addi %even, %rank : index
    %r = arith.muli %row, %c128 : index
    %n = arith.muli %column, %c256 : index
    tile.fill %acc, %zero : !acc, f32
    tile.pipeline %k = %c0 to %c768 step %c64 stages 4 buffers(%a, %b : !sa, !sb) {
      tile.load %a from %x[%r, %k] dims [0, 1] : !x, !sa
      tile.load %b from %w[%n, %k] dims [0, 1] : !w, !sb
    } compute {
      tile.mma %acc, %a, %b transpose_b : !acc, !sa, !sb
    }
    tile.store %acc to %y[%r, %n] dims [0, 1] : !acc, !y
  }
  tile.return
}

!kv = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
!o = memref<?x?x?x64xf32, strided<[?, ?, ?, 1], offset: ?>>
!q = memref<128x64xbf16, #tile.space<shared>>
!s = memref<128x128xf32, #tile.space<fragment>>
!p = memref<128x128xbf16, #tile.space<fragment>>
!t = memref<128x64xf32, #tile.space<fragment>>
!r = memref<128x1xf32, #tile.space<fragment>>

// Attention: keys K major, values with keys as rows, weights as the operand in registers.
// PTX-LABEL: .visible .entry attention(
// PTX: cp.async.bulk.tensor.4d
// All warpgroups meet for the queries once, then they take turns, the first one first.
// PTX: bar.arrive 2, 256;
// PTX: fence.proxy.async.shared::cta
// PTX: bar.sync 1, 256;
// PTX: bar.sync %r{{[0-9]+}}, 256;
// PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}} 1, 1, 1, 0, 0;
// PTX-COUNT-8: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, {{{.*}}}, {{.*}} 1, 1, 1, 1;
// CHECK-DAG: Compiling entry function 'attention'
tile.kernel @attention(%q: !kv {tile.align = 16 : i64}, %k: !kv {tile.align = 16 : i64}, %v: !kv {tile.align = 16 : i64},
                       %y: !o {tile.align = 16 : i64}) attributes {threads = 256 : i64, warp_specialized} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e+30 : f32
  %n = memref.dim %k, %c2 : !kv
  %h = tile.block_id 0
  %j = tile.block_id 1
  %first = arith.muli %j, %c128 : index
  %qs = tile.alloc : !q
  %ks = tile.alloc : !q
  %vs = tile.alloc : !q
  %s = tile.alloc : !s
  %p = tile.alloc : !p
  %o = tile.alloc : !t
  %top = tile.alloc : !r
  %new = tile.alloc : !r
  %factor = tile.alloc : !r
  %sum = tile.alloc : !r
  tile.load %qs from %q[%c0, %h, %first, %c0] dims [2, 3] : !kv, !q
  tile.fill %o, %zero : !t, f32
  tile.fill %sum, %zero : !r, f32
  tile.fill %top, %low : !r, f32
  tile.pipeline %i = %c0 to %n step %c128 stages 2 buffers(%ks, %vs : !q, !q) {
    tile.load %ks from %k[%c0, %h, %i, %c0] dims [2, 3] : !kv, !q
    tile.load %vs from %v[%c0, %h, %i, %c0] dims [2, 3] : !kv, !q
  } compute {
    tile.fill %s, %zero : !s, f32
    tile.mma %s, %qs, %ks transpose_b : !s, !q, !q
    tile.reduce max %s into %new axis 1 : !s, !r
    tile.map ins(%new, %top : !r, !r) outs(%new : !r) {
    ^bb0(%e: f32, %f: f32):
      %t = arith.maximumf %e, %f : f32
      tile.yield %t : f32
    }
    tile.map ins(%top, %new : !r, !r) outs(%factor : !r) {
    ^bb0(%e: f32, %f: f32):
      %d = arith.subf %e, %f : f32
      %t = math.exp2 %d : f32
      tile.yield %t : f32
    }
    tile.map ins(%new : !r) outs(%top : !r) {
    ^bb0(%e: f32):
      tile.yield %e : f32
    }
    tile.map ins(%s, %new : !s, !r) outs(%s : !s) {
    ^bb0(%e: f32, %f: f32):
      %d = arith.subf %e, %f : f32
      %t = math.exp2 %d : f32
      tile.yield %t : f32
    }
    tile.map ins(%sum, %factor : !r, !r) outs(%sum : !r) {
    ^bb0(%e: f32, %f: f32):
      %t = arith.mulf %e, %f : f32
      tile.yield %t : f32
    }
    tile.reduce add %s into %sum axis 1 accumulate : !s, !r
    tile.map ins(%o, %factor : !t, !r) outs(%o : !t) {
    ^bb0(%e: f32, %f: f32):
      %t = arith.mulf %e, %f : f32
      tile.yield %t : f32
    }
    tile.map ins(%s : !s) outs(%p : !p) {
    ^bb0(%e: f32):
      %t = arith.truncf %e : f32 to bf16
      tile.yield %t : bf16
    }
    tile.mma %o, %p, %vs : !t, !p, !q
  }
  tile.map ins(%o, %sum : !t, !r) outs(%o : !t) {
  ^bb0(%e: f32, %f: f32):
    %t = arith.divf %e, %f : f32
    tile.yield %t : f32
  }
  tile.store %o to %y[%c0, %h, %first, %c0] dims [2, 3] : !t, !o
  tile.return
}
