// RUN: not kimi-opt %s --onnx-to-kimi -o /dev/null 2>&1 | FileCheck %s

// All at once; what only follows from a node that is listed is not.
// CHECK: error: {{.*}}node 'first': ai.onnx.StringSplit-20 is not supported: no version of this operator is supported
// CHECK: error: {{.*}}node 'second': my.domain.Add-1 is not supported: no version of this operator is supported
// CHECK: error: {{.*}}node 'third': ai.onnx.Add-6 is not supported: this version is too old; nearest supported version is 7
// CHECK: error: {{.*}}node 'fourth': ai.onnx.Add-99 is not supported: this version is too new; nearest supported version is 28
// CHECK: error: {{.*}}node 'fifth': ai.onnx.Sqrt-13 is not supported: element type i32 is not supported
// CHECK: error: {{.*}}node 'sixth': ai.onnx.Add-14 is not supported: elements of type f8E4M3FN are converted and moved, not computed with
// CHECK: error: {{.*}}node 'seventh': ai.onnx.ConstantOfShape-21 is not supported: its output 0 would have an extent of -1 in axis 1
// CHECK: error: {{.*}}node 'eighth': ai.onnx.Reshape-21 is not supported: it reshapes 32*n elements into 64*n
// CHECK-NOT: error
func.func @main(%x: tensor<4xf32>, %i: tensor<4xi32>, %n: tensor<4xf8E4M3FN>, %d: tensor<?x32xf32> {onnx.dims = ["n", 32]})
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xf8E4M3FN>, tensor<?x?xf32>, tensor<?x64xf32>) {
  %0 = onnx.node "StringSplit"(%x) {version = 20 : i64} : (tensor<4xf32>) -> none loc("first")
  %1 = onnx.node "Relu"(%0) {version = 14 : i64} : (none) -> tensor<4xf32> loc("follows")
  %2 = onnx.node "Add"(%x, %x) {domain = "my.domain", version = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("second")
  %3 = onnx.node "Add"(%x, %x) {version = 6 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("third")
  %4 = onnx.node "Add"(%x, %x) {version = 99 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("fourth")
  %5 = onnx.node "Sqrt"(%i) {version = 13 : i64} : (tensor<4xi32>) -> tensor<4xi32> loc("fifth")
  %7 = onnx.node "Add"(%n, %n) {version = 14 : i64} : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> loc("sixth")
  %shape = onnx.constant dense<[0, -1]> : tensor<2xi64>
  %8 = onnx.node "ConstantOfShape"(%shape) {version = 21 : i64} : (tensor<2xi64>) -> tensor<?x?xf32> loc("seventh")
  %wide = onnx.constant dense<[0, 64]> : tensor<2xi64>
  %9 = onnx.node "Reshape"(%d, %wide) {version = 21 : i64} : (tensor<?x32xf32>, tensor<2xi64>) -> tensor<?x64xf32> loc("eighth")
  // Dead nodes are nobody's concern.
  %6 = onnx.node "Unheard"(%x) {version = 20 : i64} : (tensor<4xf32>) -> none loc("dead")
  return %1, %2, %3, %4, %5, %7, %8, %9
       : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xf8E4M3FN>, tensor<?x?xf32>, tensor<?x64xf32>
}
