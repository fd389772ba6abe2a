// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

kimi.weight @codes : tensor<4x6x64xf4E2M1FN> from #kimi.external<"m", 0, 768>
kimi.weight @scales : tensor<4x6x2xf8E8M0FNU> from #kimi.external<"m", 768, 48>

// CHECK-LABEL: func @gates
func.func @gates(%g: tensor<?x8xf16>, %u: tensor<?x8xf16>) -> tensor<?x8xf32> {
  // CHECK: kimi.swiglu %{{.*}}, %{{.*}} : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf16>
  %0 = kimi.swiglu %g, %u : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf16>
  // CHECK: kimi.situ_glu %{{.*}}, %{{.*}} beta 4.000000e+00 linear_beta 2.500000e+01 : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf16>
  %1 = kimi.situ_glu %0, %u beta 4.0 linear_beta 25.0 : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf16>
  // CHECK: kimi.situ_glu %{{.*}}, %{{.*}} beta 1.000000e+00 : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf32>
  %2 = kimi.situ_glu %1, %u beta 1.0 : tensor<?x8xf16>, tensor<?x8xf16> -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// CHECK-LABEL: func @heads
func.func @heads(%x: tensor<?x3x8xf32>, %gate: tensor<?x3x8xf32>, %gamma: tensor<8xf32>, %rate: tensor<3xf32>,
                 %dt: tensor<3x8xf32>, %per_head: tensor<?x3xf32>, %dt_head: tensor<3xf32>) -> tensor<?x3xf32> {
  // CHECK: kimi.l2_norm %{{.*}} eps 9.99999997E-7 : tensor<?x3x8xf32> -> tensor<?x3x8xf32>
  %0 = kimi.l2_norm %x eps 1.0e-6 : tensor<?x3x8xf32> -> tensor<?x3x8xf32>
  // CHECK: kimi.gated_rms_norm %{{.*}}, %{{.*}}, %{{.*}} sigmoid eps 9.99999974E-6 : tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32> -> tensor<?x3x8xf32>
  %1 = kimi.gated_rms_norm %0, %gate, %gamma sigmoid eps 1.0e-5
     : tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32> -> tensor<?x3x8xf32>
  // CHECK: kimi.gated_rms_norm {{.*}} silu eps
  %2 = kimi.gated_rms_norm %1, %gate, %gamma silu eps 1.0e-5
     : tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32> -> tensor<?x3x8xf32>
  // CHECK: kimi.kda_gate %{{.*}}, %{{.*}}, %{{.*}} bound -5.000000e+00 : tensor<?x3x8xf32>, tensor<3xf32>, tensor<3x8xf32> -> tensor<?x3x8xf32>
  %3 = kimi.kda_gate %2, %rate, %dt bound -5.0
     : tensor<?x3x8xf32>, tensor<3xf32>, tensor<3x8xf32> -> tensor<?x3x8xf32>
  // CHECK: kimi.kda_gate %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<?x3xf32>
  %4 = kimi.kda_gate %per_head, %rate, %dt_head : tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<?x3xf32>
  return %4 : tensor<?x3xf32>
}

// CHECK-LABEL: func @router
func.func @router(%l: tensor<?x8xf32>, %bias: tensor<8xf32>) -> (tensor<?x3xi64>, tensor<?x3xf32>) {
  // CHECK: kimi.router %{{.*}} softmax top 2 : tensor<?x8xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  %0:2 = kimi.router %l softmax top 2 : tensor<?x8xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  // CHECK: kimi.router %{{.*}}, %{{.*}} sigmoid top 3 {groups = 4 : i64, keep_groups = 2 : i64, masked = 0.000000e+00 : f32, normalise = 9.99999968E-21 : f32, scale = 2.500000e+00 : f32} : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x3xi64>, tensor<?x3xf32>
  %1:2 = kimi.router %l, %bias sigmoid top 3 {groups = 4 : i64, keep_groups = 2 : i64, masked = 0.0 : f32,
                                              normalise = 1.0e-20 : f32, scale = 2.5 : f32}
       : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x3xi64>, tensor<?x3xf32>
  return %1#0, %1#1 : tensor<?x3xi64>, tensor<?x3xf32>
}

// CHECK-LABEL: func @experts
func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %w1: tensor<4x32x64xf16>,
                   %w2: tensor<4x64x32xf16>, %p1: tensor<4x32x64xf4E2M1FN>, %p2: tensor<4x64x32xf4E2M1FN>,
                   %s1: tensor<4x32x2xf8E8M0FNU>, %s2: tensor<4x64x1xf8E8M0FNU>) -> tensor<?x64xf32> {
  // CHECK: kimi.moe %{{.*}}, %{{.*}}, %{{.*}} experts(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x32x64xf16>, tensor<4x32x64xf16>, tensor<4x64x32xf16>) swiglu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  %0 = kimi.moe %x, %i, %w experts(%w1, %w1, %w2 : tensor<4x32x64xf16>, tensor<4x32x64xf16>, tensor<4x64x32xf16>) swiglu
     : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  // CHECK: kimi.moe {{.*}} scales(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x32x2xf8E8M0FNU>, tensor<4x32x2xf8E8M0FNU>, tensor<4x64x1xf8E8M0FNU>) situ_glu beta 4.000000e+00 linear_beta 2.500000e+01 :
  %1 = kimi.moe %0, %i, %w experts(%p1, %p1, %p2 : tensor<4x32x64xf4E2M1FN>, tensor<4x32x64xf4E2M1FN>, tensor<4x64x32xf4E2M1FN>)
     scales(%s1, %s1, %s2 : tensor<4x32x2xf8E8M0FNU>, tensor<4x32x2xf8E8M0FNU>, tensor<4x64x1xf8E8M0FNU>)
     situ_glu beta 4.0 linear_beta 25.0
     : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return %1 : tensor<?x64xf32>
}

