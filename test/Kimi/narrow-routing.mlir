// What --kimi-narrow-precision does to experts, gates and attention residuals.
// RUN: kimi-opt %s --kimi-narrow-precision=type=bf16 --canonicalize --cse | FileCheck %s

kimi.weight @w1 : tensor<4x32x8xf32> from #kimi.external<"m", 0, 4096>
kimi.weight @w2 : tensor<4x8x32xf32> from #kimi.external<"m", 4096, 4096>
kimi.weight @p1 : tensor<4x32x64xf4E2M1FN> from #kimi.external<"p", 0, 4096>
kimi.weight @p2 : tensor<4x64x32xf4E2M1FN> from #kimi.external<"p", 4096, 4096>
kimi.weight @s1 : tensor<4x32x2xf8E8M0FNU> from #kimi.external<"p", 8192, 256>
kimi.weight @s2 : tensor<4x64x1xf8E8M0FNU> from #kimi.external<"p", 8448, 256>

// The experts' matrices are rounded once, the tokens where they come in; logits and weights of the router stay fp32.
// CHECK-LABEL: func @experts
// CHECK: %{{.*}}, %[[W:.*]] = kimi.router %arg1 sigmoid top 2 : tensor<?x4xf32>
// CHECK: kimi.moe %{{.*}}, %{{.*}}, %[[W]] experts(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x32x8xbf16>, tensor<4x32x8xbf16>, tensor<4x8x32xbf16>) swiglu : tensor<?x8xbf16>, tensor<?x2xi64>, tensor<?x2xf32> -> tensor<?x8xf32>
func.func @experts(%x: tensor<?x8xf32>, %l: tensor<?x4xf32>) -> tensor<?x8xf32> {
  %w1 = kimi.weight_ref @w1 : tensor<4x32x8xf32>
  %w2 = kimi.weight_ref @w2 : tensor<4x8x32xf32>
  %i, %w = kimi.router %l sigmoid top 2 : tensor<?x4xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
  %y = kimi.moe %x, %i, %w experts(%w1, %w1, %w2 : tensor<4x32x8xf32>, tensor<4x32x8xf32>, tensor<4x8x32xf32>) swiglu
     : tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Packed experts stay packed.
// CHECK-LABEL: func @packed
// CHECK: kimi.moe {{.*}} : tensor<4x32x64xf4E2M1FN>, tensor<4x32x64xf4E2M1FN>, tensor<4x64x32xf4E2M1FN>) scales({{.*}}) swiglu : tensor<?x64xbf16>, tensor<?x2xi64>, tensor<?x2xf32> -> tensor<?x64xf32>
func.func @packed(%x: tensor<?x64xf32>, %i: tensor<?x2xi64>, %w: tensor<?x2xf32>) -> tensor<?x64xf32> {
  %p1 = kimi.weight_ref @p1 : tensor<4x32x64xf4E2M1FN>
  %p2 = kimi.weight_ref @p2 : tensor<4x64x32xf4E2M1FN>
  %s1 = kimi.weight_ref @s1 : tensor<4x32x2xf8E8M0FNU>
  %s2 = kimi.weight_ref @s2 : tensor<4x64x1xf8E8M0FNU>
  %y = kimi.moe %x, %i, %w experts(%p1, %p1, %p2 : tensor<4x32x64xf4E2M1FN>, tensor<4x32x64xf4E2M1FN>, tensor<4x64x32xf4E2M1FN>)
     scales(%s1, %s1, %s2 : tensor<4x32x2xf8E8M0FNU>, tensor<4x32x2xf8E8M0FNU>, tensor<4x64x1xf8E8M0FNU>) swiglu
     : tensor<?x64xf32>, tensor<?x2xi64>, tensor<?x2xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// Operands of one type are narrow together; the decay gate, which is exponentiated, stays fp32.
// CHECK-LABEL: func @gates
// CHECK: %[[H:.*]] = kimi.linear {{.*}} -> tensor<?x8xbf16>
// CHECK: %[[G:.*]] = kimi.swiglu %[[H]], %[[H]] : tensor<?x8xbf16>, tensor<?x8xbf16> -> tensor<?x8xbf16>
// CHECK: %[[R:.*]] = kimi.attn_res(%[[H]], %[[G]]) score %{{.*}} eps {{.*}} : (tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
// CHECK: kimi.linear %[[R]]
// CHECK: kimi.kda_gate %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<?x8xf32>
func.func @gates(%x: tensor<?x8xf32>, %m: tensor<8x8xf32>, %s: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %h = kimi.linear %x, %m : tensor<?x8xf32>, tensor<8x8xf32> -> tensor<?x8xf32>
  %g = kimi.swiglu %h, %h : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %r = kimi.attn_res(%h, %g) score %s eps 1.0e-5 : (tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %y = kimi.linear %r, %m : tensor<?x8xf32>, tensor<8x8xf32> -> tensor<?x8xf32>
  %z = kimi.linear %r, %m : tensor<?x8xf32>, tensor<8x8xf32> -> tensor<?x8xf32>
  %d = kimi.kda_gate %z, %s, %s : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  return %y, %d : tensor<?x8xf32>, tensor<?x8xf32>
}
