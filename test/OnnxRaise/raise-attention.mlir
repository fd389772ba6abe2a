// RUN: kimi-opt %s --onnx-raise-attention --verify-diagnostics | FileCheck %s

// Intermediate values carry no type: shapes are inferred from the arguments.

// Scale on both sides, k transposed by itself, the NaN guard, no mask.
// CHECK-LABEL: @both_scaled
// CHECK-NEXT: %[[O:.*]] = kimi.attention %arg0, %arg1, %arg2 scale 0.12499
// CHECK-SAME: tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x?x64xf32>
// CHECK-NEXT: return %[[O]]
func.func @both_scaled(%q: tensor<?x12x?x64xf32> {onnx.dims = ["b", 12, "t", 64]},
                       %k: tensor<?x12x?x64xf32> {onnx.dims = ["b", 12, "s", 64]},
                       %v: tensor<?x12x?x64xf32> {onnx.dims = ["b", 12, "s", 64]}) -> tensor<?x12x?x64xf32> {
  %r = onnx.constant dense<0.35355339> : tensor<f32>
  %zero = onnx.constant dense<0.0> : tensor<f32>
  %qs = onnx.node "Mul"(%q, %r) {version = 18 : i64} : (tensor<?x12x?x64xf32>, tensor<f32>) -> none
  %kt = onnx.node "Transpose"(%k) {attrs = {perm = array<i64: 0, 1, 3, 2>}, version = 18 : i64} : (tensor<?x12x?x64xf32>) -> none
  %ks = onnx.node "Mul"(%kt, %r) {version = 18 : i64} : (none, tensor<f32>) -> none
  %s = onnx.node "MatMul"(%qs, %ks) {version = 18 : i64} : (none, none) -> none
  %p = onnx.node "Softmax"(%s) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %n = onnx.node "IsNaN"(%p) {version = 18 : i64} : (none) -> none
  %g = onnx.node "Where"(%n, %zero, %p) {version = 18 : i64} : (none, tensor<f32>, none) -> none
  %o = onnx.node "MatMul"(%g, %v) {version = 18 : i64} : (none, tensor<?x12x?x64xf32>) -> tensor<?x12x?x64xf32>
  return %o : tensor<?x12x?x64xf32>
}

// The scores are divided; k is transposed from [B, S, H, D] in one step; one head.
// CHECK-LABEL: @scores_divided
// CHECK-DAG: %[[Q:.*]] = onnx.node "Transpose"(%arg0) {attrs = {perm = array<i64: 0, 2, 1, 3>}
// CHECK-DAG: %[[K:.*]] = onnx.node "Transpose"(%arg1) {attrs = {perm = array<i64: 0, 2, 1, 3>}
// CHECK: kimi.attention %[[Q]], %[[K]], %arg2 scale 6.250000e-02 : tensor<1x1x?x256xf32>
func.func @scores_divided(%q: tensor<1x?x1x256xf32> {onnx.dims = [1, "t", 1, 256]},
                          %k: tensor<1x?x1x256xf32> {onnx.dims = [1, "t", 1, 256]},
                          %v: tensor<1x1x?x256xf32> {onnx.dims = [1, 1, "t", 256]}) -> tensor<1x1x?x256xf32> {
  %d = onnx.constant dense<16.0> : tensor<f32>
  %qt = onnx.node "Transpose"(%q) {attrs = {perm = array<i64: 0, 2, 1, 3>}, version = 13 : i64} : (tensor<1x?x1x256xf32>) -> none
  %kt = onnx.node "Transpose"(%k) {attrs = {perm = array<i64: 0, 2, 3, 1>}, version = 13 : i64} : (tensor<1x?x1x256xf32>) -> none
  %s = onnx.node "MatMul"(%qt, %kt) {version = 13 : i64} : (none, none) -> none
  %sd = onnx.node "Div"(%s, %d) {version = 13 : i64} : (none, tensor<f32>) -> none
  %p = onnx.node "Softmax"(%sd) {attrs = {axis = 3 : i64}, version = 13 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 13 : i64} : (none, tensor<1x1x?x256xf32>) -> tensor<1x1x?x256xf32>
  return %o : tensor<1x1x?x256xf32>
}

