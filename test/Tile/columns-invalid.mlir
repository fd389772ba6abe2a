// RUN: kimi-opt %s --split-input-file --verify-diagnostics

tile.kernel @k(%x: memref<8x4xf16>) {
  // expected-error@+1 {{[N1] works on fp32 tiles of rank 2 and static shape; one is 'memref<8x4xf16>'}}
  tile.scan %x into %x : memref<8x4xf16>, memref<8x4xf16>
  tile.return
}

// -----

tile.kernel @k(%x: memref<8x4xf32>, %y: memref<8x8xf32>) {
  // expected-error@+1 {{[N2] gives a tile of its input's shape}}
  tile.scan %x into %y : memref<8x4xf32>, memref<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<8xf32>, %y: memref<8xf32>) {
  // expected-error@+1 {{[K1] works on fp32 tiles of rank 2}}
  tile.pick_rows %x into %y block 2 row 0 : memref<8xf32>, memref<8xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<8x4xf32>, %y: memref<4x4xf32>) {
  // expected-error@+1 {{[K2] gives a tile of its input's shape}}
  tile.pick_rows %x into %y block 2 row 0 : memref<8x4xf32>, memref<4x4xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  // expected-error@+1 {{[K3] picks row 2 of blocks of 2 of 8 rows}}
  tile.pick_rows %x into %y block 2 row 2 : memref<8x4xf32>, memref<8x4xf32>
  tile.return
}

// -----

tile.kernel @k(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  // expected-error@+1 {{[K3] picks row 0 of blocks of 3 of 8 rows}}
  tile.pick_rows %x into %y block 3 row 0 : memref<8x4xf32>, memref<8x4xf32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<?x8xf32>, %x: memref<8x4xf32>) {
  // expected-error@+1 {{[V1] works on fp32 tiles of rank 2 and static shape}}
  tile.solve %a, %x : memref<?x8xf32>, memref<8x4xf32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x4xf32>, %x: memref<8x4xf32>) {
  // expected-error@+1 {{[V2] needs a square matrix of as many rows as x}}
  tile.solve %a, %x : memref<8x4xf32>, memref<8x4xf32>
  tile.return
}
