// RUN: kimi-opt %s --tile-kernel-to-nvvm --verify-diagnostics

// expected-error @+1 {{kernel 'k' has no block size; run --tile-assign-threads first}}
tile.kernel @k(%y: memref<4xf32>) {
  tile.return
}
