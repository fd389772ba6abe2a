// RUN: kimi-opt %s --tile-to-vector --verify-diagnostics

// expected-error@+1 {{kernel 'large' needs 1048576 bytes of tiles; a CPU kernel may use 524288}}
tile.kernel @large() {
  %t = tile.alloc : memref<512x512xf32, #tile.space<shared>>
  tile.return
}
