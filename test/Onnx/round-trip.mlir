// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

// CHECK: module attributes {onnx.ir_version = 10 : i64, onnx.opsets = {ai.onnx = 20 : i64, com.microsoft = 1 : i64}}
module attributes {onnx.ir_version = 10 : i64, onnx.opsets = {ai.onnx = 20 : i64, com.microsoft = 1 : i64}} {
  // CHECK: func.func @main(%{{.*}}: tensor<?x4xf32> {onnx.dims = ["batch", 4], onnx.name = "x"}, %{{.*}}: tensor<*xi1>
  // CHECK-SAME: {onnx.name = "flag"}) -> (tensor<?x4xf32> {onnx.dims = ["batch", 4], onnx.name = "y"})
  func.func @main(%x: tensor<?x4xf32> {onnx.name = "x", onnx.dims = ["batch", 4]},
                  %flag: tensor<*xi1> {onnx.name = "flag"})
      -> (tensor<?x4xf32> {onnx.name = "y", onnx.dims = ["batch", 4]}) {
    // CHECK: %[[NONE:.*]] = onnx.none
    %none = onnx.none
    // CHECK: onnx.constant dense<[1, -1]> : tensor<2xi64>
    %c = onnx.constant dense<[1, -1]> : tensor<2xi64>
    // CHECK: onnx.node "Softmax"(%{{.*}}) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %s = onnx.node "Softmax"(%x) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    // CHECK: onnx.node "SkipLayerNormalization"(%{{.*}}, %[[NONE]]) {attrs = {a = "text", b = array<i64: 1, 2>,
    // CHECK-SAME: c = array<f32: 5.000000e-01>, d = ["p", "q"], e = dense<1> : tensor<i32>, f = 1.000000e+00 : f32,
    // CHECK-SAME: g = tensor<?xf32>}, domain = "com.microsoft", version = 1 : i64} : (tensor<?x4xf32>, none) -> (tensor<?x4xf32>, none)
    %n:2 = onnx.node "SkipLayerNormalization"(%s, %none) {attrs = {
        a = "text", b = array<i64: 1, 2>, c = array<f32: 0.5>, d = ["p", "q"], e = dense<1> : tensor<i32>, f = 1.0 : f32,
        g = tensor<?xf32>}, domain = "com.microsoft", version = 1 : i64}
      : (tensor<?x4xf32>, none) -> (tensor<?x4xf32>, none)
    // CHECK: onnx.node "If"(%{{.*}}) {version = 16 : i64} : (tensor<*xi1>) -> tensor<?x4xf32> "then_branch" {
    // CHECK: onnx.yield %{{.*}} : tensor<?x4xf32>
    // CHECK: } "else_branch" {
    // CHECK: onnx.yield %{{.*}} : tensor<?x4xf32>
    %y = onnx.node "If"(%flag) {version = 16 : i64} : (tensor<*xi1>) -> tensor<?x4xf32> "then_branch" {
      onnx.yield %n#0 : tensor<?x4xf32>
    } "else_branch" {
      %r = onnx.node "Relu"(%s) {version = 14 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
      onnx.yield %r : tensor<?x4xf32>
    }
    // CHECK: onnx.node "Scan"
    // CHECK-NEXT: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: none):
    %l = onnx.node "Scan"(%y, %y) {attrs = {num_scan_inputs = 1 : i64}, version = 16 : i64}
        : (tensor<?x4xf32>, tensor<?x4xf32>) -> none "body" {
    ^bb0(%state: tensor<4xf32>, %row: none):
      onnx.yield %state : tensor<4xf32>
    }
    return %y : tensor<?x4xf32>
  }
}
