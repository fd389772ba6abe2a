// RUN: kimi-opt %s --kimi-derive-decode | FileCheck %s

// Positions as rows [0, T) of a table, merged axes, and logits of the last token only.

#b = affine_map<(b, t, c) -> (b, t, c)>
#p = affine_map<(b, t, c) -> (t, c)>

// CHECK: module attributes {kimi.max_context = 32 : i64}
// CHECK-LABEL: func.func @prefill
// CHECK: %[[PAST:.*]] = kimi.state_length
// CHECK: %[[T:.*]] = tensor.dim %arg0, %{{.*}} : tensor<1x?xi64>
// CHECK: tensor.extract_slice %{{.*}}[%[[PAST]], 0] [%[[T]], 8] [1, 1]
// CHECK: kimi.attention {{.*}} causal
// CHECK: tensor.extract_slice %{{.*}}[0, %{{.*}}, 0] [1, 1, 8]
// CHECK-LABEL: func.func @decode
// CHECK: kimi.cache_append
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  kimi.weight @wpe : tensor<32x8xf32> from #kimi.external<"w", 2048, 1024>
  func.func @main(%ids: tensor<1x?xi64>) -> tensor<1x64xf32> {
    %c1 = arith.constant 1 : index
    %T = tensor.dim %ids, %c1 : tensor<1x?xi64>
    %last = arith.subi %T, %c1 : index
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %wpe = kimi.weight_ref @wpe : tensor<32x8xf32>
    %te = kimi.embedding %ids, %wte : tensor<1x?xi64>, tensor<64x8xf32> -> tensor<1x?x8xf32>
    %pe = tensor.extract_slice %wpe[0, 0] [%T, 8] [1, 1] : tensor<32x8xf32> to tensor<?x8xf32>
    %e = tensor.empty(%T) : tensor<1x?x8xf32>
    %x = linalg.generic {indexing_maps = [#b, #p, #b], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%te, %pe : tensor<1x?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<1x?x8xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %s = arith.addf %a, %c : f32
      linalg.yield %s : f32
    } -> tensor<1x?x8xf32>
    %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x?x8xf32> into tensor<?x8xf32>
    %g = kimi.gelu %flat : tensor<?x8xf32> -> tensor<?x8xf32>
    %q = tensor.expand_shape %g [[0, 1, 2], [3]] output_shape [1, 1, %T, 8] : tensor<?x8xf32> into tensor<1x1x?x8xf32>
    %a = kimi.attention %q, %q, %q causal scale 1.0 : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32> -> tensor<1x1x?x8xf32>
    %y = tensor.collapse_shape %a [[0, 1], [2], [3]] : tensor<1x1x?x8xf32> into tensor<1x?x8xf32>
    %l = tensor.extract_slice %y[0, %last, 0] [1, 1, 8] [1, 1, 1] : tensor<1x?x8xf32> to tensor<1x8xf32>
    %logits = kimi.linear %l, %wte transpose : tensor<1x8xf32>, tensor<64x8xf32> -> tensor<1x64xf32>
    return %logits : tensor<1x64xf32>
  }
}
