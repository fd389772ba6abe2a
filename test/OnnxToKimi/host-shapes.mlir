// RUN: kimi-opt %s --onnx-to-kimi | FileCheck %s

// Shape arithmetic leaves nothing but index values: no tensor of integers but the ids and the positions.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.from_elements
// CHECK-NOT: tensor<{{[0-9]+}}xi64>
// CHECK: kimi.embedding
// CHECK: linalg.generic
// CHECK: linalg.index 0
// CHECK: arith.addi
// CHECK-NOT: tensor.from_elements
// CHECK: return
func.func @main(%ids: tensor<?x?xi64> {onnx.dims = ["batch", "seq"]},
                %past: tensor<?x4x?x16xf32> {onnx.dims = ["batch", 4, "past", 16]}) -> (tensor<?x?x64xf32>, tensor<?xi64>) {
  %wte = kimi.weight_ref @wte : tensor<512x64xf32>
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %two = onnx.constant dense<2> : tensor<i64>
  %0 = onnx.node "Gather"(%wte, %ids) {version = 13 : i64} : (tensor<512x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  %1 = onnx.node "Shape"(%past) {version = 15 : i64} : (tensor<?x4x?x16xf32>) -> tensor<4xi64>
  %2 = onnx.node "Gather"(%1, %two) {version = 13 : i64} : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
  %3 = onnx.node "Shape"(%ids) {version = 15 : i64} : (tensor<?x?xi64>) -> tensor<2xi64>
  %4 = onnx.node "Gather"(%3, %one) {version = 13 : i64} : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
  %5 = onnx.node "Add"(%2, %4) {version = 14 : i64} : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %6 = onnx.node "Range"(%2, %5, %one) {version = 11 : i64} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  return %0, %6 : tensor<?x?x64xf32>, tensor<?xi64>
}
kimi.weight @wte : tensor<512x64xf32> from #kimi.external<"w.bin", 0, 131072>
