// RUN: kimi-opt %s --canonicalize --cse | FileCheck %s

// Equal constants become one, unused nodes go; nothing else changes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[C:.*]] = onnx.constant dense<2> : tensor<1xi64>
// CHECK-NEXT: %[[R:.*]] = onnx.node "Reshape"(%{{.*}}, %[[C]], %[[C]])
// CHECK-NEXT: return %[[R]]
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = onnx.constant dense<2> : tensor<1xi64>
  %b = onnx.constant dense<2> : tensor<1xi64>
  %unused = onnx.node "Relu"(%x) {version = 14 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %r = onnx.node "Reshape"(%x, %a, %b) {version = 14 : i64} : (tensor<2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
