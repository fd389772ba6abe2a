// RUN: kimi-opt %s --kimi-schedule-delta-rule-gpu --canonicalize 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-delta-rule-gpu 2>/dev/null | FileCheck %s --check-prefix=KERNEL

#all = affine_map<(b, t, h, d) -> (b, t, h, d)>
#rate = affine_map<(b, t, h, d) -> (h)>
#bias = affine_map<(b, t, h, d) -> (h, d)>
#same = affine_map<(b, t, h) -> (b, t, h)>

// The norms, the gates, the moves and the conversions are in the kernel: one launch, of the tensors as they came.
// CHECK-LABEL: func.func @step
// CHECK-NOT: kimi.l2_norm
// CHECK-NOT: linalg
// CHECK: %[[RATE:.*]] = tensor.expand_shape %arg4
// CHECK-NOT: linalg
// CHECK: kimi.dispatch{{.*}}_tokens{{.*}} ins(%arg0, %arg1, %arg2, %arg3, %[[RATE]], %arg5, %arg6, %arg7 :
// CHECK-NOT: linalg
// CHECK: return

// Queries and keys by the length of their row, the decay in e^, beta once for all channels.
// KERNEL-LABEL: tile.kernel @delta_rule_h6_d32x32_channel_beta_tokens
// KERNEL-SAME: memref<?x1x6x32xf32
// KERNEL: tile.reduce add
// KERNEL: math.rsqrt
// KERNEL: tile.reduce add
// KERNEL: math.rsqrt
// KERNEL: tile.map
// KERNEL: arith.addf
// KERNEL: arith.mulf
// KERNEL: math.exp
// KERNEL: tile.store
func.func @step(%q: tensor<?x1x6x32xf32>, %k: tensor<?x1x6x32xf32>, %v: tensor<?x6x1x32xbf16>, %z: tensor<?x1x6x32xf32>,
                %r: tensor<6xf32>, %d: tensor<6x32xf32>, %b: tensor<?x1x6xbf16>, %s: tensor<?x6x32x32xf32>)
    -> (tensor<?x6x1x32xbf16>, tensor<?x6x32x32xf32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %n = tensor.dim %q, %c0 : tensor<?x1x6x32xf32>
  %qn = kimi.l2_norm %q eps 1.0e-6 : tensor<?x1x6x32xf32> -> tensor<?x1x6x32xf32>
  %kn = kimi.l2_norm %k eps 1.0e-6 : tensor<?x1x6x32xf32> -> tensor<?x1x6x32xf32>
  %wide = tensor.empty(%n) : tensor<?x6x1x32xf32>
  %narrow = tensor.empty(%n) : tensor<?x6x1x32xbf16>
  %qt = linalg.transpose ins(%qn : tensor<?x1x6x32xf32>) outs(%wide : tensor<?x6x1x32xf32>) permutation = [0, 2, 1, 3]
  %kt = linalg.transpose ins(%kn : tensor<?x1x6x32xf32>) outs(%wide : tensor<?x6x1x32xf32>) permutation = [0, 2, 1, 3]
  %qc = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%qt : tensor<?x6x1x32xf32>) outs(%narrow : tensor<?x6x1x32xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<?x6x1x32xbf16>
  %kc = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%kt : tensor<?x6x1x32xf32>) outs(%narrow : tensor<?x6x1x32xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<?x6x1x32xbf16>
  %flat = tensor.empty(%n) : tensor<?x1x6x32xf32>
  %g = linalg.generic {indexing_maps = [#all, #rate, #bias, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%z, %r, %d : tensor<?x1x6x32xf32>, tensor<6xf32>, tensor<6x32xf32>) outs(%flat : tensor<?x1x6x32xf32>) {
  ^bb0(%x: f32, %rate: f32, %bias: f32, %o: f32):
    %y = arith.addf %x, %bias : f32
    %w = arith.mulf %rate, %y : f32
    linalg.yield %w : f32
  } -> tensor<?x1x6x32xf32>
  %gt = linalg.transpose ins(%g : tensor<?x1x6x32xf32>) outs(%wide : tensor<?x6x1x32xf32>) permutation = [0, 2, 1, 3]
  %open = tensor.empty(%n) : tensor<?x1x6xf32>
  %beta = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%b : tensor<?x1x6xbf16>) outs(%open : tensor<?x1x6xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %e = arith.extf %x : bf16 to f32
    %y = arith.addf %e, %one : f32
    linalg.yield %y : f32
  } -> tensor<?x1x6xf32>
  %turned = tensor.empty(%n) : tensor<?x6x1xf32>
  %bt = linalg.transpose ins(%beta : tensor<?x1x6xf32>) outs(%turned : tensor<?x6x1xf32>) permutation = [0, 2, 1]
  %y, %t = kimi.delta_rule %qc, %kc, %v decay %gt : tensor<?x6x1x32xf32> beta %bt : tensor<?x6x1xf32>
      initial %s : tensor<?x6x32x32xf32> scale 0.25
      : tensor<?x6x1x32xbf16>, tensor<?x6x1x32xbf16>, tensor<?x6x1x32xbf16> -> tensor<?x6x1x32xbf16>, tensor<?x6x32x32xf32>
  return %y, %t : tensor<?x6x1x32xbf16>, tensor<?x6x32x32xf32>
}

// The norm of the keys has another reader and stays; that of the queries does not.
// CHECK-LABEL: func.func @shared
// CHECK: %[[K:.*]] = kimi.l2_norm %arg1
// CHECK-NOT: kimi.l2_norm
// CHECK: kimi.dispatch{{.*}}_tokens{{.*}} ins(%arg0, %[[K]], %arg1 :
// CHECK: return {{.*}}, %[[K]]
func.func @shared(%q: tensor<1x2x3x64xf32>, %k: tensor<1x2x3x64xf32>)
    -> (tensor<1x2x3x64xf32>, tensor<1x2x3x64xf32>) {
  %qn = kimi.l2_norm %q eps 1.0e-6 : tensor<1x2x3x64xf32> -> tensor<1x2x3x64xf32>
  %kn = kimi.l2_norm %k eps 1.0e-6 : tensor<1x2x3x64xf32> -> tensor<1x2x3x64xf32>
  %y, %t = kimi.delta_rule %qn, %kn, %k scale 0.5
      : tensor<1x2x3x64xf32>, tensor<1x2x3x64xf32>, tensor<1x2x3x64xf32> -> tensor<1x2x3x64xf32>, tensor<1x2x64x64xf32>
  return %y, %kn : tensor<1x2x3x64xf32>, tensor<1x2x3x64xf32>
}

// Where there may be many tokens, the launch by chunks needs the norms as well.
// CHECK-LABEL: func.func @any
// CHECK: kimi.l2_norm
// CHECK: kimi.l2_norm
// CHECK: kimi.dispatch{{.*}}_prepare
func.func @any(%q: tensor<1x2x?x64xf32>, %k: tensor<1x2x?x64xf32>) -> tensor<1x2x?x64xf32> {
  %qn = kimi.l2_norm %q eps 1.0e-6 : tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>
  %kn = kimi.l2_norm %k eps 1.0e-6 : tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>
  %y, %t = kimi.delta_rule %qn, %kn, %k scale 0.5
      : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>, tensor<1x2x64x64xf32>
  return %y : tensor<1x2x?x64xf32>
}
