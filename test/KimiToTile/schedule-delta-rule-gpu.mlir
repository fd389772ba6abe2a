// RUN: kimi-opt %s --kimi-schedule-delta-rule-gpu --canonicalize 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-delta-rule-gpu="arch=80" --canonicalize 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-delta-rule-gpu 2>/dev/null | FileCheck %s --check-prefix=KERNEL
// RUN: kimi-opt %s --kimi-schedule-delta-rule-gpu -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not kimi-opt %s --kimi-schedule-delta-rule-gpu="arch=75" 2>&1 | FileCheck %s --check-prefix=ARCH
// ARCH: there are no schedules for the compute capability '75'

// The formulas: sums of gates, five levels of pairs, the inverse of the system and its two products.
// KERNEL-LABEL: tile.kernel @delta_rule_h6_d32x32_channel_beta_prepare
// KERNEL: tile.scan
// KERNEL: tile.pick_rows {{.*}} block 32 row 16
// KERNEL: tile.mma {{.*}} transpose_b
// KERNEL: tile.mma {{.*}} transpose_b
// KERNEL: tile.pick_rows {{.*}} block 16 row 8
// KERNEL: tile.pick_rows {{.*}} block 8 row 4
// KERNEL: tile.pick_rows {{.*}} block 4 row 2
// KERNEL: tile.pick_rows {{.*}} block 2 row 1
// KERNEL: tile.solve {{.*}}, memref<32x32xf32, #tile.space<fragment>>
// KERNEL-NOT: tile.solve
// KERNEL-COUNT-2: tile.mma {{.*}} memref<32x32xbf16, #tile.space<shared>>, memref<32x32xbf16, #tile.space<shared>>
// KERNEL: tile.return
// KERNEL-LABEL: tile.kernel @delta_rule_h6_d32x32_channel_beta_chunks
// KERNEL: tile.pipeline
// KERNEL-COUNT-4: tile.mma

// Any number of tokens: chunks are prepared (the grid is empty for few tokens), then either kernel takes the state.
// CHECK-LABEL: func @kda
// CHECK-NOT: kimi.delta_rule
// CHECK-NOT: linalg.transpose
// CHECK: %[[W:.*]]:6 = kimi.dispatch [@delta_rule_h6_d32x32_channel_beta_prepare] grid(
// CHECK: kimi.dispatch [@delta_rule_h6_d32x32_channel_beta_tokens, @delta_rule_h6_d32x32_channel_beta_chunks] guards(
// CHECK-SAME: %[[W]]#0
// CHECK-SAME: -> tensor<?x?x6x32xbf16>, tensor<?x6x32x32xf32>
func.func @kda(%q: tensor<?x6x?x32xbf16>, %g: tensor<?x6x?x32xf32>, %b: tensor<?x6x?xf32>, %s: tensor<?x6x32x32xf32>)
    -> (tensor<?x?x6x32xbf16>, tensor<?x6x32x32xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %o, %n = kimi.delta_rule %q, %q, %q decay %g : tensor<?x6x?x32xf32> beta %b : tensor<?x6x?xf32>
      initial %s : tensor<?x6x32x32xf32> scale 0.125
     : tensor<?x6x?x32xbf16>, tensor<?x6x?x32xbf16>, tensor<?x6x?x32xbf16> -> tensor<?x6x?x32xbf16>, tensor<?x6x32x32xf32>
  %batch = tensor.dim %q, %c0 : tensor<?x6x?x32xbf16>
  %tokens = tensor.dim %q, %c2 : tensor<?x6x?x32xbf16>
  %e = tensor.empty(%batch, %tokens) : tensor<?x?x6x32xbf16>
  %t = linalg.transpose ins(%o : tensor<?x6x?x32xbf16>) outs(%e : tensor<?x?x6x32xbf16>) permutation = [0, 2, 1, 3]
  return %t, %n : tensor<?x?x6x32xbf16>, tensor<?x6x32x32xf32>
}

// One token: no chunks.
// CHECK-LABEL: func @step
// CHECK: kimi.dispatch [@delta_rule_h2_d64x128_tokens] grid(
// CHECK-NOT: kimi.dispatch
func.func @step(%q: tensor<1x2x1x64xf32>, %v: tensor<1x2x1x128xf32>) -> tensor<1x2x1x128xf32> {
  %o, %n = kimi.delta_rule %q, %q, %v scale 1.0
     : tensor<1x2x1x64xf32>, tensor<1x2x1x64xf32>, tensor<1x2x1x128xf32> -> tensor<1x2x1x128xf32>, tensor<1x2x64x128xf32>
  return %o : tensor<1x2x1x128xf32>
}

