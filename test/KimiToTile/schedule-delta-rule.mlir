// RUN: kimi-opt %s --kimi-schedule-delta-rule --canonicalize 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-delta-rule="gpu=true" 2>/dev/null | FileCheck %s --check-prefix=GPU
// RUN: kimi-opt %s --kimi-schedule-delta-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Kimi Delta Attention, 48 value channels: a block keeps 32 of them, the second stores 16. The result is stored tokens
// first, as its transpose has it.
// CHECK-LABEL: func @kda
// CHECK-NOT: kimi.delta_rule
// CHECK-NOT: linalg.transpose
// CHECK: %[[BH:.*]] = arith.muli %{{.*}}, %c6
// CHECK: kimi.dispatch [@delta_rule_d20_v48_decay_channel_beta] grid(%c2, %[[BH]], %c1)
// CHECK-SAME: -> tensor<?x?x6x48xf32>, tensor<?x6x20x48xf32>
// GPU: tile.kernel @delta_rule_d20_v48_decay_channel_beta({{.*}}threads = 128
func.func @kda(%q: tensor<?x6x?x20xf32>, %v: tensor<?x6x?x48xf32>, %g: tensor<?x6x?x20xf32>, %b: tensor<?x6x?xf32>,
               %s: tensor<?x6x20x48xf32>) -> (tensor<?x?x6x48xf32>, tensor<?x6x20x48xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %o, %n = kimi.delta_rule %q, %q, %v decay %g : tensor<?x6x?x20xf32> beta %b : tensor<?x6x?xf32>
      initial %s : tensor<?x6x20x48xf32> scale 0.125
     : tensor<?x6x?x20xf32>, tensor<?x6x?x20xf32>, tensor<?x6x?x48xf32> -> tensor<?x6x?x48xf32>, tensor<?x6x20x48xf32>
  %batch = tensor.dim %q, %c0 : tensor<?x6x?x20xf32>
  %t = tensor.dim %q, %c2 : tensor<?x6x?x20xf32>
  %e = tensor.empty(%batch, %t) : tensor<?x?x6x48xf32>
  %r = linalg.transpose ins(%o : tensor<?x6x?x48xf32>) outs(%e : tensor<?x?x6x48xf32>) permutation = [0, 2, 1, 3]
  return %r, %n : tensor<?x?x6x48xf32>, tensor<?x6x20x48xf32>
}

// A state of the sequence is updated where it is: nothing is read from it or written to it beside the kernel.
// On a GPU four lanes share a value column.
// GPU: tile.kernel @delta_rule_d32_beta(
// GPU: tile.alloc {layout = #tile.layout<registers [4:1 at 1, 2:16 at 1], lanes [4:4 at 1, 8:1 at 0], warps [4:8 at 0]>} : memref<32x32xf32, #tile.space<fragment>>
// CHECK-LABEL: func @step
// CHECK-NOT: kimi.state_read
// CHECK: kimi.dispatch [@delta_rule_d32_beta] {{.*}} states(%arg3 : !kimi.state<tensor<?x4x32x32xf32>, -1>)
// CHECK-SAME: -> tensor<?x4x?x32xf32>
// CHECK-NOT: kimi.state_write
// CHECK: return
func.func @step(%q: tensor<?x4x?x32xf32>, %v: tensor<?x4x?x32xf32>, %b: tensor<?x4x?xf32>,
                %state: !kimi.state<tensor<?x4x32x32xf32>, -1>) -> tensor<?x4x?x32xf32> {
  %c0 = arith.constant 0 : index
  %batch = tensor.dim %q, %c0 : tensor<?x4x?x32xf32>
  %s = kimi.state_read %state sizes(%batch) : !kimi.state<tensor<?x4x32x32xf32>, -1> -> tensor<?x4x32x32xf32>
  %o, %n = kimi.delta_rule %q, %q, %v beta %b : tensor<?x4x?xf32> initial %s : tensor<?x4x32x32xf32> scale 0.5
     : tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32> -> tensor<?x4x?x32xf32>, tensor<?x4x32x32xf32>
  kimi.state_write %n, %state : tensor<?x4x32x32xf32>, !kimi.state<tensor<?x4x32x32xf32>, -1>
  return %o : tensor<?x4x?x32xf32>
}

// Written to another state than it was read from: the states stay tensors.
// CHECK-LABEL: func @two_states
// CHECK: kimi.state_read
// CHECK: kimi.dispatch [@delta_rule_d32]
// CHECK: kimi.state_write
func.func @two_states(%q: tensor<1x4x?x32xf32>, %from: !kimi.state<tensor<1x4x32x32xf32>, -1>,
                      %to: !kimi.state<tensor<1x4x32x32xf32>, -1>) -> tensor<1x4x?x32xf32> {
  %s = kimi.state_read %from : !kimi.state<tensor<1x4x32x32xf32>, -1> -> tensor<1x4x32x32xf32>
  %o, %n = kimi.delta_rule %q, %q, %q initial %s : tensor<1x4x32x32xf32> scale 0.5
     : tensor<1x4x?x32xf32>, tensor<1x4x?x32xf32>, tensor<1x4x?x32xf32> -> tensor<1x4x?x32xf32>, tensor<1x4x32x32xf32>
  kimi.state_write %n, %to : tensor<1x4x32x32xf32>, !kimi.state<tensor<1x4x32x32xf32>, -1>
  return %o : tensor<1x4x?x32xf32>
}

// Two queries a state; erase and write vectors; no state is asked for.
// CHECK-LABEL: func @gdn2
// CHECK: kimi.dispatch [@delta_rule_d8_v6_decay_erase_channel_write_channel]
// CHECK-SAME: -> tensor<2x4x5x6xf32>
func.func @gdn2(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xf32>, %g: tensor<2x1x5xf32>,
                %e: tensor<2x2x5x8xf32>, %w: tensor<2x2x5x6xf32>) -> tensor<2x4x5x6xf32> {
  %o, %s = kimi.delta_rule %q, %k, %v decay %g : tensor<2x1x5xf32> erase %e : tensor<2x2x5x8xf32>
      write %w : tensor<2x2x5x6xf32> scale 1.0
     : tensor<2x4x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32> -> tensor<2x4x5x6xf32>, tensor<2x2x8x6xf32>
  return %o : tensor<2x4x5x6xf32>
}

// REMARK: remark: is computed by the reference lowering: there is no kernel that divides by the sum of the keys
// REMARK: remark: is computed by the reference lowering: heads of 512 key channels do not fit a block
// CHECK-LABEL: func @refused
// CHECK-COUNT-2: kimi.delta_rule
func.func @refused(%q: tensor<1x1x5x8xf32>, %p: tensor<1x1x5x512xf32>) -> (tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>) {
  %o, %s = kimi.delta_rule %q, %q, %q scale 1.0 normalize 1.0e-6
     : tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32> -> tensor<1x1x5x8xf32>, tensor<1x1x8x9xf32>
  %r, %u = kimi.delta_rule %p, %p, %q scale 1.0
     : tensor<1x1x5x512xf32>, tensor<1x1x5x512xf32>, tensor<1x1x5x8xf32> -> tensor<1x1x5x8xf32>, tensor<1x1x512x8xf32>
  return %o, %r : tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>
}
