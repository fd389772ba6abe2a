// RUN: kimi-opt %s --split-input-file --kimi-schedule-attention-gpu --kimi-schedule-delta-rule-gpu --kimi-schedule-row-norms-gpu 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --split-input-file --kimi-schedule-attention --kimi-schedule-delta-rule 2>/dev/null | FileCheck %s --check-prefix=CPU

// Of ops that are alike, together with the neighbours that their launches compute as well, the second gets copies of the
// first one's launches, with operands, states and results of its own, and no scalars: it takes those of the first.

// CHECK-LABEL: func.func @attentions
// CHECK: %[[S:.*]]:3 = kimi.dispatch [@attention_d64_causal_append_share] {{.*}} ins(%arg0, %arg1, %arg2 : {{.*}} states(%arg3, %arg4
// CHECK: %[[O:.*]] = kimi.dispatch [@attention_d64_causal_append_t1, @attention_d64_causal_append_combine] {{.*}}%[[S]]#0, %[[S]]#1, %[[S]]#2 {{.*}} states(%arg3, %arg4
// CHECK-NOT: arith
// CHECK: %[[T:.*]]:3 = kimi.dispatch [@attention_d64_causal_append_share] {{.*}} ins(%[[O]], %arg1, %arg2 : {{.*}} states(%arg5, %arg6
// CHECK-NOT: arith
// CHECK: %[[P:.*]] = kimi.dispatch [@attention_d64_causal_append_t1, @attention_d64_causal_append_combine] {{.*}}%[[T]]#0, %[[T]]#1, %[[T]]#2 {{.*}} states(%arg5, %arg6
// CHECK-NOT: kimi.cache_append
// CHECK: return %[[P]]
func.func @attentions(%q: tensor<?x12x1x64xf32>, %k: tensor<?x12x1x64xf32>, %v: tensor<?x12x1x64xf32>,
                      %ks: !kimi.state<tensor<?x12x?x64xf32>, 2>, %vs: !kimi.state<tensor<?x12x?x64xf32>, 2>,
                      %kt: !kimi.state<tensor<?x12x?x64xf32>, 2>, %vt: !kimi.state<tensor<?x12x?x64xf32>, 2>) -> tensor<?x12x1x64xf32> {
  %past = kimi.state_length %ks : !kimi.state<tensor<?x12x?x64xf32>, 2>
  %ka = kimi.cache_append %ks, %k at %past : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x1x64xf32> -> tensor<?x12x?x64xf32>
  %va = kimi.cache_append %vs, %v at %past : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x1x64xf32> -> tensor<?x12x?x64xf32>
  %o = kimi.attention %q, %ka, %va causal scale 0.125 : tensor<?x12x1x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x1x64xf32>
  %kb = kimi.cache_append %kt, %k at %past : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x1x64xf32> -> tensor<?x12x?x64xf32>
  %vb = kimi.cache_append %vt, %v at %past : !kimi.state<tensor<?x12x?x64xf32>, 2>, tensor<?x12x1x64xf32> -> tensor<?x12x?x64xf32>
  %p = kimi.attention %o, %kb, %vb causal scale 0.125 : tensor<?x12x1x64xf32>, tensor<?x12x?x64xf32>, tensor<?x12x?x64xf32> -> tensor<?x12x1x64xf32>
  return %p : tensor<?x12x1x64xf32>
}

// -----

// Another scale, other extents, keys that lie otherwise, a result in another order: kernels of their own.

// CHECK-LABEL: func.func @unlike
// CHECK: kimi.dispatch [@attention_d64_t1, {{.*}} ins(%arg0, %arg1,
// CHECK: kimi.dispatch [@attention_d64_t1_v2, {{.*}} ins(%arg0, %arg1,
// CHECK: kimi.dispatch [@attention_d64_t1_v3, {{.*}} ins(%arg0, %arg2 :
// CHECK: kimi.dispatch [@attention_d64_t1_v4, {{.*}} ins(%arg0, %{{.*}}, %arg1,
// CHECK: kimi.dispatch [@attention_d64_t1_v5, {{.*}} ins(%arg0, %arg1, {{.*}} -> tensor<1x?x2x64xf32>