// 70 tokens are three chunks; nothing is read back, so there is no system to solve. A state that is not used is not written.
// CHECK-LABEL: func @linear
// CHECK: kimi.dispatch [@delta_rule_h2_d64x64_prepare] grid(%c2, %c3, %c1)
// CHECK: kimi.dispatch [@delta_rule_h2_d64x64_chunks]
// CHECK-SAME: -> tensor<1x2x70x64xf32>
// CHECK: return
func.func @linear(%q: tensor<1x2x70x64xf32>) -> tensor<1x2x70x64xf32> {
  %o, %n = kimi.delta_rule %q, %q, %q scale 1.0
     : tensor<1x2x70x64xf32>, tensor<1x2x70x64xf32>, tensor<1x2x70x64xf32> -> tensor<1x2x70x64xf32>, tensor<1x2x64x64xf32>
  return %o : tensor<1x2x70x64xf32>
}

// Gates that a constant times a sigmoid bounds by -5: a product of blocks of 16 rows in place of four levels.
// CHECK-LABEL: func @bounded
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_prepare]
func.func @bounded(%q: tensor<1x1x32x16xf32>, %z: tensor<1x1x32xf32>) -> tensor<1x1x32x16xf32> {
  %e = tensor.empty() : tensor<1x1x32xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%z : tensor<1x1x32xf32>) outs(%e : tensor<1x1x32xf32>) {
  ^bb0(%x: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %bound = arith.constant -5.0 : f32
    %n = arith.negf %x : f32
    %p = math.exp %n : f32
    %d = arith.addf %p, %one : f32
    %s = arith.divf %bound, %d : f32
    linalg.yield %s : f32
  } -> tensor<1x1x32xf32>
  %o, %n = kimi.delta_rule %q, %q, %q decay %g : tensor<1x1x32xf32> scale 1.0
     : tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32> -> tensor<1x1x32x16xf32>, tensor<1x1x16x16xf32>
  return %o : tensor<1x1x32x16xf32>
}
// KERNEL-LABEL: tile.kernel @delta_rule_h1_d16x16_head_prepare
// KERNEL: tile.pick_rows {{.*}} block 16 row 8
// KERNEL: tile.pick_rows {{.*}} block 32 row 24
// KERNEL-NOT: tile.pick_rows {{.*}} block {{8|16}}
// KERNEL: tile.pick_rows {{.*}} block 32 row 31
// KERNEL: tile.return

// Left alone.
// REMARK: remark: is not computed in chunks: it divides by the sum of the keys
// CHECK-LABEL: func @normalized
// CHECK: kimi.delta_rule
func.func @normalized(%q: tensor<1x2x70x64xf32>) -> tensor<1x2x70x64xf32> {
  %o, %n = kimi.delta_rule %q, %q, %q scale 1.0 normalize 1.0e-6
     : tensor<1x2x70x64xf32>, tensor<1x2x70x64xf32>, tensor<1x2x70x64xf32> -> tensor<1x2x70x64xf32>, tensor<1x2x64x65xf32>
  return %o : tensor<1x2x70x64xf32>
}

// REMARK: remark: is not computed in chunks: several queries share a state
// CHECK-LABEL: func @grouped
// CHECK: kimi.delta_rule
func.func @grouped(%q: tensor<1x4x70x64xf32>, %k: tensor<1x2x70x64xf32>) -> tensor<1x4x70x64xf32> {
  %o, %n = kimi.delta_rule %q, %k, %k scale 1.0
     : tensor<1x4x70x64xf32>, tensor<1x2x70x64xf32>, tensor<1x2x70x64xf32> -> tensor<1x4x70x64xf32>, tensor<1x2x64x64xf32>
  return %o : tensor<1x4x70x64xf32>
}

// REMARK: remark: is not computed in chunks: heads of 20 and 20 channels are not whole matrix instructions
// CHECK-LABEL: func @narrow
// CHECK: kimi.delta_rule
func.func @narrow(%q: tensor<1x2x70x20xf32>) -> tensor<1x2x70x20xf32> {
  %o, %n = kimi.delta_rule %q, %q, %q scale 1.0
     : tensor<1x2x70x20xf32>, tensor<1x2x70x20xf32>, tensor<1x2x70x20xf32> -> tensor<1x2x70x20xf32>, tensor<1x2x20x20xf32>
  return %o : tensor<1x2x70x20xf32>
}
