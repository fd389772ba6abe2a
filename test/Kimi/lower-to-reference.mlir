// RUN: kimi-opt %s --kimi-lower-to-reference --canonicalize --cse | FileCheck %s

// CHECK-DAG: #[[ID2:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[COL:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[KV:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5)>
// CHECK-DAG: #[[MASK:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, 0, 0, d4)>
// CHECK-DAG: #[[W:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[WT:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>

// Grouped heads are a view of q; half precision is widened on reading and rounded once, at the end.
// CHECK-LABEL: func @attention
// CHECK: %[[Q:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0], [1, 2], [3], [4]] {{.*}} : tensor<?x6x?x8xf16> into tensor<?x2x3x?x8xf16>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[KV]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%[[Q]], %{{.*}} : tensor<?x2x3x?x8xf16>, tensor<?x2x?x8xf16>)
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: linalg.generic
// CHECK-NOT: math.tanh
// CHECK: linalg.index 3
// CHECK: linalg.index 4
// CHECK: arith.cmpi sle
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: tensor.collapse_shape {{.*}} : tensor<?x2x3x?x4xf16> into tensor<?x6x?x4xf16>
func.func @attention(%q: tensor<?x6x?x8xf16>, %k: tensor<?x2x?x8xf16>, %v: tensor<?x2x?x4xf16>) -> tensor<?x6x?x4xf16> {
  %0 = kimi.attention %q, %k, %v causal scale 0.125
     : tensor<?x6x?x8xf16>, tensor<?x2x?x8xf16>, tensor<?x2x?x4xf16> -> tensor<?x6x?x4xf16>
  return %0 : tensor<?x6x?x4xf16>
}

// One head, an additive mask of keys, a softcap; nothing causal, so no index is compared.
// CHECK-LABEL: func @masked
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[MASK]], #{{.*}}]
// CHECK: math.tanh
// CHECK: arith.addf
// CHECK-NOT: linalg.index
// CHECK: return
func.func @masked(%q: tensor<?x1x?x8xf32>, %m: tensor<?x1x1x?xf32>) -> tensor<?x1x?x8xf32> {
  %0 = kimi.attention %q, %q, %q mask %m : tensor<?x1x1x?xf32> scale 1.0 {softcap = 30.0 : f32}
     : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
  return %0 : tensor<?x1x?x8xf32>
}

