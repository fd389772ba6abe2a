// RUN: kimi-opt %s --onnx-raise-attention | FileCheck %s

// What a mask means decides, not how it is spelled. q: [b, 4, t, 16]; k, v: [b, 4, past + t, 16].

// Compared ranges, with the offset of the past.
// CHECK-LABEL: @compared_ranges
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 causal scale 1.000000e+00
func.func @compared_ranges(%q: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                           %kt: tensor<?x4x16x?xf32> {onnx.dims = ["b", 4, 16, "past + t"]},
                           %v: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "past + t", 16]},
                           %pk: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "past", 16]}) -> tensor<?x4x?x16xf32> {
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %ax = onnx.constant dense<1> : tensor<1xi64>
  %f0 = onnx.constant dense<0.0> : tensor<f32>
  %inf = onnx.constant dense<0xFF800000> : tensor<f32>
  %t1 = onnx.node "Shape"(%q) {attrs = {start = 2 : i64, end = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %t = onnx.node "Squeeze"(%t1) {version = 18 : i64} : (none) -> none
  %p1 = onnx.node "Shape"(%pk) {attrs = {start = 2 : i64, end = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %past = onnx.node "Squeeze"(%p1) {version = 18 : i64} : (none) -> none
  %all = onnx.node "Add"(%past, %t) {version = 18 : i64} : (none, none) -> none
  %rows = onnx.node "Range"(%past, %all, %one) {version = 18 : i64} : (none, none, tensor<i64>) -> none
  %i = onnx.node "Unsqueeze"(%rows, %ax) {version = 18 : i64} : (none, tensor<1xi64>) -> none
  %j = onnx.node "Range"(%zero, %all, %one) {version = 18 : i64} : (tensor<i64>, none, tensor<i64>) -> none
  %hidden = onnx.node "Greater"(%j, %i) {version = 18 : i64} : (none, none) -> none
  %m = onnx.node "Where"(%hidden, %inf, %f0) {version = 18 : i64} : (none, tensor<f32>, tensor<f32>) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<?x4x?x16xf32>, tensor<?x4x16x?xf32>) -> none
  %sm = onnx.node "Add"(%s, %m) {version = 18 : i64} : (none, none) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}

// A stored triangle, sliced to rows [s - t, s) and columns [0, s), on the scores by Where.
// CHECK-LABEL: @stored_triangle
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 causal scale 1.000000e+00
func.func @stored_triangle(%q: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                           %kt: tensor<?x4x16x?xf32> {onnx.dims = ["b", 4, 16, "t"]},
                           %v: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]}) -> tensor<?x4x?x16xf32> {
  %tri = onnx.constant dense<[[[[true, false, false, false], [true, true, false, false], [true, true, true, false], [true, true, true, true]]]]> : tensor<1x1x4x4xi1>
  %neg = onnx.constant dense<-1.0e4> : tensor<f32>
  %two = onnx.constant dense<2> : tensor<1xi64>
  %three = onnx.constant dense<3> : tensor<1xi64>
  %zero = onnx.constant dense<0> : tensor<1xi64>
  %s1 = onnx.node "Shape"(%v) {attrs = {start = 2 : i64, end = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %t1 = onnx.node "Shape"(%q) {attrs = {start = 2 : i64, end = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %from = onnx.node "Sub"(%s1, %t1) {version = 18 : i64} : (none, none) -> none
  %m0 = onnx.node "Slice"(%tri, %from, %s1, %two) {version = 18 : i64} : (tensor<1x1x4x4xi1>, none, none, tensor<1xi64>) -> tensor<1x1x?x4xi1>
  %m = onnx.node "Slice"(%m0, %zero, %s1, %three) {version = 18 : i64} : (tensor<1x1x?x4xi1>, tensor<1xi64>, none, tensor<1xi64>) -> tensor<1x1x?x?xi1>
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<?x4x?x16xf32>, tensor<?x4x16x?xf32>) -> none
  %sm = onnx.node "Where"(%m, %s, %neg) {version = 18 : i64} : (tensor<1x1x?x?xi1>, none, tensor<f32>) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}

// Trilu of a tensor of ones, (1 - m) * -10000, and a key-padding mask beside it.
// CHECK-LABEL: @trilu_and_padding
// CHECK: %[[C:.*]] = onnx.node "Cast"(%arg3) {attrs = {to = 9 : i64}
// CHECK: %[[M:.*]] = onnx.node "Unsqueeze"(%[[C]]
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 mask %[[M]] : tensor<2x1x1x5xi1> causal scale 1.000000e+00
func.func @trilu_and_padding(%q: tensor<2x4x5x16xf32>, %kt: tensor<2x4x16x5xf32>, %v: tensor<2x4x5x16xf32>,
                             %pad: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %shape = onnx.constant dense<5> : tensor<2xi64>
  %axes = onnx.constant dense<[1, 2]> : tensor<2xi64>
  %zero = onnx.constant dense<0> : tensor<i64>
  %fone = onnx.constant dense<1.0> : tensor<f32>
  %neg = onnx.constant dense<-1.0e4> : tensor<f32>
  %ones = onnx.node "ConstantOfShape"(%shape) {attrs = {value = dense<true> : tensor<1xi1>}, version = 18 : i64} : (tensor<2xi64>) -> none
  %tri = onnx.node "Trilu"(%ones, %zero) {attrs = {upper = 0 : i64}, version = 18 : i64} : (none, tensor<i64>) -> tensor<5x5xi1>
  %b = onnx.node "Cast"(%pad) {attrs = {to = 9 : i64}, version = 18 : i64} : (tensor<2x5xi64>) -> none
  %b4 = onnx.node "Unsqueeze"(%b, %axes) {version = 18 : i64} : (none, tensor<2xi64>) -> none
  %both = onnx.node "And"(%tri, %b4) {version = 18 : i64} : (tensor<5x5xi1>, none) -> none
  %f = onnx.node "Cast"(%both) {attrs = {to = 1 : i64}, version = 18 : i64} : (none) -> none
  %sub = onnx.node "Sub"(%fone, %f) {version = 18 : i64} : (tensor<f32>, none) -> none
  %m = onnx.node "Mul"(%sub, %neg) {version = 18 : i64} : (none, tensor<f32>) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<2x4x5x16xf32>, tensor<2x4x16x5xf32>) -> none
  %sm = onnx.node "Add"(%s, %m) {version = 18 : i64} : (none, none) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// A sliding window: causal, and the window stays as it is.
// CHECK-LABEL: @window
// CHECK: %[[W:.*]] = onnx.node "Less"
// CHECK: %[[M:.*]] = onnx.node "Unsqueeze"(%[[W]]
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 mask %[[M]] : tensor<1x1x5x5xi1> causal
func.func @window(%q: tensor<2x4x5x16xf32>, %kt: tensor<2x4x16x5xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %r = onnx.constant dense<[0, 1, 2, 3, 4]> : tensor<5xi64>
  %ax = onnx.constant dense<1> : tensor<1xi64>
  %three = onnx.constant dense<3> : tensor<i64>
  %f0 = onnx.constant dense<0.0> : tensor<f32>
  %neg = onnx.constant dense<-3.40282347E+38> : tensor<f32>
  %i = onnx.node "Unsqueeze"(%r, %ax) {version = 18 : i64} : (tensor<5xi64>, tensor<1xi64>) -> none
  %causal = onnx.node "LessOrEqual"(%r, %i) {version = 18 : i64} : (tensor<5xi64>, none) -> none
  %far = onnx.node "Sub"(%i, %r) {version = 18 : i64} : (none, tensor<5xi64>) -> none
  %near = onnx.node "Less"(%far, %three) {version = 18 : i64} : (none, tensor<i64>) -> none
  %both = onnx.node "And"(%causal, %near) {version = 18 : i64} : (none, none) -> none
  %m = onnx.node "Where"(%both, %f0, %neg) {version = 18 : i64} : (none, tensor<f32>, tensor<f32>) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<2x4x5x16xf32>, tensor<2x4x16x5xf32>) -> none
  %sm = onnx.node "Add"(%s, %m) {version = 18 : i64} : (none, none) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// j <= i over more keys than queries is causal from the top left: the mask stays, `causal` is not claimed.
// CHECK-LABEL: @top_left
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 mask %{{.*}} : tensor<1x1x3x5xi1> scale
func.func @top_left(%q: tensor<2x4x3x16xf32>, %kt: tensor<2x4x16x5xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x3x16xf32> {
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %three = onnx.constant dense<3> : tensor<i64>
  %five = onnx.constant dense<5> : tensor<i64>
  %ax = onnx.constant dense<1> : tensor<1xi64>
  %neg = onnx.constant dense<-3.40282347E+38> : tensor<f32>
  %r = onnx.node "Range"(%zero, %three, %one) {version = 18 : i64} : (tensor<i64>, tensor<i64>, tensor<i64>) -> none
  %i = onnx.node "Unsqueeze"(%r, %ax) {version = 18 : i64} : (none, tensor<1xi64>) -> none
  %j = onnx.node "Range"(%zero, %five, %one) {version = 18 : i64} : (tensor<i64>, tensor<i64>, tensor<i64>) -> none
  %m = onnx.node "LessOrEqual"(%j, %i) {version = 18 : i64} : (none, none) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<2x4x3x16xf32>, tensor<2x4x16x5xf32>) -> none
  %sm = onnx.node "Where"(%m, %s, %neg) {version = 18 : i64} : (none, none, tensor<f32>) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<2x4x5x16xf32>) -> tensor<2x4x3x16xf32>
  return %o : tensor<2x4x3x16xf32>
}

// Strictly earlier keys (j < i) are not causal either; an additive bias of any value stays what it is.
// CHECK-LABEL: @strict_and_bias
// CHECK: %[[M:.*]] = onnx.node "Where"
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 mask %[[M]] : tensor<1x4x5x5xf32> scale
func.func @strict_and_bias(%q: tensor<2x4x5x16xf32>, %kt: tensor<2x4x16x5xf32>, %v: tensor<2x4x5x16xf32>,
                           %bias: tensor<4x5x5xf32>) -> tensor<2x4x5x16xf32> {
  %r = onnx.constant dense<[0, 1, 2, 3, 4]> : tensor<5xi64>
  %ax = onnx.constant dense<1> : tensor<1xi64>
  %neg = onnx.constant dense<0xFF800000> : tensor<f32>
  %i = onnx.node "Unsqueeze"(%r, %ax) {version = 18 : i64} : (tensor<5xi64>, tensor<1xi64>) -> none
  %m = onnx.node "Less"(%r, %i) {version = 18 : i64} : (tensor<5xi64>, none) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<2x4x5x16xf32>, tensor<2x4x16x5xf32>) -> none
  %sb = onnx.node "Add"(%bias, %s) {version = 18 : i64} : (tensor<4x5x5xf32>, none) -> none
  %sm = onnx.node "Where"(%m, %sb, %neg) {version = 18 : i64} : (none, none, tensor<f32>) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// One query sees every key: nothing is left of the causal mask.
// CHECK-LABEL: @one_query
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 scale
func.func @one_query(%q: tensor<?x4x1x16xf32> {onnx.dims = ["b", 4, 1, 16]}, %kt: tensor<?x4x16x?xf32> {onnx.dims = ["b", 4, 16, "s"]},
                     %v: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "s", 16]}) -> tensor<?x4x1x16xf32> {
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %neg = onnx.constant dense<0xFF800000> : tensor<f32>
  %s1 = onnx.node "Shape"(%v) {attrs = {start = 2 : i64, end = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %n = onnx.node "Squeeze"(%s1) {version = 18 : i64} : (none) -> none
  %last = onnx.node "Sub"(%n, %one) {version = 18 : i64} : (none, tensor<i64>) -> none
  %j = onnx.node "Range"(%zero, %n, %one) {version = 18 : i64} : (tensor<i64>, none, tensor<i64>) -> none
  %m = onnx.node "LessOrEqual"(%j, %last) {version = 18 : i64} : (none, none) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<?x4x1x16xf32>, tensor<?x4x16x?xf32>) -> none
  %sm = onnx.node "Where"(%m, %s, %neg) {version = 18 : i64} : (none, none, tensor<f32>) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<?x4x?x16xf32>) -> tensor<?x4x1x16xf32>
  return %o : tensor<?x4x1x16xf32>
}

// A term for each query and none for its keys is spread over them.
// CHECK-LABEL: @one_column
// CHECK: %[[S:.*]] = onnx.node "Shape"(%{{.*}}) {attrs = {end = 3 : i64, start = 2 : i64}
// CHECK: %[[C:.*]] = onnx.node "Concat"(%{{.*}}, %[[S]])
// CHECK: %[[M:.*]] = onnx.node "Expand"(%arg3, %[[C]])
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 mask %[[M]]
func.func @one_column(%q: tensor<2x4x5x16xf32>, %kt: tensor<2x4x16x7xf32>, %v: tensor<2x4x7x16xf32>,
                      %m: tensor<2x1x5x1xf32>) -> tensor<2x4x5x16xf32> {
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<2x4x5x16xf32>, tensor<2x4x16x7xf32>) -> none
  %sm = onnx.node "Add"(%s, %m) {version = 18 : i64} : (none, tensor<2x1x5x1xf32>) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// A mask that widens the scores is no mask of an attention.
// CHECK-LABEL: @wider
// CHECK-NOT: kimi.attention
// CHECK: onnx.node "Softmax"
func.func @wider(%q: tensor<1x4x5x16xf32>, %kt: tensor<1x4x16x7xf32>, %v: tensor<1x4x7x16xf32>,
                 %m: tensor<3x1x5x7xf32>) -> tensor<3x4x5x16xf32> {
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<1x4x5x16xf32>, tensor<1x4x16x7xf32>) -> none
  %sm = onnx.node "Add"(%s, %m) {version = 18 : i64} : (none, tensor<3x1x5x7xf32>) -> none
  %p = onnx.node "Softmax"(%sm) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<1x4x7x16xf32>) -> tensor<3x4x5x16xf32>
  return %o : tensor<3x4x5x16xf32>
}
