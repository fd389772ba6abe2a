// The state of latent attention is one cache of latents; the step reads its rows.
// RUN: kimi-opt %s --split-input-file --kimi-derive-decode --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --split-input-file --kimi-derive-decode --canonicalize --cse --kimi-absorb-mla --canonicalize --cse | FileCheck %s --check-prefix=ABSORB
// RUN: kimi-opt %s --split-input-file --kimi-raise-mla --canonicalize --cse --kimi-derive-decode --canonicalize --cse --kimi-absorb-mla --canonicalize --cse | FileCheck %s --check-prefix=CARRIED

module {
  kimi.weight @wte : tensor<50x24xf32> from #kimi.external<"w", 0, 4800>
  kimi.weight @q : tensor<24x36xf32> from #kimi.external<"w", 0, 3456>
  kimi.weight @kv_a : tensor<24x20xf32> from #kimi.external<"w", 0, 1920>
  kimi.weight @kv_b : tensor<16x48xf32> from #kimi.external<"w", 0, 3072>
  kimi.weight @o : tensor<24x50xf32> from #kimi.external<"w", 0, 4800>

  // CHECK-LABEL: func.func @main
  // CHECK-NOT: kimi.state
  // CHECK-LABEL: func.func @prefill
  // CHECK-SAME: %[[STATE:[a-z0-9_]+]]: !kimi.state<tensor<?x?x20xf32>, 1> {kimi.name = "0.latent"}
  // CHECK: %[[PAST:.*]] = kimi.state_length %[[STATE]]
  // CHECK: %[[ROWS:.*]] = tensor.concat dim(2) %{{.*}}, %{{.*}} : (tensor<?x?x16xf32>, tensor<?x?x4xf32>) -> tensor<?x?x20xf32>
  // CHECK: %[[ALL:.*]] = kimi.cache_append %[[STATE]], %[[ROWS]] at %[[PAST]]
  // CHECK-DAG: %[[C:.*]] = tensor.extract_slice %[[ALL]][0, 0, 0] [%{{.*}}, %{{.*}}, 16]
  // CHECK-DAG: %[[R:.*]] = tensor.extract_slice %[[ALL]][0, 0, 16] [%{{.*}}, %{{.*}}, 4]
  // CHECK: kimi.mla %{{.*}}, %[[C]], %{{.*}} shared %[[R]] : tensor<?x?x4xf32> causal
  // CHECK-LABEL: func.func @decode
  // CHECK: kimi.cache_append

  // ABSORB-LABEL: func.func @main
  // ABSORB: kimi.attention {{.*}} : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32>
  // ABSORB-LABEL: func.func @prefill
  // ABSORB: %[[ALL:.*]] = kimi.cache_append
  // ABSORB: %[[C:.*]] = tensor.extract_slice %[[ALL]][0, 0, 0] [%{{.*}}, %{{.*}}, 16]
  // ABSORB: kimi.linear %[[C]], %{{.*}} -> tensor<?x?x48xf32>
  // ABSORB: kimi.attention {{.*}} : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32>
  // ABSORB-LABEL: func.func @decode
  // ABSORB: %[[ALL:.*]] = kimi.cache_append
  // ABSORB: kimi.head_linear
  // ABSORB: %[[K:.*]] = tensor.expand_shape %[[ALL]]
  // ABSORB: %[[V:.*]] = tensor.extract_slice %[[K]]
  // ABSORB: kimi.attention %{{.*}}, %[[K]], %[[V]] causal {{.*}} tensor<?x1x?x20xf32>, tensor<?x1x?x16xf32>
  // ABSORB: kimi.head_linear
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]})
      -> (tensor<?x?x50xf32> {kimi.name = "logits", kimi.dims = ["batch", "seq", 50]}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<50x24xf32>
    %wq = kimi.weight_ref @q : tensor<24x36xf32>
    %wa = kimi.weight_ref @kv_a : tensor<24x20xf32>
    %wb = kimi.weight_ref @kv_b : tensor<16x48xf32>
    %wo = kimi.weight_ref @o : tensor<24x50xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<50x24xf32> -> tensor<?x?x24xf32>
    %q0 = kimi.linear %x, %wq : tensor<?x?x24xf32>, tensor<24x36xf32> -> tensor<?x?x36xf32>
    %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [%B, %T, 3, 12] : tensor<?x?x36xf32> into tensor<?x?x3x12xf32>
    %qe = tensor.empty(%B, %T) : tensor<?x3x?x12xf32>
    %q = linalg.transpose ins(%q1 : tensor<?x?x3x12xf32>) outs(%qe : tensor<?x3x?x12xf32>) permutation = [0, 2, 1, 3]
    %a = kimi.linear %x, %wa : tensor<?x?x24xf32>, tensor<24x20xf32> -> tensor<?x?x20xf32>
    %c = tensor.extract_slice %a[0, 0, 4] [%B, %T, 16] [1, 1, 1] : tensor<?x?x20xf32> to tensor<?x?x16xf32>
    %r = tensor.extract_slice %a[0, 0, 0] [%B, %T, 4] [1, 1, 1] : tensor<?x?x20xf32> to tensor<?x?x4xf32>
    %o0 = kimi.mla %q, %c, %wb shared %r : tensor<?x?x4xf32> causal scale 0.25
       : tensor<?x3x?x12xf32>, tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x3x?x8xf32>
    %oe = tensor.empty(%B, %T) : tensor<?x?x3x8xf32>
    %o1 = linalg.transpose ins(%o0 : tensor<?x3x?x8xf32>) outs(%oe : tensor<?x?x3x8xf32>) permutation = [0, 2, 1, 3]
    %o2 = tensor.collapse_shape %o1 [[0], [1], [2, 3]] : tensor<?x?x3x8xf32> into tensor<?x?x24xf32>
    %y = kimi.linear %o2, %wo : tensor<?x?x24xf32>, tensor<24x50xf32> -> tensor<?x?x50xf32>
    return %y : tensor<?x?x50xf32>
  }
}

