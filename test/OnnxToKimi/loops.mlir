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
// -----

// Rows that follow each other, as exporters spell x[2:5] = u: no loops.
// CHECK-LABEL: func.func @scatter_slice
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[0, 0] [2, %{{.*}}] [1, 1]
// CHECK: %[[B:.*]] = tensor.extract_slice %arg0[5, 0] [3, %{{.*}}] [1, 1]
// CHECK: tensor.concat dim(0) %[[A]], %arg1, %[[B]]
func.func @scatter_slice(%x: tensor<8x?xf32> {onnx.dims = [8, "n"]}, %u: tensor<3x?xf32> {onnx.dims = [3, "n"]}) -> tensor<8x?xf32> {
  %i = onnx.constant dense<[[2], [3], [4]]> : tensor<3x1xi64>
  %0 = onnx.node "ScatterND"(%x, %i, %u) {version = 18 : i64} : (tensor<8x?xf32>, tensor<3x1xi64>, tensor<3x?xf32>) -> tensor<8x?xf32>
  return %0 : tensor<8x?xf32>
}

// -----

// From the end, up to the last row.
// CHECK-LABEL: func.func @scatter_last
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[0] [6] [1]
// CHECK: tensor.concat dim(0) %[[A]], %arg1 :
func.func @scatter_last(%x: tensor<8xf32>, %u: tensor<2xf32>) -> tensor<8xf32> {
  %i = onnx.constant dense<[[-2], [-1]]> : tensor<2x1xi64>
  %0 = onnx.node "ScatterND"(%x, %i, %u) {version = 18 : i64} : (tensor<8xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// All rows: the updates themselves.
// CHECK-LABEL: func.func @scatter_all
// CHECK-NEXT: return %arg1
func.func @scatter_all(%x: tensor<2xf32>, %u: tensor<2xf32>) -> tensor<2xf32> {
  %i = onnx.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %0 = onnx.node "ScatterND"(%x, %i, %u) {version = 18 : i64} : (tensor<2xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Rows in another order, rows outside, and sums stay loops.
// CHECK-LABEL: func.func @scatter_rows
// CHECK: kimi.loops
// CHECK: kimi.loops
// CHECK: kimi.loops
func.func @scatter_rows(%x: tensor<8xf32>, %u: tensor<2xf32>) -> tensor<8xf32> {
  %back = onnx.constant dense<[[3], [2]]> : tensor<2x1xi64>
  %out = onnx.constant dense<[[7], [8]]> : tensor<2x1xi64>
  %rows = onnx.constant dense<[[2], [3]]> : tensor<2x1xi64>
  %0 = onnx.node "ScatterND"(%x, %back, %u) {version = 18 : i64} : (tensor<8xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<8xf32>
  %1 = onnx.node "ScatterND"(%0, %out, %u) {version = 18 : i64} : (tensor<8xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<8xf32>
  %2 = onnx.node "ScatterND"(%1, %rows, %u) {attrs = {reduction = "add"}, version = 18 : i64} : (tensor<8xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
