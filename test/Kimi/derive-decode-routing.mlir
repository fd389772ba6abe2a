// Norms of heads, gates, attention residuals, routers and experts treat every token apart: the step is derived through them.
// RUN: kimi-opt %s --kimi-derive-decode | FileCheck %s

// CHECK-LABEL: func.func @prefill
// CHECK: kimi.l2_norm
// CHECK: kimi.attention
// CHECK: kimi.gated_rms_norm
// CHECK: kimi.attn_res
// CHECK: kimi.router
// CHECK: kimi.moe
// CHECK: kimi.situ_glu
// CHECK-LABEL: func.func @decode
// CHECK: kimi.moe
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]}, %g: tensor<4xf32>, %s: tensor<8xf32>,
                  %wr: tensor<8x4xf32>, %w1: tensor<4x6x8xf32>, %w2: tensor<4x8x6xf32>, %head: tensor<8x64xf32>)
      -> (tensor<?x?x64xf32> {kimi.name = "logits", kimi.dims = ["batch", "seq", 64]}) attributes {kimi.entry = "main"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %t = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %h = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %t, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
    %n = kimi.l2_norm %h eps 1.0e-6 : tensor<?x?x2x4xf32> -> tensor<?x?x2x4xf32>
    %e = tensor.empty(%b, %t) : tensor<?x2x?x4xf32>
    %q = linalg.transpose ins(%n : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
    %a = kimi.attention %q, %q, %q causal scale 0.5 : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
    %f = tensor.empty(%b, %t) : tensor<?x?x2x4xf32>
    %o = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%f : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
    %gn = kimi.gated_rms_norm %o, %h, %g sigmoid eps 1.0e-5 : tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>, tensor<4xf32> -> tensor<?x?x2x4xf32>
    %y = tensor.collapse_shape %gn [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
    %r = kimi.attn_res(%x, %y) score %s eps 1.0e-5 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>), tensor<8xf32> -> tensor<?x?x8xf32>
    %l = kimi.linear %r, %wr : tensor<?x?x8xf32>, tensor<8x4xf32> -> tensor<?x?x4xf32>
    %lf = tensor.collapse_shape %l [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
    %rf = tensor.collapse_shape %r [[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
    %i, %w = kimi.router %lf sigmoid top 2 : tensor<?x4xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
    %m = kimi.moe %rf, %i, %w experts(%w1, %w1, %w2 : tensor<4x6x8xf32>, tensor<4x6x8xf32>, tensor<4x8x6xf32>) swiglu
       : tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32> -> tensor<?x8xf32>
    %mb = tensor.expand_shape %m [[0, 1], [2]] output_shape [%b, %t, 8] : tensor<?x8xf32> into tensor<?x?x8xf32>
    %gl = kimi.situ_glu %mb, %r beta 4.0 linear_beta 25.0 : tensor<?x?x8xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32>
    %z = kimi.linear %gl, %head : tensor<?x?x8xf32>, tensor<8x64xf32> -> tensor<?x?x64xf32>
    return %z : tensor<?x?x64xf32>
  }
}
