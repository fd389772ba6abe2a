// RUN: kimi-opt %s --onnx-raise-attn-res | FileCheck %s

kimi.weight @norm : tensor<8xf32> from #kimi.external<"m", 0, 32>
kimi.weight @proj : tensor<8x1xf32> from #kimi.external<"m", 32, 32>
kimi.weight @score : tensor<8xf32> from #kimi.external<"m", 64, 32>

// A norm with a weight, scores by a matrix of one column, softmax before the last axis.
// CHECK-LABEL: @weighted_norm
// CHECK: %[[S:.*]] = onnx.node "Mul"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<8xf32>
// CHECK: kimi.attn_res(%arg0, %arg1) score %[[S]] eps 9.99999974E-6 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>), tensor<8xf32> -> tensor<?x?x8xf32>
// CHECK-NOT: "Softmax"
func.func @weighted_norm(%a: tensor<?x?x8xf32> {onnx.dims = ["b", "t", 8]}, %p: tensor<?x?x8xf32> {onnx.dims = ["b", "t", 8]}) -> tensor<?x?x8xf32> {
  %g = kimi.weight_ref @norm : tensor<8xf32>
  %w = kimi.weight_ref @proj : tensor<8x1xf32>
  %axis = onnx.constant dense<[-2]> : tensor<1xi64>
  %a1 = onnx.node "Unsqueeze"(%a, %axis) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<1xi64>) -> tensor<?x?x1x8xf32>
  %p1 = onnx.node "Unsqueeze"(%p, %axis) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<1xi64>) -> tensor<?x?x1x8xf32>
  %v = onnx.node "Concat"(%a1, %p1) {attrs = {axis = -2 : i64}, version = 13 : i64} : (tensor<?x?x1x8xf32>, tensor<?x?x1x8xf32>) -> tensor<?x?x2x8xf32>
  %n = kimi.rms_norm %v, %g eps 1.0e-5 : tensor<?x?x2x8xf32>, tensor<8xf32> -> tensor<?x?x2x8xf32>
  %s = onnx.node "MatMul"(%n, %w) {version = 13 : i64} : (tensor<?x?x2x8xf32>, tensor<8x1xf32>) -> tensor<?x?x2x1xf32>
  %q = onnx.node "Softmax"(%s) {attrs = {axis = -2 : i64}, version = 13 : i64} : (tensor<?x?x2x1xf32>) -> tensor<?x?x2x1xf32>
  %m = onnx.node "Mul"(%q, %v) {version = 14 : i64} : (tensor<?x?x2x1xf32>, tensor<?x?x2x8xf32>) -> tensor<?x?x2x8xf32>
  %y = onnx.node "ReduceSum"(%m, %axis) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<?x?x2x8xf32>, tensor<1xi64>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// The norm spelled out and without a weight, scores by a sum of products, softmax along the last axis; three sources.
// CHECK-LABEL: @spelled_out
// CHECK: kimi.attn_res(%arg0, %arg1, %arg2) score %{{.*}} eps 9.99999974E-6 :
// CHECK-NOT: "ReduceMean"
func.func @spelled_out(%a: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %b: tensor<?x8xf32> {onnx.dims = ["n", 8]},
                       %p: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %w = kimi.weight_ref @score : tensor<8xf32>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %one = onnx.constant dense<[1]> : tensor<1xi64>
  %eps = onnx.constant dense<1.0e-5> : tensor<f32>
  %a1 = onnx.node "Unsqueeze"(%a, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1x8xf32>
  %b1 = onnx.node "Unsqueeze"(%b, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1x8xf32>
  %p1 = onnx.node "Unsqueeze"(%p, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1x8xf32>
  %v = onnx.node "Concat"(%a1, %b1, %p1) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<?x1x8xf32>, tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x3x8xf32>
  %sq = onnx.node "Mul"(%v, %v) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  %mean = onnx.node "ReduceMean"(%sq, %last) {version = 18 : i64} : (tensor<?x3x8xf32>, tensor<1xi64>) -> tensor<?x3x1xf32>
  %me = onnx.node "Add"(%mean, %eps) {version = 14 : i64} : (tensor<?x3x1xf32>, tensor<f32>) -> tensor<?x3x1xf32>
  %r = onnx.node "Sqrt"(%me) {version = 13 : i64} : (tensor<?x3x1xf32>) -> tensor<?x3x1xf32>
  %n = onnx.node "Div"(%v, %r) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<?x3x1xf32>) -> tensor<?x3x8xf32>
  %ws = onnx.node "Mul"(%n, %w) {version = 14 : i64} : (tensor<?x3x8xf32>, tensor<8xf32>) -> tensor<?x3x8xf32>
  %s = onnx.node "ReduceSum"(%ws, %last) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<?x3x8xf32>, tensor<1xi64>) -> tensor<?x3xf32>
  %q = onnx.node "Softmax"(%s) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %q1 = onnx.node "Unsqueeze"(%q, %last) {version = 13 : i64} : (tensor<?x3xf32>, tensor<1xi64>) -> tensor<?x3x1xf32>
  %m = onnx.node "Mul"(%q1, %v) {version = 14 : i64} : (tensor<?x3x1xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  %y = onnx.node "ReduceSum"(%m, %one) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<?x3x8xf32>, tensor<1xi64>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The weighted sum is of the normalised rows, not of the raw ones.
// CHECK-LABEL: @of_normalised
// CHECK-NOT: kimi.attn_res
func.func @of_normalised(%a: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %p: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %g = kimi.weight_ref @norm : tensor<8xf32>
  %w = kimi.weight_ref @proj : tensor<8x1xf32>
  %one = onnx.constant dense<[1]> : tensor<1xi64>
  %a1 = onnx.node "Unsqueeze"(%a, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1x8xf32>
  %p1 = onnx.node "Unsqueeze"(%p, %one) {version = 13 : i64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1x8xf32>
  %v = onnx.node "Concat"(%a1, %p1) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x2x8xf32>
  %n = kimi.rms_norm %v, %g eps 1.0e-5 : tensor<?x2x8xf32>, tensor<8xf32> -> tensor<?x2x8xf32>
  %s = onnx.node "MatMul"(%n, %w) {version = 13 : i64} : (tensor<?x2x8xf32>, tensor<8x1xf32>) -> tensor<?x2x1xf32>
  %q = onnx.node "Softmax"(%s) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<?x2x1xf32>) -> tensor<?x2x1xf32>
  %m = onnx.node "Mul"(%q, %n) {version = 14 : i64} : (tensor<?x2x1xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %y = onnx.node "ReduceSum"(%m, %one) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<?x2x8xf32>, tensor<1xi64>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
