// RUN: kimi-opt %s --kimi-schedule-attention --canonicalize | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-attention 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: tile.kernel @attention_d64_causal_t1(
// CHECK: tile.mma {{.*}} transpose_b : memref<1x128xf32
// CHECK: tile.kernel @attention_d64_causal(
// CHECK: scf.for
// CHECK: tile.mma {{.*}} transpose_b : memref<48x64xf32
// CHECK: tile.reduce max
// CHECK: tile.reduce add
// CHECK: tile.mma
// CHECK: tile.store {{.*}} dims [1, 3]
// CHECK: tile.kernel @attention_d32_v16_mask(
// CHECK: math.tanh
// CHECK: tile.kernel @attention_d64_bf16_causal_t1(
// CHECK: tile.load {{.*}} : memref<1x4x1x64xbf16, {{.*}}>, memref<1x64xf32
// CHECK: tile.mma {{.*}} transpose_b : memref<1x128xf32{{.*}} memref<128x64xbf16
// CHECK: tile.store {{.*}} memref<1x4x1x64xbf16

// The transpose of the result is not a copy: the kernel writes [B, T, H, D].
// CHECK-LABEL: func.func @causal
// CHECK: kimi.dispatch [@attention_d64_causal_t1, @attention_d64_causal] guards(
// CHECK-SAME: -> tensor<?x?x12x64xf32>
// CHECK-NOT: linalg.transpose
func.func @causal(%q: tensor<?x12x?x64xf32>, %k: tensor<?x12x?x64xf32>, %v: tensor<?x12x?x64xf32>, %b: index, %t: index) -> tensor<?x?x12x64xf32> {
  %o = kimi.attention %q, %k, %v causal scale 0.125 : tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x?x64xf32>
  %e = tensor.empty(%b, %t) : tensor<?x?x12x64xf32>
  %r = linalg.transpose ins(%o : tensor<?x12x?x64xf32>) outs(%e : tensor<?x?x12x64xf32>) permutation = [0, 2, 1, 3]
  return %r : tensor<?x?x12x64xf32>
}

// Grouped heads, another width for values, a boolean mask (made additive), a cap; fixed queries need one kernel.
// CHECK-LABEL: func.func @masked
// CHECK: linalg.generic
// CHECK: kimi.dispatch [@attention_d32_v16_mask] grid
func.func @masked(%q: tensor<1x4x50x32xf32>, %k: tensor<1x2x70x32xf32>, %v: tensor<1x2x70x16xf32>, %m: tensor<1x1x50x70xi1>) -> tensor<1x4x50x16xf32> {
  %o = kimi.attention %q, %k, %v mask %m : tensor<1x1x50x70xi1> scale 0.125 {softcap = 30.0 : f32} : tensor<1x4x50x32xf32>, tensor<1x2x70x32xf32>, tensor<1x2x70x16xf32> -> tensor<1x4x50x16xf32>
  return %o : tensor<1x4x50x16xf32>
}

// A cache of bf16: scores, softmax and sums are fp32, the store rounds.
// CHECK-LABEL: func.func @narrow
// CHECK: kimi.dispatch [@attention_d64_bf16_causal_t1] grid
func.func @narrow(%q: tensor<1x4x1x64xbf16>, %k: tensor<1x4x?x64xbf16>, %v: tensor<1x4x?x64xbf16>) -> tensor<1x4x1x64xbf16> {
  %o = kimi.attention %q, %k, %v causal scale 0.125 : tensor<1x4x1x64xbf16>, tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16> -> tensor<1x4x1x64xbf16>
  return %o : tensor<1x4x1x64xbf16>
}

// REMARK: remark: is computed by the reference lowering: there is no kernel for operands that are not f32, bf16 or f16
// CHECK-LABEL: func.func @double
// CHECK: kimi.attention
func.func @double(%q: tensor<1x4x1x64xf64>) -> tensor<1x4x1x64xf64> {
  %o = kimi.attention %q, %q, %q causal scale 0.125 : tensor<1x4x1x64xf64>, tensor<1x4x1x64xf64>, tensor<1x4x1x64xf64> -> tensor<1x4x1x64xf64>
  return %o : tensor<1x4x1x64xf64>
}

// REMARK: remark: is computed by the reference lowering: the number of channels is not known
// CHECK-LABEL: func.func @left_alone
// CHECK: kimi.attention
func.func @left_alone(%q: tensor<1x1x?x?xf32>, %k: tensor<1x1x?x?xf32>, %v: tensor<1x1x?x16xf32>) -> tensor<1x1x?x16xf32> {
  %o = kimi.attention %q, %k, %v scale 1.0 : tensor<1x1x?x?xf32>, tensor<1x1x?x?xf32>, tensor<1x1x?x16xf32> -> tensor<1x1x?x16xf32>
  return %o : tensor<1x1x?x16xf32>
}

// Wide heads: as many keys at a time, and as many queries of a block, as its tiles have room for.
// RUN: kimi-opt %s --kimi-schedule-attention --canonicalize | FileCheck %s --check-prefix=WIDE
// RUN: kimi-opt %s --kimi-schedule-attention --canonicalize --tile-to-vector | FileCheck %s --check-prefix=FITS
// WIDE: tile.kernel @attention_d576_v512_t1(
// WIDE: tile.mma {{.*}} transpose_b : memref<1x64xf32
// WIDE: tile.kernel @attention_d576_v512(
// WIDE: tile.mma {{.*}} transpose_b : memref<48x32xf32
// WIDE: tile.kernel @attention_d1024(
// WIDE: tile.mma {{.*}} transpose_b : memref<24x16xf32
// FITS-LABEL: func.func @widest
func.func @wide(%q: tensor<1x4x?x576xf32>, %k: tensor<1x4x?x576xf32>, %v: tensor<1x4x?x512xf32>) -> tensor<1x4x?x512xf32> {
  %o = kimi.attention %q, %k, %v scale 0.125 : tensor<1x4x?x576xf32>, tensor<1x4x?x576xf32>, tensor<1x4x?x512xf32> -> tensor<1x4x?x512xf32>
  return %o : tensor<1x4x?x512xf32>
}
func.func @widest(%q: tensor<1x4x50x1024xf32>) -> tensor<1x4x50x1024xf32> {
  %o = kimi.attention %q, %q, %q scale 0.125 : tensor<1x4x50x1024xf32>, tensor<1x4x50x1024xf32>, tensor<1x4x50x1024xf32> -> tensor<1x4x50x1024xf32>
  return %o : tensor<1x4x50x1024xf32>
}
