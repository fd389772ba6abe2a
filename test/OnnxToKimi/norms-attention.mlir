// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// Norms over several axes are norms over one, after a collapse; statistics need the formula.
// CHECK-LABEL: func.func @norms
// CHECK: kimi.layer_norm {{.*}} -> tensor<?x12xf32>
// CHECK: kimi.rms_norm {{.*}} -> tensor<?x3x4xf32>
// CHECK-NOT: kimi.layer_norm
// CHECK: arith.divf
func.func @norms(%x: tensor<?x3x4xf32> {onnx.dims = ["n", 3, 4]}, %g: tensor<3x4xf32>, %b: tensor<3x4xf32>, %r: tensor<4xf32>)
    -> (tensor<?x3x4xf32>, tensor<?x3x4xf32>, tensor<?x3x1xf32>) {
  %0 = onnx.node "LayerNormalization"(%x, %g, %b) {attrs = {axis = 1 : i64}, version = 17 : i64} : (tensor<?x3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<?x3x4xf32>
  %1 = onnx.node "RMSNormalization"(%x, %r) {version = 23 : i64} : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %2:2 = onnx.node "LayerNormalization"(%x, %r) {version = 17 : i64} : (tensor<?x3x4xf32>, tensor<4xf32>) -> (tensor<?x3x4xf32>, tensor<?x3x1xf32>)
  return %0, %1, %2#1 : tensor<?x3x4xf32>, tensor<?x3x4xf32>, tensor<?x3x1xf32>
}

// -----

// CHECK-LABEL: func.func @packed
// CHECK: linalg.transpose
// CHECK: tensor.concat dim(2)
// CHECK: kimi.attention {{.*}} causal scale 2.500000e-01
func.func @packed(%q: tensor<?x?x64xf32> {onnx.dims = ["b", "s", 64]}, %k: tensor<?x?x32xf32> {onnx.dims = ["b", "s", 32]},
                  %pk: tensor<?x2x?x16xf32> {onnx.dims = ["b", 2, "p", 16]}) -> (tensor<?x?x64xf32>, tensor<?x2x?x16xf32>) {
  %none = onnx.none
  %0:3 = onnx.node "Attention"(%q, %k, %k, %none, %pk, %pk) {attrs = {q_num_heads = 4 : i64, kv_num_heads = 2 : i64, is_causal = 1 : i64}, version = 23 : i64} : (tensor<?x?x64xf32>, tensor<?x?x32xf32>, tensor<?x?x32xf32>, none, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> (tensor<?x?x64xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
  return %0#0, %0#1 : tensor<?x?x64xf32>, tensor<?x2x?x16xf32>
}

// -----

// ONNX aligns causal masks by the past, so fewer queries than new keys need a mask of their own.
// CHECK-LABEL: func.func @cross
// CHECK: linalg.generic
// CHECK: arith.cmpi sle
// CHECK: kimi.attention
// CHECK-SAME: mask
// CHECK-NOT: causal
func.func @cross(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x5x8xf32>) -> tensor<1x2x3x8xf32> {
  %0 = onnx.node "Attention"(%q, %k, %k) {attrs = {is_causal = 1 : i64}, version = 23 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x3x8xf32>
  return %0 : tensor<1x2x3x8xf32>
}
