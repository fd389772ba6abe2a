// RUN: kimi-opt %s --onnx-raise-delta-rule 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --onnx-raise-delta-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Products and sums, time first: what torch.scan gives. Time becomes the third axis.
// CHECK-LABEL: @products
// CHECK-NOT: "Scan"
// CHECK: %[[Q:.*]] = onnx.node "Transpose"(%arg1) {attrs = {perm = array<i64: 1, 2, 0, 3>}
// CHECK: %[[B:.*]] = onnx.node "Transpose"(%arg5) {attrs = {perm = array<i64: 1, 2, 0>}
// CHECK: kimi.delta_rule %[[Q]], {{.*}} decay {{.*}} : tensor<?x6x?x32xf32> beta %[[B]] : tensor<?x6x?xf32> initial {{.*}} : tensor<?x6x32x16xf32> scale 1.000000e+00
// CHECK-SAME: -> tensor<?x6x?x16xf32>, tensor<?x6x32x16xf32>
func.func @products(%s: tensor<?x6x32x16xf32> {onnx.dims = ["b", 6, 32, 16]},
                    %q: tensor<?x?x6x32xf32> {onnx.dims = ["t", "b", 6, 32]},
                    %k: tensor<?x?x6x32xf32> {onnx.dims = ["t", "b", 6, 32]},
                    %v: tensor<?x?x6x16xf32> {onnx.dims = ["t", "b", 6, 16]},
                    %g: tensor<?x?x6x32xf32> {onnx.dims = ["t", "b", 6, 32]},
                    %b: tensor<?x?x6xf32> {onnx.dims = ["t", "b", 6]}) -> (tensor<?x6x32x16xf32>, tensor<?x?x6x16xf32>) {
  %0:2 = onnx.node "Scan"(%s, %q, %k, %v, %g, %b) {attrs = {num_scan_inputs = 5 : i64}, version = 23 : i64} : (tensor<?x6x32x16xf32>, tensor<?x?x6x32xf32>, tensor<?x?x6x32xf32>, tensor<?x?x6x16xf32>, tensor<?x?x6x32xf32>, tensor<?x?x6xf32>) -> (tensor<?x6x32x16xf32>, tensor<?x?x6x16xf32>) "body" {
  ^bb0(%state: tensor<*xf32>, %qt: tensor<*xf32>, %kt: tensor<*xf32>, %vt: tensor<*xf32>, %gt: tensor<*xf32>, %bt: tensor<*xf32>):
    %last = onnx.constant dense<-1> : tensor<1xi64>
    %next = onnx.constant dense<-2> : tensor<1xi64>
    %e = onnx.node "Exp"(%gt) {version = 23 : i64} : (tensor<*xf32>) -> tensor<*xf32>
    %e4 = onnx.node "Unsqueeze"(%e, %last) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %s1 = onnx.node "Mul"(%state, %e4) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %k4 = onnx.node "Unsqueeze"(%kt, %last) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %ks = onnx.node "Mul"(%s1, %k4) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %r = onnx.node "ReduceSum"(%ks, %next) {attrs = {keepdims = 0 : i64}, version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %d = onnx.node "Sub"(%vt, %r) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %b3 = onnx.node "Unsqueeze"(%bt, %last) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %u = onnx.node "Mul"(%d, %b3) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %u4 = onnx.node "Unsqueeze"(%u, %next) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %ku = onnx.node "Mul"(%k4, %u4) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %so = onnx.node "Add"(%s1, %ku) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %q4 = onnx.node "Unsqueeze"(%qt, %last) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %qs = onnx.node "Mul"(%so, %q4) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %o = onnx.node "ReduceSum"(%qs, %next) {attrs = {keepdims = 0 : i64}, version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    onnx.yield %so, %o : tensor<*xf32>, tensor<*xf32>
  }
  return %0#0, %0#1 : tensor<?x6x32x16xf32>, tensor<?x?x6x16xf32>
}

// The state is value-major and has no batch, the decay is one number a head and leaves the sum, erase and write are
// gates of a channel (Gated DeltaNet-2), the scale stands at the query.
// CHECK-LABEL: @value_major
// CHECK-NOT: "Scan"
// CHECK: onnx.node "Transpose"(%arg0) {attrs = {perm = array<i64: 0, 2, 1>}
// CHECK: kimi.delta_rule {{.*}} decay {{.*}} : tensor<1x4x?xf32> erase {{.*}} : tensor<1x4x?x8xf32> write {{.*}} : tensor<1x4x?x6xf32> initial {{.*}} : tensor<1x4x8x6xf32> scale 2.500000e-01
func.func @value_major(%s: tensor<4x6x8xf32>, %q: tensor<4x?x8xf32> {onnx.dims = [4, "t", 8]},
                       %k: tensor<?x4x8xf32> {onnx.dims = ["t", 4, 8]}, %v: tensor<?x4x6xf32> {onnx.dims = ["t", 4, 6]},
                       %g: tensor<?x4xf32> {onnx.dims = ["t", 4]}, %b: tensor<?x4x8xf32> {onnx.dims = ["t", 4, 8]},
                       %w: tensor<?x4x6xf32> {onnx.dims = ["t", 4, 6]}) -> (tensor<4x6x8xf32>, tensor<4x?x6xf32>) {
  %0:2 = onnx.node "Scan"(%s, %q, %k, %v, %g, %b, %w) {attrs = {num_scan_inputs = 6 : i64, scan_input_axes = array<i64: 1, 0, 0, 0, 0, 0>, scan_output_axes = array<i64: 1>}, version = 23 : i64} : (tensor<4x6x8xf32>, tensor<4x?x8xf32>, tensor<?x4x8xf32>, tensor<?x4x6xf32>, tensor<?x4xf32>, tensor<?x4x8xf32>, tensor<?x4x6xf32>) -> (tensor<4x6x8xf32>, tensor<4x?x6xf32>) "body" {
  ^bb0(%state: tensor<*xf32>, %qt: tensor<*xf32>, %kt: tensor<*xf32>, %vt: tensor<*xf32>, %gt: tensor<*xf32>, %bt: tensor<*xf32>, %wt: tensor<*xf32>):
    %one = onnx.constant dense<-1> : tensor<1xi64>
    %two = onnx.constant dense<[1, 2]> : tensor<2xi64>
    %mid = onnx.constant dense<1> : tensor<1xi64>
    %scale = onnx.constant dense<0.25> : tensor<f32>
    %e = onnx.node "Exp"(%gt) {version = 23 : i64} : (tensor<*xf32>) -> tensor<*xf32>
    %e3 = onnx.node "Unsqueeze"(%e, %two) {version = 23 : i64} : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
    %s1 = onnx.node "Mul"(%e3, %state) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %bk = onnx.node "Mul"(%bt, %kt) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %column = onnx.node "Unsqueeze"(%bk, %one) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %r = onnx.node "MatMul"(%s1, %column) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %r2 = onnx.node "Squeeze"(%r, %one) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %wv = onnx.node "Mul"(%wt, %vt) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %u = onnx.node "Sub"(%wv, %r2) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %u3 = onnx.node "Unsqueeze"(%u, %one) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %k3 = onnx.node "Unsqueeze"(%kt, %mid) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %uk = onnx.node "MatMul"(%u3, %k3) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %so = onnx.node "Add"(%uk, %s1) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %qs = onnx.node "Mul"(%qt, %scale) {version = 23 : i64} : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
    %q3 = onnx.node "Unsqueeze"(%qs, %one) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %o3 = onnx.node "MatMul"(%so, %q3) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %o = onnx.node "Squeeze"(%o3, %one) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    onnx.yield %so, %o : tensor<*xf32>, tensor<*xf32>
  }
  return %0#0, %0#1 : tensor<4x6x8xf32>, tensor<4x?x6xf32>
}

// The value is corrected by what the old state gives, not the faded one: another rule.
// CHECK-LABEL: @other_rule
// CHECK: onnx.node "Scan"
// CHECK-NOT: kimi.delta_rule
// REMARK: remark: Scan '' is not read as a delta rule: what is read back is not the key times the decayed state
func.func @other_rule(%s: tensor<4x8x6xf32>, %q: tensor<5x4x8xf32>, %k: tensor<5x4x8xf32>, %v: tensor<5x4x6xf32>,
                      %g: tensor<5x4x8xf32>, %b: tensor<5x4x1xf32>) -> tensor<5x4x6xf32> {
  %0:2 = onnx.node "Scan"(%s, %q, %k, %v, %g, %b) {attrs = {num_scan_inputs = 5 : i64}, version = 23 : i64} : (tensor<4x8x6xf32>, tensor<5x4x8xf32>, tensor<5x4x8xf32>, tensor<5x4x6xf32>, tensor<5x4x8xf32>, tensor<5x4x1xf32>) -> (tensor<4x8x6xf32>, tensor<5x4x6xf32>) "body" {
  ^bb0(%state: tensor<*xf32>, %qt: tensor<*xf32>, %kt: tensor<*xf32>, %vt: tensor<*xf32>, %gt: tensor<*xf32>, %bt: tensor<*xf32>):
    %last = onnx.constant dense<-1> : tensor<1xi64>
    %mid = onnx.constant dense<1> : tensor<1xi64>
    %e = onnx.node "Exp"(%gt) {version = 23 : i64} : (tensor<*xf32>) -> tensor<*xf32>
    %e3 = onnx.node "Unsqueeze"(%e, %last) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %s1 = onnx.node "Mul"(%state, %e3) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %krow = onnx.node "Unsqueeze"(%kt, %mid) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %r = onnx.node "MatMul"(%krow, %state) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %r2 = onnx.node "Squeeze"(%r, %mid) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %d = onnx.node "Sub"(%vt, %r2) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %u = onnx.node "Mul"(%d, %bt) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %u3 = onnx.node "Unsqueeze"(%u, %mid) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %k3 = onnx.node "Unsqueeze"(%kt, %last) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %ku = onnx.node "Mul"(%k3, %u3) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %so = onnx.node "Add"(%s1, %ku) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %qrow = onnx.node "Unsqueeze"(%qt, %mid) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    %o3 = onnx.node "MatMul"(%qrow, %so) {version = 23 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %o = onnx.node "Squeeze"(%o3, %mid) {version = 23 : i64} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
    onnx.yield %so, %o : tensor<*xf32>, tensor<*xf32>
  }
  return %0#1 : tensor<5x4x6xf32>
}

// REMARK: remark: Scan '' is not read as a delta rule: its body holds what is no product, sum, exponential or move of axes: Tanh
func.func @unread(%s: tensor<8xf32>, %x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %0:2 = onnx.node "Scan"(%s, %x) {attrs = {num_scan_inputs = 1 : i64}, version = 23 : i64} : (tensor<8xf32>, tensor<5x8xf32>) -> (tensor<8xf32>, tensor<5x8xf32>) "body" {
  ^bb0(%state: tensor<*xf32>, %xt: tensor<*xf32>):
    %t = onnx.node "Tanh"(%xt) {version = 13 : i64} : (tensor<*xf32>) -> tensor<*xf32>
    %so = onnx.node "Add"(%state, %t) {version = 14 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    onnx.yield %so, %so : tensor<*xf32>, tensor<*xf32>
  }
  return %0#1 : tensor<5x8xf32>
}
