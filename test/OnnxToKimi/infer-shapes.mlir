// RUN: kimi-opt %s --onnx-infer-shapes=remarks -o /dev/null 2>&1 | FileCheck %s

// The shape arithmetic of an exporter comes out as polynomials of the named dims.
func.func @heads(%ids: tensor<?x?xi64> {onnx.dims = ["batch", "seq"]},
                 %past: tensor<?x4x?x16xf32> {onnx.dims = ["batch", 4, "past", 16]}) {
  // CHECK: remark: Shape [2] = [batch, seq]
  %0 = onnx.node "Shape"(%ids) {version = 20 : i64} : (tensor<?x?xi64>) -> tensor<*xi64>
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %axis = onnx.constant dense<0> : tensor<1xi64>
  // CHECK: remark: Gather [] = [seq]
  %seq = onnx.node "Gather"(%0, %one) {version = 20 : i64} : (tensor<*xi64>, tensor<i64>) -> tensor<*xi64>
  // CHECK: remark: Shape [1] = [past]
  %p = onnx.node "Shape"(%past) {attrs = {start = 2 : i64, end = 3 : i64}, version = 20 : i64} : (tensor<?x4x?x16xf32>) -> tensor<*xi64>
  // CHECK: remark: Add [1] = [past + seq]
  %total = onnx.node "Add"(%p, %seq) {version = 20 : i64} : (tensor<*xi64>, tensor<*xi64>) -> none
  // CHECK: remark: Sub [1] = [past]
  %back = onnx.node "Sub"(%total, %seq) {version = 20 : i64} : (none, tensor<*xi64>) -> none
  %minus = onnx.constant dense<-1> : tensor<1xi64>
  %size = onnx.constant dense<16> : tensor<1xi64>
  // CHECK: remark: Concat [3] = [past, -1, 16]
  %target = onnx.node "Concat"(%back, %minus, %size) {attrs = {axis = 0 : i64}, version = 20 : i64} : (none, tensor<1xi64>, tensor<1xi64>) -> none
  // CHECK: remark: Reshape [past, 4*batch, 16]
  %view = onnx.node "Reshape"(%past, %target) {version = 20 : i64} : (tensor<?x4x?x16xf32>, none) -> none
  // A bound far past the end is the end.
  %far = onnx.constant dense<9223372036854775807> : tensor<1xi64>
  // CHECK: remark: Slice [batch, 4, past, 16]
  %all = onnx.node "Slice"(%past, %axis, %far, %axis) {version = 20 : i64} : (tensor<?x4x?x16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> none
  // CHECK: remark: Range [past + seq]
  %range = onnx.node "Range"(%zero, %total, %one) {version = 20 : i64} : (tensor<i64>, none, tensor<i64>) -> none
  return
}

// A dim whose name occurs only within an expression is solved for; other expressions are one dim of their own.
func.func @expressions(%a: tensor<?xf32> {onnx.dims = ["seq"]}, %b: tensor<?xf32> {onnx.dims = ["past + seq"]},
                       %c: tensor<?xf32> {onnx.dims = ["x * y"]}) {
  // CHECK: remark: Concat [past + 2*seq]
  %0 = onnx.node "Concat"(%a, %b) {attrs = {axis = 0 : i64}, version = 20 : i64} : (tensor<?xf32>, tensor<?xf32>) -> none
  // CHECK: remark: Neg ['x*y']
  %1 = onnx.node "Neg"(%c) {version = 20 : i64} : (tensor<?xf32>) -> none
  // Two extents of which neither is known: whichever is not 1.
  // CHECK: remark: Add [select(
  %2 = onnx.node "Add"(%a, %c) {version = 20 : i64} : (tensor<?xf32>, tensor<?xf32>) -> none
  return
}

// Scalars of constants are computed: the scale of an attention.
func.func @scale(%q: tensor<?x12x?x64xf32> {onnx.dims = ["b", 12, "s", 64]}) {
  %0 = onnx.node "Shape"(%q) {version = 20 : i64} : (tensor<?x12x?x64xf32>) -> none
  %3 = onnx.constant dense<3> : tensor<i64>
  %1 = onnx.node "Gather"(%0, %3) {version = 20 : i64} : (none, tensor<i64>) -> none
  // CHECK: remark: Cast [] all 64.0
  %2 = onnx.node "Cast"(%1) {attrs = {to = 1 : i64}, version = 20 : i64} : (none) -> none
  // CHECK: remark: Sqrt [] all 8.0
  %4 = onnx.node "Sqrt"(%2) {version = 20 : i64} : (none) -> none
  // CHECK: remark: Reciprocal [] all 0.125
  %5 = onnx.node "Reciprocal"(%4) {version = 20 : i64} : (none) -> none
  return
}