// k^T through three dims, as torch.onnx spells it.
// CHECK-LABEL: @through_three_dims
// CHECK: kimi.attention %arg0, %arg1, %arg2 scale 1.000000e+00
func.func @through_three_dims(%q: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                              %k: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                              %v: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]}) -> tensor<?x4x?x16xf32> {
  %m1 = onnx.constant dense<-1> : tensor<1xi64>
  %shape = onnx.node "Shape"(%k) {version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %t = onnx.node "Shape"(%k) {attrs = {start = 2 : i64, end = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %d = onnx.node "Shape"(%k) {attrs = {start = 3 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %bh = onnx.node "Shape"(%k) {attrs = {start = 0 : i64, end = 2 : i64}, version = 18 : i64} : (tensor<?x4x?x16xf32>) -> none
  %s3 = onnx.node "Concat"(%m1, %t, %d) {attrs = {axis = 0 : i64}, version = 18 : i64} : (tensor<1xi64>, none, none) -> none
  %s4 = onnx.node "Concat"(%bh, %d, %t) {attrs = {axis = 0 : i64}, version = 18 : i64} : (none, none, none) -> none
  %k3 = onnx.node "Reshape"(%k, %s3) {version = 18 : i64} : (tensor<?x4x?x16xf32>, none) -> none
  %kt3 = onnx.node "Transpose"(%k3) {attrs = {perm = array<i64: 0, 2, 1>}, version = 18 : i64} : (none) -> none
  %kt = onnx.node "Reshape"(%kt3, %s4) {version = 18 : i64} : (none, none) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<?x4x?x16xf32>, none) -> none
  %p = onnx.node "Softmax"(%s) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}

// Soft-capped scores: 30 * tanh(s / 30), with the scale inside.
// CHECK-LABEL: @softcap
// CHECK: kimi.attention %arg0, %{{.*}}, %arg2 scale 1.250000e-01 {softcap = 3.000000e+01 : f32}
func.func @softcap(%q: tensor<2x4x5x128xf32>, %kt: tensor<2x4x128x5xf32>, %v: tensor<2x4x5x128xf32>) -> tensor<2x4x5x128xf32> {
  %c = onnx.constant dense<30.0> : tensor<f32>
  %r = onnx.constant dense<0.125> : tensor<f32>
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<2x4x5x128xf32>, tensor<2x4x128x5xf32>) -> none
  %ss = onnx.node "Mul"(%s, %r) {version = 18 : i64} : (none, tensor<f32>) -> none
  %sd = onnx.node "Div"(%ss, %c) {version = 18 : i64} : (none, tensor<f32>) -> none
  %th = onnx.node "Tanh"(%sd) {version = 18 : i64} : (none) -> none
  %sc = onnx.node "Mul"(%th, %c) {version = 18 : i64} : (none, tensor<f32>) -> none
  %p = onnx.node "Softmax"(%sc) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 18 : i64} : (none, tensor<2x4x5x128xf32>) -> tensor<2x4x5x128xf32>
  return %o : tensor<2x4x5x128xf32>
}

// Two key heads, each repeated for three query heads; head sizes 192 and 128.
// CHECK-LABEL: @grouped
// CHECK: kimi.attention %arg0, %arg1, %arg2 scale 1.000000e+00
// CHECK-SAME: tensor<?x6x?x192xf32>, tensor<?x2x?x192xf32>, tensor<?x2x?x128xf32> -> tensor<?x6x?x128xf32>
func.func @grouped(%q: tensor<?x6x?x192xf32> {onnx.dims = ["b", 6, "t", 192]},
                   %k: tensor<?x2x?x192xf32> {onnx.dims = ["b", 2, "t", 192]},
                   %v: tensor<?x2x?x128xf32> {onnx.dims = ["b", 2, "t", 128]}) -> tensor<?x6x?x128xf32> {
  %two = onnx.constant dense<2> : tensor<1xi64>
  %wide = onnx.constant dense<[1, 1, 3, 1, 1]> : tensor<5xi64>
  %sk = onnx.constant dense<[0, 6, -1, 192]> : tensor<4xi64>
  %sv = onnx.constant dense<[0, 6, -1, 128]> : tensor<4xi64>
  %ku = onnx.node "Unsqueeze"(%k, %two) {version = 18 : i64} : (tensor<?x2x?x192xf32>, tensor<1xi64>) -> none
  %ke = onnx.node "Expand"(%ku, %wide) {version = 18 : i64} : (none, tensor<5xi64>) -> none
  %kr = onnx.node "Reshape"(%ke, %sk) {version = 18 : i64} : (none, tensor<4xi64>) -> none
  %vu = onnx.node "Unsqueeze"(%v, %two) {version = 18 : i64} : (tensor<?x2x?x128xf32>, tensor<1xi64>) -> none
  %ve = onnx.node "Expand"(%vu, %wide) {version = 18 : i64} : (none, tensor<5xi64>) -> none
  %vr = onnx.node "Reshape"(%ve, %sv) {version = 18 : i64} : (none, tensor<4xi64>) -> none
  %kt = onnx.node "Transpose"(%kr) {attrs = {perm = array<i64: 0, 1, 3, 2>}, version = 18 : i64} : (none) -> none
  %s = onnx.node "MatMul"(%q, %kt) {version = 18 : i64} : (tensor<?x6x?x192xf32>, none) -> none
  %p = onnx.node "Softmax"(%s) {attrs = {axis = -1 : i64}, version = 18 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %vr) {version = 18 : i64} : (none, none) -> tensor<?x6x?x128xf32>
  return %o : tensor<?x6x?x128xf32>
}

// The operator itself, causal over as many keys as queries.
// CHECK-LABEL: @operator
// CHECK: kimi.attention %arg0, %arg1, %arg2 causal scale 2.500000e-01
func.func @operator(%q: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                    %k: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                    %v: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]}) -> tensor<?x4x?x16xf32> {
  %o = onnx.node "Attention"(%q, %k, %v) {attrs = {is_causal = 1 : i64}, version = 23 : i64}
    : (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}

// The operator with a cache: causal from the bottom right, the present is a Concat.
// CHECK-LABEL: @operator_past
// CHECK: %[[K:.*]] = onnx.node "Concat"(%arg3, %arg1) {attrs = {axis = 2 : i64}
// CHECK: %[[V:.*]] = onnx.node "Concat"(%arg4, %arg2) {attrs = {axis = 2 : i64}
// CHECK: %[[O:.*]] = kimi.attention %arg0, %[[K]], %[[V]] causal
// CHECK: return %[[O]], %[[K]], %[[V]]
func.func @operator_past(%q: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                         %k: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                         %v: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "t", 16]},
                         %pk: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "past", 16]},
                         %pv: tensor<?x4x?x16xf32> {onnx.dims = ["b", 4, "past", 16]})
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) {
  %none = onnx.none
  %o:3 = onnx.node "Attention"(%q, %k, %v, %none, %pk, %pv) {attrs = {is_causal = 1 : i64}, version = 23 : i64}
    : (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, none, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
  return %o#0, %o#1, %o#2 : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>
}

// The operator on three dims.
// CHECK-LABEL: @operator_flat
// CHECK-COUNT-3: onnx.node "Transpose"
// CHECK: %[[O:.*]] = kimi.attention {{.*}} tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
// CHECK: %[[M:.*]] = onnx.node "Transpose"(%[[O]])
// CHECK: onnx.node "Reshape"(%[[M]]
func.func @operator_flat(%q: tensor<?x?x32xf32> {onnx.dims = ["b", "t", 32]}, %k: tensor<?x?x16xf32> {onnx.dims = ["b", "s", 16]},
                         %v: tensor<?x?x16xf32> {onnx.dims = ["b", "s", 16]}) -> tensor<?x?x32xf32> {
  %o = onnx.node "Attention"(%q, %k, %v) {attrs = {q_num_heads = 4 : i64, kv_num_heads = 2 : i64}, version = 23 : i64}
    : (tensor<?x?x32xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x32xf32>
  return %o : tensor<?x?x32xf32>
}

// Causal from the top left over more keys than queries: not what kimi.attention says.
// CHECK-LABEL: @operator_top_left
// CHECK-NOT: kimi.attention
func.func @operator_top_left(%q: tensor<1x4x3x16xf32>, %k: tensor<1x4x5x16xf32>, %v: tensor<1x4x5x16xf32>) -> tensor<1x4x3x16xf32> {
  // expected-remark @below {{stays as it is: is_causal with other numbers of queries and keys}}
  %o = onnx.node "Attention"(%q, %k, %v) {attrs = {is_causal = 1 : i64}, version = 23 : i64}
    : (tensor<1x4x3x16xf32>, tensor<1x4x5x16xf32>, tensor<1x4x5x16xf32>) -> tensor<1x4x3x16xf32>
  return %o : tensor<1x4x3x16xf32>
}

// Softmax over another axis is no attention.
// CHECK-LABEL: @other_axis
// CHECK-NOT: kimi.attention
func.func @other_axis(%q: tensor<1x4x5x16xf32>, %kt: tensor<1x4x16x5xf32>, %v: tensor<1x4x5x16xf32>) -> tensor<1x4x5x16xf32> {
  %s = onnx.node "MatMul"(%q, %kt) {version = 13 : i64} : (tensor<1x4x5x16xf32>, tensor<1x4x16x5xf32>) -> none
  %p = onnx.node "Softmax"(%s) {attrs = {axis = 2 : i64}, version = 13 : i64} : (none) -> none
  %o = onnx.node "MatMul"(%p, %v) {version = 13 : i64} : (none, tensor<1x4x5x16xf32>) -> tensor<1x4x5x16xf32>
  return %o : tensor<1x4x5x16xf32>
}

// No product below the softmax: the remark says so.
// CHECK-LABEL: @no_scores
// CHECK-NOT: kimi.attention
func.func @no_scores(%s: tensor<1x4x5x5xf32>, %v: tensor<1x4x5x16xf32>) -> tensor<1x4x5x16xf32> {
  %p = onnx.node "Softmax"(%s) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<1x4x5x5xf32>) -> none
  // expected-remark @below {{below the softmax is no matrix product but a graph input}}
  %o = onnx.node "MatMul"(%p, %v) {version = 13 : i64} : (none, tensor<1x4x5x16xf32>) -> tensor<1x4x5x16xf32>
  return %o : tensor<1x4x5x16xf32>
}
