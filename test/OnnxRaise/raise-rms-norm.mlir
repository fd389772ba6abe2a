// RUN: kimi-opt %s --onnx-raise-rms-norm | FileCheck %s

// CHECK-LABEL: @operator
// CHECK: kimi.rms_norm %arg0, %arg1 eps 9.99999997E-7 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
func.func @operator(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %y = onnx.node "RMSNormalization"(%x, %g) {attrs = {epsilon = 9.99999997E-7 : f32}, version = 23 : i64}
    : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: @spelled_out
// CHECK: kimi.rms_norm %arg0, %arg1 eps 9.99999997E-7
// CHECK-NEXT: return
func.func @spelled_out(%x: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %two = onnx.constant dense<2.0> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %eps = onnx.constant dense<9.99999997E-7> : tensor<f32>
  %axes = onnx.constant dense<-1> : tensor<1xi64>
  %x2 = onnx.node "Pow"(%x, %two) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  %m = onnx.node "ReduceMean"(%x2, %axes) {attrs = {keepdims = 1 : i64}, version = 18 : i64} : (tensor<?x?x8xf32>, tensor<1xi64>) -> tensor<?x?x1xf32>
  %me = onnx.node "Add"(%m, %eps) {version = 18 : i64} : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
  %s = onnx.node "Sqrt"(%me) {version = 18 : i64} : (tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %r = onnx.node "Reciprocal"(%s) {version = 18 : i64} : (tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %n = onnx.node "Mul"(%x, %r) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
  %y = onnx.node "Mul"(%g, %n) {version = 18 : i64} : (tensor<8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// The norm in fp32 around a narrow input.
// CHECK-LABEL: @widened
// CHECK: kimi.rms_norm %arg0, %arg1 eps 9.99999997E-7 : tensor<?x8xf16>, tensor<8xf16> -> tensor<?x8xf16>
// CHECK-NEXT: return
func.func @widened(%x: tensor<?x8xf16>, %g: tensor<8xf16>) -> tensor<?x8xf16> {
  %eps = onnx.constant dense<9.99999997E-7> : tensor<f32>
  %axes = onnx.constant dense<-1> : tensor<1xi64>
  %w = onnx.node "Cast"(%x) {attrs = {to = 1 : i64}, version = 18 : i64} : (tensor<?x8xf16>) -> tensor<?x8xf32>
  %x2 = onnx.node "Mul"(%w, %w) {version = 18 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = onnx.node "ReduceMean"(%x2, %axes) {version = 18 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %me = onnx.node "Add"(%m, %eps) {version = 18 : i64} : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %s = onnx.node "Sqrt"(%me) {version = 18 : i64} : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = onnx.node "Div"(%w, %s) {version = 18 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %b = onnx.node "Cast"(%n) {attrs = {to = 10 : i64}, version = 18 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf16>
  %y = onnx.node "Mul"(%b, %g) {version = 18 : i64} : (tensor<?x8xf16>, tensor<8xf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}

// The sum instead of the mean: stays.
// CHECK-LABEL: @l2_norm
// CHECK-NOT: kimi.rms_norm
func.func @l2_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %eps = onnx.constant dense<9.99999997E-7> : tensor<f32>
  %axes = onnx.constant dense<-1> : tensor<1xi64>
  %x2 = onnx.node "Mul"(%x, %x) {version = 18 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = onnx.node "ReduceSum"(%x2, %axes) {version = 18 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %me = onnx.node "Add"(%m, %eps) {version = 18 : i64} : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %s = onnx.node "Sqrt"(%me) {version = 18 : i64} : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = onnx.node "Div"(%x, %s) {version = 18 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Mul"(%n, %g) {version = 18 : i64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
