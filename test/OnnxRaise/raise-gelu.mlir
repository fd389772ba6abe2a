// RUN: kimi-opt %s --onnx-raise-gelu | FileCheck %s

// CHECK-LABEL: @tanh_pow
// CHECK-NEXT: %[[Y:.*]] = kimi.gelu %arg0 tanh : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @tanh_pow(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %three = onnx.constant dense<3.0> : tensor<f32>
  %c = onnx.constant dense<0.044714998> : tensor<f32>
  %s = onnx.constant dense<0.79788458> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %hx = onnx.node "Mul"(%x, %half) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %x3 = onnx.node "Pow"(%x, %three) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %cx3 = onnx.node "Mul"(%x3, %c) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %a = onnx.node "Add"(%x, %cx3) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %u = onnx.node "Mul"(%a, %s) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %t = onnx.node "Tanh"(%u) {version = 18 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %g = onnx.node "Add"(%t, %one) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %y = onnx.node "Mul"(%hx, %g) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// x * sqrt(2/pi) * (1 + 0.044715 x*x), and one half last.
// CHECK-LABEL: @tanh_products
// CHECK-NEXT: kimi.gelu %arg0 tanh
func.func @tanh_products(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %c = onnx.constant dense<0.044715> : tensor<f32>
  %s = onnx.constant dense<0.79788456> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %x2 = onnx.node "Mul"(%x, %x) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %cx2 = onnx.node "Mul"(%c, %x2) {version = 13 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %p = onnx.node "Add"(%one, %cx2) {version = 13 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %sx = onnx.node "Mul"(%s, %x) {version = 13 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = onnx.node "Mul"(%sx, %p) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = onnx.node "Tanh"(%u) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = onnx.node "Add"(%one, %t) {version = 13 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %gx = onnx.node "Mul"(%g, %x) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%gx, %half) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: @erf_div
// CHECK-NEXT: kimi.gelu %arg0 : tensor<?x8xf32>
func.func @erf_div(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %r = onnx.constant dense<1.41421354> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %u = onnx.node "Div"(%x, %r) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %e = onnx.node "Erf"(%u) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = onnx.node "Add"(%e, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %h = onnx.node "Mul"(%half, %g) {version = 13 : i64} : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%x, %h) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The input is a product itself.
// CHECK-LABEL: @erf_of_product
// CHECK-NEXT: %[[X:.*]] = onnx.node "Mul"(%arg0, %arg1)
// CHECK-NEXT: kimi.gelu %[[X]] :
func.func @erf_of_product(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %r = onnx.constant dense<0.70710677> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %x = onnx.node "Mul"(%a, %b) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = onnx.node "Mul"(%x, %r) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %e = onnx.node "Erf"(%u) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = onnx.node "Add"(%e, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %xg = onnx.node "Mul"(%x, %g) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%xg, %half) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: @operators
// CHECK-NEXT: %[[A:.*]] = kimi.gelu %arg0 :
// CHECK-NEXT: %[[B:.*]] = kimi.gelu %[[A]] tanh
// CHECK-NEXT: %[[S:.*]] = onnx.node "Add"(%[[B]], %arg1)
// CHECK-NEXT: %[[C:.*]] = kimi.gelu %[[S]] tanh
// CHECK-NEXT: kimi.gelu %[[C]] :
func.func @operators(%x: tensor<?x8xf32>, %bias: tensor<8xf32>) -> tensor<?x8xf32> {
  %a = onnx.node "Gelu"(%x) {version = 20 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = onnx.node "Gelu"(%a) {attrs = {approximate = "tanh"}, version = 20 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = onnx.node "FastGelu"(%b, %bias) {domain = "com.microsoft", version = 1 : i64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %d = onnx.node "Gelu"(%c) {domain = "com.microsoft", version = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}

// Another coefficient: not GELU.
// CHECK-LABEL: @wrong_coefficient
// CHECK-NOT: kimi.gelu
func.func @wrong_coefficient(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %r = onnx.constant dense<0.72> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %u = onnx.node "Mul"(%x, %r) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %e = onnx.node "Erf"(%u) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = onnx.node "Add"(%e, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %xg = onnx.node "Mul"(%x, %g) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%xg, %half) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The gate belongs to another value: not GELU.
// CHECK-LABEL: @other_gate
// CHECK-NOT: kimi.gelu
func.func @other_gate(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %half = onnx.constant dense<0.5> : tensor<f32>
  %r = onnx.constant dense<0.70710677> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %u = onnx.node "Mul"(%z, %r) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %e = onnx.node "Erf"(%u) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = onnx.node "Add"(%e, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %xg = onnx.node "Mul"(%x, %g) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%xg, %half) {version = 13 : i64} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
