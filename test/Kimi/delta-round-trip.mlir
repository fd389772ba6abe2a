// Mixers with a state of fixed size print as they were read.
// RUN: kimi-opt %s | kimi-opt | FileCheck %s

// CHECK-LABEL: func @linear
// CHECK: kimi.delta_rule %{{.*}}, %{{.*}}, %{{.*}} scale 1.250000e-01 : tensor<?x4x?x8xf32>
// CHECK: kimi.delta_rule %{{.*}}, %{{.*}}, %{{.*}} scale 1.000000e+00 normalize {{.*}} -> tensor<?x4x?x6xf32>, tensor<?x4x8x7xf32>
func.func @linear(%q: tensor<?x4x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x6xf32>, %k4: tensor<?x4x?x8xf32>,
                  %v4: tensor<?x4x?x6xf32>) -> (tensor<?x4x?x6xf32>, tensor<?x4x8x7xf32>) {
  %o, %s = kimi.delta_rule %q, %k, %v scale 0.125
     : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x2x8x6xf32>
  %p, %z = kimi.delta_rule %q, %k4, %v4 scale 1.0 normalize 1.0e-10
     : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x7xf32>
  return %o, %z : tensor<?x4x?x6xf32>, tensor<?x4x8x7xf32>
}

// CHECK-LABEL: func @kda
// CHECK: kimi.delta_rule {{.*}} decay %{{.*}} : tensor<?x6x?x32xf32> beta %{{.*}} : tensor<?x6x?xf32> initial %{{.*}} : tensor<?x6x32x32xf32> scale
func.func @kda(%q: tensor<?x6x?x32xbf16>, %g: tensor<?x6x?x32xf32>, %b: tensor<?x6x?xf32>, %s: tensor<?x6x32x32xf32>)
    -> (tensor<?x6x?x32xbf16>, tensor<?x6x32x32xf32>) {
  %o, %n = kimi.delta_rule %q, %q, %q decay %g : tensor<?x6x?x32xf32> beta %b : tensor<?x6x?xf32>
      initial %s : tensor<?x6x32x32xf32> scale 0.125
     : tensor<?x6x?x32xbf16>, tensor<?x6x?x32xbf16>, tensor<?x6x?x32xbf16> -> tensor<?x6x?x32xbf16>, tensor<?x6x32x32xf32>
  return %o, %n : tensor<?x6x?x32xbf16>, tensor<?x6x32x32xf32>
}

// Two states a query head, gates shared by all heads, erase and write vectors.
// CHECK-LABEL: func @grouped_values
// CHECK: kimi.delta_rule {{.*}} decay %{{.*}} : tensor<2x1x5xf32> erase %{{.*}} : tensor<2x4x5x8xf32> write %{{.*}} : tensor<2x4x5x6xf32> scale
func.func @grouped_values(%q: tensor<2x2x5x8xf32>, %v: tensor<2x4x5x6xf32>, %g: tensor<2x1x5xf32>,
                          %e: tensor<2x4x5x8xf32>, %w: tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32> {
  %o, %s = kimi.delta_rule %q, %q, %v decay %g : tensor<2x1x5xf32> erase %e : tensor<2x4x5x8xf32>
      write %w : tensor<2x4x5x6xf32> scale 1.0
     : tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x4x5x6xf32> -> tensor<2x4x5x6xf32>, tensor<2x4x8x6xf32>
  return %o : tensor<2x4x5x6xf32>
}

// CHECK-LABEL: func @conv
// CHECK: kimi.causal_conv %{{.*}}, %{{.*}} activation none : tensor<?x96x?xf32>, tensor<96x4xf32>
// CHECK: kimi.causal_conv %{{.*}}, %{{.*}} bias %{{.*}} : tensor<96xf32> past %{{.*}} : tensor<?x96x3xf32> activation silu
func.func @conv(%x: tensor<?x96x?xf32>, %w: tensor<96x4xf32>, %b: tensor<96xf32>)
    -> (tensor<?x96x?xf32>, tensor<?x96x3xf32>) {
  %y, %p = kimi.causal_conv %x, %w activation none
     : tensor<?x96x?xf32>, tensor<96x4xf32> -> tensor<?x96x?xf32>, tensor<?x96x3xf32>
  %z, %n = kimi.causal_conv %y, %w bias %b : tensor<96xf32> past %p : tensor<?x96x3xf32> activation silu
     : tensor<?x96x?xf32>, tensor<96x4xf32> -> tensor<?x96x?xf32>, tensor<?x96x3xf32>
  return %z, %n : tensor<?x96x?xf32>, tensor<?x96x3xf32>
}

// CHECK-LABEL: func @state
// CHECK: %[[OLD:.*]] = kimi.state_read %{{.*}} sizes(%{{.*}}) : !kimi.state<tensor<?x6x32x32xf32>, -1> -> tensor<?x6x32x32xf32>
// CHECK: kimi.state_write %[[OLD]], %{{.*}} : tensor<?x6x32x32xf32>, !kimi.state<tensor<?x6x32x32xf32>, -1>
func.func @state(%s: !kimi.state<tensor<?x6x32x32xf32>, -1>, %t: !kimi.state<tensor<?x6x32x32xf32>, -1>, %b: index) {
  %old = kimi.state_read %s sizes(%b) : !kimi.state<tensor<?x6x32x32xf32>, -1> -> tensor<?x6x32x32xf32>
  kimi.state_write %old, %t : tensor<?x6x32x32xf32>, !kimi.state<tensor<?x6x32x32xf32>, -1>
  return
}
