// Extents of results of the mixers with a fixed state become those of operands.
// RUN: kimi-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func @delta
// CHECK-SAME: (%[[Q:.*]]: tensor<?x2x?x?xf32>, %[[K:[^:]*]]: tensor{{.*}}, %[[V:[^:]*]]: tensor
// CHECK-DAG: %[[T:.*]] = tensor.dim %[[Q]], %c2
// CHECK-DAG: %[[DV:.*]] = tensor.dim %[[V]], %c3
// CHECK-DAG: %[[DK:.*]] = tensor.dim %[[Q]], %c3
// CHECK: %[[W:.*]] = arith.addi %[[DV]], %c1
// CHECK: return %[[T]], %[[DV]], %[[DK]], %[[W]]
func.func @delta(%q: tensor<?x2x?x?xf32>, %k: tensor<?x2x?x?xf32>, %v: tensor<?x4x?x?xf32>) -> (index, index, index, index) {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %o, %s = kimi.delta_rule %q, %k, %v scale 1.0 normalize 0.0
     : tensor<?x2x?x?xf32>, tensor<?x2x?x?xf32>, tensor<?x4x?x?xf32> -> tensor<?x4x?x?xf32>, tensor<?x4x?x?xf32>
  %0 = tensor.dim %o, %c2 : tensor<?x4x?x?xf32>
  %1 = tensor.dim %o, %c3 : tensor<?x4x?x?xf32>
  %2 = tensor.dim %s, %c2 : tensor<?x4x?x?xf32>
  %3 = tensor.dim %s, %c3 : tensor<?x4x?x?xf32>
  return %0, %1, %2, %3 : index, index, index, index
}

// CHECK-LABEL: func @conv
// CHECK-SAME: (%[[X:.*]]: tensor<?x4x?xf32>
// CHECK-DAG: %[[B:.*]] = tensor.dim %[[X]], %c0
// CHECK-DAG: %[[T:.*]] = tensor.dim %[[X]], %c2
// CHECK: return %[[T]], %[[B]]
func.func @conv(%x: tensor<?x4x?xf32>, %w: tensor<4x3xf32>) -> (index, index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %y, %n = kimi.causal_conv %x, %w activation silu
     : tensor<?x4x?xf32>, tensor<4x3xf32> -> tensor<?x4x?xf32>, tensor<?x4x2xf32>
  %0 = tensor.dim %y, %c2 : tensor<?x4x?xf32>
  %1 = tensor.dim %n, %c0 : tensor<?x4x2xf32>
  return %0, %1 : index, index
}

// CHECK-LABEL: func @read
// CHECK-SAME: %[[B:[^ ]*]]: index
// CHECK: return %[[B]]
func.func @read(%s: !kimi.state<tensor<?x4x8x6xf32>, -1>, %b: index) -> index {
  %c0 = arith.constant 0 : index
  %0 = kimi.state_read %s sizes(%b) : !kimi.state<tensor<?x4x8x6xf32>, -1> -> tensor<?x4x8x6xf32>
  %1 = tensor.dim %0, %c0 : tensor<?x4x8x6xf32>
  return %1 : index
}
