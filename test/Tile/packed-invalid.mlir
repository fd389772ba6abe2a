// RUN: kimi-opt %s --split-input-file --verify-diagnostics

tile.kernel @k(%c: memref<4x16xi16>, %s: memref<4x1xi8>, %o: memref<4x32xf32>) {
  // expected-error@+1 {{[Q1] reads tiles of i8 and writes one of bf16, f16 or f32, of rank 2 and static shape; one is 'memref<4x16xi16>'}}
  tile.dequantize %c, %s into %o : memref<4x16xi16>, memref<4x1xi8>, memref<4x32xf32>
  tile.return
}

// -----

tile.kernel @k(%c: memref<4x16xi8>, %s: memref<4x?xi8>, %o: memref<4x32xf32>) {
  // expected-error@+1 {{[Q1] reads tiles of i8}}
  tile.dequantize %c, %s into %o : memref<4x16xi8>, memref<4x?xi8>, memref<4x32xf32>
  tile.return
}

// -----

tile.kernel @k(%c: memref<4x16xi8>, %s: memref<4x1xi8>, %o: memref<4x32xi8>) {
  // expected-error@+1 {{[Q1] reads tiles of i8 and writes one of bf16, f16 or f32, of rank 2 and static shape; one is 'memref<4x32xi8>'}}
  tile.dequantize %c, %s into %o : memref<4x16xi8>, memref<4x1xi8>, memref<4x32xi8>
  tile.return
}

// -----

tile.kernel @k(%c: memref<4x16xi8>, %s: memref<4x2xi8>, %o: memref<4x32xf32>) {
  // expected-error@+1 {{[Q2] writes [N, K] from codes [N, K / 2] and scales [N, K / 32], K being a multiple of 32; they are}}
  tile.dequantize %c, %s into %o : memref<4x16xi8>, memref<4x2xi8>, memref<4x32xf32>
  tile.return
}

// -----

tile.kernel @k(%c: memref<4x24xi8>, %s: memref<4x1xi8>, %o: memref<4x48xf32>) {
  // expected-error@+1 {{[Q2] writes [N, K]}}
  tile.dequantize %c, %s into %o : memref<4x24xi8>, memref<4x1xi8>, memref<4x48xf32>
  tile.return
}