// -----

// A graph that carries a cache of latents and makes keys and values of all its rows each step: the cache becomes the
// state, a step of one token reads it absorbed.
// CARRIED: func.func @prefill({{.*}}!kimi.state<tensor<?x?x20xf32>, 1> {{{.*}}kimi.input = "past.latent"
// CARRIED: kimi.cache_append
// CARRIED: kimi.linear {{.*}} -> tensor<?x?x48xf32>
// CARRIED: func.func @decode
// CARRIED: %[[ALL:.*]] = kimi.cache_append
// CARRIED-NOT: tensor<?x?x48xf32>
// CARRIED: %[[ROWS:.*]] = tensor.extract_slice %[[ALL]][0, 0, 0] [%{{.*}}, %{{.*}}, 20]
// CARRIED: %[[K:.*]] = tensor.expand_shape %[[ROWS]]
// CARRIED: kimi.attention %{{.*}}, %[[K]], %{{.*}} mask %{{.*}} : {{.*}}tensor<?x1x?x20xf32>, tensor<?x1x?x16xf32>
module {
  kimi.weight @wte : tensor<50x24xf32> from #kimi.external<"w", 0, 4800>
  kimi.weight @q : tensor<24x36xf32> from #kimi.external<"w", 0, 3456>
  kimi.weight @kv_a : tensor<24x20xf32> from #kimi.external<"w", 0, 1920>
  kimi.weight @kv_b : tensor<16x48xf32> from #kimi.external<"w", 0, 3072>
  kimi.weight @o : tensor<24x50xf32> from #kimi.external<"w", 0, 4800>
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
                  %past: tensor<?x?x20xf32> {kimi.name = "past.latent", kimi.dims = ["batch", "past", 20]})
      -> (tensor<?x?x50xf32> {kimi.name = "logits", kimi.dims = ["batch", "seq", 50]},
          tensor<?x?x20xf32> {kimi.name = "present.latent", kimi.dims = ["batch", "past + seq", 20]}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %P = tensor.dim %past, %c1 : tensor<?x?x20xf32>
    %S = arith.addi %P, %T : index
    %wte = kimi.weight_ref @wte : tensor<50x24xf32>
    %wq = kimi.weight_ref @q : tensor<24x36xf32>
    %wa = kimi.weight_ref @kv_a : tensor<24x20xf32>
    %wb = kimi.weight_ref @kv_b : tensor<16x48xf32>
    %wo = kimi.weight_ref @o : tensor<24x50xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<50x24xf32> -> tensor<?x?x24xf32>
    %q0 = kimi.linear %x, %wq : tensor<?x?x24xf32>, tensor<24x36xf32> -> tensor<?x?x36xf32>
    %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [%B, %T, 3, 12] : tensor<?x?x36xf32> into tensor<?x?x3x12xf32>
    %qe = tensor.empty(%B, %T) : tensor<?x3x?x12xf32>
    %q = linalg.transpose ins(%q1 : tensor<?x?x3x12xf32>) outs(%qe : tensor<?x3x?x12xf32>) permutation = [0, 2, 1, 3]
    %a = kimi.linear %x, %wa : tensor<?x?x24xf32>, tensor<24x20xf32> -> tensor<?x?x20xf32>
    %all = tensor.concat dim(1) %past, %a : (tensor<?x?x20xf32>, tensor<?x?x20xf32>) -> tensor<?x?x20xf32>
    %c = tensor.extract_slice %all[0, 0, 0] [%B, %S, 16] [1, 1, 1] : tensor<?x?x20xf32> to tensor<?x?x16xf32>
    %r = tensor.extract_slice %all[0, 0, 16] [%B, %S, 4] [1, 1, 1] : tensor<?x?x20xf32> to tensor<?x?x4xf32>
    %kv = kimi.linear %c, %wb : tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x?x48xf32>
    %h = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %S, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
    %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, %S, 3, 8] [1, 1, 1, 1] : tensor<?x?x3x16xf32> to tensor<?x?x3x8xf32>
    %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, %S, 3, 8] [1, 1, 1, 1] : tensor<?x?x3x16xf32> to tensor<?x?x3x8xf32>
    %re = tensor.empty(%B, %S) : tensor<?x?x3x4xf32>
    %rh = linalg.generic {indexing_maps = [affine_map<(b, t, h, d) -> (b, t, d)>, affine_map<(b, t, h, d) -> (b, t, h, d)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<?x?x4xf32>) outs(%re : tensor<?x?x3x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<?x?x3x4xf32>
    %k0 = tensor.concat dim(3) %kn, %rh : (tensor<?x?x3x8xf32>, tensor<?x?x3x4xf32>) -> tensor<?x?x3x12xf32>
    %ke = tensor.empty(%B, %S) : tensor<?x3x?x12xf32>
    %k = linalg.transpose ins(%k0 : tensor<?x?x3x12xf32>) outs(%ke : tensor<?x3x?x12xf32>) permutation = [0, 2, 1, 3]
    %ve = tensor.empty(%B, %S) : tensor<?x3x?x8xf32>
    %vt = linalg.transpose ins(%v : tensor<?x?x3x8xf32>) outs(%ve : tensor<?x3x?x8xf32>) permutation = [0, 2, 1, 3]
    %one = tensor.empty(%S) : tensor<1x1x1x?xf32>
    %zero = arith.constant 0.0 : f32
    %mask = linalg.fill ins(%zero : f32) outs(%one : tensor<1x1x1x?xf32>) -> tensor<1x1x1x?xf32>
    %o0 = kimi.attention %q, %k, %vt mask %mask : tensor<1x1x1x?xf32> causal scale 0.25
       : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
    %oe = tensor.empty(%B, %T) : tensor<?x?x3x8xf32>
    %o1 = linalg.transpose ins(%o0 : tensor<?x3x?x8xf32>) outs(%oe : tensor<?x?x3x8xf32>) permutation = [0, 2, 1, 3]
    %o2 = tensor.collapse_shape %o1 [[0], [1], [2, 3]] : tensor<?x?x3x8xf32> into tensor<?x?x24xf32>
    %y = kimi.linear %o2, %wo : tensor<?x?x24xf32>, tensor<24x50xf32> -> tensor<?x?x50xf32>
    return %y, %all : tensor<?x?x50xf32>, tensor<?x?x20xf32>
  }
}
