// RUN: kimi-opt %s | kimi-opt | FileCheck %s
// RUN: kimi-opt %s --mlir-print-op-generic | kimi-opt | FileCheck %s

// CHECK: #[[LAST:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK: kimi.weight @wte : tensor<16x4xf32> from #kimi.external<"model.onnx.data", 64, 256>
kimi.weight @wte : tensor<16x4xf32> from #kimi.external<"model.onnx.data", 64, 256>
// CHECK: kimi.weight @flags : tensor<3xi1> from #kimi.external<"m", 0, 3>
kimi.weight @flags : tensor<3xi1> from #kimi.external<"m", 0, 3>
// CHECK: kimi.weight @codes : tensor<5xf4E2M1FN> from #kimi.external<"m", 0, 3>
kimi.weight @codes : tensor<5xf4E2M1FN> from #kimi.external<"m", 0, 3>
// CHECK: kimi.weight @inline : tensor<2xf32> from dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
kimi.weight @inline : tensor<2xf32> from dense<[1.0, 2.0]> : tensor<2xf32>

// CHECK-LABEL: func @weights
func.func @weights() -> tensor<1x16x16xf32> {
  // CHECK: %[[W:.*]] = kimi.weight_ref @wte : tensor<16x4xf32>
  %w = kimi.weight_ref @wte : tensor<16x4xf32>
  // CHECK: kimi.pack_weight %[[W]] panel 16 : tensor<16x4xf32> -> tensor<1x16x16xf32>
  %p = kimi.pack_weight %w panel 16 : tensor<16x4xf32> -> tensor<1x16x16xf32>
  // CHECK: kimi.pack_weight %[[W]] transpose panel 8 : tensor<16x4xf32> -> tensor<2x4x8xf32>
  %q = kimi.pack_weight %w transpose panel 8 : tensor<16x4xf32> -> tensor<2x4x8xf32>
  return %p : tensor<1x16x16xf32>
}

// CHECK-LABEL: func @attention
func.func @attention(%q: tensor<?x12x?x64xf16>, %k: tensor<?x4x?x64xf16>, %v: tensor<?x4x?x32xf16>,
                     %m: tensor<1x1x?x?xi1>) -> tensor<?x12x?x32xf16> {
  // CHECK: kimi.attention %{{.*}}, %{{.*}}, %{{.*}} causal scale 1.250000e-01 : tensor<?x12x?x64xf16>, tensor<?x4x?x64xf16>, tensor<?x4x?x32xf16> -> tensor<?x12x?x32xf16>
  %a = kimi.attention %q, %k, %v causal scale 0.125
     : tensor<?x12x?x64xf16>, tensor<?x4x?x64xf16>, tensor<?x4x?x32xf16> -> tensor<?x12x?x32xf16>
  // CHECK: kimi.attention %{{.*}} mask %{{.*}} : tensor<1x1x?x?xi1> scale 1.000000e+00 {softcap = 3.000000e+01 : f32} :
  %b = kimi.attention %q, %k, %v mask %m : tensor<1x1x?x?xi1> scale 1.0 {softcap = 30.0 : f32}
     : tensor<?x12x?x64xf16>, tensor<?x4x?x64xf16>, tensor<?x4x?x32xf16> -> tensor<?x12x?x32xf16>
  return %b : tensor<?x12x?x32xf16>
}

// The buffer of a state, of dynamic and of fixed extents.
// CHECK-LABEL: func @views
func.func @views(%s: !kimi.state<tensor<?x4x?x64xf32>, 2>, %n: index)
    -> (tensor<?x4x?x64xf32>, tensor<1x4x9x64xf32>) {
  // CHECK: kimi.state_view %{{.*}} sizes(%{{.*}}, %{{.*}}) : <tensor<?x4x?x64xf32>, 2> -> tensor<?x4x?x64xf32>
  %a = kimi.state_view %s sizes(%n, %n) : !kimi.state<tensor<?x4x?x64xf32>, 2> -> tensor<?x4x?x64xf32>
  // CHECK: kimi.state_view %{{.*}} : <tensor<?x4x?x64xf32>, 2> -> tensor<1x4x9x64xf32>
  %b = kimi.state_view %s : !kimi.state<tensor<?x4x?x64xf32>, 2> -> tensor<1x4x9x64xf32>
  return %a, %b : tensor<?x4x?x64xf32>, tensor<1x4x9x64xf32>
}

