// RUN: kimi-opt %s --kimi-fold-casts --canonicalize --cse | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#id3 = affine_map<(i, j, k) -> (i, j, k)>
#id4 = affine_map<(i, j, k, l) -> (i, j, k, l)>

// Between a projection and a delta rule: heads are made of the narrow tensor, the norm reads and gives it, the axes that are
// exchanged are those of the result.
// CHECK-LABEL: func.func @heads
// CHECK-SAME: (%[[Q:.*]]: tensor<?x?x256xbf16>)
// CHECK: %[[H:.*]] = tensor.expand_shape %[[Q]] {{.*}} into tensor<?x?x2x128xbf16>
// CHECK: %[[N:.*]] = kimi.l2_norm %[[H]] eps 9.99999997E-7 : tensor<?x?x2x128xbf16> -> tensor<?x?x2x128xbf16>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[N]] : tensor<?x?x2x128xbf16>)
// CHECK-NOT: arith.truncf
// CHECK: return %[[T]]
func.func @heads(%q: tensor<?x?x256xbf16>) -> tensor<?x2x?x128xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %q, %c0 : tensor<?x?x256xbf16>
  %t = tensor.dim %q, %c1 : tensor<?x?x256xbf16>
  %e = tensor.empty(%b, %t) : tensor<?x?x256xf32>
  %w = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<?x?x256xbf16>) outs(%e : tensor<?x?x256xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<?x?x256xf32>
  %h = tensor.expand_shape %w [[0], [1], [2, 3]] output_shape [%b, %t, 2, 128] : tensor<?x?x256xf32> into tensor<?x?x2x128xf32>
  %n = kimi.l2_norm %h eps 1.0e-6 : tensor<?x?x2x128xf32> -> tensor<?x?x2x128xf32>
  %te = tensor.empty(%b, %t) : tensor<?x2x?x128xf32>
  %x = linalg.transpose ins(%n : tensor<?x?x2x128xf32>) outs(%te : tensor<?x2x?x128xf32>) permutation = [0, 2, 1, 3]
  %d = tensor.dim %x, %c0 : tensor<?x2x?x128xf32>
  %re = tensor.empty(%d, %t) : tensor<?x2x?x128xbf16>
  %r = linalg.generic {indexing_maps = [#id4, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x2x?x128xf32>) outs(%re : tensor<?x2x?x128xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %0 = arith.truncf %a : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<?x2x?x128xbf16>
  return %r : tensor<?x2x?x128xbf16>
}

// Widened and rounded back, with views between: the views alone.
// CHECK-LABEL: func.func @there_and_back
// CHECK-NOT: linalg.generic
// CHECK: tensor.collapse_shape %{{.*}} : tensor<4x8xf16> into tensor<32xf16>
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @there_and_back(%x: tensor<4x8xf16>) -> tensor<32xf16> {
  %e = tensor.empty() : tensor<4x8xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %0 = arith.extf %a : f16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %c = tensor.collapse_shape %w [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %f = tensor.empty() : tensor<32xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%c : tensor<32xf32>) outs(%f : tensor<32xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.truncf %a : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<32xf16>
  return %r : tensor<32xf16>
}

// Two operands of one type. An op that rounds in between (kimi.rms_norm to its x's type) is left alone, and so are operands
// of different types, a result that is read as fp32 as well, and another narrow type.
// CHECK-LABEL: func.func @twins
// CHECK: kimi.gated_rms_norm %{{.*}}, %{{.*}}, %{{.*}} sigmoid eps 9.99999974E-6 : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8xf32> -> tensor<4x8xf32>
// CHECK: kimi.rms_norm %{{.*}} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
// CHECK: kimi.gated_rms_norm %{{.*}}, %{{.*}}, %{{.*}} silu eps 9.99999974E-6 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
func.func @twins(%x: tensor<4x8xbf16>, %gate: tensor<4x8xbf16>, %other: tensor<4x8xf16>, %g: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %xw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xbf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %gw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%gate : tensor<4x8xbf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %ow = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%other : tensor<4x8xf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %0 = arith.extf %a : f16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %n = kimi.gated_rms_norm %xw, %gw, %g sigmoid eps 1.0e-5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<4x8xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<4x8xf32>) outs(%f : tensor<4x8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %0 = arith.truncf %a : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<4x8xbf16>
  %m = kimi.rms_norm %xw, %g eps 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %k = kimi.gated_rms_norm %xw, %ow, %g silu eps 1.0e-5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %n, %r, %m, %k : tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xf32>
}
