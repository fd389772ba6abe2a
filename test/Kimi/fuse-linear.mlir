// RUN: kimi-opt %s --kimi-fuse-linear --canonicalize | FileCheck %s

kimi.weight @w : tensor<8x6xf32> from #kimi.external<"m", 0, 192>
kimi.weight @wt : tensor<6x8xf32> from #kimi.external<"m", 192, 192>
kimi.weight @w16 : tensor<8x6xf16> from #kimi.external<"m", 384, 96>

// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#all = affine_map<(b, t, n) -> (b, t, n)>
#last = affine_map<(b, t, n) -> (n)>
#swap = affine_map<(b, t, n) -> (t, b, n)>

// Norm, bias, activation and residual are one op with the product. A constant captured by the region comes along.
// CHECK-LABEL: func @block
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x?x8xf32>, %[[G:[^:]*]]: tensor<8xf32>, %[[B:[^:]*]]: tensor<6xf32>, %[[R:[^:]*]]: tensor<?x?x6xf32>
// CHECK: %[[W:.*]] = kimi.weight_ref @w
// CHECK-NEXT: %[[Y:.*]] = kimi.fused_linear %[[X]], %[[W]] norm layer(%[[G]], %[[G]]) eps {{.*}} extras(%[[B]], %[[R]]) maps [#[[LAST]], #[[ALL]]]
// CHECK-NEXT: ^bb0(%[[ACC:.*]]: f32, %[[BIAS:.*]]: f32, %[[RES:.*]]: f32):
// CHECK: %[[S:.*]] = arith.addf %[[ACC]], %[[BIAS]]
// CHECK: math.tanh
// CHECK: %[[A:.*]] = arith.addf %[[RES]], %{{.*}}
// CHECK: %[[T:.*]] = arith.mulf %[[A]], %{{.*}}
// The bias is read again, through the same argument.
// CHECK: %[[U:.*]] = arith.mulf %[[T]], %[[BIAS]]
// CHECK: kimi.yield %[[U]]
// CHECK: return %[[Y]]
func.func @block(%x: tensor<?x?x8xf32>, %g: tensor<8xf32>, %b: tensor<6xf32>, %r: tensor<?x?x6xf32>,
                 %e: tensor<?x?x6xf32>) -> tensor<?x?x6xf32> {
  %two = arith.constant 2.0 : f32
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  %n = kimi.layer_norm %x, %g, %g eps 1.0e-5 : tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<?x?x8xf32>
  %h = kimi.linear %n, %w, %b : tensor<?x?x8xf32>, tensor<8x6xf32>, tensor<6xf32> -> tensor<?x?x6xf32>
  %a = kimi.gelu %h tanh : tensor<?x?x6xf32> -> tensor<?x?x6xf32>
  %y = linalg.generic {indexing_maps = [#all, #all, #last, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %a, %b : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<6xf32>) outs(%e : tensor<?x?x6xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32, %out: f32):
    %0 = arith.addf %p, %q : f32
    %1 = arith.mulf %0, %two : f32
    %2 = arith.mulf %1, %s : f32
    linalg.yield %2 : f32
  } -> tensor<?x?x6xf32>
  return %y : tensor<?x?x6xf32>
}

// One norm of several linears goes into each. Nothing follows: the epilogues are empty.
// CHECK-LABEL: func @siblings
// CHECK-NOT: kimi.rms_norm
// CHECK: kimi.fused_linear %{{.*}}, %{{.*}} norm rms
// CHECK: kimi.fused_linear %{{.*}}, %{{.*}} transpose norm rms
func.func @siblings(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>) {
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  %wt = kimi.weight_ref @wt : tensor<6x8xf32>
  %n = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %0 = kimi.linear %n, %w : tensor<?x8xf32>, tensor<8x6xf32> -> tensor<?x6xf32>
  %1 = kimi.linear %n, %wt transpose : tensor<?x8xf32>, tensor<6x8xf32> -> tensor<?x6xf32>
  return %0, %1 : tensor<?x6xf32>, tensor<?x6xf32>
}

// The norm is needed elsewhere too, the product has two users, and the second reads it in another order.
// CHECK-LABEL: func @left_alone
// CHECK: %[[N:.*]] = kimi.layer_norm
// CHECK: %[[H:.*]] = kimi.fused_linear %[[N]], %{{.*}} :
// CHECK-NEXT: ^bb0(%[[ACC:.*]]: f32):
// CHECK-NEXT: kimi.yield %[[ACC]]
// CHECK: kimi.gelu %[[H]]
// CHECK: linalg.generic
// CHECK: return %[[N]]
func.func @left_alone(%x: tensor<4x4x8xf32>, %g: tensor<8xf32>, %e: tensor<4x4x6xf32>)
    -> (tensor<4x4x8xf32>, tensor<4x4x6xf32>, tensor<4x4x6xf32>) {
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  %n = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<4x4x8xf32>, tensor<8xf32> -> tensor<4x4x8xf32>
  %h = kimi.linear %n, %w : tensor<4x4x8xf32>, tensor<8x6xf32> -> tensor<4x4x6xf32>
  %a = kimi.gelu %h : tensor<4x4x6xf32> -> tensor<4x4x6xf32>
  %y = linalg.generic {indexing_maps = [#swap, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%h : tensor<4x4x6xf32>) outs(%e : tensor<4x4x6xf32>) {
  ^bb0(%p: f32, %out: f32):
    linalg.yield %p : f32
  } -> tensor<4x4x6xf32>
  return %n, %a, %y : tensor<4x4x8xf32>, tensor<4x4x6xf32>, tensor<4x4x6xf32>
}

// A transposed use, a position, a sum over rows: none is an epilogue.
// CHECK-LABEL: func @no_epilogue
// CHECK: kimi.fused_linear {{.*}} {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kimi.yield
// CHECK: linalg.generic
// CHECK: kimi.fused_linear {{.*}} {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kimi.yield
// CHECK: linalg.index
// CHECK: kimi.fused_linear {{.*}} {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kimi.yield
// CHECK: "reduction"
func.func @no_epilogue(%x: tensor<4x4x8xf32>, %e: tensor<4x4x6xf32>, %s: tensor<4x4xf32>)
    -> (tensor<4x4x6xf32>, tensor<4x4x6xf32>, tensor<4x4xf32>) {
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  %0 = kimi.linear %x, %w : tensor<4x4x8xf32>, tensor<8x6xf32> -> tensor<4x4x6xf32>
  %1 = linalg.generic {indexing_maps = [#swap, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0 : tensor<4x4x6xf32>) outs(%e : tensor<4x4x6xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = math.tanh %p : f32
    linalg.yield %t : f32
  } -> tensor<4x4x6xf32>
  %2 = kimi.linear %x, %w : tensor<4x4x8xf32>, tensor<8x6xf32> -> tensor<4x4x6xf32>
  %3 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%2 : tensor<4x4x6xf32>) outs(%e : tensor<4x4x6xf32>) {
  ^bb0(%p: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %k = arith.sitofp %j : i64 to f32
    %t = arith.addf %p, %k : f32
    linalg.yield %t : f32
  } -> tensor<4x4x6xf32>
  %4 = kimi.linear %x, %w : tensor<4x4x8xf32>, tensor<8x6xf32> -> tensor<4x4x6xf32>
  %5 = linalg.generic {indexing_maps = [#all, affine_map<(b, t, n) -> (b, t)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%4 : tensor<4x4x6xf32>) outs(%s : tensor<4x4xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = arith.addf %p, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x4xf32>
  return %1, %3, %5 : tensor<4x4x6xf32>, tensor<4x4x6xf32>, tensor<4x4xf32>
}

// Half precision keeps the rounding of each op; the conversion that ends the chain is the last to be taken.
// CHECK-LABEL: func @half
// CHECK: %[[Y:.*]] = kimi.fused_linear {{.*}} -> tensor<?x?x6xf32>
// CHECK: ^bb0(%[[ACC:.*]]: f32):
// CHECK: arith.truncf %[[ACC]] : f32 to f16
// CHECK: math.erf %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: %[[R:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: kimi.yield %[[R]] : f32
// CHECK: kimi.gelu %[[Y]]
func.func @half(%x: tensor<?x?x8xf16>, %e: tensor<?x?x6xf32>) -> tensor<?x?x6xf32> {
  %w = kimi.weight_ref @w16 : tensor<8x6xf16>
  %0 = kimi.linear %x, %w : tensor<?x?x8xf16>, tensor<8x6xf16> -> tensor<?x?x6xf16>
  %1 = kimi.gelu %0 : tensor<?x?x6xf16> -> tensor<?x?x6xf16>
  %2 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%1 : tensor<?x?x6xf16>) outs(%e : tensor<?x?x6xf32>) {
  ^bb0(%p: f16, %out: f32):
    %t = arith.extf %p : f16 to f32
    linalg.yield %t : f32
  } -> tensor<?x?x6xf32>
  %3 = kimi.gelu %2 : tensor<?x?x6xf32> -> tensor<?x?x6xf32>
  return %3 : tensor<?x?x6xf32>
}

// A transposition of the weight is the flag; splat constants become scalars; x * f(x) reads the product twice.
// CHECK-LABEL: func @transposed
// CHECK-NOT: linalg.transpose
// CHECK: kimi.fused_linear %{{.*}}, %{{.*}} transpose : (tensor<1x8xf32>, tensor<6x8xf32>) -> tensor<1x6xf32> {
// CHECK: %[[C:.*]] = arith.constant 3.000000e+00
// CHECK: arith.negf
// CHECK: %[[M:.*]] = arith.mulf
// CHECK: arith.mulf %[[M]], %[[C]]
// CHECK: kimi.yield
// CHECK: return
func.func @transposed(%x: tensor<1x8xf32>, %e: tensor<1x6xf32>, %t: tensor<8x6xf32>) -> tensor<1x6xf32> {
  %three = arith.constant dense<3.0> : tensor<1x6xf32>
  %wt = kimi.weight_ref @wt : tensor<6x8xf32>
  %w = linalg.transpose ins(%wt : tensor<6x8xf32>) outs(%t : tensor<8x6xf32>) permutation = [1, 0]
  %0 = kimi.linear %x, %w : tensor<1x8xf32>, tensor<8x6xf32> -> tensor<1x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
                                        affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0, %0, %three : tensor<1x6xf32>, tensor<1x6xf32>, tensor<1x6xf32>) outs(%e : tensor<1x6xf32>) {
  ^bb0(%p: f32, %q: f32, %c: f32, %out: f32):
    %n = arith.negf %p : f32
    %m = arith.mulf %n, %q : f32
    %s = arith.mulf %m, %c : f32
    linalg.yield %s : f32
  } -> tensor<1x6xf32>
  return %1 : tensor<1x6xf32>
}
