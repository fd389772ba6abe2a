// RUN: kimi-opt %s --onnx-raise-kda-gate | FileCheck %s

kimi.weight @a_log : tensor<3xf32> from #kimi.external<"m", 0, 12>
kimi.weight @dt : tensor<24xf32> from #kimi.external<"m", 12, 96>
kimi.weight @folded : tensor<3xf32> from #kimi.external<"m", 108, 12>
kimi.weight @dt_heads : tensor<3xf32> from #kimi.external<"m", 120, 12>

// L sigmoid(exp(A) (z + dt)), split into heads after the bias; the minus outside.
// CHECK-LABEL: @bounded
// CHECK: %[[A:.*]] = kimi.weight_ref @a_log
// CHECK: %[[RATE:.*]] = onnx.node "Exp"(%[[A]])
// CHECK: kimi.kda_gate %{{.*}}, %{{.*}}, %{{.*}} bound -5.000000e+00 : tensor<?x?x3x8xf32>, tensor<3xf32>, tensor<3x8xf32> -> tensor<?x?x3x8xf32>
// CHECK-NOT: "Sigmoid"
func.func @bounded(%z: tensor<?x?x24xf32>) -> tensor<?x?x3x8xf32> {
  %a = kimi.weight_ref @a_log : tensor<3xf32>
  %dt = kimi.weight_ref @dt : tensor<24xf32>
  %heads = onnx.constant dense<[0, 0, 3, 8]> : tensor<4xi64>
  %column = onnx.constant dense<[3, 1]> : tensor<2xi64>
  %five = onnx.constant dense<5.0> : tensor<f32>
  %s = onnx.node "Add"(%z, %dt) {version = 14 : i64} : (tensor<?x?x24xf32>, tensor<24xf32>) -> tensor<?x?x24xf32>
  %h = onnx.node "Reshape"(%s, %heads) {version = 14 : i64} : (tensor<?x?x24xf32>, tensor<4xi64>) -> tensor<?x?x3x8xf32>
  %e = onnx.node "Exp"(%a) {version = 13 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %r = onnx.node "Reshape"(%e, %column) {version = 14 : i64} : (tensor<3xf32>, tensor<2xi64>) -> tensor<3x1xf32>
  %m = onnx.node "Mul"(%r, %h) {version = 14 : i64} : (tensor<3x1xf32>, tensor<?x?x3x8xf32>) -> tensor<?x?x3x8xf32>
  %g = onnx.node "Sigmoid"(%m) {version = 13 : i64} : (tensor<?x?x3x8xf32>) -> tensor<?x?x3x8xf32>
  %p = onnx.node "Mul"(%five, %g) {version = 14 : i64} : (tensor<f32>, tensor<?x?x3x8xf32>) -> tensor<?x?x3x8xf32>
  %y = onnx.node "Neg"(%p) {version = 13 : i64} : (tensor<?x?x3x8xf32>) -> tensor<?x?x3x8xf32>
  return %y : tensor<?x?x3x8xf32>
}

// -exp(A) softplus(z + dt), the heads split after softplus.
// CHECK-LABEL: @unbounded
// CHECK: kimi.kda_gate %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x?x3x8xf32>, tensor<3xf32>, tensor<3x8xf32> -> tensor<?x?x3x8xf32>
// CHECK-NOT: "Softplus"
func.func @unbounded(%z: tensor<?x?x24xf32>) -> tensor<?x?x3x8xf32> {
  %a = kimi.weight_ref @a_log : tensor<3xf32>
  %dt = kimi.weight_ref @dt : tensor<24xf32>
  %heads = onnx.constant dense<[0, 0, 3, 8]> : tensor<4xi64>
  %column = onnx.constant dense<[3, 1]> : tensor<2xi64>
  %s = onnx.node "Add"(%dt, %z) {version = 14 : i64} : (tensor<24xf32>, tensor<?x?x24xf32>) -> tensor<?x?x24xf32>
  %p = onnx.node "Softplus"(%s) {version = 1 : i64} : (tensor<?x?x24xf32>) -> tensor<?x?x24xf32>
  %h = onnx.node "Reshape"(%p, %heads) {version = 14 : i64} : (tensor<?x?x24xf32>, tensor<4xi64>) -> tensor<?x?x3x8xf32>
  %e = onnx.node "Exp"(%a) {version = 13 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %r = onnx.node "Reshape"(%e, %column) {version = 14 : i64} : (tensor<3xf32>, tensor<2xi64>) -> tensor<3x1xf32>
  %n = onnx.node "Neg"(%r) {version = 13 : i64} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %y = onnx.node "Mul"(%n, %h) {version = 14 : i64} : (tensor<3x1xf32>, tensor<?x?x3x8xf32>) -> tensor<?x?x3x8xf32>
  return %y : tensor<?x?x3x8xf32>
}

// One rate a head and no channels; -exp(A) was folded; torch's threshold around softplus.
// CHECK-LABEL: @per_head
// CHECK: %[[F:.*]] = kimi.weight_ref @folded
// CHECK: %[[N:.*]] = onnx.node "Neg"
// CHECK: kimi.kda_gate %arg0, %[[N]], %{{.*}} : tensor<?x?x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<?x?x3xf32>
func.func @per_head(%z: tensor<?x?x3xf32>) -> tensor<?x?x3xf32> {
  %f = kimi.weight_ref @folded : tensor<3xf32>
  %dt = kimi.weight_ref @dt_heads : tensor<3xf32>
  %limit = onnx.constant dense<20.0> : tensor<f32>
  %s = onnx.node "Add"(%z, %dt) {version = 14 : i64} : (tensor<?x?x3xf32>, tensor<3xf32>) -> tensor<?x?x3xf32>
  %p = onnx.node "Softplus"(%s) {version = 1 : i64} : (tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  %c = onnx.node "Greater"(%s, %limit) {version = 13 : i64} : (tensor<?x?x3xf32>, tensor<f32>) -> tensor<?x?x3xi1>
  %w = onnx.node "Where"(%c, %s, %p) {version = 16 : i64} : (tensor<?x?x3xi1>, tensor<?x?x3xf32>, tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  %y = onnx.node "Mul"(%f, %w) {version = 14 : i64} : (tensor<3xf32>, tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  return %y : tensor<?x?x3xf32>
}

// Softplus written out, and its threshold.
// CHECK-LABEL: @logarithm
// CHECK: kimi.kda_gate %arg0, %{{.*}}, %{{.*}} : tensor<?x?x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<?x?x3xf32>
// CHECK-NOT: "Log"
func.func @logarithm(%z: tensor<?x?x3xf32>) -> tensor<?x?x3xf32> {
  %f = kimi.weight_ref @folded : tensor<3xf32>
  %dt = kimi.weight_ref @dt_heads : tensor<3xf32>
  %limit = onnx.constant dense<20.0> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %s = onnx.node "Add"(%z, %dt) {version = 14 : i64} : (tensor<?x?x3xf32>, tensor<3xf32>) -> tensor<?x?x3xf32>
  %e = onnx.node "Exp"(%s) {version = 13 : i64} : (tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  %a = onnx.node "Add"(%e, %one) {version = 14 : i64} : (tensor<?x?x3xf32>, tensor<f32>) -> tensor<?x?x3xf32>
  %p = onnx.node "Log"(%a) {version = 13 : i64} : (tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  %c = onnx.node "Greater"(%s, %limit) {version = 13 : i64} : (tensor<?x?x3xf32>, tensor<f32>) -> tensor<?x?x3xi1>
  %w = onnx.node "Where"(%c, %s, %p) {version = 16 : i64} : (tensor<?x?x3xi1>, tensor<?x?x3xf32>, tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  %y = onnx.node "Mul"(%w, %f) {version = 14 : i64} : (tensor<?x?x3xf32>, tensor<3xf32>) -> tensor<?x?x3xf32>
  return %y : tensor<?x?x3xf32>
}

// Above zero, without a bias that is a weight, without a rate.
// CHECK-LABEL: @left_alone
// CHECK-NOT: kimi.kda_gate
func.func @left_alone(%z: tensor<?x3xf32>, %b: tensor<3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  %a = kimi.weight_ref @a_log : tensor<3xf32>
  %dt = kimi.weight_ref @dt_heads : tensor<3xf32>
  %five = onnx.constant dense<5.0> : tensor<f32>
  %e = onnx.node "Exp"(%a) {version = 13 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %s = onnx.node "Add"(%z, %dt) {version = 14 : i64} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %m = onnx.node "Mul"(%e, %s) {version = 14 : i64} : (tensor<3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %g = onnx.node "Sigmoid"(%m) {version = 13 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = onnx.node "Mul"(%five, %g) {version = 14 : i64} : (tensor<f32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %t = onnx.node "Add"(%z, %b) {version = 14 : i64} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %p = onnx.node "Softplus"(%t) {version = 1 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %ne = onnx.node "Neg"(%e) {version = 13 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %v = onnx.node "Mul"(%ne, %p) {version = 14 : i64} : (tensor<3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %q = onnx.node "Softplus"(%s) {version = 1 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %w = onnx.node "Neg"(%q) {version = 13 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %y, %v, %w : tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x3xf32>
}
