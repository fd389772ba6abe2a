// RUN: kimi-opt %s --onnx-raise-delta-rule 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --onnx-raise-delta-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Linear attention in a Loop: the counter gathers the token of each run.
// CHECK-LABEL: @linear
// CHECK-NOT: "Loop"
// CHECK: kimi.delta_rule {{.*}} initial {{.*}} : tensor<1x4x8x6xf32> scale 1.000000e+00
func.func @linear(%s: tensor<4x8x6xf32>, %q: tensor<4x5x8xf32>, %v: tensor<4x5x6xf32>) -> (tensor<4x8x6xf32>, tensor<5x4x6xf32>) {
  %n = onnx.constant dense<5> : tensor<i64>
  %go = onnx.constant dense<true> : tensor<i1>
  %last = onnx.constant dense<-1> : tensor<1xi64>
  %next = onnx.constant dense<-2> : tensor<1xi64>
  %0:2 = onnx.node "Loop"(%n, %go, %s) {version = 20 : i64} : (tensor<i64>, tensor<i1>, tensor<4x8x6xf32>) -> (tensor<4x8x6xf32>, tensor<5x4x6xf32>) "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %state: tensor<4x8x6xf32>):
    %c1 = onnx.node "Identity"(%c) {version = 19 : i64} : (tensor<i1>) -> tensor<i1>
    %k = onnx.node "Gather"(%q, %i) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<4x5x8xf32>, tensor<i64>) -> tensor<4x8xf32>
    %w = onnx.node "Gather"(%v, %i) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<4x5x6xf32>, tensor<i64>) -> tensor<4x6xf32>
    %k3 = onnx.node "Unsqueeze"(%k, %last) {version = 13 : i64} : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<4x8x1xf32>
    %w3 = onnx.node "Unsqueeze"(%w, %next) {version = 13 : i64} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1x6xf32>
    %kw = onnx.node "MatMul"(%k3, %w3) {version = 13 : i64} : (tensor<4x8x1xf32>, tensor<4x1x6xf32>) -> tensor<4x8x6xf32>
    %s1 = onnx.node "Add"(%state, %kw) {version = 14 : i64} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
    %q0 = onnx.node "Gather"(%q, %i) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<4x5x8xf32>, tensor<i64>) -> tensor<4x8xf32>
    %q3 = onnx.node "Unsqueeze"(%q0, %next) {version = 13 : i64} : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<4x1x8xf32>
    %o3 = onnx.node "MatMul"(%q3, %s1) {version = 13 : i64} : (tensor<4x1x8xf32>, tensor<4x8x6xf32>) -> tensor<4x1x6xf32>
    %o = onnx.node "Squeeze"(%o3, %next) {version = 13 : i64} : (tensor<4x1x6xf32>, tensor<1xi64>) -> tensor<4x6xf32>
    onnx.yield %c1, %s1, %o : tensor<i1>, tensor<4x8x6xf32>, tensor<4x6xf32>
  }
  return %0#0, %0#1 : tensor<4x8x6xf32>, tensor<5x4x6xf32>
}

// CHECK-LABEL: @stops_early
// CHECK: onnx.node "Loop"
// REMARK: remark: Loop '' is not read as a Scan: when it ends depends on what it computes
func.func @stops_early(%s: tensor<8xf32>, %x: tensor<5x8xf32>, %stop: tensor<5xi1>) -> tensor<8xf32> {
  %n = onnx.constant dense<5> : tensor<i64>
  %go = onnx.constant dense<true> : tensor<i1>
  %0 = onnx.node "Loop"(%n, %go, %s) {version = 20 : i64} : (tensor<i64>, tensor<i1>, tensor<8xf32>) -> tensor<8xf32> "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %state: tensor<8xf32>):
    %c1 = onnx.node "Gather"(%stop, %i) {version = 13 : i64} : (tensor<5xi1>, tensor<i64>) -> tensor<i1>
    %s1 = onnx.node "Add"(%state, %state) {version = 14 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    onnx.yield %c1, %s1 : tensor<i1>, tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// REMARK: remark: Loop '' is not read as a Scan: its counter does more than choose a slice of a tensor from around it
func.func @counts(%s: tensor<8xi64>) -> tensor<8xi64> {
  %n = onnx.constant dense<5> : tensor<i64>
  %go = onnx.constant dense<true> : tensor<i1>
  %0 = onnx.node "Loop"(%n, %go, %s) {version = 20 : i64} : (tensor<i64>, tensor<i1>, tensor<8xi64>) -> tensor<8xi64> "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %state: tensor<8xi64>):
    %s1 = onnx.node "Add"(%state, %i) {version = 14 : i64} : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
    onnx.yield %c, %s1 : tensor<i1>, tensor<8xi64>
  }
  return %0 : tensor<8xi64>
}

// REMARK: remark: Loop '' is not read as a Scan: it does not run over the whole of what it reads
func.func @half(%s: tensor<8xf32>, %x: tensor<10x8xf32>) -> tensor<8xf32> {
  %n = onnx.constant dense<5> : tensor<i64>
  %go = onnx.constant dense<true> : tensor<i1>
  %0 = onnx.node "Loop"(%n, %go, %s) {version = 20 : i64} : (tensor<i64>, tensor<i1>, tensor<8xf32>) -> tensor<8xf32> "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %state: tensor<8xf32>):
    %x1 = onnx.node "Gather"(%x, %i) {version = 13 : i64} : (tensor<10x8xf32>, tensor<i64>) -> tensor<8xf32>
    %s1 = onnx.node "Add"(%state, %x1) {version = 14 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    onnx.yield %c, %s1 : tensor<i1>, tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// REMARK: remark: Loop '' is not read as a Scan: its body looks at the condition
func.func @condition(%s: tensor<8xf32>, %x: tensor<5x8xf32>) -> tensor<8xf32> {
  %n = onnx.constant dense<5> : tensor<i64>
  %go = onnx.constant dense<true> : tensor<i1>
  %0 = onnx.node "Loop"(%n, %go, %s) {version = 20 : i64} : (tensor<i64>, tensor<i1>, tensor<8xf32>) -> tensor<8xf32> "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %state: tensor<8xf32>):
    %x1 = onnx.node "Gather"(%x, %i) {version = 13 : i64} : (tensor<5x8xf32>, tensor<i64>) -> tensor<8xf32>
    %s1 = onnx.node "Where"(%c, %state, %x1) {version = 16 : i64} : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    onnx.yield %c, %s1 : tensor<i1>, tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}
