// Attention over keys and values made of latents becomes kimi.mla; a plain or a grouped one stays.
// RUN: kimi-opt %s --kimi-raise-mla --canonicalize --cse | FileCheck %s

#id = affine_map<(b, t, h, d) -> (b, t, h, d)>
#to_heads = affine_map<(b, t, h, d) -> (b, t, 0, d)>
#head_id = affine_map<(b, h, t, d) -> (b, h, t, d)>
#head_to_heads = affine_map<(b, h, t, d) -> (b, 0, t, d)>

kimi.weight @kv_b : tensor<16x48xf32> from #kimi.external<"w", 0, 3072>
kimi.weight @kv_b_t : tensor<48x16xf32> from #kimi.external<"w", 0, 3072>
kimi.weight @one : tensor<4x16xf32> from #kimi.external<"w", 0, 256>
kimi.weight @codes : tensor<48x32xf4E2M1FN> from #kimi.external<"w", 0, 768>
kimi.weight @scales : tensor<48x1xf8E8M0FNU> from #kimi.external<"w", 768, 48>
kimi.weight @wide : tensor<24x48xf32> from #kimi.external<"w", 0, 4608>

// As models/k3 writes it: heads after tokens, keys and values split a head.
// CHECK-LABEL: func @exported
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<?x3x?x12xf32>, %[[C:[^:]*]]: tensor<?x?x16xf32>, %[[R:[^:]*]]: tensor<?x?x4xf32>
// CHECK: %[[W:.*]] = kimi.weight_ref @kv_b :
// CHECK-NEXT: %[[O:.*]] = kimi.mla %[[Q]], %[[C]], %[[W]] shared %[[R]] : tensor<?x?x4xf32> causal scale 5.000000e-01 : tensor<?x3x?x12xf32>, tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x3x?x8xf32>
// CHECK-NEXT: return %[[O]]
func.func @exported(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x16xf32>, %r: tensor<?x?x4xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x16xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x16xf32>
  %w = kimi.weight_ref @kv_b : tensor<16x48xf32>
  %kv = kimi.linear %c, %w : tensor<?x?x16xf32>, tensor<16x48xf32> -> tensor<?x?x48xf32>
  %h = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, %T, 3, 8] [1, 1, 1, 1] : tensor<?x?x3x16xf32> to tensor<?x?x3x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, %T, 3, 8] [1, 1, 1, 1] : tensor<?x?x3x16xf32> to tensor<?x?x3x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1], [2, 3]] output_shape [%B, %T, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x?x3x4xf32>
  %rh = linalg.generic {indexing_maps = [#to_heads, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x?x1x4xf32>) outs(%re : tensor<?x?x3x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x?x3x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<?x?x3x8xf32>, tensor<?x?x3x4xf32>) -> tensor<?x?x3x12xf32>
  %ke = tensor.empty(%B, %T) : tensor<?x3x?x12xf32>
  %kt = linalg.transpose ins(%k : tensor<?x?x3x12xf32>) outs(%ke : tensor<?x3x?x12xf32>) permutation = [0, 2, 1, 3]
  %ve = tensor.empty(%B, %T) : tensor<?x3x?x8xf32>
  %vt = linalg.transpose ins(%v : tensor<?x?x3x8xf32>) outs(%ve : tensor<?x3x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = kimi.attention %q, %kt, %vt causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o : tensor<?x3x?x8xf32>
}

// As PyTorch exports it: transposed first, then split; here a transposed matrix, and the shared part before the others,
// so that the channels of q change places.
// CHECK-LABEL: func @heads_first
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<?x3x?x12xf32>, %[[C:[^:]*]]: tensor<?x?x16xf32>, %[[R:[^:]*]]: tensor<?x?x4xf32>
// CHECK: %[[W:.*]] = kimi.weight_ref @kv_b_t :
// CHECK-DAG: %[[QN:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 4] [%{{.*}}, 3, %{{.*}}, 8]
// CHECK-DAG: %[[QP:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 0] [%{{.*}}, 3, %{{.*}}, 4]
// CHECK: %[[QS:.*]] = tensor.concat dim(3) %[[QN]], %[[QP]]
// CHECK: kimi.mla %[[QS]], %[[C]], %[[W]] transpose shared %[[R]] : tensor<?x?x4xf32> causal
func.func @heads_first(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x16xf32>, %r: tensor<?x?x4xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x16xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x16xf32>
  %w = kimi.weight_ref @kv_b_t : tensor<48x16xf32>
  %kv = kimi.linear %c, %w transpose : tensor<?x?x16xf32>, tensor<48x16xf32> -> tensor<?x?x48xf32>
  %h0 = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %he = tensor.empty(%B, %T) : tensor<?x3x?x16xf32>
  %h = linalg.transpose ins(%h0 : tensor<?x?x3x16xf32>) outs(%he : tensor<?x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, 3, %T, 8] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [%B, 1, %T, 4] : tensor<?x?x4xf32> into tensor<?x1x?x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x3x?x4xf32>
  %rh = linalg.generic {indexing_maps = [#head_to_heads, #head_id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x1x?x4xf32>) outs(%re : tensor<?x3x?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x3x?x4xf32>
  %k = tensor.concat dim(3) %rh, %kn : (tensor<?x3x?x4xf32>, tensor<?x3x?x8xf32>) -> tensor<?x3x?x12xf32>
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o : tensor<?x3x?x8xf32>
}

// Two matrices, and no shared part: their columns are put together once.
// CHECK-LABEL: func @two_matrices
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<?x2x?x8xf32>, %[[C:[^:]*]]: tensor<?x?x4xf32>
// CHECK: %[[K:.*]] = kimi.weight_ref @one :
// CHECK: tensor.concat dim(2)
// CHECK: %[[W:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2]] : tensor<4x2x16xf32> into tensor<4x32xf32>
// CHECK: kimi.mla %[[Q]], %[[C]], %[[W]] causal scale 5.000000e-01 : tensor<?x2x?x8xf32>, tensor<?x?x4xf32>, tensor<4x32xf32> -> tensor<?x2x?x8xf32>
func.func @two_matrices(%q: tensor<?x2x?x8xf32>, %c: tensor<?x?x4xf32>) -> tensor<?x2x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x4xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x4xf32>
  %w = kimi.weight_ref @one : tensor<4x16xf32>
  %w2 = arith.constant dense<2.0> : tensor<4x16xf32>
  %k0 = kimi.linear %c, %w : tensor<?x?x4xf32>, tensor<4x16xf32> -> tensor<?x?x16xf32>
  %v0 = kimi.linear %c, %w2 : tensor<?x?x4xf32>, tensor<4x16xf32> -> tensor<?x?x16xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [%B, %T, 2, 8] : tensor<?x?x16xf32> into tensor<?x?x2x8xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [%B, %T, 2, 8] : tensor<?x?x16xf32> into tensor<?x?x2x8xf32>
  %e = tensor.empty(%B, %T) : tensor<?x2x?x8xf32>
  %k = linalg.transpose ins(%k1 : tensor<?x?x2x8xf32>) outs(%e : tensor<?x2x?x8xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.transpose ins(%v1 : tensor<?x?x2x8xf32>) outs(%e : tensor<?x2x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x2x?x8xf32>
  return %o : tensor<?x2x?x8xf32>
}

// One head: nothing is broadcast.
// CHECK-LABEL: func @one_head
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<?x1x?x12xf32>, %[[C:[^:]*]]: tensor<?x?x4xf32>, %[[R:[^:]*]]: tensor<?x?x4xf32>
// CHECK: kimi.mla %[[Q]], %[[C]], %{{.*}} shared %[[R]] : tensor<?x?x4xf32> causal {{.*}} -> tensor<?x1x?x8xf32>
func.func @one_head(%q: tensor<?x1x?x12xf32>, %c: tensor<?x?x4xf32>, %r: tensor<?x?x4xf32>) -> tensor<?x1x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x4xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x4xf32>
  %w = kimi.weight_ref @one : tensor<4x16xf32>
  %kv = kimi.linear %c, %w : tensor<?x?x4xf32>, tensor<4x16xf32> -> tensor<?x?x16xf32>
  %kn = tensor.extract_slice %kv[0, 0, 0] [%B, %T, 8] [1, 1, 1] : tensor<?x?x16xf32> to tensor<?x?x8xf32>
  %v0 = tensor.extract_slice %kv[0, 0, 8] [%B, %T, 8] [1, 1, 1] : tensor<?x?x16xf32> to tensor<?x?x8xf32>
  %k0 = tensor.concat dim(2) %kn, %r : (tensor<?x?x8xf32>, tensor<?x?x4xf32>) -> tensor<?x?x12xf32>
  %k = tensor.expand_shape %k0 [[0], [1, 2], [3]] output_shape [%B, 1, %T, 12] : tensor<?x?x12xf32> into tensor<?x1x?x12xf32>
  %v = tensor.expand_shape %v0 [[0], [1, 2], [3]] output_shape [%B, 1, %T, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x1x?x12xf32>, tensor<?x1x?x12xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
  return %o : tensor<?x1x?x8xf32>
}

// A packed kv_b is a weight that is expanded when it is loaded.
// CHECK-LABEL: func @packed
// CHECK: %[[W:.*]] = kimi.dequantize
// CHECK: kimi.mla %{{.*}}, %{{.*}}, %[[W]] transpose shared
func.func @packed(%q: tensor<?x3x?x12xf32>, %c: tensor<?x?x32xf32>, %r: tensor<?x?x4xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %c, %c0 : tensor<?x?x32xf32>
  %T = tensor.dim %c, %c1 : tensor<?x?x32xf32>
  %codes = kimi.weight_ref @codes : tensor<48x32xf4E2M1FN>
  %scales = kimi.weight_ref @scales : tensor<48x1xf8E8M0FNU>
  %w = kimi.dequantize %codes, %scales axis 1 block 32 : tensor<48x32xf4E2M1FN>, tensor<48x1xf8E8M0FNU> -> tensor<48x32xf32>
  %kv = kimi.linear %c, %w transpose : tensor<?x?x32xf32>, tensor<48x32xf32> -> tensor<?x?x48xf32>
  %h = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [%B, %T, 3, 16] : tensor<?x?x48xf32> into tensor<?x?x3x16xf32>
  %kn = tensor.extract_slice %h[0, 0, 0, 0] [%B, %T, 3, 8] [1, 1, 1, 1] : tensor<?x?x3x16xf32> to tensor<?x?x3x8xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [%B, %T, 3, 8] [1, 1, 1, 1] : tensor<?x?x3x16xf32> to tensor<?x?x3x8xf32>
  %r1 = tensor.expand_shape %r [[0], [1], [2, 3]] output_shape [%B, %T, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %re = tensor.empty(%B, %T) : tensor<?x?x3x4xf32>
  %rh = linalg.generic {indexing_maps = [#to_heads, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r1 : tensor<?x?x1x4xf32>) outs(%re : tensor<?x?x3x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x?x3x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<?x?x3x8xf32>, tensor<?x?x3x4xf32>) -> tensor<?x?x3x12xf32>
  %ke = tensor.empty(%B, %T) : tensor<?x3x?x12xf32>
  %kt = linalg.transpose ins(%k : tensor<?x?x3x12xf32>) outs(%ke : tensor<?x3x?x12xf32>) permutation = [0, 2, 1, 3]
  %ve = tensor.empty(%B, %T) : tensor<?x3x?x8xf32>
  %vt = linalg.transpose ins(%v : tensor<?x?x3x8xf32>) outs(%ve : tensor<?x3x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = kimi.attention %q, %kt, %vt causal scale 0.5
     : tensor<?x3x?x12xf32>, tensor<?x3x?x12xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o : tensor<?x3x?x8xf32>
}

// Plain attention: keys and values of one projection of the model's rows, which are not narrower than what is made of
// them.
// CHECK-LABEL: func @plain
// CHECK-NOT: kimi.mla
// CHECK: kimi.attention
func.func @plain(%q: tensor<?x3x?x8xf32>, %x: tensor<?x?x24xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %x, %c0 : tensor<?x?x24xf32>
  %T = tensor.dim %x, %c1 : tensor<?x?x24xf32>
  %w = kimi.weight_ref @wide : tensor<24x48xf32>
  %kv = kimi.linear %x, %w : tensor<?x?x24xf32>, tensor<24x48xf32> -> tensor<?x?x48xf32>
  %k0 = tensor.extract_slice %kv[0, 0, 0] [%B, %T, 24] [1, 1, 1] : tensor<?x?x48xf32> to tensor<?x?x24xf32>
  %v0 = tensor.extract_slice %kv[0, 0, 24] [%B, %T, 24] [1, 1, 1] : tensor<?x?x48xf32> to tensor<?x?x24xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [%B, %T, 3, 8] : tensor<?x?x24xf32> into tensor<?x?x3x8xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [%B, %T, 3, 8] : tensor<?x?x24xf32> into tensor<?x?x3x8xf32>
  %e = tensor.empty(%B, %T) : tensor<?x3x?x8xf32>
  %k = linalg.transpose ins(%k1 : tensor<?x?x3x8xf32>) outs(%e : tensor<?x3x?x8xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.transpose ins(%v1 : tensor<?x?x3x8xf32>) outs(%e : tensor<?x3x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = kimi.attention %q, %k, %v causal scale 0.5
     : tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32> -> tensor<?x3x?x8xf32>
  return %o : tensor<?x3x?x8xf32>
}

// Grouped attention: fewer heads of keys than of queries.
// CHECK-LABEL: func @grouped
// CHECK-NOT: kimi.mla
// CHECK: kimi.attention
func.func @grouped(%q: tensor<?x6x?x8xf32>, %x: tensor<?x?x4xf32>) -> tensor<?x6x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %x, %c0 : tensor<?x?x4xf32>
  %T = tensor.dim %x, %c1 : tensor<?x?x4xf32>
  %w = kimi.weight_ref @one : tensor<4x16xf32>
  %k0 = kimi.linear %x, %w : tensor<?x?x4xf32>, tensor<4x16xf32> -> tensor<?x?x16xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [%B, %T, 2, 8] : tensor<?x?x16xf32> into tensor<?x?x2x8xf32>
  %e = tensor.empty(%B, %T) : tensor<?x2x?x8xf32>
  %k = linalg.transpose ins(%k1 : tensor<?x?x2x8xf32>) outs(%e : tensor<?x2x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = kimi.attention %q, %k, %k causal scale 0.5
     : tensor<?x6x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x6x?x8xf32>
  return %o : tensor<?x6x?x8xf32>
}

// A cache with one head of latents, as Hugging Face's models keep it: [B, 1, S, R], and its projection in four axes.
// CHECK-LABEL: func @one_head_of_latents
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<1x3x1x12xf32>, %[[C:[^:]*]]: tensor<1x1x?x16xf32>, %[[R:[^:]*]]: tensor<1x1x?x4xf32>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[C]] {{\[}}[0, 1], [2], [3]]
// CHECK: %[[TURNED:.*]] = linalg.transpose ins(%[[R]]
// CHECK: %[[SHARED:.*]] = tensor.collapse_shape %[[TURNED]] {{\[}}[0], [1], [2, 3]]
// CHECK: kimi.mla %[[Q]], %[[ROWS]], %{{.*}} shared %[[SHARED]]
// CHECK-NOT: kimi.attention
func.func @one_head_of_latents(%q: tensor<1x3x1x12xf32>, %c: tensor<1x1x?x16xf32>, %r: tensor<1x1x?x4xf32>) -> tensor<1x3x1x8xf32> {
  %c2 = arith.constant 2 : index
  %T = tensor.dim %c, %c2 : tensor<1x1x?x16xf32>
  %w = kimi.weight_ref @kv_b : tensor<16x48xf32>
  %kv = kimi.linear %c, %w : tensor<1x1x?x16xf32>, tensor<16x48xf32> -> tensor<1x1x?x48xf32>
  %flat = tensor.collapse_shape %kv [[0], [1, 2], [3]] : tensor<1x1x?x48xf32> into tensor<1x?x48xf32>
  %h = tensor.expand_shape %flat [[0], [1], [2, 3]] output_shape [1, %T, 3, 16] : tensor<1x?x48xf32> into tensor<1x?x3x16xf32>
  %e = tensor.empty(%T) : tensor<1x3x?x16xf32>
  %t = linalg.transpose ins(%h : tensor<1x?x3x16xf32>) outs(%e : tensor<1x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %t[0, 0, 0, 0] [1, 3, %T, 8] [1, 1, 1, 1] : tensor<1x3x?x16xf32> to tensor<1x3x?x8xf32>
  %v = tensor.extract_slice %t[0, 0, 0, 8] [1, 3, %T, 8] [1, 1, 1, 1] : tensor<1x3x?x16xf32> to tensor<1x3x?x8xf32>
  %re = tensor.empty(%T) : tensor<1x3x?x4xf32>
  %rh = linalg.generic {indexing_maps = [#head_to_heads, #head_id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r : tensor<1x1x?x4xf32>) outs(%re : tensor<1x3x?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x3x?x4xf32>
  %k = tensor.concat dim(3) %kn, %rh : (tensor<1x3x?x8xf32>, tensor<1x3x?x4xf32>) -> tensor<1x3x?x12xf32>
  %o = kimi.attention %q, %k, %v scale 0.5
     : tensor<1x3x1x12xf32>, tensor<1x3x?x12xf32>, tensor<1x3x?x8xf32> -> tensor<1x3x1x8xf32>
  return %o : tensor<1x3x1x8xf32>
}
