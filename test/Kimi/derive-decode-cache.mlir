// RUN: kimi-opt %s --kimi-derive-decode | FileCheck %s

// A graph with a cache: argument, Concat and result become one state.

// CHECK-LABEL: func.func @main
// CHECK-SAME: attention_mask", kimi.role = "attention_mask"
// CHECK: tensor.concat

// CHECK-LABEL: func.func @prefill
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?x?xi64> {{{.*}}kimi.role = "token_ids"}
// CHECK-SAME: %[[K:[a-z0-9]+]]: !kimi.state<tensor<?x1x?x8xf32>, 2>
// CHECK-SAME: kimi.input = "past_key_values.0.key"
// CHECK-SAME: kimi.output = "present.0.key"
// CHECK-SAME: %[[V:[a-z0-9]+]]: !kimi.state<tensor<?x1x?x8xf32>, 2>
// CHECK-SAME: kimi.input = "past_key_values.0.value"
// CHECK-SAME: -> (tensor<?x?x64xf32> {{{.*}}kimi.role = "logits"}) attributes
// CHECK: %[[PAST:.*]] = kimi.state_length %[[K]]
// CHECK-NOT: tensor.concat
// CHECK: %[[KA:.*]] = kimi.cache_append %[[K]], %{{.*}} at %[[PAST]]
// CHECK: %[[VA:.*]] = kimi.cache_append %[[V]], %{{.*}} at %[[PAST]]
// CHECK: kimi.attention %{{.*}}, %[[KA]], %[[VA]] mask
// CHECK: return %{{[^,]*}} : tensor<?x?x64xf32>

// CHECK-LABEL: func.func @decode
// CHECK: %[[PAST:.*]] = kimi.state_length
// CHECK: arith.addi %[[PAST]], %c1
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>

  func.func @main(
      %ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
      %mask: tensor<?x?xi1> {kimi.name = "attention_mask", kimi.dims = ["batch", "past + seq"]},
      %pk: tensor<?x1x?x8xf32> {kimi.name = "past_key_values.0.key", kimi.dims = ["batch", 1, "past", 8]},
      %pv: tensor<?x1x?x8xf32> {kimi.name = "past_key_values.0.value", kimi.dims = ["batch", 1, "past_v", 8]})
      -> (tensor<?x?x64xf32> {kimi.name = "logits"}, tensor<?x1x?x8xf32> {kimi.name = "present.0.key"},
          tensor<?x1x?x8xf32> {kimi.name = "present.0.value"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %B = tensor.dim %pk, %c0 : tensor<?x1x?x8xf32>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %past = tensor.dim %pk, %c2 : tensor<?x1x?x8xf32>
    %S = arith.addi %past, %T : index
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %q = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [%B, 1, %T, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
    %k = tensor.concat dim(2) %pk, %q : (tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>) -> tensor<?x1x?x8xf32>
    %pv1 = tensor.concat dim(2) %pv : (tensor<?x1x?x8xf32>) -> tensor<?x1x?x8xf32>
    %v = tensor.concat dim(2) %pv1, %q : (tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>) -> tensor<?x1x?x8xf32>
    %m0 = tensor.extract_slice %mask[0, 0] [%B, %S] [1, 1] : tensor<?x?xi1> to tensor<?x?xi1>
    %m = tensor.expand_shape %m0 [[0], [1, 2, 3]] output_shape [%B, 1, 1, %S] : tensor<?x?xi1> into tensor<?x1x1x?xi1>
    %a = kimi.attention %q, %k, %v mask %m : tensor<?x1x1x?xi1> causal scale 0.5
      : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
    %a1 = tensor.collapse_shape %a [[0, 1], [2], [3]] : tensor<?x1x?x8xf32> into tensor<?x?x8xf32>
    %y = kimi.linear %a1, %wte transpose : tensor<?x?x8xf32>, tensor<64x8xf32> -> tensor<?x?x64xf32>
    return %y, %k, %v : tensor<?x?x64xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>
  }
}