// The number of heads may be known at run time only.
// CHECK-LABEL: func @dynamic_heads
// CHECK: %[[G:.*]] = arith.divui
// CHECK: tensor.expand_shape {{.*}} output_shape [%{{.*}}, %{{.*}}, %[[G]], %{{.*}}, %{{.*}}]
func.func @dynamic_heads(%q: tensor<?x?x?x?xf32>, %k: tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32> {
  %0 = kimi.attention %q, %k, %k scale 1.0
     : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32> -> tensor<?x?x?x?xf32>
  return %0 : tensor<?x?x?x?xf32>
}

// CHECK-LABEL: func @layer_norm
// CHECK: linalg.generic {indexing_maps = [#[[ID2]], #[[ROW]]], iterator_types = ["parallel", "reduction"]}
// CHECK: arith.subf
// CHECK: linalg.generic {indexing_maps = [#[[ID2]], #[[ROW]]], iterator_types = ["parallel", "reduction"]}
// CHECK: linalg.generic {indexing_maps = [#[[ID2]], #[[ROW]], #[[COL]], #[[COL]], #[[ID2]]]
// CHECK: math.rsqrt
func.func @layer_norm(%x: tensor<?x7xf32>, %g: tensor<7xf32>, %b: tensor<7xf32>) -> tensor<?x7xf32> {
  %0 = kimi.layer_norm %x, %g, %b eps 1.0e-5 : tensor<?x7xf32>, tensor<7xf32>, tensor<7xf32> -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}

// Rounded to x's type before gamma; the number of channels is known at run time only.
// CHECK-LABEL: func @rms_norm
// CHECK: arith.sitofp %{{.*}} : i64 to f32
// CHECK: math.rsqrt
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.mulf
func.func @rms_norm(%x: tensor<?x?xbf16>, %g: tensor<?xf32>) -> tensor<?x?xf32> {
  %0 = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x?xbf16>, tensor<?xf32> -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func @softmax
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
func.func @softmax(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = kimi.softmax %x axis 0 : tensor<?x?xf32> -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func @gelu
// CHECK: math.erf
// CHECK: math.tanh
func.func @gelu(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = kimi.gelu %x : tensor<?x?xf32> -> tensor<?x?xf32>
  %1 = kimi.gelu %0 tanh : tensor<?x?xf32> -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// CHECK-LABEL: func @linear
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[W]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK: linalg.generic {indexing_maps = [#[[ID2]], #[[COL]], #[[ID2]]], iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[WT]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]}
func.func @linear(%x: tensor<?x8xf32>, %w: tensor<8x5xf32>, %b: tensor<5xf32>) -> tensor<?x8xf32> {
  %0 = kimi.linear %x, %w, %b : tensor<?x8xf32>, tensor<8x5xf32>, tensor<5xf32> -> tensor<?x5xf32>
  %1 = kimi.linear %0, %w transpose : tensor<?x5xf32>, tensor<8x5xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// CHECK-LABEL: func @vector_linear
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
func.func @vector_linear(%x: tensor<8xf32>, %w: tensor<8x5xf32>) -> tensor<5xf32> {
  %0 = kimi.linear %x, %w : tensor<8xf32>, tensor<8x5xf32> -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// CHECK-LABEL: func @fused_linear
// CHECK: math.rsqrt
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: linalg.generic {indexing_maps = [#[[ID2]], #[[COL]], #[[ID2]]]
// CHECK: arith.addf
// CHECK: math.tanh
func.func @fused_linear(%x: tensor<?x8xf32>, %w: tensor<8x5xf32>, %g: tensor<8xf32>, %b: tensor<5xf32>) -> tensor<?x5xf32> {
  %0 = kimi.fused_linear %x, %w norm rms(%g) eps 1.0e-5 extras(%b) maps [affine_map<(m, n) -> (n)>]
      : (tensor<?x8xf32>, tensor<8x5xf32>, tensor<8xf32>, tensor<5xf32>) -> tensor<?x5xf32> {
  ^bb0(%acc: f32, %e: f32):
    %s = arith.addf %acc, %e : f32
    %t = math.tanh %s : f32
    kimi.yield %t : f32
  }
  return %0 : tensor<?x5xf32>
}

// CHECK-LABEL: func @embedding
// CHECK: arith.cmpi slt
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: tensor.extract
func.func @embedding(%ids: tensor<?xi32>, %t: tensor<?x8xf16>) -> tensor<?x8xf16> {
  %0 = kimi.embedding %ids, %t : tensor<?xi32>, tensor<?x8xf16> -> tensor<?x8xf16>
  return %0 : tensor<?x8xf16>
}

// The greatest logit of each row, then the least index that has it; -1 where that is no finite number.
// CHECK-LABEL: func @greedy_token
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.maximumf
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: linalg.index 1
// CHECK: arith.cmpf oeq
// CHECK: arith.maximumf
// CHECK: arith.cmpf olt
// CHECK: arith.fptosi %{{.*}} : f32 to i64
// CHECK-NOT: kimi.
func.func @greedy_token(%l: tensor<?x50257xf32>) -> tensor<?xi64> {
  %0 = kimi.greedy_token %l : tensor<?x50257xf32> -> tensor<?xi64>
  return %0 : tensor<?xi64>
}

// What is no arithmetic stays.
// CHECK-LABEL: func @stays
// CHECK: kimi.pack_weight
// CHECK: kimi.state_length
// CHECK: kimi.cache_append
func.func @stays(%s: !kimi.state<tensor<?x4x?x8xf32>, 2>, %rows: tensor<?x4x?x8xf32>, %w: tensor<8x5xf32>)
    -> (tensor<?x4x?x8xf32>, tensor<1x8x16xf32>) {
  %p = kimi.pack_weight %w panel 16 : tensor<8x5xf32> -> tensor<1x8x16xf32>
  %past = kimi.state_length %s : !kimi.state<tensor<?x4x?x8xf32>, 2>
  %0 = kimi.cache_append %s, %rows at %past
     : !kimi.state<tensor<?x4x?x8xf32>, 2>, tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  return %0, %p : tensor<?x4x?x8xf32>, tensor<1x8x16xf32>
}

// A single row: what is reduced away leaves no dims.
// CHECK-LABEL: func @one_row
// CHECK-COUNT-2: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: math.rsqrt
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: math.rsqrt
// CHECK: arith.maximumf
// CHECK: math.exp
func.func @one_row(%x: tensor<?xf32>, %g: tensor<?xf32>) -> tensor<?xf32> {
  %0 = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  %1 = kimi.rms_norm %0, %g eps 1.0e-5 : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  %2 = kimi.softmax %1 axis 0 : tensor<?xf32> -> tensor<?xf32>
  return %2 : tensor<?xf32>
}
