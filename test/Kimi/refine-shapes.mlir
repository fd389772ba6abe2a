// RUN: kimi-opt %s --kimi-refine-shapes | FileCheck %s
// RUN: kimi-opt %s --kimi-refine-shapes --kimi-fuse-linear --canonicalize | FileCheck %s --check-prefix=FUSED

#all = affine_map<(b, t, n) -> (b, t, n)>

kimi.weight @w : tensor<8x8xf32> from #kimi.external<"m", 0, 256>

// What the cast hid goes through norm and projection, up to the residual: all of them become one op.
// CHECK-LABEL: func @block
// CHECK: %[[N:.*]] = kimi.layer_norm %arg0, {{.*}} : tensor<?x1x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<?x1x8xf32>
// CHECK-NEXT: %[[H:.*]] = kimi.linear %[[N]], {{.*}} -> tensor<?x1x8xf32>
// CHECK-NOT: tensor.cast
// CHECK: linalg.generic {{.*}} ins(%[[H]], %arg0 :
// FUSED-LABEL: func @block
// FUSED: kimi.fused_linear %arg0, {{.*}} norm layer{{.*}} extras(%arg0) {{.*}} -> tensor<?x1x8xf32>
// FUSED-NOT: linalg.generic
func.func @block(%x: tensor<?x1x8xf32>, %g: tensor<8xf32>, %e: tensor<?x1x8xf32>) -> tensor<?x1x8xf32> {
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %a = tensor.cast %x : tensor<?x1x8xf32> to tensor<?x?x8xf32>
  %n = kimi.layer_norm %a, %g, %g eps 1.0e-5 : tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<?x?x8xf32>
  %h = kimi.linear %n, %w : tensor<?x?x8xf32>, tensor<8x8xf32> -> tensor<?x?x8xf32>
  %c = tensor.cast %h : tensor<?x?x8xf32> to tensor<?x1x8xf32>
  %y = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%c, %x : tensor<?x1x8xf32>, tensor<?x1x8xf32>) outs(%e : tensor<?x1x8xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %0 = arith.addf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<?x1x8xf32>
  return %y : tensor<?x1x8xf32>
}

// The only user knows more than the operand.
// CHECK-LABEL: func @user
// CHECK: %[[H:.*]] = kimi.linear %arg0, {{.*}} : tensor<?x?x8xf32>, tensor<8x8xf32> -> tensor<?x1x8xf32>
// CHECK-NEXT: return %[[H]]
func.func @user(%x: tensor<?x?x8xf32>) -> tensor<?x1x8xf32> {
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %h = kimi.linear %x, %w : tensor<?x?x8xf32>, tensor<8x8xf32> -> tensor<?x?x8xf32>
  %c = tensor.cast %h : tensor<?x?x8xf32> to tensor<?x1x8xf32>
  return %c : tensor<?x1x8xf32>
}

// Ids give all axes but the last; a result keeps its type for those who ask for it, and for other users.
// CHECK-LABEL: func @ids
// CHECK: %[[T:.*]] = kimi.embedding %arg0, {{.*}} : tensor<?x1xi64>, tensor<8x8xf32> -> tensor<?x1x8xf32>
// CHECK: %[[C:.*]] = tensor.cast %[[T]] : tensor<?x1x8xf32> to tensor<?x?x8xf32>
// CHECK: return %[[C]]
func.func @ids(%ids: tensor<?x1xi64>) -> tensor<?x?x8xf32> {
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %a = tensor.cast %ids : tensor<?x1xi64> to tensor<?x?xi64>
  %t = kimi.embedding %a, %w : tensor<?x?xi64>, tensor<8x8xf32> -> tensor<?x?x8xf32>
  return %t : tensor<?x?x8xf32>
}

// A cast that forgets an extent tells nothing.
// CHECK-LABEL: func @forgets
// CHECK: kimi.gelu %arg0 : tensor<?x8xf32> -> tensor<?x8xf32>
// CHECK: tensor.cast
func.func @forgets(%x: tensor<?x8xf32>) -> tensor<?x?xf32> {
  %h = kimi.gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  %c = tensor.cast %h : tensor<?x8xf32> to tensor<?x?xf32>
  return %c : tensor<?x?xf32>
}

// A product a head has the rows of its operand.
// CHECK-LABEL: func @heads
// CHECK: kimi.head_linear %arg0, %arg1 : tensor<?x3x1x8xf32>, tensor<3x8x8xf32> -> tensor<?x3x1x8xf32>
// CHECK-NOT: tensor.cast
// CHECK: return
func.func @heads(%x: tensor<?x3x1x8xf32>, %w: tensor<3x8x8xf32>) -> tensor<?x3x1x8xf32> {
  %a = tensor.cast %x : tensor<?x3x1x8xf32> to tensor<?x3x?x8xf32>
  %h = kimi.head_linear %a, %w : tensor<?x3x?x8xf32>, tensor<3x8x8xf32> -> tensor<?x3x?x8xf32>
  %c = tensor.cast %h : tensor<?x3x?x8xf32> to tensor<?x3x1x8xf32>
  return %c : tensor<?x3x1x8xf32>
}