// CPU-LABEL: func.func @unlike
// CPU: kimi.dispatch [@attention_d64_t1, @attention_d64] {{.*}} ins(%arg0, %arg1 :
// CPU: kimi.dispatch [@attention_d64_t1_v2, @attention_d64_v2] {{.*}} ins(%arg0, %arg1 :
// CPU: kimi.dispatch [@attention_d64_t1_v3, @attention_d64_v3] {{.*}} ins(%arg0, %arg2 :
// CPU: kimi.dispatch [@attention_d64_t1_v4, @attention_d64_v4] {{.*}} ins(%arg0, %{{.*}}, %arg1 :
// CPU: kimi.dispatch [@attention_d64_t1_v5, @attention_d64_v5] {{.*}} ins(%arg0, %arg1 : {{.*}} -> tensor<1x?x2x64xf32>
func.func @unlike(%q: tensor<1x2x?x64xf32>, %k: tensor<1x2x?x64xf32>, %l: tensor<1x2x77x64xf32>, %w: tensor<1x2x?x128xf32>)
    -> (tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x?x2x64xf32>) {
  %c2 = arith.constant 2 : index
  %a = kimi.attention %q, %k, %k scale 0.125 : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>
  %b = kimi.attention %q, %k, %k scale 0.25 : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>
  %c = kimi.attention %q, %l, %l scale 0.125 : tensor<1x2x?x64xf32>, tensor<1x2x77x64xf32>, tensor<1x2x77x64xf32> -> tensor<1x2x?x64xf32>
  %keys = tensor.dim %k, %c2 : tensor<1x2x?x64xf32>
  %s = tensor.extract_slice %w[0, 0, 0, 64] [1, 2, %keys, 64] [1, 1, 1, 1] : tensor<1x2x?x128xf32> to tensor<1x2x?x64xf32>
  %d = kimi.attention %q, %s, %k scale 0.125 : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>
  %e = kimi.attention %q, %k, %k scale 0.125 : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x2x?x64xf32>
  %tokens = tensor.dim %q, %c2 : tensor<1x2x?x64xf32>
  %empty = tensor.empty(%tokens) : tensor<1x?x2x64xf32>
  %t = linalg.transpose ins(%e : tensor<1x2x?x64xf32>) outs(%empty : tensor<1x?x2x64xf32>) permutation = [0, 2, 1, 3]
  return %a, %b, %c, %d, %t : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x?x2x64xf32>
}

// -----

// CHECK-LABEL: func.func @delta_rules
// CHECK: %[[W:.*]]:5 = kimi.dispatch [@delta_rule_h4_d32x32_beta_prepare] {{.*}} ins(%arg0, %arg1, %arg2 :
// CHECK: %[[O:.*]] = kimi.dispatch [@delta_rule_h4_d32x32_beta_tokens, @delta_rule_h4_d32x32_beta_chunks] {{.*}} states(%arg3 {{.*}} -> tensor<?x?x4x32xf32>
// CHECK-NOT: arith
// CHECK: %[[X:.*]]:5 = kimi.dispatch [@delta_rule_h4_d32x32_beta_prepare] {{.*}} ins(%arg1, %arg0, %arg2 :
// CHECK-NOT: arith
// CHECK: %[[P:.*]] = kimi.dispatch [@delta_rule_h4_d32x32_beta_tokens, @delta_rule_h4_d32x32_beta_chunks] {{.*}}%[[X]]#0{{.*}} states(%arg4 {{.*}} -> tensor<?x?x4x32xf32>
// CHECK-NOT: kimi.state_read
// CHECK-NOT: kimi.state_write
// CHECK: return %[[O]], %[[P]]

