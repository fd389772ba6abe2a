// Extents of results become those of operands.
// RUN: kimi-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func @attention
// CHECK-SAME: (%[[Q:.*]]: tensor<?x?x?x?xf32>, %[[K:[^:]*]]: tensor{{.*}}, %[[V:[^:]*]]: tensor
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[T:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK-DAG: %[[D:.*]] = tensor.dim %[[V]], %[[C3]]
// CHECK: return %[[T]], %[[D]]
func.func @attention(%q: tensor<?x?x?x?xf32>, %k: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x?xf32>) -> (index, index) {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %0 = kimi.attention %q, %k, %v causal scale 1.0
     : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32> -> tensor<?x?x?x?xf32>
  %t = tensor.dim %0, %c2 : tensor<?x?x?x?xf32>
  %d = tensor.dim %0, %c3 : tensor<?x?x?x?xf32>
  return %t, %d : index, index
}

// CHECK-LABEL: func @append
// CHECK: %[[T:.*]] = tensor.dim %{{.*}}, %c2
// CHECK: %[[S:.*]] = arith.addi %{{.*}}, %[[T]]
// CHECK: return %[[S]]
func.func @append(%s: !kimi.state<tensor<?x4x?x8xf32>, 2>, %rows: tensor<?x4x?x8xf32>, %past: index) -> index {
  %c2 = arith.constant 2 : index
  %0 = kimi.cache_append %s, %rows at %past
     : !kimi.state<tensor<?x4x?x8xf32>, 2>, tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  %t = tensor.dim %0, %c2 : tensor<?x4x?x8xf32>
  return %t : index
}

// CHECK-LABEL: func @rows
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x8xf32>, %[[W:[^:]*]]: tensor<8x?xf32>, %[[G:[^:]*]]: tensor<8xf32>, %[[IDS:[^:]*]]: tensor<?xi32>)
// CHECK-DAG: %[[M:.*]] = tensor.dim %[[X]], %c0
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[W]], %c1
// CHECK-DAG: %[[I:.*]] = tensor.dim %[[IDS]], %c0
// CHECK: return %[[M]], %[[N]], %[[M]], %[[N]], %[[I]]
func.func @rows(%x: tensor<?x8xf32>, %w: tensor<8x?xf32>, %g: tensor<8xf32>, %ids: tensor<?xi32>)
    -> (index, index, index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %1 = kimi.rms_norm %0, %g eps 1.0e-5 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %2 = kimi.linear %1, %w : tensor<?x8xf32>, tensor<8x?xf32> -> tensor<?x?xf32>
  %3 = kimi.softmax %2 axis 1 : tensor<?x?xf32> -> tensor<?x?xf32>
  %4 = kimi.gelu %3 : tensor<?x?xf32> -> tensor<?x?xf32>
  %m = tensor.dim %4, %c0 : tensor<?x?xf32>
  %n = tensor.dim %4, %c1 : tensor<?x?xf32>
  %5 = kimi.fused_linear %x, %w : (tensor<?x8xf32>, tensor<8x?xf32>) -> tensor<?x?xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  %fm = tensor.dim %5, %c0 : tensor<?x?xf32>
  %fn = tensor.dim %5, %c1 : tensor<?x?xf32>
  %6 = kimi.embedding %ids, %w : tensor<?xi32>, tensor<8x?xf32> -> tensor<?x?xf32>
  %i = tensor.dim %6, %c0 : tensor<?x?xf32>
  return %m, %n, %fm, %fn, %i : index, index, index, index, index
}

// CHECK-LABEL: func @given
// CHECK-SAME: (%{{.*}}, %[[A:[^:]*]]: index, %[[B:[^:]*]]: index)
// CHECK: return %[[A]], %[[B]]
func.func @given(%x: tensor<?x4xf32>, %a: index, %b: index) -> (index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0:2 = kimi.loops ins(%x : tensor<?x4xf32>) dims(%a, %b) -> tensor<?x4xf32>, tensor<4x?xi64> {
  ^bb0(%in: memref<?x4xf32>, %o0: memref<?x4xf32>, %o1: memref<4x?xi64>):
    kimi.yield
  }
  %m = tensor.dim %0#0, %c0 : tensor<?x4xf32>
  %n = tensor.dim %0#1, %c1 : tensor<4x?xi64>
  return %m, %n : index, index
}

// CHECK-LABEL: func @tokens
// CHECK-SAME: (%[[L:.*]]: tensor<?x1x50xf32>)
// CHECK: %[[D:.*]] = tensor.dim %[[L]], %c0
// CHECK: return %[[D]]
func.func @tokens(%l: tensor<?x1x50xf32>) -> index {
  %c0 = arith.constant 0 : index
  %t = kimi.greedy_token %l : tensor<?x1x50xf32> -> tensor<?x1xi64>
  %n = tensor.dim %t, %c0 : tensor<?x1xi64>
  return %n : index
}

// CHECK-LABEL: func @routing
// CHECK-SAME: (%[[X:.*]]: tensor<?x8xf32>, %[[L:.*]]: tensor<?x4xf32>
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[L]], %c0
// CHECK-DAG: %[[M:.*]] = tensor.dim %[[X]], %c0
// CHECK: return %[[N]], %[[C3]], %[[M]], %[[M]]
func.func @routing(%x: tensor<?x8xf32>, %l: tensor<?x4xf32>, %w1: tensor<4x6x8xf32>, %w2: tensor<4x8x6xf32>, %s: tensor<8xf32>)
    -> (index, index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %i, %w = kimi.router %l sigmoid top 3 : tensor<?x4xf32> -> tensor<?x?xi64>, tensor<?x3xf32>
  %y = kimi.moe %x, %i, %w experts(%w1, %w1, %w2 : tensor<4x6x8xf32>, tensor<4x6x8xf32>, tensor<4x8x6xf32>) swiglu
     : tensor<?x8xf32>, tensor<?x?xi64>, tensor<?x3xf32> -> tensor<?x8xf32>
  %r = kimi.attn_res(%y, %x) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %a = tensor.dim %w, %c0 : tensor<?x3xf32>
  %b = tensor.dim %i, %c1 : tensor<?x?xi64>
  %c = tensor.dim %y, %c0 : tensor<?x8xf32>
  %d = tensor.dim %r, %c0 : tensor<?x8xf32>
  return %a, %b, %c, %d : index, index, index, index
}

// CHECK-LABEL: func @shared_depth
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK: %[[T:.*]] = tensor.dim %[[X]], %c0
// CHECK: return %[[T]], %[[T]], %[[T]]
func.func @shared_depth(%x: tensor<?x8xf32>, %s: tensor<8xf32>) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %0:2 = kimi.attn_res_bank(%x, %x) scores(%s) eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>), (tensor<8xf32>) -> (tensor<?x2xf32>), (tensor<?x8xf32>)
  %1 = kimi.attn_res_merge %x with %0#0, %0#1 score %s eps 0.0 : tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %a = tensor.dim %0#0, %c0 : tensor<?x2xf32>
  %b = tensor.dim %0#1, %c0 : tensor<?x8xf32>
  %c = tensor.dim %1, %c0 : tensor<?x8xf32>
  return %a, %b, %c : index, index, index
}
