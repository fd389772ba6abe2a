// RUN: kimi-opt %s --onnx-to-kimi | FileCheck %s

// The branch that is taken takes the place of the If.
// CHECK-LABEL: func.func @main
// CHECK: arith.negf
// CHECK-NOT: math.exp
func.func @main(%x: tensor<?x4xf32> {onnx.dims = ["n", 4]}) -> tensor<?x4xf32> {
  %0 = onnx.node "Shape"(%x) {attrs = {start = 1 : i64}, version = 15 : i64} : (tensor<?x4xf32>) -> none
  %4 = onnx.constant dense<4> : tensor<1xi64>
  %1 = onnx.node "Equal"(%0, %4) {version = 13 : i64} : (none, tensor<1xi64>) -> none
  %2 = onnx.node "If"(%1) {version = 16 : i64} : (none) -> tensor<?x4xf32> "then_branch" {
    %3 = onnx.node "Neg"(%x) {version = 13 : i64} : (tensor<?x4xf32>) -> none
    onnx.yield %3 : none
  } "else_branch" {
    %3 = onnx.node "Exp"(%x) {version = 13 : i64} : (tensor<?x4xf32>) -> none
    onnx.yield %3 : none
  }
  return %2 : tensor<?x4xf32>
}
