// RUN: kimi-opt %s --kimi-generalize-tensor-ops --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @concat
// CHECK: linalg.generic
// CHECK: scf.if
// CHECK: tensor.extract %arg0
// CHECK: else
// CHECK: tensor.extract %arg1
// CHECK-NOT: tensor.concat
func.func @concat(%a: tensor<2x3xf32>, %b: tensor<2x?xf32>) -> tensor<2x?xf32> {
  %c = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>
  return %c : tensor<2x?xf32>
}

// -----

// CHECK-LABEL: func.func @pad
// CHECK: linalg.generic
// CHECK: scf.if
func.func @pad(%x: tensor<4xf32>, %low: index) -> tensor<?xf32> {
  %v = arith.constant 7.0 : f32
  %p = tensor.pad %x low[%low] high[1] {
  ^bb0(%i: index):
    tensor.yield %v : f32
  } : tensor<4xf32> to tensor<?xf32>
  return %p : tensor<?xf32>
}

// -----

// A constant becomes a weight, once; a splat that only feeds a generic stays.
// CHECK: kimi.weight @constant_0 : tensor<2xf32> from dense
// CHECK-NOT: kimi.weight
// CHECK-LABEL: func.func @constants
// CHECK-COUNT-2: kimi.weight_ref @constant_0
func.func @constants() -> (tensor<2xf32>, tensor<2xf32>) {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}

// -----

// CHECK: #[[SWAP:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @transpose_of_a_result
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[SWAP]]]
// CHECK-NOT: linalg.transpose
func.func @transpose_of_a_result(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<8x4xf32>
  %t = linalg.transpose ins(%y : tensor<4x8xf32>) outs(%f : tensor<8x4xf32>) permutation = [1, 0]
  return %t : tensor<8x4xf32>
}

// -----

// A transposed input is a view: it stays.
// CHECK-LABEL: func.func @transpose_of_an_input
// CHECK: linalg.transpose
func.func @transpose_of_an_input(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %f = tensor.empty() : tensor<8x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%f : tensor<8x4xf32>) permutation = [1, 0]
  return %t : tensor<8x4xf32>
}
