// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// Reshapes are views, and equal extents are one value.
// CHECK-LABEL: func.func @heads
// CHECK-DAG: %[[B:.*]] = tensor.dim %arg0, %c0
// CHECK-DAG: %[[S:.*]] = tensor.dim %arg0, %c1
// CHECK-NOT: tensor.dim
// CHECK: %[[E:.*]] = tensor.expand_shape %arg0 {{\[\[}}0], [1], [2, 3]] output_shape [%[[B]], %[[S]], 4, 16]
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[E]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK: tensor.collapse_shape
func.func @heads(%x: tensor<?x?x64xf32> {onnx.dims = ["b", "s", 64]}) -> tensor<?x16xf32> {
  %0 = onnx.node "Shape"(%x) {attrs = {start = 0 : i64, end = 2 : i64}, version = 15 : i64} : (tensor<?x?x64xf32>) -> none
  %1 = onnx.constant dense<[4, 16]> : tensor<2xi64>
  %2 = onnx.node "Concat"(%0, %1) {attrs = {axis = 0 : i64}, version = 13 : i64} : (none, tensor<2xi64>) -> none
  %3 = onnx.node "Reshape"(%x, %2) {version = 14 : i64} : (tensor<?x?x64xf32>, none) -> none
  %4 = onnx.node "Transpose"(%3) {attrs = {perm = array<i64: 0, 2, 1, 3>}, version = 13 : i64} : (none) -> none
  %5 = onnx.constant dense<[-1, 16]> : tensor<2xi64>
  %6 = onnx.node "Reshape"(%4, %5) {version = 14 : i64} : (none, tensor<2xi64>) -> tensor<?x16xf32>
  return %6 : tensor<?x16xf32>
}

// -----

// CHECK-LABEL: func.func @parts
// CHECK: tensor.extract_slice %arg0[0, 0] [%{{.*}}, 3] [1, 1]
// CHECK: tensor.extract_slice %arg0[0, 3] [%{{.*}}, 2] [1, 1]
// CHECK: tensor.concat dim(1)
func.func @parts(%x: tensor<?x5xf32> {onnx.dims = ["n", 5]}) -> tensor<?x5xf32> {
  %0:2 = onnx.node "Split"(%x) {attrs = {axis = 1 : i64, num_outputs = 2 : i64}, version = 18 : i64} : (tensor<?x5xf32>) -> (none, none)
  %1 = onnx.node "Concat"(%0#1, %0#0) {attrs = {axis = -1 : i64}, version = 13 : i64} : (none, none) -> tensor<?x5xf32>
  return %1 : tensor<?x5xf32>
}

// -----

// Backwards: read from the end.
// CHECK-LABEL: func.func @backwards
// CHECK-NOT: tensor.extract_slice
// CHECK: tensor.extract %arg0
func.func @backwards(%x: tensor<?xf32> {onnx.dims = ["n"]}) -> tensor<?xf32> {
  %start = onnx.constant dense<-1> : tensor<1xi64>
  %end = onnx.constant dense<-9223372036854775807> : tensor<1xi64>
  %axes = onnx.constant dense<0> : tensor<1xi64>
  %0 = onnx.node "Slice"(%x, %start, %end, %axes, %start) {version = 13 : i64} : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// A target shape that is an input of the graph is read on the host.
// CHECK-LABEL: func.func @target
// CHECK: tensor.extract %arg1[%c0
// CHECK: arith.index_cast
// CHECK: tensor.expand_shape
func.func @target(%x: tensor<6xf32>, %shape: tensor<2xi64>) -> tensor<?x?xf32> {
  %0 = onnx.node "Reshape"(%x, %shape) {version = 14 : i64} : (tensor<6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
