// RUN: kimi-opt %s --onnx-require-extents --split-input-file | FileCheck %s
// RUN: kimi-opt %s --onnx-require-extents --onnx-to-kimi --split-input-file | FileCheck %s --check-prefix=KIMI

// CHECK-LABEL: func.func @matmul
// CHECK-DAG: %[[K:.*]] = tensor.dim %{{.*}}, %c1
// CHECK-DAG: %[[M:.*]] = tensor.dim %{{.*}}, %c0
// CHECK: kimi.require %[[K]] equal %[[M]], "node 'product': k and m must be equal"
// CHECK-NOT: kimi.require
// The requirement outlives the node; another node with the same one adds none.
// KIMI-LABEL: func.func @matmul
// KIMI: kimi.require {{.*}} "node 'product': k and m must be equal"
// KIMI-NOT: kimi.require
// KIMI: return
func.func @matmul(%x: tensor<?x?xf32> {onnx.dims = ["n", "k"]}, %y: tensor<?x8xf32> {onnx.dims = ["m", 8]}) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = onnx.node "MatMul"(%x, %y) {version = 13 : i64} : (tensor<?x?xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> loc("product")
  %1 = onnx.node "MatMul"(%x, %y) {version = 13 : i64} : (tensor<?x?xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> loc("again")
  // What no result depends on may have any extents.
  %2 = onnx.node "MatMul"(%y, %x) {version = 13 : i64} : (tensor<?x8xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %3 = onnx.node "Exp"(%2) {version = 13 : i64} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// Unnamed extents are told of by their inputs.
// CHECK-LABEL: func.func @unnamed
// CHECK: kimi.require %{{.*}} broadcast %{{.*}}, "node 'sum': axis 0 of input 'y' and axis 0 of input 'x' must be equal, or one of them 1"
func.func @unnamed(%x: tensor<?xf32> {onnx.name = "x"}, %y: tensor<?xf32> {onnx.name = "y"}) -> tensor<?xf32> {
  %0 = onnx.node "Add"(%x, %y) {version = 14 : i64} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32> loc("sum")
  return %0 : tensor<?xf32>
}

// -----

// Names say that they are equal.
// CHECK-LABEL: func.func @named
// CHECK-NOT: kimi.require
// KIMI-LABEL: func.func @named
// KIMI-NOT: kimi.require
// KIMI: return
func.func @named(%x: tensor<?x?xf32> {onnx.dims = ["n", "k"]}, %y: tensor<?x?xf32> {onnx.dims = ["k", "n"]}, %b: tensor<1x?xf32> {onnx.dims = [1, "n"]}) -> tensor<?x?xf32> {
  %0 = onnx.node "MatMul"(%x, %y) {version = 13 : i64} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = onnx.node "Add"(%0, %b) {version = 14 : i64} : (tensor<?x?xf32>, tensor<1x?xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// -----

// CHECK-LABEL: func.func @put
// CHECK: "node 'put': m must not be more than n"
// CHECK: "node 'put': min(1, 4*m) must not be more than k"
// CHECK: "node 'put': m and l must be equal"
func.func @put(%x: tensor<?x?xf32> {onnx.dims = ["n", "k"]}, %i: tensor<?x4xi64> {onnx.dims = ["m", 4]}, %u: tensor<?x4xf32> {onnx.dims = ["l", 4]}) -> tensor<?x?xf32> {
  %0 = onnx.node "ScatterElements"(%x, %i, %u) {attrs = {axis = 1 : i64}, version = 18 : i64} : (tensor<?x?xf32>, tensor<?x4xi64>, tensor<?x4xf32>) -> tensor<?x?xf32> loc("put")
  return %0 : tensor<?x?xf32>
}

// -----

// What the file declares of a result is not taken on trust either.
// CHECK-LABEL: func.func @declared
// CHECK: "node 'declared': n and 3 must be equal"
func.func @declared(%x: tensor<?xf32> {onnx.dims = ["n"]}) -> tensor<3xf32> {
  %0 = onnx.node "Exp"(%x) {version = 13 : i64} : (tensor<?xf32>) -> tensor<3xf32> loc("declared")
  return %0 : tensor<3xf32>
}