// CHECK-LABEL: func @depth
func.func @depth(%a: tensor<?x8xbf16>, %b: tensor<?x8xbf16>, %s: tensor<8xf32>) -> tensor<?x8xbf16> {
  // CHECK: kimi.attn_res(%{{.*}}, %{{.*}}) score %{{.*}} eps 9.99999974E-6 : (tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
  %0 = kimi.attn_res(%a, %b) score %s eps 1.0e-5 : (tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

// The weight as it is, and its bytes.
// CHECK-LABEL: func @packed
func.func @packed() -> (tensor<4x6x64xf32>, tensor<4x6x32xi8>, tensor<4x6x2xi8>) {
  %w = kimi.weight_ref @codes : tensor<4x6x64xf4E2M1FN>
  %s = kimi.weight_ref @scales : tensor<4x6x2xf8E8M0FNU>
  // CHECK: kimi.dequantize %{{.*}}, %{{.*}} axis 2 block 32 : tensor<4x6x64xf4E2M1FN>, tensor<4x6x2xf8E8M0FNU> -> tensor<4x6x64xf32>
  %y = kimi.dequantize %w, %s axis 2 block 32
     : tensor<4x6x64xf4E2M1FN>, tensor<4x6x2xf8E8M0FNU> -> tensor<4x6x64xf32>
  // CHECK: kimi.weight_ref @codes : tensor<4x6x32xi8>
  %b = kimi.weight_ref @codes : tensor<4x6x32xi8>
  // CHECK: kimi.weight_ref @scales : tensor<4x6x2xi8>
  %c = kimi.weight_ref @scales : tensor<4x6x2xi8>
  return %y, %b, %c : tensor<4x6x64xf32>, tensor<4x6x32xi8>, tensor<4x6x2xi8>
}

// CHECK-LABEL: func @bank
func.func @bank(%a: tensor<?x8xbf16>, %b: tensor<?x8xbf16>, %p: tensor<?x8xbf16>, %s: tensor<8xf32>, %t: tensor<8xf32>) -> tensor<?x8xf32> {
  // CHECK: %[[L:.*]]:2, %[[A:.*]]:2 = kimi.attn_res_bank(%{{.*}}, %{{.*}}) scores(%{{.*}}, %{{.*}}) eps 9.99999974E-6 : (tensor<?x8xbf16>, tensor<?x8xbf16>), (tensor<8xf32>, tensor<8xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>), (tensor<?x8xf32>, tensor<?x8xbf16>)
  %0:4 = kimi.attn_res_bank(%a, %b) scores(%s, %t) eps 1.0e-5 : (tensor<?x8xbf16>, tensor<?x8xbf16>), (tensor<8xf32>, tensor<8xf32>)
      -> (tensor<?x2xf32>, tensor<?x2xf32>), (tensor<?x8xf32>, tensor<?x8xbf16>)
  // CHECK: kimi.attn_res_merge %{{.*}} with %[[L]]#0, %[[A]]#0 score %{{.*}} eps 9.99999974E-6 : tensor<?x8xbf16>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %1 = kimi.attn_res_merge %p with %0#0, %0#2 score %s eps 1.0e-5 : tensor<?x8xbf16>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
