// RUN: kimi-opt %s --kimi-schedule-elementwise-gpu 2>/dev/null | FileCheck %s

// What a kernel may read ahead of earlier launches. A launch of weights alone is one of load time, behind the launch that
// computes what it reads: nothing is ready there. In a step weights are, and what is computed of them.
#id = affine_map<(t, n) -> (t, n)>
#row = affine_map<(t, n) -> (n)>
kimi.weight @scale : tensor<64xf32> from #kimi.external<"m", 0, 256>
kimi.weight @w : tensor<32x64xf32> from #kimi.external<"m", 256, 8192>

// CHECK: tile.kernel @map_addf(%{{[^:]*}}: memref<64xf32
// CHECK-NOT: tile.constant
// CHECK: tile.kernel @map_mulf(
// CHECK-NOT: tile.constant
// CHECK: tile.return
// CHECK: tile.kernel @map_subf(
// CHECK-SAME: {tile.align = 16 : i64, tile.constant}
func.func @main(%x: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %scale = kimi.weight_ref @scale : tensor<64xf32>
  %w = kimi.weight_ref @w : tensor<32x64xf32>
  %one = arith.constant 1.0 : f32
  %v = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
      ins(%scale : tensor<64xf32>) outs(%v : tensor<64xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.addf %p, %one : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<32x64xf32>
  %b = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w, %a : tensor<32x64xf32>, tensor<64xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.mulf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<32x64xf32>
  %c = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<32x64xf32>, tensor<32x64xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.subf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<32x64xf32>
  return %b, %c : tensor<32x64xf32>, tensor<32x64xf32>
}
