// RUN: kimi-opt %s --kimi-narrow-precision=type=bf16 --canonicalize --cse | FileCheck %s

#id = affine_map<(t, n) -> (t, n)>
kimi.weight @w : tensor<8x8xf32> from #kimi.external<"m", 2112, 256>

// Casts of the graph: what is widened is read as it is, what would be rounded is given narrow. A value that is also used
// as it is keeps its cast.
// CHECK-LABEL: func @casts
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xbf16>, %[[Z:[a-z0-9]+]]: tensor<4x8xbf16>
// CHECK: %[[N:.*]] = kimi.l2_norm %[[X]] {{.*}} : tensor<4x8xbf16> -> tensor<4x8xbf16>
// CHECK: %[[Y:.*]] = kimi.linear %[[N]], {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[Z]]
// CHECK: return %[[Y]], %[[W]], %[[Z]]
func.func @casts(%x: tensor<4x8xbf16>, %z: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xbf16>) {
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xbf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %n = kimi.l2_norm %a eps 1.0e-6 : tensor<4x8xf32> -> tensor<4x8xf32>
  %y = kimi.linear %n, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  // CHECK-NOT: ins(%[[Y]]
  %f = tensor.empty() : tensor<4x8xbf16>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<4x8xf32>) outs(%f : tensor<4x8xbf16>) {
  ^bb0(%p: f32, %out: bf16):
    %0 = arith.truncf %p : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<4x8xbf16>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%z : tensor<4x8xbf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  return %c, %d, %z : tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xbf16>
}
