// RUN: kimi-opt %s --onnx-raise-router | FileCheck %s

kimi.weight @bias : tensor<8xf32> from #kimi.external<"m", 0, 32>

// CHECK-LABEL: @sigmoid
// CHECK: %[[I:.*]], %[[W:.*]] = kimi.router %arg0, %{{.*}} sigmoid top 3 {normalise = 9.99999968E-21 : f32, scale = 2.446000e+00 : f32} : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x3xi64>, tensor<?x3xf32>
// CHECK-NEXT: return %[[I]], %[[W]]
func.func @sigmoid(%l: tensor<?x8xf32>) -> (tensor<?x3xi64>, tensor<?x3xf32>) {
  %b = kimi.weight_ref @bias : tensor<8xf32>
  %k = onnx.constant dense<[3]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %eps = onnx.constant dense<1.0e-20> : tensor<f32>
  %scale = onnx.constant dense<2.446> : tensor<f32>
  %s = onnx.node "Sigmoid"(%l) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = onnx.node "Add"(%s, %b) {version = 14 : i64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %v:2 = onnx.node "TopK"(%c, %k) {attrs = {axis = -1 : i64}, version = 11 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
  %w = onnx.node "GatherElements"(%s, %v#1) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x8xf32>, tensor<?x3xi64>) -> tensor<?x3xf32>
  %sum = onnx.node "ReduceSum"(%w, %last) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x3xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %se = onnx.node "Add"(%sum, %eps) {version = 14 : i64} : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %d = onnx.node "Div"(%w, %se) {version = 14 : i64} : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<?x3xf32>
  %y = onnx.node "Mul"(%d, %scale) {version = 14 : i64} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  return %v#1, %y : tensor<?x3xi64>, tensor<?x3xf32>
}

// Rows of a batch; the values of TopK are the scores, since nothing else chose.
// CHECK-LABEL: @softmax_of_a_batch
// CHECK: %[[L:.*]] = onnx.node "Reshape"(%arg0
// CHECK: kimi.router %[[L]] softmax top 2 {normalise = 0.000000e+00 : f32} : tensor<?x8xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
func.func @softmax_of_a_batch(%l: tensor<?x?x8xf32>) -> (tensor<?x?x2xi64>, tensor<?x?x2xf32>) {
  %k = onnx.constant dense<[2]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %s = onnx.node "Softmax"(%l) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %v:2 = onnx.node "TopK"(%s, %k) {attrs = {axis = -1 : i64}, version = 11 : i64} : (tensor<?x?x8xf32>, tensor<1xi64>) -> (tensor<?x?x2xf32>, tensor<?x?x2xi64>)
  %sum = onnx.node "ReduceSum"(%v#0, %last) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x?x2xf32>, tensor<1xi64>) -> tensor<?x?x1xf32>
  %d = onnx.node "Div"(%v#0, %sum) {version = 14 : i64} : (tensor<?x?x2xf32>, tensor<?x?x1xf32>) -> tensor<?x?x2xf32>
  return %v#1, %d : tensor<?x?x2xi64>, tensor<?x?x2xf32>
}

// Two groups of four, marked by ScatterElements of ones; what is masked is below zero, not minus infinity.
// CHECK-LABEL: @groups_scattered
// CHECK: kimi.router %arg0, %{{.*}} sigmoid top 3 {groups = 4 : i64, keep_groups = 2 : i64, masked = -1.000000e+00 : f32}
// CHECK-NOT: "TopK"
func.func @groups_scattered(%l: tensor<?x8xf32>) -> (tensor<?x3xi64>, tensor<?x3xf32>) {
  %b = kimi.weight_ref @bias : tensor<8xf32>
  %k = onnx.constant dense<[3]> : tensor<1xi64>
  %two = onnx.constant dense<[2]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %split = onnx.constant dense<[-1, 4, 2]> : tensor<3xi64>
  %flat = onnx.constant dense<[-1, 8]> : tensor<2xi64>
  %zero = onnx.constant dense<0.0> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %masked = onnx.constant dense<-1.0> : tensor<f32>
  %s = onnx.node "Sigmoid"(%l) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = onnx.node "Add"(%s, %b) {version = 14 : i64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %r = onnx.node "Reshape"(%c, %split) {version = 14 : i64} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x4x2xf32>
  %best:2 = onnx.node "TopK"(%r, %two) {version = 11 : i64} : (tensor<?x4x2xf32>, tensor<1xi64>) -> (tensor<?x4x2xf32>, tensor<?x4x2xi64>)
  %gs = onnx.node "ReduceSum"(%best#0, %last) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<?x4x2xf32>, tensor<1xi64>) -> tensor<?x4xf32>
  %gk:2 = onnx.node "TopK"(%gs, %two) {version = 11 : i64} : (tensor<?x4xf32>, tensor<1xi64>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %zeros = onnx.node "Mul"(%gs, %zero) {version = 14 : i64} : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %shape = onnx.node "Shape"(%gk#1) {version = 15 : i64} : (tensor<?x2xi64>) -> tensor<2xi64>
  %ones = onnx.node "Expand"(%one, %shape) {version = 13 : i64} : (tensor<f32>, tensor<2xi64>) -> tensor<?x2xf32>
  %mark = onnx.node "ScatterElements"(%zeros, %gk#1, %ones) {attrs = {axis = -1 : i64}, version = 18 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %column = onnx.node "Unsqueeze"(%mark, %last) {version = 13 : i64} : (tensor<?x4xf32>, tensor<1xi64>) -> tensor<?x4x1xf32>
  %none = onnx.node "Equal"(%column, %zero) {version = 13 : i64} : (tensor<?x4x1xf32>, tensor<f32>) -> tensor<?x4x1xi1>
  %kept = onnx.node "Where"(%none, %masked, %r) {version = 16 : i64} : (tensor<?x4x1xi1>, tensor<f32>, tensor<?x4x2xf32>) -> tensor<?x4x2xf32>
  %choice = onnx.node "Reshape"(%kept, %flat) {version = 14 : i64} : (tensor<?x4x2xf32>, tensor<2xi64>) -> tensor<?x8xf32>
  %v:2 = onnx.node "TopK"(%choice, %k) {version = 11 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
  %w = onnx.node "GatherElements"(%s, %v#1) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x8xf32>, tensor<?x3xi64>) -> tensor<?x3xf32>
  return %v#1, %w : tensor<?x3xi64>, tensor<?x3xf32>
}

// The same, but it is the chosen groups that are masked: not what a router does.
// CHECK-LABEL: @groups_inverted
// CHECK-NOT: kimi.router
func.func @groups_inverted(%l: tensor<?x8xf32>) -> (tensor<?x3xi64>, tensor<?x3xf32>) {
  %k = onnx.constant dense<[3]> : tensor<1xi64>
  %two = onnx.constant dense<[2]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %split = onnx.constant dense<[-1, 4, 2]> : tensor<3xi64>
  %flat = onnx.constant dense<[-1, 8]> : tensor<2xi64>
  %zero = onnx.constant dense<0.0> : tensor<f32>
  %one = onnx.constant dense<1.0> : tensor<f32>
  %masked = onnx.constant dense<-1.0> : tensor<f32>
  %s = onnx.node "Sigmoid"(%l) {version = 13 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = onnx.node "Reshape"(%s, %split) {version = 14 : i64} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x4x2xf32>
  %gs = onnx.node "ReduceMax"(%r, %last) {attrs = {keepdims = 0 : i64}, version = 18 : i64} : (tensor<?x4x2xf32>, tensor<1xi64>) -> tensor<?x4xf32>
  %gk:2 = onnx.node "TopK"(%gs, %two) {version = 11 : i64} : (tensor<?x4xf32>, tensor<1xi64>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %zeros = onnx.node "Mul"(%gs, %zero) {version = 14 : i64} : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %shape = onnx.node "Shape"(%gk#1) {version = 15 : i64} : (tensor<?x2xi64>) -> tensor<2xi64>
  %ones = onnx.node "Expand"(%one, %shape) {version = 13 : i64} : (tensor<f32>, tensor<2xi64>) -> tensor<?x2xf32>
  %mark = onnx.node "ScatterElements"(%zeros, %gk#1, %ones) {attrs = {axis = -1 : i64}, version = 18 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %column = onnx.node "Unsqueeze"(%mark, %last) {version = 13 : i64} : (tensor<?x4xf32>, tensor<1xi64>) -> tensor<?x4x1xf32>
  %some = onnx.node "Greater"(%column, %zero) {version = 13 : i64} : (tensor<?x4x1xf32>, tensor<f32>) -> tensor<?x4x1xi1>
  %kept = onnx.node "Where"(%some, %masked, %r) {version = 16 : i64} : (tensor<?x4x1xi1>, tensor<f32>, tensor<?x4x2xf32>) -> tensor<?x4x2xf32>
  %choice = onnx.node "Reshape"(%kept, %flat) {version = 14 : i64} : (tensor<?x4x2xf32>, tensor<2xi64>) -> tensor<?x8xf32>
  %v:2 = onnx.node "TopK"(%choice, %k) {version = 11 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
  %w = onnx.node "GatherElements"(%s, %v#1) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x8xf32>, tensor<?x3xi64>) -> tensor<?x3xf32>
  return %v#1, %w : tensor<?x3xi64>, tensor<?x3xf32>
}

// The smallest, of values that are no scores, along another axis.
// CHECK-LABEL: @left_alone
// CHECK-NOT: kimi.router
func.func @left_alone(%l: tensor<8x8xf32>) -> (tensor<8x3xi64>, tensor<8x3xi64>, tensor<3x8xi64>, tensor<3x8xf32>) {
  %k = onnx.constant dense<[3]> : tensor<1xi64>
  %s = onnx.node "Sigmoid"(%l) {version = 13 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %a:2 = onnx.node "TopK"(%s, %k) {attrs = {largest = 0 : i64}, version = 11 : i64} : (tensor<8x8xf32>, tensor<1xi64>) -> (tensor<8x3xf32>, tensor<8x3xi64>)
  %b:2 = onnx.node "TopK"(%l, %k) {version = 11 : i64} : (tensor<8x8xf32>, tensor<1xi64>) -> (tensor<8x3xf32>, tensor<8x3xi64>)
  %c:2 = onnx.node "TopK"(%s, %k) {attrs = {axis = 0 : i64}, version = 11 : i64} : (tensor<8x8xf32>, tensor<1xi64>) -> (tensor<3x8xf32>, tensor<3x8xi64>)
  return %a#1, %b#1, %c#1, %c#0 : tensor<8x3xi64>, tensor<8x3xi64>, tensor<3x8xi64>, tensor<3x8xf32>
}
