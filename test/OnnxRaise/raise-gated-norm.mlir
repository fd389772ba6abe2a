// RUN: kimi-opt %s --onnx-raise-gated-norm | FileCheck %s

// CHECK-LABEL: @sigmoid
// CHECK-NEXT: kimi.gated_rms_norm %arg0, %arg1, %arg2 sigmoid eps 9.99999974E-6 : tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32> -> tensor<?x3x8xf32>
func.func @sigmoid(%x: tensor<?x3x8xf32> {onnx.dims = ["n", 3, 8]}, %z: tensor<?x3x8xf32> {onnx.dims = ["n", 3, 8]}, %g: tensor<8xf32>) -> tensor<?x3x8xf32> {
  %n = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x3x8xf32>, tensor<8xf32> -> tensor<?x3x8xf32>
  %s = onnx.node "Sigmoid"(%z) {version = 13 : i64} : (tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  %y = onnx.node "Mul"(%s, %n) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  return %y : tensor<?x3x8xf32>
}

// CHECK-LABEL: @silu
// CHECK-NEXT: kimi.gated_rms_norm %arg0, %arg1, %arg2 silu eps
func.func @silu(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %z: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %n = kimi.rms_norm %x, %g eps 1.0e-6 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %s = onnx.node "Sigmoid"(%z) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %zs = onnx.node "Mul"(%z, %s) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%n, %zs) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The norm is read elsewhere too; the gate is one number a row.
// CHECK-LABEL: @left_alone
// CHECK: kimi.rms_norm
// CHECK-NOT: kimi.gated_rms_norm
func.func @left_alone(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %z: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %one: tensor<?x1xf32> {onnx.dims = ["n", 1]}, %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %n = kimi.rms_norm %x, %g eps 1.0e-6 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %s = onnx.node "Sigmoid"(%z) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%s, %n) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = kimi.rms_norm %z, %g eps 1.0e-6 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %o = onnx.node "Sigmoid"(%one) {version = 13 : i64} : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %v = onnx.node "Mul"(%m, %o) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  return %y, %n, %v : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