// CPU-LABEL: func.func @delta_rules
// CPU: %[[O:.*]] = kimi.dispatch [@delta_rule_d32_beta] {{.*}} ins(%arg0, %arg1, %arg2 : {{.*}} states(%arg3
// CPU-NOT: arith
// CPU: %[[P:.*]] = kimi.dispatch [@delta_rule_d32_beta] {{.*}} ins(%arg1, %arg0, %arg2 : {{.*}} states(%arg4
// CPU: return %[[O]], %[[P]]
func.func @delta_rules(%q: tensor<?x4x?x32xf32> {kimi.dims = ["batch", "", "seq", ""]}, %v: tensor<?x4x?x32xf32> {kimi.dims = ["batch", "", "seq", ""]},
                       %b: tensor<?x4x?xf32> {kimi.dims = ["batch", "", "seq"]},
                       %state: !kimi.state<tensor<?x4x32x32xf32>, -1>, %other: !kimi.state<tensor<?x4x32x32xf32>, -1>) -> (tensor<?x?x4x32xf32>, tensor<?x?x4x32xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %q, %c0 : tensor<?x4x?x32xf32>
  %tokens = tensor.dim %q, %c2 : tensor<?x4x?x32xf32>
  %e = tensor.empty(%batch, %tokens) : tensor<?x?x4x32xf32>
  %s = kimi.state_read %state sizes(%batch) : !kimi.state<tensor<?x4x32x32xf32>, -1> -> tensor<?x4x32x32xf32>
  %o, %n = kimi.delta_rule %q, %q, %v beta %b : tensor<?x4x?xf32> initial %s : tensor<?x4x32x32xf32> scale 0.5
     : tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32> -> tensor<?x4x?x32xf32>, tensor<?x4x32x32xf32>
  kimi.state_write %n, %state : tensor<?x4x32x32xf32>, !kimi.state<tensor<?x4x32x32xf32>, -1>
  %x = linalg.transpose ins(%o : tensor<?x4x?x32xf32>) outs(%e : tensor<?x?x4x32xf32>) permutation = [0, 2, 1, 3]
  %t = kimi.state_read %other sizes(%batch) : !kimi.state<tensor<?x4x32x32xf32>, -1> -> tensor<?x4x32x32xf32>
  %p, %m = kimi.delta_rule %v, %v, %q beta %b : tensor<?x4x?xf32> initial %t : tensor<?x4x32x32xf32> scale 0.5
     : tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32> -> tensor<?x4x?x32xf32>, tensor<?x4x32x32xf32>
  kimi.state_write %m, %other : tensor<?x4x32x32xf32>, !kimi.state<tensor<?x4x32x32xf32>, -1>
  %y = linalg.transpose ins(%p : tensor<?x4x?x32xf32>) outs(%e : tensor<?x?x4x32xf32>) permutation = [0, 2, 1, 3]
  return %x, %y : tensor<?x?x4x32xf32>, tensor<?x?x4x32xf32>
}

// -----

// A gate that is bounded and one that may be anything, from ops that are no part of the delta rules; a state that is
// read and one that is not; another number of tokens.

