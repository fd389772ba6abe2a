// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

// CHECK-LABEL: tile.kernel @packed
tile.kernel @packed(%codes: memref<64x64xi8, strided<[1792, 1], offset: ?>>) {
  %scales = tile.alloc : memref<64x4xi8, #tile.space<fragment>>
  %numbers = tile.alloc : memref<64x128xbf16, #tile.space<shared>>
  // CHECK: tile.dequantize %arg0, %{{.*}} into %{{.*}} : memref<64x64xi8, strided<[1792, 1], offset: ?>>, memref<64x4xi8, #tile.space<fragment>>, memref<64x128xbf16, #tile.space<shared>>
  tile.dequantize %codes, %scales into %numbers : memref<64x64xi8, strided<[1792, 1], offset: ?>>, memref<64x4xi8, #tile.space<fragment>>, memref<64x128xbf16, #tile.space<shared>>
  tile.return
}
