// RUN: kimi-opt %s --tile-assign-layouts --split-input-file | FileCheck %s --check-prefix=LAYOUT
// RUN: kimi-opt %s --tile-assign-layouts --tile-to-nvvm --tile-insert-barriers --canonicalize --cse --split-input-file | FileCheck %s

// A thread has 16 bytes of two rows, and the scale of each; two numbers are moved, and multiplied, at a time.
// LAYOUT-LABEL: tile.kernel @packed
// LAYOUT: tile.alloc {layout = #tile.layout<registers [16:1 at 1, 2:32 at 0], lanes [4:16 at 1, 8:1 at 0], warps [4:8 at 0]>} : memref<64x64xi8
// LAYOUT: tile.alloc {layout = #tile.layout<registers [2:32 at 0], lanes [4:1 at 1, 8:1 at 0], warps [4:8 at 0]>} : memref<64x4xi8
// CHECK-LABEL: tile.kernel @packed
// CHECK-COUNT-64: llvm.intr.fma({{.*}}) : (vector<2xbf16>, vector<2xbf16>, vector<2xbf16>) -> vector<2xbf16>
// CHECK-NOT: llvm.intr.fma
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: tile.return
tile.kernel @packed(%w: memref<64x1792xi8> {tile.align = 16 : i64}, %f: memref<64x112xi8>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %codes = tile.alloc : memref<64x64xi8, #tile.space<fragment>>
  %scales = tile.alloc : memref<64x4xi8, #tile.space<fragment>>
  %numbers = tile.alloc : memref<64x128xbf16, #tile.space<shared>>
  tile.load %codes from %w[%c0, %c0] dims [0, 1] : memref<64x1792xi8>, memref<64x64xi8, #tile.space<fragment>>
  tile.load %scales from %f[%c0, %c0] dims [0, 1] : memref<64x112xi8>, memref<64x4xi8, #tile.space<fragment>>
  tile.dequantize %codes, %scales into %numbers : memref<64x64xi8, #tile.space<fragment>>, memref<64x4xi8, #tile.space<fragment>>, memref<64x128xbf16, #tile.space<shared>>
  tile.return
}

// -----

// Eight bytes a thread: two threads read the scale of their group. Other types than bf16 take one number at a time.
// LAYOUT-LABEL: tile.kernel @half
// LAYOUT: tile.alloc {layout = #tile.layout<registers [8:1 at 1], lanes [2:8 at 1, 16:1 at 0], warps [4:16 at 0]>} : memref<64x16xi8
// LAYOUT: tile.alloc {layout = #tile.layout<registers [], lanes [2:0, 16:1 at 0], warps [4:16 at 0]>} : memref<64x1xi8
// CHECK-LABEL: tile.kernel @half
// CHECK-NOT: vector<2xbf16>
// CHECK-COUNT-16: arith.bitcast %{{.*}} : i16 to f16
// CHECK: tile.return
tile.kernel @half(%w: memref<64x16xi8> {tile.align = 16 : i64}, %f: memref<64x1xi8>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %codes = tile.alloc : memref<64x16xi8, #tile.space<fragment>>
  %scales = tile.alloc : memref<64x1xi8, #tile.space<fragment>>
  %numbers = tile.alloc : memref<64x32xf32, #tile.space<shared>>
  tile.load %codes from %w[%c0, %c0] dims [0, 1] : memref<64x16xi8>, memref<64x16xi8, #tile.space<fragment>>
  tile.load %scales from %f[%c0, %c0] dims [0, 1] : memref<64x1xi8>, memref<64x1xi8, #tile.space<fragment>>
  tile.dequantize %codes, %scales into %numbers : memref<64x16xi8, #tile.space<fragment>>, memref<64x1xi8, #tile.space<fragment>>, memref<64x32xf32, #tile.space<shared>>
  tile.return
}
