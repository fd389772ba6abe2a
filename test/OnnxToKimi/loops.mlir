// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @cumsum
// CHECK: kimi.loops ins(%arg0 : tensor<?x7xf32>) dims(%[[N:.*]]) rows(%[[N]])
// CHECK: scf.for
// CHECK: memref.store
func.func @cumsum(%x: tensor<?x7xf32> {onnx.dims = ["n", 7]}) -> tensor<?x7xf32> {
  %axis = onnx.constant dense<1> : tensor<i64>
  %0 = onnx.node "CumSum"(%x, %axis) {version = 14 : i64} : (tensor<?x7xf32>, tensor<i64>) -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}

// -----

// CHECK-LABEL: func.func @topk
// CHECK: kimi.loops {{.*}} -> tensor<?x3xf32>, tensor<?x3xi64>
func.func @topk(%x: tensor<?x7xf32> {onnx.dims = ["n", 7]}) -> (tensor<?x3xf32>, tensor<?x3xi64>) {
  %k = onnx.constant dense<3> : tensor<1xi64>
  %0:2 = onnx.node "TopK"(%x, %k) {version = 11 : i64} : (tensor<?x7xf32>, tensor<1xi64>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
  return %0#0, %0#1 : tensor<?x3xf32>, tensor<?x3xi64>
}

// -----

// One task: updates are written in order.
// CHECK-LABEL: func.func @scatter
// CHECK: kimi.loops ins(%arg0, %arg1, %arg2 : {{.*}}) -> tensor<8xf32>
// CHECK: arith.addf
func.func @scatter(%x: tensor<8xf32>, %i: tensor<4x1xi64>, %u: tensor<4xf32>) -> tensor<8xf32> {
  %0 = onnx.node "ScatterND"(%x, %i, %u) {attrs = {reduction = "add"}, version = 18 : i64} : (tensor<8xf32>, tensor<4x1xi64>, tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @cumprod
// CHECK: kimi.loops
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %cst
// CHECK: arith.mulf
func.func @cumprod(%x: tensor<?x7xf32> {onnx.dims = ["n", 7]}) -> tensor<?x7xf32> {
  %axis = onnx.constant dense<1> : tensor<i64>
  %0 = onnx.node "CumProd"(%x, %axis) {version = 26 : i64} : (tensor<?x7xf32>, tensor<i64>) -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}

// -----

// The index of the first of the greatest, then 1 there.
// CHECK-LABEL: func.func @hardmax
// CHECK: kimi.loops {{.*}} -> tensor<?x1xi64>
// CHECK: linalg.generic
// CHECK: linalg.index 1
// CHECK: arith.select
func.func @hardmax(%x: tensor<?x7xf32> {onnx.dims = ["n", 7]}) -> tensor<?x7xf32> {
  %0 = onnx.node "Hardmax"(%x) {version = 13 : i64} : (tensor<?x7xf32>) -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}
