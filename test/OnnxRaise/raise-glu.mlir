// RUN: kimi-opt %s --onnx-raise-glu | FileCheck %s

// The product of everything, in the order of the K3 builders.
// CHECK-LABEL: @situ
// CHECK-NEXT: %[[Y:.*]] = kimi.situ_glu %arg0, %arg1 beta 4.000000e+00 linear_beta 2.500000e+01 : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @situ(%g: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %u: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %b = onnx.constant dense<4.0> : tensor<f32>
  %l = onnx.constant dense<25.0> : tensor<f32>
  %gd = onnx.node "Div"(%g, %b) {version = 14 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %gt = onnx.node "Tanh"(%gd) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %gb = onnx.node "Mul"(%b, %gt) {version = 14 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = onnx.node "Sigmoid"(%g) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %gs = onnx.node "Mul"(%gb, %s) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ud = onnx.node "Div"(%u, %l) {version = 14 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %ut = onnx.node "Tanh"(%ud) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %ul = onnx.node "Mul"(%ut, %l) {version = 14 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%gs, %ul) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Slopes as products, the factors elsewhere, the value not bounded.
// CHECK-LABEL: @situ_of_a_line
// CHECK-NEXT: kimi.situ_glu %arg0, %arg1 beta 2.000000e+00 : tensor<?x8xf32>
func.func @situ_of_a_line(%g: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %u: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %two = onnx.constant dense<2.0> : tensor<f32>
  %gd = onnx.node "Mul"(%half, %g) {version = 14 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %gt = onnx.node "Tanh"(%gd) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = onnx.node "Sigmoid"(%g) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %us = onnx.node "Mul"(%u, %s) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ut = onnx.node "Mul"(%us, %gt) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%ut, %two) {version = 14 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The constants do not agree: 3 tanh(g/4).
// CHECK-LABEL: @other_constant
// CHECK-NOT: kimi.situ_glu
func.func @other_constant(%g: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %u: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %b = onnx.constant dense<4.0> : tensor<f32>
  %c = onnx.constant dense<3.0> : tensor<f32>
  %gd = onnx.node "Div"(%g, %b) {version = 14 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %gt = onnx.node "Tanh"(%gd) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %gb = onnx.node "Mul"(%c, %gt) {version = 14 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = onnx.node "Sigmoid"(%g) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %gs = onnx.node "Mul"(%gb, %s) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%gs, %u) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: @swiglu
// CHECK-NEXT: kimi.swiglu %arg0, %arg1 : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf16>
func.func @swiglu(%g: tensor<?x8xf16> {onnx.dims = ["n", 8]}, %u: tensor<?x8xf16> {onnx.dims = ["n", 8]}) -> tensor<?x8xf16> {
  %s = onnx.node "Sigmoid"(%g) {version = 13 : i64} : (tensor<?x8xf16>) -> tensor<?x8xf16>
  %gs = onnx.node "Mul"(%g, %s) {version = 14 : i64} : (tensor<?x8xf16>, tensor<?x8xf16>) -> tensor<?x8xf16>
  %y = onnx.node "Mul"(%gs, %u) {version = 14 : i64} : (tensor<?x8xf16>, tensor<?x8xf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}

// CHECK-LABEL: @swish
// CHECK-NEXT: kimi.swiglu %arg1, %arg0 :
func.func @swish(%u: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %g: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %s = onnx.node "Swish"(%g) {version = 24 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%u, %s) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Swish of another slope, and a gate that is broadcast.
// CHECK-LABEL: @left_alone
// CHECK-NOT: kimi.swiglu
func.func @left_alone(%u: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %g: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %one: tensor<?x1xf32> {onnx.dims = ["n", 1]}) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = onnx.node "Swish"(%g) {attrs = {alpha = 1.702 : f32}, version = 24 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%u, %s) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %os = onnx.node "Sigmoid"(%one) {version = 13 : i64} : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %o = onnx.node "Mul"(%one, %os) {version = 14 : i64} : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %z = onnx.node "Mul"(%o, %u) {version = 14 : i64} : (tensor<?x1xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}
