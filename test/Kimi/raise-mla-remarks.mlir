// Latent attention that stays expanded, and why.
// RUN: kimi-opt %s --kimi-raise-mla --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-NOT: kimi.mla
#id = affine_map<(b, h, t, d) -> (b, h, t, d)>
#to_heads = affine_map<(b, h, t, d) -> (b, 0, t, d)>

// kv_b is an argument.
func.func @computed(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x16xf32>, %r: tensor<?x?x4xf32>, %w: tensor<16x48xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x16xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x16xf32>
  %kv = kimi.linear %c, %w : tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x?x48xf32>
  %h0 = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %he = tensor.empty(%B, %T) : tensor<?x3x?x16xf32>
  %h = linalg.transpose ins(%h0 : tensor<?x?x3x16xf32>) outs(%he : tensor<?x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [%B, 1, %T, 4] : tensor<?x?x4xf32> into tensor<?x1x?x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x3x?x4xf32>
  %rh = linalg.generic {indexing_maps = [#to_heads, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x1x?x4xf32>) outs(%re : tensor<?x3x?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x3x?x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<?x3x?x8xf32>, tensor<?x3x?x4xf32>) -> tensor<?x3x?x12xf32>
  // expected-remark @below {{latent attention stays expanded: kv_b is computed at run time, not a weight}}
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o : tensor<?x3x?x8xf32>
}

// -----

#id = affine_map<(b, h, t, d) -> (b, h, t, d)>
#to_heads = affine_map<(b, h, t, d) -> (b, 0, t, d)>

kimi.weight @kv_b : tensor<16x48xf32> from #kimi.external<"w", 0, 3072>

// The projection adds a bias.
func.func @bias(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x16xf32>, %r: tensor<?x?x4xf32>, %b: tensor<48xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x16xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x16xf32>
  %w = kimi.weight_ref @kv_b : tensor<16x48xf32>
  %kv = kimi.linear %c, %w, %b : tensor<?x?x16xf32>, tensor<16x48xf32>, tensor<48xf32> -> tensor<?x?x48xf32>
  %h0 = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %he = tensor.empty(%B, %T) : tensor<?x3x?x16xf32>
  %h = linalg.transpose ins(%h0 : tensor<?x?x3x16xf32>) outs(%he : tensor<?x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [%B, 1, %T, 4] : tensor<?x?x4xf32> into tensor<?x1x?x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x3x?x4xf32>
  %rh = linalg.generic {indexing_maps = [#to_heads, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x1x?x4xf32>) outs(%re : tensor<?x3x?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x3x?x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<?x3x?x8xf32>, tensor<?x3x?x4xf32>) -> tensor<?x3x?x12xf32>
  // expected-remark @below {{latent attention stays expanded: the projection of its latents has a bias}}
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o : tensor<?x3x?x8xf32>
}

// -----

#id = affine_map<(b, h, t, d) -> (b, h, t, d)>
#to_heads = affine_map<(b, h, t, d) -> (b, 0, t, d)>

kimi.weight @kv_b : tensor<16x48xf32> from #kimi.external<"w", 0, 3072>

// The expanded keys are a result, too.
func.func @used(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x16xf32>, %r: tensor<?x?x4xf32>) -> (tensor<?x3x?x8xf32>, tensor<?x3x?x12xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x16xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x16xf32>
  %w = kimi.weight_ref @kv_b : tensor<16x48xf32>
  %kv = kimi.linear %c, %w : tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x?x48xf32>
  %h0 = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %he = tensor.empty(%B, %T) : tensor<?x3x?x16xf32>
  %h = linalg.transpose ins(%h0 : tensor<?x?x3x16xf32>) outs(%he : tensor<?x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [%B, 1, %T, 4] : tensor<?x?x4xf32> into tensor<?x1x?x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x3x?x4xf32>
  %rh = linalg.generic {indexing_maps = [#to_heads, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x1x?x4xf32>) outs(%re : tensor<?x3x?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x3x?x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<?x3x?x8xf32>, tensor<?x3x?x4xf32>) -> tensor<?x3x?x12xf32>
  // expected-remark @below {{latent attention stays expanded: its expanded keys or values are used by 'func.return' as well}}
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o, %k : tensor<?x3x?x8xf32>, tensor<?x3x?x12xf32>
}

// -----

#id = affine_map<(b, h, t, d) -> (b, h, t, d)>
#to_heads = affine_map<(b, h, t, d) -> (b, 0, t, d)>

kimi.weight @kv_b : tensor<16x48xf32> from #kimi.external<"w", 0, 3072>

// A cache of expanded rows comes and goes with every step.
func.func @cached(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x16xf32>, %r: tensor<?x?x4xf32>, %pk: tensor<?x3x?x12xf32> {kimi.name = "past.3.key"}, %pv: tensor<?x3x?x8xf32>) -> (tensor<?x3x?x8xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x16xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x16xf32>
  %w = kimi.weight_ref @kv_b : tensor<16x48xf32>
  %kv = kimi.linear %c, %w : tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x?x48xf32>
  %h0 = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %he = tensor.empty(%B, %T) : tensor<?x3x?x16xf32>
  %h = linalg.transpose ins(%h0 : tensor<?x?x3x16xf32>) outs(%he : tensor<?x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [%B, 1, %T, 4] : tensor<?x?x4xf32> into tensor<?x1x?x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x3x?x4xf32>
  %rh = linalg.generic {indexing_maps = [#to_heads, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x1x?x4xf32>) outs(%re : tensor<?x3x?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x3x?x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<?x3x?x8xf32>, tensor<?x3x?x4xf32>) -> tensor<?x3x?x12xf32>
  %ka = tensor.concat dim(2) %pk, %k : (tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>) -> tensor<?x3x?x12xf32>
  %va = tensor.concat dim(2) %pv, %v : (tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>) -> tensor<?x3x?x8xf32>
  // expected-remark @below {{latent attention stays expanded: its cache of expanded keys and values is an input of the graph ('past.3.key'), whose interface cannot change; export the model without a cache, or with one of latents}}
  %o = kimi.attention %q, %ka, %va causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o, %ka, %va : tensor<?x3x?x8xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32>
}
