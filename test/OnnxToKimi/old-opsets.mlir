// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s
// RUN: kimi-opt %s --onnx-raise-attention --split-input-file | FileCheck %s --check-prefix=RAISE

// Until opset 12 Softmax was over all axes from `axis` on.
// CHECK-LABEL: func.func @flat_softmax
// CHECK: %[[M:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0], [1, 2, 3]] : tensor<?x2x3x4xf32> into tensor<?x24xf32>
// CHECK: %[[S:.*]] = kimi.softmax %[[M]] axis 1 : tensor<?x24xf32>
// CHECK: tensor.expand_shape %[[S]]
func.func @flat_softmax(%x: tensor<?x2x3x4xf32> {onnx.dims = ["n", 2, 3, 4]}) -> tensor<?x2x3x4xf32> {
  %0 = onnx.node "Softmax"(%x) {version = 11 : i64} : (tensor<?x2x3x4xf32>) -> tensor<?x2x3x4xf32>
  return %0 : tensor<?x2x3x4xf32>
}

// -----

// Of the last axis it is the Softmax of today.
// CHECK-LABEL: func.func @last
// CHECK: kimi.softmax %{{.*}} axis 1 log : tensor<6x4xf32>
func.func @last(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = onnx.node "LogSoftmax"(%x) {attrs = {axis = 2 : i64}, version = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// An attention whose Softmax is over heads, rows and columns together is none.
// RAISE-LABEL: func.func @no_attention
// RAISE-NOT: kimi.attention
func.func @no_attention(%q: tensor<1x2x5x8xf32>, %k: tensor<1x2x8x5xf32>, %v: tensor<1x2x5x8xf32>) -> tensor<1x2x5x8xf32> {
  %0 = onnx.node "MatMul"(%q, %k) {version = 9 : i64} : (tensor<1x2x5x8xf32>, tensor<1x2x8x5xf32>) -> tensor<1x2x5x5xf32>
  %1 = onnx.node "Softmax"(%0) {version = 11 : i64} : (tensor<1x2x5x5xf32>) -> tensor<1x2x5x5xf32>
  %2 = onnx.node "MatMul"(%1, %v) {version = 9 : i64} : (tensor<1x2x5x5xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x5x8xf32>
  return %2 : tensor<1x2x5x8xf32>
}

// -----

// Bounds as attributes.
// CHECK-LABEL: func.func @clip
// CHECK-DAG: %[[LOW:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG: %[[HIGH:.*]] = arith.constant 6.000000e+00 : f32
// CHECK: %[[A:.*]] = arith.maximumf %{{.*}}, %[[LOW]]
// CHECK: arith.minimumf %[[A]], %[[HIGH]]
func.func @clip(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = onnx.node "Clip"(%x) {attrs = {max = 6.0 : f32, min = 0.0 : f32}, version = 6 : i64} : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// One bound alone.
// CHECK-LABEL: func.func @clip_below
// CHECK: arith.maximumf
// CHECK-NOT: arith.minimumf
func.func @clip_below(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = onnx.node "Clip"(%x) {attrs = {min = 1.0 : f32}, version = 6 : i64} : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// CHECK-LABEL: func.func @slice
// CHECK: tensor.extract_slice %arg0[0, 1] [4, 2] [1, 1]
func.func @slice(%x: tensor<4x5xf32>) -> tensor<4x2xf32> {
  %0 = onnx.node "Slice"(%x) {attrs = {axes = array<i64: 1>, ends = array<i64: -2>, starts = array<i64: 1>}, version = 1 : i64} : (tensor<4x5xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