// Nothing uses the appended rows: the append stays all the same.
// CHECK-LABEL: func @state
func.func @state(%s: !kimi.state<tensor<?x4x?x64xf32>, 2>, %rows: tensor<?x4x?x64xf32>) {
  // CHECK: %[[PAST:.*]] = kimi.state_length %{{.*}} : !kimi.state<tensor<?x4x?x64xf32>, 2>
  %past = kimi.state_length %s : !kimi.state<tensor<?x4x?x64xf32>, 2>
  // CHECK: kimi.cache_append %{{.*}}, %{{.*}} at %[[PAST]] : !kimi.state<tensor<?x4x?x64xf32>, 2>, tensor<?x4x?x64xf32> -> tensor<?x4x?x64xf32>
  %all = kimi.cache_append %s, %rows at %past
     : !kimi.state<tensor<?x4x?x64xf32>, 2>, tensor<?x4x?x64xf32> -> tensor<?x4x?x64xf32>
  return
}

// CHECK: func.func private @fixed(!kimi.state<tensor<?x4x64x64xf32>, -1>)
func.func private @fixed(!kimi.state<tensor<?x4x64x64xf32>, -1>)

// CHECK-LABEL: func @norms
func.func @norms(%x: tensor<?x?x8xbf16>, %g: tensor<8xf32>, %b: tensor<8xf32>) {
  // CHECK: kimi.layer_norm %{{.*}}, %{{.*}}, %{{.*}} eps {{.*}} : tensor<?x?x8xbf16>, tensor<8xf32>, tensor<8xf32> -> tensor<?x?x8xbf16>
  %0 = kimi.layer_norm %x, %g, %b eps 1.0e-5 : tensor<?x?x8xbf16>, tensor<8xf32>, tensor<8xf32> -> tensor<?x?x8xbf16>
  // CHECK: kimi.layer_norm %{{.*}}, %{{.*}} eps {{.*}} : tensor<?x?x8xbf16>, tensor<8xf32> -> tensor<?x?x8xbf16>
  %1 = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<?x?x8xbf16>, tensor<8xf32> -> tensor<?x?x8xbf16>
  // CHECK: kimi.rms_norm %{{.*}}, %{{.*}} eps {{.*}} : tensor<?x?x8xbf16>, tensor<8xf32> -> tensor<?x?x8xf32>
  %2 = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x?x8xbf16>, tensor<8xf32> -> tensor<?x?x8xf32>
  // CHECK: kimi.softmax %{{.*}} axis 1 : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  %3 = kimi.softmax %x axis 1 : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  // CHECK: kimi.softmax %{{.*}} axis 2 log : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  %4 = kimi.softmax %x axis 2 log : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  // CHECK: kimi.gelu %{{.*}} : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  %5 = kimi.gelu %x : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  // CHECK: kimi.gelu %{{.*}} tanh : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  %6 = kimi.gelu %x tanh : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
  return
}

// CHECK-LABEL: func @linear
func.func @linear(%x: tensor<?x?x8xf32>, %w: tensor<8x6xf32>, %wt: tensor<6x8xf32>, %b: tensor<6xf32>,
                  %ids: tensor<?x?xi64>) {
  // CHECK: kimi.linear %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x?x8xf32>, tensor<8x6xf32>, tensor<6xf32> -> tensor<?x?x6xf32>
  %0 = kimi.linear %x, %w, %b : tensor<?x?x8xf32>, tensor<8x6xf32>, tensor<6xf32> -> tensor<?x?x6xf32>
  // CHECK: kimi.linear %{{.*}}, %{{.*}} transpose : tensor<?x?x8xf32>, tensor<6x8xf32> -> tensor<?x?x6xf32>
  %1 = kimi.linear %x, %wt transpose : tensor<?x?x8xf32>, tensor<6x8xf32> -> tensor<?x?x6xf32>
  // CHECK: kimi.embedding %{{.*}}, %{{.*}} : tensor<?x?xi64>, tensor<8x6xf32> -> tensor<?x?x6xf32>
  %2 = kimi.embedding %ids, %w : tensor<?x?xi64>, tensor<8x6xf32> -> tensor<?x?x6xf32>
  return
}

