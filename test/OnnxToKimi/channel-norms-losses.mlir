// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// At inference: statistics come in, one loop.
// CHECK: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2) -> (0, d1, 0)>
// CHECK-LABEL: func.func @batch_norm
// CHECK-COUNT-1: linalg.generic {{.*}}#[[CHANNEL]], #[[CHANNEL]], #[[CHANNEL]], #[[CHANNEL]]
// CHECK: math.sqrt
func.func @batch_norm(%x: tensor<2x3x4xf32>, %c: tensor<3xf32>) -> tensor<2x3x4xf32> {
  %0 = onnx.node "BatchNormalization"(%x, %c, %c, %c, %c) {version = 15 : i64}
     : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// Means over a group of two channels and all positions.
// CHECK-LABEL: func.func @group_norm
// CHECK: tensor.expand_shape %arg0 {{.*}} into tensor<2x2x2x?xf32>
// CHECK-COUNT-2: iterator_types = ["parallel", "parallel", "reduction", "reduction"]
// CHECK: tensor.collapse_shape {{.*}} into tensor<2x4x?xf32>
func.func @group_norm(%x: tensor<2x4x?xf32> {onnx.dims = [2, 4, "t"]}, %c: tensor<4xf32>) -> tensor<2x4x?xf32> {
  %0 = onnx.node "GroupNormalization"(%x, %c, %c) {attrs = {num_groups = 2 : i64}, version = 21 : i64}
     : (tensor<2x4x?xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x?xf32>
  return %0 : tensor<2x4x?xf32>
}

// -----

// CHECK-LABEL: func.func @lp_norm
// CHECK: math.absf
// CHECK: arith.cmpf oeq
// CHECK: arith.divf
func.func @lp_norm(%x: tensor<2x7xf32>) -> tensor<2x7xf32> {
  %0 = onnx.node "LpNormalization"(%x) {attrs = {p = 1 : i64}, version = 22 : i64} : (tensor<2x7xf32>) -> tensor<2x7xf32>
  return %0 : tensor<2x7xf32>
}

// -----

// CHECK-LABEL: func.func @cross_entropy
// CHECK: %[[P:.*]] = kimi.softmax %arg0 axis 1 log
// CHECK: tensor.extract %[[P]]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: arith.divf
func.func @cross_entropy(%x: tensor<3x5xf32>, %t: tensor<3xi64>) -> tensor<f32> {
  %0 = onnx.node "SoftmaxCrossEntropyLoss"(%x, %t) {version = 13 : i64} : (tensor<3x5xf32>, tensor<3xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}
