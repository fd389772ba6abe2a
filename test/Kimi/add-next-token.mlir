// RUN: kimi-opt %s --split-input-file --kimi-add-next-token --canonicalize --cse --verify-diagnostics | FileCheck %s

// The entries get the greedy token of their last position; 'prefill_last' gives the logits of that position alone. The
// position is counted on the ids. 'main' stays as it is.
// CHECK-LABEL: func @main
// CHECK-SAME: -> (tensor<?x?x50xf32> {kimi.role = "logits"}) attributes
// CHECK-LABEL: func @prefill(
// CHECK-SAME: %[[IDS:.*]]: tensor<?x?xi64>
// CHECK-SAME: -> (tensor<?x?x50xf32> {{.*}}kimi.name = "next_token", {{.*}}}, tensor<?x1xi64> {kimi.dims = ["batch", 1], kimi.name = "next_token_", kimi.role = "next_token"})
// CHECK-DAG: %[[T:.*]] = tensor.dim %[[IDS]], %c1
// CHECK-DAG: %[[LAST:.*]] = arith.addi %[[T]], %c-1
// CHECK-DAG: %[[L:.*]] = kimi.linear
// CHECK: %[[ROW:.*]] = tensor.extract_slice %[[L]][0, %[[LAST]], 0] {{.*}} to tensor<?x1x50xf32>
// CHECK: %[[TOKEN:.*]] = kimi.greedy_token %[[ROW]] : tensor<?x1x50xf32> -> tensor<?x1xi64>
// CHECK: return %[[L]], %[[TOKEN]]
// CHECK-LABEL: func @prefill_last(
// CHECK-SAME: -> (tensor<?x1x50xf32> {kimi.dims = ["batch", 1, 50], {{.*}}kimi.role = "logits"}, tensor<?x1xi64>
// CHECK-SAME: kimi.entry = "prefill_last"
// CHECK: %[[ROW:.*]] = tensor.extract_slice
// CHECK: %[[TOKEN:.*]] = kimi.greedy_token %[[ROW]]
// CHECK: return %[[ROW]], %[[TOKEN]]
// A step of one token has no row to choose.
// CHECK-LABEL: func @decode(
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[L:.*]] = kimi.linear
// CHECK: %[[TOKEN:.*]] = kimi.greedy_token %[[L]] : tensor<?x1x50xf32> -> tensor<?x1xi64>
func.func @main(%ids: tensor<?x?xi64> {kimi.dims = ["batch", "sequence"], kimi.role = "token_ids"}, %x: tensor<?x?x8xf32>,
                %w: tensor<8x50xf32>) -> (tensor<?x?x50xf32> {kimi.role = "logits"})
    attributes {kimi.entry = "main", kimi.step_dim = array<i64: 0, 1>} {
  %l = kimi.linear %x, %w : tensor<?x?x8xf32>, tensor<8x50xf32> -> tensor<?x?x50xf32>
  return %l : tensor<?x?x50xf32>
}
func.func @prefill(%ids: tensor<?x?xi64> {kimi.dims = ["batch", "sequence"], kimi.role = "token_ids"},
                   %x: tensor<?x?x8xf32> {kimi.dims = ["batch", "sequence", 8]}, %w: tensor<8x50xf32>)
    -> (tensor<?x?x50xf32> {kimi.dims = ["batch", "sequence", 50], kimi.name = "next_token", kimi.role = "logits"})
    attributes {kimi.entry = "prefill", kimi.step_dim = array<i64: 0, 1>} {
  %l = kimi.linear %x, %w : tensor<?x?x8xf32>, tensor<8x50xf32> -> tensor<?x?x50xf32>
  return %l : tensor<?x?x50xf32>
}
func.func @decode(%ids: tensor<?x?xi64> {kimi.dims = ["batch", "sequence"], kimi.role = "token_ids"}, %x: tensor<?x1x8xf32>,
                  %w: tensor<8x50xf32>)
    -> (tensor<?x1x50xf32> {kimi.dims = ["batch", "sequence", 50], kimi.role = "logits"})
    attributes {kimi.entry = "decode", kimi.step_dim = array<i64: 0, 1>} {
  %l = kimi.linear %x, %w : tensor<?x1x8xf32>, tensor<8x50xf32> -> tensor<?x1x50xf32>
  return %l : tensor<?x1x50xf32>
}

// -----

// A graph that gives the last logits itself needs no other entry.
// CHECK-LABEL: func @prefill(
// CHECK: kimi.greedy_token %{{.*}} : tensor<?x50xf32> -> tensor<?xi64>
// CHECK-NOT: @prefill_last
func.func @prefill(%ids: tensor<?x?xi64> {kimi.role = "token_ids"}, %l: tensor<?x50xf32>)
    -> (tensor<?x50xf32> {kimi.role = "logits"}) attributes {kimi.entry = "prefill", kimi.step_dim = array<i64: 0, 1>} {
  return %l : tensor<?x50xf32>
}

// -----

// One sequence: ids and logits without a batch. The token has the type of the ids.
// CHECK-LABEL: func @prefill(
// CHECK: kimi.greedy_token %{{.*}} : tensor<1x50xf32> -> tensor<1xi32>
// CHECK-LABEL: func @prefill_last(
// CHECK-SAME: -> (tensor<1x50xf32> {kimi.role = "logits"}, tensor<1xi32>
func.func @prefill(%ids: tensor<?xi32> {kimi.dims = ["n"], kimi.role = "token_ids"}, %l: tensor<?x50xf32> {kimi.dims = ["n", 50]})
    -> (tensor<?x50xf32> {kimi.role = "logits"}) attributes {kimi.entry = "prefill", kimi.step_dim = array<i64: 0, 0>} {
  %e = tensor.cast %l : tensor<?x50xf32> to tensor<?x50xf32>
  return %e : tensor<?x50xf32>
}

// -----

// expected-remark @below {{has no next token: none of its results is known to be logits}}
func.func @decode(%ids: tensor<?x1xi64> {kimi.role = "token_ids"}, %h: tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
    attributes {kimi.entry = "decode", kimi.step_dim = array<i64: 0, 1>} {
  return %h : tensor<?x1x8xf32>
}

// -----

// expected-remark @below {{has no next token: its logits are 'tensor<?x1x?xf32>', where a known number of tokens from 1 to 16777216 is needed}}
func.func @decode(%ids: tensor<?x1xi64> {kimi.role = "token_ids"}, %l: tensor<?x1x?xf32>)
    -> (tensor<?x1x?xf32> {kimi.role = "logits"}) attributes {kimi.entry = "decode", kimi.step_dim = array<i64: 0, 1>} {
  return %l : tensor<?x1x?xf32>
}
