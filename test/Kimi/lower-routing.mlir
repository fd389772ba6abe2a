// The reference lowering of gates, routing, depth and packed weights: which loops, over what.
// RUN: kimi-opt %s --kimi-lower-to-reference | FileCheck %s

kimi.weight @codes : tensor<4x32x64xf4E2M1FN> from #kimi.external<"m", 0, 4096>
kimi.weight @down : tensor<4x64x32xf4E2M1FN> from #kimi.external<"m", 4096, 4096>
kimi.weight @scales : tensor<4x32x2xf8E8M0FNU> from #kimi.external<"m", 8192, 256>
kimi.weight @down_scales : tensor<4x64x1xf8E8M0FNU> from #kimi.external<"m", 8448, 256>

// Scores are elementwise; the choice is one task a row. Without groups there is no scratch.
// CHECK-LABEL: func @router
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: kimi.loops ins(%{{.*}} : tensor<?x8xf32>) dims({{.*}}) rows(%{{.*}}) {kimi.name = "router"} -> tensor<?x3xi64>, tensor<?x3xf32> {
// CHECK-NOT: kimi.router
func.func @router(%l: tensor<?x8xf32>) -> (tensor<?x3xi64>, tensor<?x3xf32>) {
  %0:2 = kimi.router %l sigmoid top 3 : tensor<?x8xf32> -> tensor<?x3xi64>, tensor<?x3xf32>
  return %0#0, %0#1 : tensor<?x3xi64>, tensor<?x3xf32>
}

// With groups, their values and the masked choice; keeping every group is no grouping.
// CHECK-LABEL: func @grouped
// CHECK: kimi.loops {{.*}} -> tensor<5x3xi32>, tensor<5x3xf32>, tensor<5x4xf32>, tensor<5x8xf32> {
// CHECK: kimi.loops {{.*}} -> tensor<5x3xi32>, tensor<5x3xf32> {
func.func @grouped(%l: tensor<5x8xf16>, %b: tensor<8xf32>) -> (tensor<5x3xi32>, tensor<5x3xi32>) {
  %0:2 = kimi.router %l, %b softmax top 3 {groups = 4 : i64, keep_groups = 2 : i64}
       : tensor<5x8xf16>, tensor<8xf32> -> tensor<5x3xi32>, tensor<5x3xf32>
  %1:2 = kimi.router %l, %b softmax top 3 {groups = 4 : i64, keep_groups = 4 : i64}
       : tensor<5x8xf16>, tensor<8xf32> -> tensor<5x3xi32>, tensor<5x3xf32>
  return %0#0, %1#0 : tensor<5x3xi32>, tensor<5x3xi32>
}

// Both products in one pass, over the chosen experts' matrices only; bytes of the packed weights are read in place.
// CHECK-LABEL: func @experts
// CHECK-DAG: %[[C:.*]] = kimi.weight_ref @codes : tensor<4x32x32xi8>
// CHECK-DAG: %[[S:.*]] = kimi.weight_ref @scales : tensor<4x32x2xi8>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<?x64xf32>, tensor<?x3xi64>)
// CHECK: arith.maxsi
// CHECK: tensor.extract %[[C]]
// CHECK: tensor.extract %[[S]]
// CHECK-NOT: kimi.moe
func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>) -> tensor<?x64xf32> {
  %w1 = kimi.weight_ref @codes : tensor<4x32x64xf4E2M1FN>
  %w2 = kimi.weight_ref @down : tensor<4x64x32xf4E2M1FN>
  %s1 = kimi.weight_ref @scales : tensor<4x32x2xf8E8M0FNU>
  %s2 = kimi.weight_ref @down_scales : tensor<4x64x1xf8E8M0FNU>
  %0 = kimi.moe %x, %i, %w experts(%w1, %w1, %w2 : tensor<4x32x64xf4E2M1FN>, tensor<4x32x64xf4E2M1FN>, tensor<4x64x32xf4E2M1FN>)
     scales(%s1, %s1, %s2 : tensor<4x32x2xf8E8M0FNU>, tensor<4x32x2xf8E8M0FNU>, tensor<4x64x1xf8E8M0FNU>)
     situ_glu beta 4.0 linear_beta 25.0 : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// Packed floats that are no weights have no bytes to read: the op stays.
// CHECK-LABEL: func @no_weight
// CHECK: kimi.dequantize
func.func @no_weight(%w: tensor<6x64xf4E2M1FN>, %s: tensor<6x2xf8E8M0FNU>) -> tensor<6x64xf32> {
  %0 = kimi.dequantize %w, %s axis 1 block 32 : tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU> -> tensor<6x64xf32>
  return %0 : tensor<6x64xf32>
}

// A constant becomes its bytes, the first element in the low half.
// CHECK-LABEL: func @constant
// CHECK: arith.constant dense<{{\[}}[16, 50]]> : tensor<1x2xi8>
// CHECK: arith.constant dense<-128> : tensor<1x1xi8>
func.func @constant() -> tensor<1x4xf32> {
  %w = arith.constant dense<[[0.0, 0.5, 1.0, 1.5]]> : tensor<1x4xf4E2M1FN>
  %s = arith.constant dense<2.0> : tensor<1x1xf8E8M0FNU>
  %0 = kimi.dequantize %w, %s axis 1 block 4 : tensor<1x4xf4E2M1FN>, tensor<1x1xf8E8M0FNU> -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// One pass for the sums of all sources, one for the shares, one for the mix.
// CHECK-LABEL: func @depth
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func @depth(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>, %s: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = kimi.attn_res(%a, %b) score %s eps 1.0e-5 : (tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// The bank's sums of squares and products in one pass, whatever the number of scores; then a softmax, its statistics
// and its sum for each score.
// CHECK-LABEL: func @bank
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-NOT: "reduction"
// CHECK-COUNT-6: linalg.generic
// CHECK-NOT: linalg.generic
func.func @bank(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>, %s: tensor<8xf32>, %t: tensor<8xf32>)
    -> (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %0:4 = kimi.attn_res_bank(%a, %b) scores(%s, %t) eps 1.0e-5 : (tensor<?x8xf32>, tensor<?x8xf32>), (tensor<8xf32>, tensor<8xf32>)
      -> (tensor<?x2xf32>, tensor<?x2xf32>), (tensor<?x8xf32>, tensor<?x8xf32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func @merge
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func @merge(%p: tensor<?x8xf32>, %l: tensor<?x2xf32>, %a: tensor<?x8xf32>, %s: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 1.0e-5 : tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