// CHECK-LABEL: func.func @unlike_delta_rules
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_prepare] {{.*}} ins(%arg0, %{{[0-9]+}} :
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_chunks] {{.*}} -> tensor<1x1x32x16xf32>
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_prepare_v2] {{.*}} ins(%arg0, %arg1 :
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_chunks] {{.*}} -> tensor<1x1x32x16xf32>
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_prepare_v2] {{.*}} ins(%arg0, %arg1 :
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_chunks_v2] {{.*}} -> tensor<1x1x32x16xf32>, tensor<1x1x16x16xf32>
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_tokens] {{.*}} ins(%arg2
func.func @unlike_delta_rules(%q: tensor<1x1x32x16xf32>, %z: tensor<1x1x32xf32>, %u: tensor<1x1x4x16xf32>)
    -> (tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x16x16xf32>, tensor<1x1x4x16xf32>) {
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
  %o1, %n1 = kimi.delta_rule %q, %q, %q decay %z : tensor<1x1x32xf32> scale 1.0
     : tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32> -> tensor<1x1x32x16xf32>, tensor<1x1x16x16xf32>
  %o2, %n2 = kimi.delta_rule %q, %q, %q decay %z : tensor<1x1x32xf32> scale 1.0
     : tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32> -> tensor<1x1x32x16xf32>, tensor<1x1x16x16xf32>
  %o3, %n3 = kimi.delta_rule %u, %u, %u scale 1.0
     : tensor<1x1x4x16xf32>, tensor<1x1x4x16xf32>, tensor<1x1x4x16xf32> -> tensor<1x1x4x16xf32>, tensor<1x1x16x16xf32>
  return %o, %o1, %o2, %n2, %o3 : tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x16x16xf32>, tensor<1x1x4x16xf32>
}

// -----

#same = affine_map<(b, h, t) -> (b, h, t)>

// The gates of single tokens, which the kernel computes, are of the group: of the same formula, of the same formula of
// another tensor, of another formula.

// CHECK-LABEL: func.func @steps
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_tokens] {{.*}} ins(%arg0, %arg1 :
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_tokens] {{.*}} ins(%arg0, %arg2 :
// CHECK: kimi.dispatch [@delta_rule_h1_d16x16_head_tokens_v2] {{.*}} ins(%arg0, %arg1 :
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @steps(%q: tensor<1x1x1x16xf32>, %z: tensor<1x1x1xf32>, %y: tensor<1x1x1xf32>)
    -> (tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>) {
  %e = tensor.empty() : tensor<1x1x1xf32>
  %f = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%z : tensor<1x1x1xf32>) outs(%e : tensor<1x1x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.addf %x, %x : f32
    linalg.yield %0 : f32
  } -> tensor<1x1x1xf32>
  %g = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y : tensor<1x1x1xf32>) outs(%e : tensor<1x1x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.addf %x, %x : f32
    linalg.yield %0 : f32
  } -> tensor<1x1x1xf32>
  %h = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%z : tensor<1x1x1xf32>) outs(%e : tensor<1x1x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.negf %x : f32
    linalg.yield %0 : f32
  } -> tensor<1x1x1xf32>
  %a, %sa = kimi.delta_rule %q, %q, %q decay %f : tensor<1x1x1xf32> scale 1.0
     : tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32> -> tensor<1x1x1x16xf32>, tensor<1x1x16x16xf32>
  %b, %sb = kimi.delta_rule %q, %q, %q decay %g : tensor<1x1x1xf32> scale 1.0
     : tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32> -> tensor<1x1x1x16xf32>, tensor<1x1x16x16xf32>
  %c, %sc = kimi.delta_rule %q, %q, %q decay %h : tensor<1x1x1xf32> scale 1.0
     : tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32> -> tensor<1x1x1x16xf32>, tensor<1x1x16x16xf32>
  return %a, %b, %c : tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// Norms: the third lies in a wider row, the fourth has another epsilon, the last two have an op behind them.

// CHECK-LABEL: func.func @norms
// CHECK: %[[A:.*]] = kimi.dispatch [@rms_norm_64] {{.*}} ins(%arg0, %{{[0-9a-z_]+}} : {{.*}} -> tensor<?x64xf32>
// CHECK-NOT: arith
// CHECK: %[[B:.*]] = kimi.dispatch [@rms_norm_64] {{.*}} ins(%[[A]], %{{[0-9a-z_]+}} : {{.*}} -> tensor<?x64xf32>
// CHECK: %[[L:.*]] = kimi.dispatch [@rms_norm_64_v2]
// CHECK: %[[C:.*]] = kimi.dispatch [@rms_norm_64_v3] {{.*}} ins(%[[B]], %
// CHECK: %[[D:.*]] = kimi.dispatch [@rms_norm_64_v4] {{.*}} ins(%[[C]], %
// CHECK-NOT: arith
// CHECK: %[[E:.*]] = kimi.dispatch [@rms_norm_64_v4] {{.*}} ins(%[[D]], %
// CHECK: return %[[L]], %[[E]]
func.func @norms(%x: tensor<?x64xf32>, %g: tensor<64xf32>, %h: tensor<64xf32>, %wide: tensor<?x128xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%n) : tensor<?x64xf32>
  %a = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %b = kimi.rms_norm %a, %h eps 1.0e-5 : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %rows = tensor.dim %wide, %c0 : tensor<?x128xf32>
  %s = tensor.extract_slice %wide[0, 64] [%rows, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %l = kimi.rms_norm %s, %h eps 1.0e-5 : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %c = kimi.rms_norm %b, %h eps 1.0e-6 : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %d = kimi.rms_norm %c, %h eps 1.0e-5 : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<?x64xf32>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = math.tanh %i : f32
    linalg.yield %0 : f32
  } -> tensor<?x64xf32>
  %f = kimi.rms_norm %r, %g eps 1.0e-5 : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%f : tensor<?x64xf32>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = math.tanh %i : f32
    linalg.yield %0 : f32
  } -> tensor<?x64xf32>
  return %l, %t : tensor<?x64xf32>, tensor<?x64xf32>
}
