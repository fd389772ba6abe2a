// RUN: kimi-opt %s --onnx-raise-l2-norm | FileCheck %s

// CHECK-LABEL: @quotient
// CHECK-NEXT: %[[Y:.*]] = kimi.l2_norm %arg0 eps 9.99999997E-7 : tensor<?x3x8xf32> -> tensor<?x3x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @quotient(%x: tensor<?x3x8xf32>) -> tensor<?x3x8xf32> {
  %axes = onnx.constant dense<[-1]> : tensor<1xi64>
  %eps = onnx.constant dense<1.0e-6> : tensor<f32>
  %s = onnx.node "ReduceSumSquare"(%x, %axes) {attrs = {keepdims = 1 : i64}, version = 18 : i64} : (tensor<?x3x8xf32>, tensor<1xi64>) -> tensor<?x3x1xf32>
  %a = onnx.node "Add"(%s, %eps) {version = 14 : i64} : (tensor<?x3x1xf32>, tensor<f32>) -> tensor<?x3x1xf32>
  %r = onnx.node "Sqrt"(%a) {version = 13 : i64} : (tensor<?x3x1xf32>) -> tensor<?x3x1xf32>
  %y = onnx.node "Div"(%x, %r) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<?x3x1xf32>) -> tensor<?x3x8xf32>
  return %y : tensor<?x3x8xf32>
}

// CHECK-LABEL: @product
// CHECK-NEXT: kimi.l2_norm %arg0 eps 9.99999997E-7
func.func @product(%x: tensor<?x3x8xf32>) -> tensor<?x3x8xf32> {
  %axes = onnx.constant dense<[2]> : tensor<1xi64>
  %eps = onnx.constant dense<1.0e-6> : tensor<f32>
  %q = onnx.node "Mul"(%x, %x) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  %s = onnx.node "ReduceSum"(%q, %axes) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x3x8xf32>, tensor<1xi64>) -> tensor<?x3x1xf32>
  %a = onnx.node "Add"(%s, %eps) {version = 14 : i64} : (tensor<?x3x1xf32>, tensor<f32>) -> tensor<?x3x1xf32>
  %r = onnx.node "Sqrt"(%a) {version = 13 : i64} : (tensor<?x3x1xf32>) -> tensor<?x3x1xf32>
  %i = onnx.node "Reciprocal"(%r) {version = 13 : i64} : (tensor<?x3x1xf32>) -> tensor<?x3x1xf32>
  %y = onnx.node "Mul"(%x, %i) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<?x3x1xf32>) -> tensor<?x3x8xf32>
  return %y : tensor<?x3x8xf32>
}

// As one operator, and by ReduceL2: no eps.
// CHECK-LABEL: @without_eps
// CHECK-NEXT: kimi.l2_norm %arg0 eps 0.000000e+00 : tensor<?x8xf32>
// CHECK-NEXT: kimi.l2_norm %arg0 eps 0.000000e+00 : tensor<?x8xf32>
func.func @without_eps(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %axes = onnx.constant dense<[-1]> : tensor<1xi64>
  %y = onnx.node "LpNormalization"(%x) {attrs = {axis = -1 : i64, p = 2 : i64}, version = 22 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %l = onnx.node "ReduceL2"(%x, %axes) {version = 18 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %z = onnx.node "Div"(%x, %l) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

// A mean, another axis, p = 1, a length that is clipped, elements of 64 bits.
// CHECK-LABEL: @left_alone
// CHECK-NOT: kimi.l2_norm
func.func @left_alone(%x: tensor<?x8xf32>, %d: tensor<?x8xf64>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf64>) {
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %first = onnx.constant dense<[0]> : tensor<1xi64>
  %eps = onnx.constant dense<1.0e-6> : tensor<f32>
  %q = onnx.node "Mul"(%x, %x) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = onnx.node "ReduceMean"(%q, %last) {version = 18 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %mr = onnx.node "Sqrt"(%m) {version = 13 : i64} : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %a = onnx.node "Div"(%x, %mr) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %s = onnx.node "ReduceSumSquare"(%x, %first) {version = 18 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
  %sr = onnx.node "Sqrt"(%s) {version = 13 : i64} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %b = onnx.node "Div"(%x, %sr) {version = 14 : i64} : (tensor<?x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32>
  %c = onnx.node "LpNormalization"(%x) {attrs = {p = 1 : i64}, version = 22 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %l = onnx.node "ReduceL2"(%x, %last) {version = 18 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %k = onnx.node "Max"(%l, %eps) {version = 13 : i64} : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %e = onnx.node "Div"(%x, %k) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %f = onnx.node "LpNormalization"(%d) {version = 22 : i64} : (tensor<?x8xf64>) -> tensor<?x8xf64>
  return %a, %b, %c, %e, %f : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf64>
}
