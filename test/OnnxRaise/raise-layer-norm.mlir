// RUN: kimi-opt %s --onnx-raise-layer-norm | FileCheck %s

// CHECK-LABEL: @operator
// CHECK: kimi.layer_norm %arg0, %arg1, %arg2 eps 9.99999974E-6 : tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<?x?x8xf32>
func.func @operator(%x: tensor<?x?x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %y = onnx.node "LayerNormalization"(%x, %g, %b) {attrs = {axis = -1 : i64, epsilon = 9.99999974E-6 : f32}, version = 17 : i64}
    : (tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: @no_bias
// CHECK: kimi.layer_norm %arg0, %arg1 eps
func.func @no_bias(%x: tensor<?x8xf16>, %g: tensor<8xf16>) -> tensor<?x8xf16> {
  %y = onnx.node "LayerNormalization"(%x, %g) {attrs = {axis = 1 : i64}, version = 17 : i64}
    : (tensor<?x8xf16>, tensor<8xf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}

// Over two axes: stays.
// CHECK-LABEL: @two_axes
// CHECK: onnx.node "LayerNormalization"
func.func @two_axes(%x: tensor<?x4x8xf32>, %g: tensor<4x8xf32>) -> tensor<?x4x8xf32> {
  %y = onnx.node "LayerNormalization"(%x, %g) {attrs = {axis = 1 : i64}, version = 17 : i64}
    : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  return %y : tensor<?x4x8xf32>
}

// The deviation is used: stays.
// CHECK-LABEL: @statistics_used
// CHECK: onnx.node "LayerNormalization"
func.func @statistics_used(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x1xf32>) {
  %n = onnx.none
  %y, %m, %d = onnx.node "LayerNormalization"(%x, %g, %n) {version = 17 : i64}
    : (tensor<?x8xf32>, tensor<8xf32>, none) -> (tensor<?x8xf32>, tensor<?x1xf32>, tensor<?x1xf32>)
  return %y, %d : tensor<?x8xf32>, tensor<?x1xf32>
}

// CHECK-LABEL: @spelled_out
// CHECK: kimi.layer_norm %arg0, %{{.*}}, %{{.*}} eps 9.99999974E-6
// CHECK-NEXT: return
func.func @spelled_out(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %two = onnx.constant dense<2.0> : tensor<f32>
  %eps = onnx.constant dense<9.99999974E-6> : tensor<f32>
  %g = onnx.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %b = onnx.constant dense<[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]> : tensor<8xf32>
  %m = onnx.node "ReduceMean"(%x) {attrs = {axes = array<i64: -1>}, version = 13 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x1xf32>
  %c = onnx.node "Sub"(%x, %m) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
  %c2 = onnx.node "Pow"(%c, %two) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %v = onnx.node "ReduceMean"(%c2) {attrs = {axes = array<i64: -1>}, version = 13 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x1xf32>
  %ve = onnx.node "Add"(%v, %eps) {version = 13 : i64} : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
  %s = onnx.node "Sqrt"(%ve) {version = 13 : i64} : (tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %n = onnx.node "Div"(%c, %s) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
  %ng = onnx.node "Mul"(%n, %g) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  %y = onnx.node "Add"(%ng, %b) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// The mean of another value is subtracted: stays.
// CHECK-LABEL: @other_mean
// CHECK-NOT: kimi.layer_norm
func.func @other_mean(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %eps = onnx.constant dense<9.99999974E-6> : tensor<f32>
  %m = onnx.node "ReduceMean"(%z) {attrs = {axes = array<i64: -1>}, version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %c = onnx.node "Sub"(%x, %m) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %c2 = onnx.node "Mul"(%c, %c) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = onnx.node "ReduceMean"(%c2) {attrs = {axes = array<i64: -1>}, version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %ve = onnx.node "Add"(%v, %eps) {version = 13 : i64} : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %s = onnx.node "Sqrt"(%ve) {version = 13 : i64} : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = onnx.node "Div"(%c, %s) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%n, %g) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
