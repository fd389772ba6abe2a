// RUN: kimi-opt %s --split-input-file --kimi-derive-decode --verify-diagnostics | FileCheck %s

// States of fixed size among the arguments: what a mixer takes, through casts, and gives is one state; it is read before
// the step and written after. Names do not matter. What is required of the extents of states is settled by how a step is
// made, what is required of the others is required of a step as well.

#id = affine_map<(b, c, t) -> (b, c, t)>
module {
  kimi.weight @wte : tensor<64x16xf32> from #kimi.external<"w", 0, 4096>
  kimi.weight @conv : tensor<16x4xf32> from #kimi.external<"w", 4096, 256>

  // CHECK-LABEL: func.func @main
  // CHECK-SAME: tensor<?x16x3xbf16>
  // CHECK: kimi.require {{.*}}"node 'cache'
  // CHECK: kimi.require {{.*}}"node 'square'
  // CHECK-LABEL: func.func @prefill
  // CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?x?xi64>
  // CHECK-SAME: %[[WINDOW:[a-z0-9]+]]: !kimi.state<tensor<?x16x3xbf16>, -1> {{{.*}}kimi.input = "conv_in"{{.*}}kimi.output = "conv_out"
  // CHECK-SAME: %[[MEMORY:[a-z0-9]+]]: !kimi.state<tensor<?x2x8x8xf32>, -1>
  // CHECK-SAME: %[[K:[a-z0-9]+]]: !kimi.state<tensor<?x2x?x8xf32>, 2>
  // CHECK-SAME: -> (tensor<?x?x64xf32> {{{[^}]*}}kimi.role = "logits"}) attributes
  // CHECK-NOT: "node 'cache'
  // CHECK: %[[B:.*]] = tensor.dim %[[IDS]], %c0
  // CHECK: kimi.require {{.*}}"node 'square'
  // CHECK: %[[OLD:.*]] = kimi.state_read %[[WINDOW]] sizes(%{{.*}})
  // CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[OLD]]
  // CHECK: %{{.*}}, %[[LAST:.*]] = kimi.causal_conv %{{.*}}, %{{.*}} past %[[WIDE]]
  // CHECK: %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[LAST]]
  // CHECK: kimi.state_write %[[NARROW]], %[[WINDOW]]
  // CHECK: %[[S:.*]] = kimi.state_read %[[MEMORY]] sizes(%{{.*}})
  // CHECK: %{{.*}}, %[[NEW:.*]] = kimi.delta_rule {{.*}} initial %[[S]]
  // CHECK-NEXT: kimi.state_write %[[NEW]], %[[MEMORY]]
  // CHECK: kimi.cache_append %[[K]]
  // CHECK: return %{{[^,]*}} : tensor<?x?x64xf32>
  // CHECK-LABEL: func.func @decode
  // CHECK-COUNT-2: kimi.state_write
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
                  %conv: tensor<?x16x3xbf16> {kimi.name = "conv_in", kimi.dims = ["batch", 16, 3]},
                  %mem: tensor<?x2x8x8xf32> {kimi.name = "mem_in", kimi.dims = ["batch", 2, 8, 8]},
                  %pk: tensor<?x2x?x8xf32> {kimi.name = "k_in", kimi.dims = ["batch", 2, "past", 8]})
      -> (tensor<?x?x64xf32> {kimi.name = "logits", kimi.dims = ["batch", "seq", 64]},
          tensor<?x2x8x8xf32> {kimi.name = "mem_out"}, tensor<?x16x3xbf16> {kimi.name = "conv_out"},
          tensor<?x2x?x8xf32> {kimi.name = "k_out"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %mem, %c0 : tensor<?x2x8x8xf32>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %rows = tensor.dim %pk, %c0 : tensor<?x2x?x8xf32>
    kimi.require %rows equal %B, "node 'cache': the batches of past and tokens must be equal"
    kimi.require %T broadcast %T, "node 'square': seq and seq must be equal, or one of them 1"
    %wte = kimi.weight_ref @wte : tensor<64x16xf32>
    %w = kimi.weight_ref @conv : tensor<16x4xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x16xf32> -> tensor<?x?x16xf32>
    %e0 = tensor.empty(%B, %T) : tensor<?x16x?xf32>
    %xt = linalg.transpose ins(%x : tensor<?x?x16xf32>) outs(%e0 : tensor<?x16x?xf32>) permutation = [0, 2, 1]
    %e3 = tensor.empty(%B) : tensor<?x16x3xf32>
    %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%conv : tensor<?x16x3xbf16>) outs(%e3 : tensor<?x16x3xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %0 = arith.extf %a : bf16 to f32
      linalg.yield %0 : f32
    } -> tensor<?x16x3xf32>
    %y, %window = kimi.causal_conv %xt, %w past %wide : tensor<?x16x3xf32> activation silu
       : tensor<?x16x?xf32>, tensor<16x4xf32> -> tensor<?x16x?xf32>, tensor<?x16x3xf32>
    %e4 = tensor.empty(%B) : tensor<?x16x3xbf16>
    %narrow = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%window : tensor<?x16x3xf32>) outs(%e4 : tensor<?x16x3xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %0 = arith.truncf %a : f32 to bf16
      linalg.yield %0 : bf16
    } -> tensor<?x16x3xbf16>
    %h = tensor.expand_shape %y [[0], [1, 2], [3]] output_shape [%B, 2, 8, %T] : tensor<?x16x?xf32> into tensor<?x2x8x?xf32>
    %e1 = tensor.empty(%B, %T) : tensor<?x2x?x8xf32>
    %q = linalg.transpose ins(%h : tensor<?x2x8x?xf32>) outs(%e1 : tensor<?x2x?x8xf32>) permutation = [0, 1, 3, 2]
    %d, %memory = kimi.delta_rule %q, %q, %q initial %mem : tensor<?x2x8x8xf32> scale 0.5
       : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x2x?x8xf32>, tensor<?x2x8x8xf32>
    %k = tensor.concat dim(2) %pk, %d : (tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x2x?x8xf32>
    %a = kimi.attention %d, %k, %k causal scale 0.5
       : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x2x?x8xf32>
    %e2 = tensor.empty(%B, %T) : tensor<?x?x2x8xf32>
    %at = linalg.transpose ins(%a : tensor<?x2x?x8xf32>) outs(%e2 : tensor<?x?x2x8xf32>) permutation = [0, 2, 1, 3]
    %flat = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x8xf32> into tensor<?x?x16xf32>
    %logits = kimi.linear %flat, %wte transpose : tensor<?x?x16xf32>, tensor<64x16xf32> -> tensor<?x?x64xf32>
    return %logits, %memory, %narrow, %k : tensor<?x?x64xf32>, tensor<?x2x8x8xf32>, tensor<?x16x3xbf16>, tensor<?x2x?x8xf32>
  }
}

