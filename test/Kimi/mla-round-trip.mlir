// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize --cse | FileCheck %s --check-prefix=REIFY

// CHECK-LABEL: func @mla
// REIFY-LABEL: func @mla
// REIFY-SAME: (%[[Q:[^:]*]]: tensor<?x6x?x48xf32>
// REIFY-DAG: %[[B:.*]] = tensor.dim %[[Q]], %c0
// REIFY-DAG: %[[T:.*]] = tensor.dim %[[Q]], %c2
// REIFY: return %[[B]], %[[T]]
func.func @mla(%q: tensor<?x6x?x48xf32>, %c: tensor<?x?x64xf32>, %r: tensor<?x?x16xf32>, %w: tensor<64x384xf32>,
               %wt: tensor<448x64xf32>, %m: tensor<1x1x?x?xi1>) -> (index, index) {
  // CHECK: kimi.mla %{{.*}}, %{{.*}}, %{{.*}} shared %{{.*}} : tensor<?x?x16xf32> mask %{{.*}} : tensor<1x1x?x?xi1> causal scale 2.500000e-01 {softcap = 5.000000e+00 : f32} : tensor<?x6x?x48xf32>, tensor<?x?x64xf32>, tensor<64x384xf32> -> tensor<?x6x?x32xf32>
  %0 = kimi.mla %q, %c, %w shared %r : tensor<?x?x16xf32> mask %m : tensor<1x1x?x?xi1> causal scale 0.25 {softcap = 5.0 : f32}
     : tensor<?x6x?x48xf32>, tensor<?x?x64xf32>, tensor<64x384xf32> -> tensor<?x6x?x32xf32>
  // CHECK: kimi.mla %{{.*}}, %{{.*}}, %{{.*}} transpose scale 1.000000e+00 : {{.*}} tensor<448x64xf32> -> tensor<?x8x?x8xf32>
  %q8 = tensor.empty() : tensor<1x8x4x48xf32>
  %q8d = tensor.cast %q8 : tensor<1x8x4x48xf32> to tensor<?x8x?x48xf32>
  %1 = kimi.mla %q8d, %c, %wt transpose scale 1.0 : tensor<?x8x?x48xf32>, tensor<?x?x64xf32>, tensor<448x64xf32> -> tensor<?x8x?x8xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %2 = tensor.dim %0, %c0 : tensor<?x6x?x32xf32>
  %3 = tensor.dim %0, %c2 : tensor<?x6x?x32xf32>
  return %2, %3 : index, index
}

// CHECK-LABEL: func @head_linear
// REIFY-LABEL: func @head_linear
// REIFY-SAME: (%[[X:[^:]*]]: tensor<?x6x?x32xf32>
// REIFY: %[[T:.*]] = tensor.dim %[[X]], %c2
// REIFY: return %[[T]]
func.func @head_linear(%x: tensor<?x6x?x32xf32>, %w: tensor<6x32x64xbf16>) -> index {
  // CHECK: kimi.head_linear %{{.*}}, %{{.*}} : tensor<?x6x?x32xf32>, tensor<6x32x64xbf16> -> tensor<?x6x?x64xf32>
  %0 = kimi.head_linear %x, %w : tensor<?x6x?x32xf32>, tensor<6x32x64xbf16> -> tensor<?x6x?x64xf32>
  %c2 = arith.constant 2 : index
  %1 = tensor.dim %0, %c2 : tensor<?x6x?x64xf32>
  return %1 : index
}
