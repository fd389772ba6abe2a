// RUN: kimi-opt %s --kimi-derive-decode | FileCheck %s

// A graph without a cache: attention gets states, positions are counted from the tokens seen.

#id = affine_map<(t) -> (t)>
#b = affine_map<(b, t, c) -> (b, t, c)>
#p = affine_map<(b, t, c) -> (t, c)>

// CHECK: module attributes {kimi.max_context = 32 : i64}
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  kimi.weight @wpe : tensor<32x8xf32> from #kimi.external<"w", 2048, 1024>
  kimi.weight @w : tensor<8x24xf32> from #kimi.external<"w", 3072, 768>

  // CHECK-LABEL: func.func @main
  // CHECK-SAME: {{.*}}%{{.*}}: tensor<?x?xi64> {{{.*}}kimi.role = "token_ids"}
  // CHECK-SAME: kimi.role = "logits"
  // CHECK-SAME: kimi.entry = "main", kimi.step_dim = array<i64: 0, 1>
  // CHECK-NOT: kimi.state

  // CHECK-LABEL: func.func @prefill
  // CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?x?xi64>
  // CHECK-SAME: %[[K:[a-z0-9]+]]: !kimi.state<tensor<?x2x?x4xf32>, 2> {kimi.name = "0.key"}
  // CHECK-SAME: %[[V:[a-z0-9]+]]: !kimi.state<tensor<?x2x?x4xf32>, 2> {kimi.name = "0.value"}
  // CHECK-SAME: kimi.entry = "prefill"
  // CHECK: %[[PAST:.*]] = kimi.state_length %[[K]]
  // CHECK: %[[I:.*]] = linalg.index 0
  // CHECK-NEXT: %[[POS:.*]] = arith.addi %[[I]], %[[PAST]]
  // CHECK-NEXT: arith.index_cast %[[POS]]
  // CHECK: %[[KA:.*]] = kimi.cache_append %[[K]], %{{.*}} at %[[PAST]]
  // CHECK: %[[VA:.*]] = kimi.cache_append %[[V]], %{{.*}} at %[[PAST]]
  // CHECK: kimi.attention %{{.*}}, %[[KA]], %[[VA]] causal

  // CHECK-LABEL: func.func @decode
  // CHECK-SAME: kimi.entry = "decode"
  // CHECK: %[[ONE:.*]] = arith.constant 1 : index
  // CHECK-NOT: tensor.dim %{{.*}}, %c1
  // CHECK: tensor.empty(%[[ONE]])
  // CHECK: kimi.cache_append
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]})
      -> (tensor<?x?x64xf32> {kimi.name = "logits", kimi.dims = ["batch", "seq", 64]}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %wpe = kimi.weight_ref @wpe : tensor<32x8xf32>
    %w = kimi.weight_ref @w : tensor<8x24xf32>
    %e0 = tensor.empty(%T) : tensor<?xi64>
    %pos = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e0 : tensor<?xi64>) {
    ^bb0(%o: i64):
      %i = linalg.index 0 : index
      %v = arith.index_cast %i : index to i64
      linalg.yield %v : i64
    } -> tensor<?xi64>
    %te = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %pe = kimi.embedding %pos, %wpe : tensor<?xi64>, tensor<32x8xf32> -> tensor<?x8xf32>
    %e1 = tensor.empty(%B, %T) : tensor<?x?x8xf32>
    %x = linalg.generic {indexing_maps = [#b, #p, #b], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%te, %pe : tensor<?x?x8xf32>, tensor<?x8xf32>) outs(%e1 : tensor<?x?x8xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %s = arith.addf %a, %c : f32
      linalg.yield %s : f32
    } -> tensor<?x?x8xf32>
    %qkv = kimi.linear %x, %w : tensor<?x?x8xf32>, tensor<8x24xf32> -> tensor<?x?x24xf32>
    %q0 = tensor.extract_slice %qkv[0, 0, 0] [%B, %T, 8] [1, 1, 1] : tensor<?x?x24xf32> to tensor<?x?x8xf32>
    %k0 = tensor.extract_slice %qkv[0, 0, 8] [%B, %T, 8] [1, 1, 1] : tensor<?x?x24xf32> to tensor<?x?x8xf32>
    %v0 = tensor.extract_slice %qkv[0, 0, 16] [%B, %T, 8] [1, 1, 1] : tensor<?x?x24xf32> to tensor<?x?x8xf32>
    %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [%B, %T, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
    %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [%B, %T, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
    %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [%B, %T, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
    %e2 = tensor.empty(%B, %T) : tensor<?x2x?x4xf32>
    %q = linalg.transpose ins(%q1 : tensor<?x?x2x4xf32>) outs(%e2 : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
    %k = linalg.transpose ins(%k1 : tensor<?x?x2x4xf32>) outs(%e2 : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
    %v = linalg.transpose ins(%v1 : tensor<?x?x2x4xf32>) outs(%e2 : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
    %a = kimi.attention %q, %k, %v causal scale 0.5
      : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
    %e3 = tensor.empty(%B, %T) : tensor<?x?x2x4xf32>
    %a1 = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%e3 : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
    %a2 = tensor.collapse_shape %a1 [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
    %y = kimi.linear %a2, %wte transpose : tensor<?x?x8xf32>, tensor<64x8xf32> -> tensor<?x?x64xf32>
    return %y : tensor<?x?x64xf32>
  }
}