// -----

// A graph for one token with a state that no mixer takes, paired by its names: it is the decode entry, and there is no
// prefill.

#row = affine_map<(b, c) -> (b, c)>
module {
  kimi.weight @wte : tensor<64x16xf32> from #kimi.external<"w", 0, 4096>

  // CHECK-LABEL: func.func @main
  // CHECK-NOT: @prefill
  // CHECK-LABEL: func.func @decode
  // CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?x1xi64>
  // CHECK-SAME: %[[STATE:[a-z0-9]+]]: !kimi.state<tensor<?x16xf32>, -1> {{{.*}}kimi.output = "present.0.h"
  // CHECK: %[[OLD:.*]] = kimi.state_read %[[STATE]]
  // CHECK: %[[NEW:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[OLD]]
  // CHECK: kimi.state_write %[[NEW]], %[[STATE]]
  // CHECK: return %{{[^,]*}} : tensor<?x64xf32>
  func.func @main(%ids: tensor<?x1xi64> {kimi.name = "input_ids", kimi.dims = ["batch", 1]},
                  %past: tensor<?x16xf32> {kimi.name = "past.0.h", kimi.dims = ["batch", 16]})
      -> (tensor<?x64xf32> {kimi.name = "logits"}, tensor<?x16xf32> {kimi.name = "present.0.h"}) {
    %c0 = arith.constant 0 : index
    %B = tensor.dim %ids, %c0 : tensor<?x1xi64>
    %wte = kimi.weight_ref @wte : tensor<64x16xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x1xi64>, tensor<64x16xf32> -> tensor<?x1x16xf32>
    %row = tensor.collapse_shape %x [[0], [1, 2]] : tensor<?x1x16xf32> into tensor<?x16xf32>
    %e = tensor.empty(%B) : tensor<?x16xf32>
    %h = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
        ins(%row, %past : tensor<?x16xf32>, tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %0 = arith.addf %a, %b : f32
      linalg.yield %0 : f32
    } -> tensor<?x16xf32>
    %y = kimi.linear %h, %wte transpose : tensor<?x16xf32>, tensor<64x16xf32> -> tensor<?x64xf32>
    return %y, %h : tensor<?x64xf32>, tensor<?x16xf32>
  }
}

