// RUN: kimi-opt %s --onnx-to-kimi --split-input-file --verify-diagnostics | FileCheck %s

// Fewer query and key heads than states (com.microsoft), a decay a head.
// CHECK-LABEL: @grouped_values
// CHECK: kimi.delta_rule {{.*}} decay %{{.*}} : tensor<?x4x?xf32> beta %{{.*}} : tensor<?x1x?xf32> initial %{{.*}} : tensor<?x4x8x6xf32> scale 0.353553385
// CHECK-SAME: : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
func.func @grouped_values(%q: tensor<?x?x16xf32> {onnx.dims = ["b", "t", 16]}, %k: tensor<?x?x16xf32> {onnx.dims = ["b", "t", 16]},
                          %v: tensor<?x?x24xf32> {onnx.dims = ["b", "t", 24]}, %s: tensor<?x4x8x6xf32> {onnx.dims = ["b", 4, 8, 6]},
                          %g: tensor<?x?x4xf32> {onnx.dims = ["b", "t", 4]}, %b: tensor<?x?x1xf32> {onnx.dims = ["b", "t", 1]})
    -> (tensor<?x?x24xf32>, tensor<?x4x8x6xf32>) {
  %0:2 = onnx.node "LinearAttention"(%q, %k, %v, %s, %g, %b) {domain = "com.microsoft", attrs = {q_num_heads = 2 : i64, kv_num_heads = 4 : i64}, version = 1 : i64}
    : (tensor<?x?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x24xf32>, tensor<?x4x8x6xf32>, tensor<?x?x4xf32>, tensor<?x?x1xf32>) -> (tensor<?x?x24xf32>, tensor<?x4x8x6xf32>)
  return %0#0, %0#1 : tensor<?x?x24xf32>, tensor<?x4x8x6xf32>
}

// -----

func.func @window(%q: tensor<1x5x16xf32>) -> tensor<1x5x16xf32> {
  // expected-error @below {{state_window (states to roll back to) is not supported}}
  %0 = onnx.node "LinearAttention"(%q, %q, %q) {domain = "com.microsoft", attrs = {q_num_heads = 2 : i64, kv_num_heads = 2 : i64, update_rule = "linear", state_window = 4 : i64}, version = 1 : i64}
    : (tensor<1x5x16xf32>, tensor<1x5x16xf32>, tensor<1x5x16xf32>) -> tensor<1x5x16xf32>
  return %0 : tensor<1x5x16xf32>
}

// -----

func.func @uneven(%q: tensor<1x5x16xf32>) -> tensor<1x5x16xf32> {
  // expected-error @below {{query has 16 channels, which 3 heads do not share evenly}}
  %0 = onnx.node "LinearAttention"(%q, %q, %q) {attrs = {q_num_heads = 3 : i64, kv_num_heads = 3 : i64, update_rule = "linear"}, version = 27 : i64}
    : (tensor<1x5x16xf32>, tensor<1x5x16xf32>, tensor<1x5x16xf32>) -> tensor<1x5x16xf32>
  return %0 : tensor<1x5x16xf32>
}

// -----

func.func @state(%q: tensor<1x5x16xf32>, %s: tensor<1x2x8x4xf32>) -> tensor<1x5x16xf32> {
  // expected-error @below {{past_state has an extent of 4 where 8 is expected: [batch, kv_num_heads, key channels, value channels]}}
  %0 = onnx.node "LinearAttention"(%q, %q, %q, %s) {attrs = {q_num_heads = 2 : i64, kv_num_heads = 2 : i64, update_rule = "linear"}, version = 27 : i64}
    : (tensor<1x5x16xf32>, tensor<1x5x16xf32>, tensor<1x5x16xf32>, tensor<1x2x8x4xf32>) -> tensor<1x5x16xf32>
  return %0 : tensor<1x5x16xf32>
}

// -----

func.func @missing(%q: tensor<1x5x16xf32>) -> tensor<1x5x16xf32> {
  // expected-error @below {{update_rule delta needs beta}}
  %0 = onnx.node "LinearAttention"(%q, %q, %q) {attrs = {q_num_heads = 2 : i64, kv_num_heads = 2 : i64, update_rule = "delta"}, version = 27 : i64}
    : (tensor<1x5x16xf32>, tensor<1x5x16xf32>, tensor<1x5x16xf32>) -> tensor<1x5x16xf32>
  return %0 : tensor<1x5x16xf32>
}

// -----

func.func @dilated(%x: tensor<1x4x5xf32>, %w: tensor<4x1x3xf32>) -> tensor<1x4x5xf32> {
  // expected-error @below {{a dilation of 2 is not supported}}
  %0 = onnx.node "CausalConvWithState"(%x, %w) {domain = "com.microsoft", attrs = {dilation = 2 : i64}, version = 1 : i64}
    : (tensor<1x4x5xf32>, tensor<4x1x3xf32>) -> tensor<1x4x5xf32>
  return %0 : tensor<1x4x5xf32>
}