// CHECK-LABEL: func @fused_linear
func.func @fused_linear(%x: tensor<?x?x768xf32>, %w: tensor<768x3072xf32>, %wt: tensor<3072x768xf32>,
                        %g: tensor<768xf32>, %b: tensor<768xf32>, %bias: tensor<3072xf32>) {
  // CHECK: kimi.fused_linear %{{.*}}, %{{.*}} norm layer(%{{.*}}, %{{.*}}) eps 9.99999974E-6 extras(%{{.*}}) maps [#[[LAST]]] : (tensor<?x?x768xf32>, tensor<768x3072xf32>, tensor<768xf32>, tensor<768xf32>, tensor<3072xf32>) -> tensor<?x?x3072xf32> {
  // CHECK-NEXT: ^bb0(%[[ACC:.*]]: f32, %[[BIAS:.*]]: f32):
  // CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[ACC]], %[[BIAS]] : f32
  // CHECK-NEXT: kimi.yield %[[SUM]] : f32
  %y = kimi.fused_linear %x, %w norm layer(%g, %b) eps 1.0e-5 extras(%bias) maps [affine_map<(b, t, n) -> (n)>]
      : (tensor<?x?x768xf32>, tensor<768x3072xf32>, tensor<768xf32>, tensor<768xf32>, tensor<3072xf32>)
        -> tensor<?x?x3072xf32> {
  ^bb0(%acc: f32, %bb: f32):
    %0 = arith.addf %acc, %bb : f32
    kimi.yield %0 : f32
  }
  // CHECK: kimi.fused_linear %{{.*}}, %{{.*}} transpose norm rms(%{{.*}}) eps 0.000000e+00 {note = "n"} : (tensor<?x?x768xf32>, tensor<3072x768xf32>, tensor<768xf32>) -> tensor<?x?x3072xf16> {
  %z = kimi.fused_linear %x, %wt transpose norm rms(%g) eps 0.0 {note = "n"}
      : (tensor<?x?x768xf32>, tensor<3072x768xf32>, tensor<768xf32>) -> tensor<?x?x3072xf16> {
  ^bb0(%acc: f32):
    %0 = arith.truncf %acc : f32 to f16
    kimi.yield %0 : f16
  }
  // CHECK: kimi.fused_linear %{{.*}}, %{{.*}} : (tensor<?x?x768xf32>, tensor<768x3072xf32>) -> tensor<?x?x3072xf32> {
  %u = kimi.fused_linear %x, %w : (tensor<?x?x768xf32>, tensor<768x3072xf32>) -> tensor<?x?x3072xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return
}

// CHECK-LABEL: func @loops
func.func @loops(%x: tensor<?x4xf32>, %n: index) -> tensor<?x4xf32> {
  // CHECK: kimi.loops ins(%{{.*}} : tensor<?x4xf32>) scalars(%[[N:.*]]) dims(%[[N]]) rows(%[[N]]) -> tensor<?x4xf32> {
  // CHECK-NEXT: ^bb0(%{{.*}}: memref<?x4xf32>, %{{.*}}: memref<?x4xf32>, %{{.*}}: index, %{{.*}}: index):
  %y = kimi.loops ins(%x : tensor<?x4xf32>) scalars(%n) dims(%n) rows(%n) -> tensor<?x4xf32> {
  ^bb0(%in: memref<?x4xf32>, %out: memref<?x4xf32>, %s: index, %row: index):
    %c0 = arith.constant 0 : index
    %v = memref.load %in[%row, %c0] : memref<?x4xf32>
    memref.store %v, %out[%row, %c0] : memref<?x4xf32>
    kimi.yield
  }
  return %y : tensor<?x4xf32>
}

func.func private @k1(memref<?x4xf32>, memref<?x4xf32>, memref<?x4xf32>, index)
func.func private @k2(memref<?x4xf32>, memref<?x4xf32>, memref<?x4xf32>, index)

// CHECK-LABEL: func @dispatch
func.func @dispatch(%x: tensor<?x4xf32>, %s: !kimi.state<tensor<?x4xf32>, 0>, %n: index, %one: i1) -> tensor<?x4xf32> {
  // CHECK: kimi.dispatch [@k1, @k2] guards(%{{.*}}) grid(%{{.*}}) ins(%{{.*}} : tensor<?x4xf32>) states(%{{.*}} : !kimi.state<tensor<?x4xf32>, 0>) dims(%{{.*}}) scalars(%{{.*}}) -> tensor<?x4xf32>
  %y = kimi.dispatch [@k1, @k2] guards(%one) grid(%n, %n, %n, %n, %n, %n) ins(%x : tensor<?x4xf32>)
      states(%s : !kimi.state<tensor<?x4xf32>, 0>) dims(%n) scalars(%n) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// CHECK-LABEL: func @require
func.func @require(%n: index, %m: index) {
  // CHECK: kimi.require %{{.*}} equal %{{.*}}, "node 'scores': n and m must be equal"
  kimi.require %n equal %m, "node 'scores': n and m must be equal"
  // CHECK: kimi.require %{{.*}} broadcast %{{.*}}, "node 'sum': n and m must be equal, or one of them 1"
  kimi.require %n broadcast %m, "node 'sum': n and m must be equal, or one of them 1"
  // CHECK: kimi.require %{{.*}} at_most %{{.*}}, "node 'put': n must not be more than m"
  kimi.require %n at_most %m, "node 'put': n must not be more than m"
  return
}

// CHECK-LABEL: func @greedy_token
func.func @greedy_token(%l: tensor<?x1x50257xbf16>) -> tensor<?x1xi64> {
  // CHECK: kimi.greedy_token %{{.*}} : tensor<?x1x50257xbf16> -> tensor<?x1xi64>
  %t = kimi.greedy_token %l : tensor<?x1x50257xbf16> -> tensor<?x1xi64>
  return %t : tensor<?x1xi64>
}