// -----

// An argument that nothing says to be a state stays an input, and a remark says so. Positions that nothing reads are
// positions by their name.

module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  // CHECK-LABEL: func.func @prefill
  // CHECK-SAME: %{{[a-z0-9]+}}: tensor<?x?xi64> {{{[^}]*}}kimi.name = "position_ids", kimi.role = "position_ids"}
  // CHECK-SAME: %{{[a-z0-9]+}}: tensor<?x1x8x8xf32> {{{[^}]*}}kimi.name = "bias"}
  // CHECK-SAME: %[[M:[a-z0-9]+]]: !kimi.state<tensor<?x1x8x8xf32>, -1>
  // CHECK: kimi.state_write %{{.*}}, %[[M]]
  // expected-remark @below {{input 'bias' is asked for at each step: no output of its type is known to be what it becomes}}
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
                  %positions: tensor<?x?xi64> {kimi.name = "position_ids", kimi.dims = ["batch", "seq"]},
                  %bias: tensor<?x1x8x8xf32> {kimi.name = "bias", kimi.dims = ["batch", 1, 8, 8]},
                  %mem: tensor<?x1x8x8xf32> {kimi.name = "m", kimi.dims = ["batch", 1, 8, 8]})
      -> (tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %q = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [%B, 1, %T, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
    %d, %memory = kimi.delta_rule %q, %q, %q initial %mem : tensor<?x1x8x8xf32> scale 0.5
       : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>
    return %d, %memory : tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>
  }
}

// -----

// One mixer's state is among the arguments, another one's is not: a step would forget.

// CHECK-NOT: @prefill
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
                  %mem: tensor<?x1x8x8xf32> {kimi.name = "m", kimi.dims = ["batch", 1, 8, 8]})
      -> (tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %q = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [%B, 1, %T, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
    %d, %memory = kimi.delta_rule %q, %q, %q initial %mem : tensor<?x1x8x8xf32> scale 0.5
       : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>
    // expected-remark @below {{other states are among the inputs of the graph, but this mixer's 'key' is not; a step would forget}}
    %a = kimi.attention %d, %d, %d causal scale 0.5
       : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
    return %a, %memory : tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>
  }
}

// -----

// Two mixers take one argument: which result is its state?

// CHECK-NOT: @prefill
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  // expected-remark @below {{it is not clear which state of input 'm' and output 2 belong together}}
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
                  %mem: tensor<?x1x8x8xf32> {kimi.name = "m", kimi.dims = ["batch", 1, 8, 8]})
      -> (tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>, tensor<?x1x8x8xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %q = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [%B, 1, %T, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
    %d, %m0 = kimi.delta_rule %q, %q, %q initial %mem : tensor<?x1x8x8xf32> scale 0.5
       : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>
    %e, %m1 = kimi.delta_rule %d, %d, %d initial %mem : tensor<?x1x8x8xf32> scale 0.5
       : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>
    return %e, %m0, %m1 : tensor<?x1x?x8xf32>, tensor<?x1x8x8xf32>, tensor<?x1x8x8xf32>
  }
}
