// RUN: kimi-opt %s --kimi-derive-decode | FileCheck %s

// A mixer with a state of fixed size beside one that grows: the memory is read before the step and written after.

module {
  kimi.weight @wte : tensor<64x16xf32> from #kimi.external<"w", 0, 4096>
  kimi.weight @conv : tensor<16x4xf32> from #kimi.external<"w", 4096, 256>

  // CHECK-LABEL: func.func @prefill
  // CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?x?xi64>
  // CHECK-SAME: %[[WINDOW:[a-z0-9]+]]: !kimi.state<tensor<?x16x3xf32>, -1> {kimi.name = "0.window"}
  // CHECK-SAME: %[[MEMORY:[a-z0-9]+]]: !kimi.state<tensor<?x2x8x8xf32>, -1> {kimi.name = "1.memory"}
  // CHECK-SAME: %[[K:[a-z0-9]+]]: !kimi.state<tensor<?x2x?x8xf32>, 2> {kimi.name = "2.key"}
  // CHECK: %[[OLD:.*]] = kimi.state_read %[[WINDOW]] sizes(%{{.*}})
  // CHECK: %{{.*}}, %[[LAST:.*]] = kimi.causal_conv %{{.*}}, %{{.*}} past %[[OLD]]
  // CHECK-NEXT: kimi.state_write %[[LAST]], %[[WINDOW]]
  // CHECK: %[[S:.*]] = kimi.state_read %[[MEMORY]] sizes(%{{.*}})
  // CHECK: %{{.*}}, %[[NEW:.*]] = kimi.delta_rule {{.*}} initial %[[S]]
  // CHECK-NEXT: kimi.state_write %[[NEW]], %[[MEMORY]]
  // CHECK: kimi.cache_append
  // CHECK-LABEL: func.func @decode
  // CHECK: kimi.state_write
  // CHECK: kimi.state_write
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]})
      -> (tensor<?x?x64xf32> {kimi.name = "logits", kimi.dims = ["batch", "seq", 64]}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x16xf32>
    %w = kimi.weight_ref @conv : tensor<16x4xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x16xf32> -> tensor<?x?x16xf32>
    %e0 = tensor.empty(%B, %T) : tensor<?x16x?xf32>
    %xt = linalg.transpose ins(%x : tensor<?x?x16xf32>) outs(%e0 : tensor<?x16x?xf32>) permutation = [0, 2, 1]
    %y, %window = kimi.causal_conv %xt, %w activation silu
       : tensor<?x16x?xf32>, tensor<16x4xf32> -> tensor<?x16x?xf32>, tensor<?x16x3xf32>
    %h = tensor.expand_shape %y [[0], [1, 2], [3]] output_shape [%B, 2, 8, %T] : tensor<?x16x?xf32> into tensor<?x2x8x?xf32>
    %e1 = tensor.empty(%B, %T) : tensor<?x2x?x8xf32>
    %q = linalg.transpose ins(%h : tensor<?x2x8x?xf32>) outs(%e1 : tensor<?x2x?x8xf32>) permutation = [0, 1, 3, 2]
    %o, %memory = kimi.delta_rule %q, %q, %q scale 0.5
       : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x2x?x8xf32>, tensor<?x2x8x8xf32>
    %a = kimi.attention %o, %o, %o causal scale 0.5
       : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x2x?x8xf32>
    %e2 = tensor.empty(%B, %T) : tensor<?x?x2x8xf32>
    %at = linalg.transpose ins(%a : tensor<?x2x?x8xf32>) outs(%e2 : tensor<?x?x2x8xf32>) permutation = [0, 2, 1, 3]
    %flat = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x8xf32> into tensor<?x?x16xf32>
    %logits = kimi.linear %flat, %wte transpose : tensor<?x?x16xf32>, tensor<64x16xf32> -> tensor<?x?x64xf32>
    return %logits : tensor<?x?x64xf32>
  }
}
