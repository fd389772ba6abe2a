// RUN: kimi-opt %s --tile-assign-layouts --split-input-file | FileCheck %s

!acc = memref<64x64xf32, #tile.space<fragment>>
!half = memref<64x64xbf16, #tile.space<fragment>>
!row = memref<64x1xf32, #tile.space<fragment>>
!tile = memref<64x64xbf16, #tile.space<shared>>

// The result of one product is a factor of the next: warps over rows, one layout for all of it, slices for the rows.
// CHECK-LABEL: tile.kernel @attention
// CHECK: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : memref<64x64xf32,
// CHECK: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : memref<64x64xbf16,
// CHECK: tile.alloc {layout = #tile.layout<registers [2:8 at 0], lanes [4:0, 8:1 at 0], warps [4:16 at 0]>} : memref<64x1xf32,
// CHECK: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>} : memref<64x64xf32,
tile.kernel @attention() attributes {threads = 128 : i64} {
  %s = tile.alloc : !acc
  %p = tile.alloc : !half
  %top = tile.alloc : !row
  %o = tile.alloc : !acc
  %q = tile.alloc : !tile
  %k = tile.alloc : !tile
  %v = tile.alloc : !tile
  tile.mma %s, %q, %k transpose_b : !acc, !tile, !tile
  tile.reduce max %s into %top axis 1 : !acc, !row
  tile.map ins(%s, %top : !acc, !row) outs(%p : !half) {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %h = arith.truncf %d : f32 to bf16
    tile.yield %h : bf16
  }
  tile.mma %o, %p, %v : !acc, !half, !tile
  tile.return
}

// -----

!acc = memref<128x128xf32, #tile.space<fragment>>

// Alone, a product has its warps over rows and columns.
// CHECK-LABEL: tile.kernel @product
// CHECK: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, {{.*}}], lanes [4:2 at 1, 8:1 at 0], warps [{{[24]}}:{{32|64}} at 0, {{[24]}}:{{32|64}} at 1]>} : memref<128x128xf32,
tile.kernel @product() attributes {threads = 256 : i64} {
  %acc = tile.alloc : !acc
  %a = tile.alloc : memref<128x32xf16, #tile.space<shared>>
  %b = tile.alloc : memref<32x128xf16, #tile.space<shared>>
  tile.mma %acc, %a, %b : !acc, memref<128x32xf16, #tile.space<shared>>, memref<32x128xf16, #tile.space<shared>>
  tile.return
}

// -----

!acc = memref<128x128xf32, #tile.space<fragment>>
!ta = memref<128x32xf32, #tile.space<shared>>

// fp32: 8x8 accumulators a thread; columns in fours, or 8 apart where b is transposed. tf32 is mma.sync's.
// CHECK-LABEL: tile.kernel @simt
// CHECK: tile.alloc {layout = #tile.layout<registers [4:1 at 1, 2:32 at 1, 8:4 at 0], lanes [8:4 at 1, 4:1 at 0], warps [4:32 at 0, 2:64 at 1]>}
// CHECK: tile.alloc {layout = #tile.layout<registers [8:8 at 1, 8:4 at 0], lanes [8:1 at 1, 4:1 at 0], warps [4:32 at 0, 2:64 at 1]>}
// CHECK: tile.alloc {layout = #tile.layout<registers [2:1 at 1, 2:8 at 0, {{.*}} lanes [4:2 at 1, 8:1 at 0]
tile.kernel @simt() attributes {threads = 256 : i64} {
  %plain = tile.alloc : !acc
  %transposed = tile.alloc : !acc
  %tf32 = tile.alloc : !acc
  %a = tile.alloc : !ta
  %b = tile.alloc : memref<32x128xf32, #tile.space<shared>>
  tile.mma %plain, %a, %b : !acc, !ta, memref<32x128xf32, #tile.space<shared>>
  tile.mma %transposed, %a, %a transpose_b : !acc, !ta, !ta
  tile.mma %tf32, %a, %a transpose_b tf32 : !acc, !ta, !ta
  tile.return
}

// -----

// One row times a weight in global memory: along K, or vectors of columns.
// CHECK-LABEL: tile.kernel @skinny
// CHECK: tile.alloc {layout = #tile.layout<registers [4:1 at 1], lanes [32:0], warps [8:4 at 1]>} : memref<1x32xf32,
// CHECK: tile.alloc {layout = #tile.layout<registers [8:1 at 1], lanes [4:8 at 1, 8:0], warps [8:0]>} : memref<1x32xf32,
tile.kernel @skinny(%w: memref<32x768xbf16>, %v: memref<768x32xbf16>) attributes {threads = 256 : i64} {
  %x = tile.alloc : memref<1x32xf32, #tile.space<fragment>>
  %y = tile.alloc : memref<1x32xf32, #tile.space<fragment>>
  %a = tile.alloc : memref<1x768xbf16, #tile.space<shared>>
  tile.mma %x, %a, %w transpose_b : memref<1x32xf32, #tile.space<fragment>>, memref<1x768xbf16, #tile.space<shared>>, memref<32x768xbf16>
  tile.mma %y, %a, %v : memref<1x32xf32, #tile.space<fragment>>, memref<1x768xbf16, #tile.space<shared>>, memref<768x32xbf16>
  tile.return
}

// -----

// No product: sixteen bytes a thread, neighbours beside each other; the largest fragment decides. Odd extents stay in
// registers. What has a layout keeps it.
// CHECK-LABEL: tile.kernel @blocks
// CHECK: tile.alloc {layout = #tile.layout<registers [], lanes [32:0], warps [8:1 at 0]>} : memref<8x1xf32,
// CHECK: tile.alloc {layout = #tile.layout<registers [4:1 at 1, 6:128 at 1], lanes [32:4 at 1], warps [8:1 at 0]>} : memref<8x768xf32,
// CHECK: tile.alloc {layout = #tile.layout<registers [7:1 at 1], lanes [32:0], warps [8:0]>} : memref<1x7xf32,
// CHECK: tile.alloc {layout = #tile.layout<registers [8:1 at 0], lanes [32:0], warps [8:0]>} : memref<8xf32,
tile.kernel @blocks() attributes {threads = 256 : i64} {
  %sum = tile.alloc : memref<8x1xf32, #tile.space<fragment>>
  %t = tile.alloc : memref<8x768xf32, #tile.space<fragment>>
  %odd = tile.alloc : memref<1x7xf32, #tile.space<fragment>>
  %own = tile.alloc {layout = #tile.layout<registers [8:1 at 0], lanes [32:0], warps [8:0]>} : memref<8xf32, #tile.space<fragment>>
  tile.reduce add %t into %sum axis 1 : memref<8x768xf32, #tile.space<fragment>>, memref<8x1xf32, #tile.space<fragment>>
  tile.return
}

// -----

// Kernels without tiles are left alone.
// CHECK-LABEL: tile.kernel @loops
// CHECK-NEXT: tile.return
tile.kernel @loops() {
  tile.return
}
