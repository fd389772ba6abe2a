// RUN: kimi-opt %s --kimi-narrow-precision=type=bf16 --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-narrow-precision=type=fp16 --canonicalize --cse | FileCheck %s --check-prefix=HALF
// RUN: kimi-opt %s --kimi-narrow-precision=type=tf32 | FileCheck %s --check-prefix=TF32
// RUN: not kimi-opt %s --kimi-narrow-precision=type=int8 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: kimi-opt %s --kimi-narrow-precision --verify-diagnostics -o /dev/null

// CHECK: module attributes {kimi.precision = "bf16"}
// HALF: module attributes {kimi.precision = "fp16"}
// TF32: module attributes {kimi.precision = "tf32"}
// TF32-NOT: bf16
// TF32-NOT: arith.truncf
// BAD: error: kimi-narrow-precision: there is no type 'int8'; types: bf16, fp16, tf32

kimi.weight @wte : tensor<50x8xf32> from #kimi.external<"m", 0, 1600>
kimi.weight @wpe : tensor<16x8xf32> from #kimi.external<"m", 1600, 512>
kimi.weight @w : tensor<8x8xf32> from #kimi.external<"m", 2112, 256>
kimi.weight @w16 : tensor<8x8xf16> from #kimi.external<"m", 2368, 128>
kimi.weight @b : tensor<8xf32> from #kimi.external<"m", 2496, 32>

#row = affine_map<(b, t, n) -> (b, t)>
#all = affine_map<(b, t, n) -> (b, t, n)>
#last = affine_map<(b, t, n) -> (n)>

// A language model in small: embedding, a projection with residual, a head. The table of tokens is rounded once and
// serves the head as well; the table of positions, read at an index of no input, and the vectors stay fp32. The sum of
// the lookups is rounded when it is stored, the residual is widened when it is read, the logits are not rounded.
// CHECK-LABEL: func @model
// CHECK-SAME: (%[[IDS:.*]]: tensor<?x?xi64>) -> tensor<?x?x50xf32>
// CHECK-DAG: %[[WTE:.*]] = kimi.weight_ref @wte
// CHECK-DAG: %[[WPE:.*]] = kimi.weight_ref @wpe
// CHECK-DAG: %[[W:.*]] = kimi.weight_ref @w :
// CHECK-DAG: %[[B:.*]] = kimi.weight_ref @b
// CHECK-DAG: %[[TABLE:.*]] = linalg.generic {{.*}} ins(%[[WTE]] : tensor<50x8xf32>) outs({{.*}} : tensor<50x8xbf16>)
// CHECK-DAG: %[[MATRIX:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<8x8xf32>) outs({{.*}} : tensor<8x8xbf16>)
// CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%[[IDS]] : tensor<?x?xi64>) outs({{.*}} : tensor<?x?x8xbf16>)
// CHECK: %[[E:.*]] = tensor.extract %[[TABLE]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[E]] : bf16 to f32
// CHECK: %[[P:.*]] = tensor.extract %[[WPE]]{{.*}} : tensor<16x8xf32>
// CHECK: %[[S:.*]] = arith.addf %[[WIDE]], %[[P]] : f32
// CHECK: %[[R:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK: linalg.yield %[[R]]
// CHECK: %[[Y:.*]] = kimi.fused_linear %[[X]], %[[MATRIX]] norm layer(%[[B]], %[[B]]) {{.*}} extras(%[[B]], %[[X]])
// CHECK-SAME: (tensor<?x?x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT: ^bb0(%[[ACC:.*]]: f32, %[[BIAS:.*]]: f32, %[[RES:.*]]: bf16):
// CHECK-DAG: %[[RW:.*]] = arith.extf %[[RES]]
// CHECK-DAG: %[[A:.*]] = arith.addf %[[ACC]], %[[BIAS]]
// CHECK: %[[T:.*]] = arith.addf %[[A]], %[[RW]]
// CHECK: %[[O:.*]] = arith.truncf %[[T]] : f32 to bf16
// CHECK: kimi.yield %[[O]] : bf16
// CHECK: %[[L:.*]] = kimi.fused_linear %[[Y]], %[[TABLE]] transpose {{.*}} -> tensor<?x?x50xf32>
// CHECK-NEXT: ^bb0(%[[ACC:.*]]: f32):
// CHECK-NEXT: kimi.yield %[[ACC]] : f32
// CHECK: return %[[L]]
// HALF-LABEL: func @model
// HALF: kimi.fused_linear {{.*}} -> tensor<?x?x8xf16>
func.func @model(%ids: tensor<?x?xi64>) -> tensor<?x?x50xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %t = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %wte = kimi.weight_ref @wte : tensor<50x8xf32>
  %wpe = kimi.weight_ref @wpe : tensor<16x8xf32>
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %b = kimi.weight_ref @b : tensor<8xf32>
  %e = tensor.empty(%n, %t) : tensor<?x?x8xf32>
  %x = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids : tensor<?x?xi64>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%id: i64, %out: f32):
    %row = arith.index_cast %id : i64 to index
    %pos = linalg.index 1 : index
    %col = linalg.index 2 : index
    %0 = tensor.extract %wte[%row, %col] : tensor<50x8xf32>
    %1 = tensor.extract %wpe[%pos, %col] : tensor<16x8xf32>
    %2 = arith.addf %0, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<?x?x8xf32>
  %y = kimi.fused_linear %x, %w norm layer(%b, %b) eps 1.0e-5 extras(%b, %x) maps [#last, #all]
      : (tensor<?x?x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<?x?x8xf32>)
        -> tensor<?x?x8xf32> {
  ^bb0(%acc: f32, %bias: f32, %res: f32):
    %0 = arith.addf %acc, %bias : f32
    %1 = arith.addf %0, %res : f32
    kimi.yield %1 : f32
  }
  %l = kimi.fused_linear %y, %wte transpose : (tensor<?x?x8xf32>, tensor<50x8xf32>) -> tensor<?x?x50xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %l : tensor<?x?x50xf32>
}

// A step on caches: the states hold what was rounded, views follow. A state of fixed size and the mask stay fp32.
// CHECK-LABEL: func @step
// CHECK-SAME: !kimi.state<tensor<?x2x?x4xbf16>, 2>, %{{.*}}: !kimi.state<tensor<?x2x4x4xf32>, -1>, %[[M:.*]]: tensor<1x1x1x?xf32>
// CHECK: %[[Q:.*]] = kimi.fused_linear {{.*}} -> tensor<?x1x8xbf16>
// CHECK: %[[H:.*]] = tensor.expand_shape %[[Q]] {{.*}} : tensor<?x1x8xbf16> into tensor<?x1x2x4xbf16>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[H]] : tensor<?x1x2x4xbf16>) outs(%{{.*}} : tensor<?x2x1x4xbf16>)
// CHECK: %[[K:.*]] = kimi.cache_append {{.*}}, %[[T]] {{.*}} -> tensor<?x2x?x4xbf16>
// CHECK: kimi.attention %[[T]], %[[K]], %[[K]] mask %[[M]] : tensor<1x1x1x?xf32> scale {{.*}} -> tensor<?x2x1x4xf32>
func.func @step(%x: tensor<?x1x8xf32>, %past: index, %cache: !kimi.state<tensor<?x2x?x4xf32>, 2>,
                %sums: !kimi.state<tensor<?x2x4x4xf32>, -1>, %m: tensor<1x1x1x?xf32>) -> tensor<?x2x1x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x1x8xf32>
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  // expected-remark @below {{reads an fp32 value that is rounded by a kernel of its own}}
  %q = kimi.fused_linear %x, %w : (tensor<?x1x8xf32>, tensor<8x8xf32>) -> tensor<?x1x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  %h = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%n, 1, 2, 4] : tensor<?x1x8xf32> into tensor<?x1x2x4xf32>
  %e = tensor.empty(%n) : tensor<?x2x1x4xf32>
  %t = linalg.transpose ins(%h : tensor<?x1x2x4xf32>) outs(%e : tensor<?x2x1x4xf32>) permutation = [0, 2, 1, 3]
  %k = kimi.cache_append %cache, %t at %past
     : !kimi.state<tensor<?x2x?x4xf32>, 2>, tensor<?x2x1x4xf32> -> tensor<?x2x?x4xf32>
  %o = kimi.attention %t, %k, %k mask %m : tensor<1x1x1x?xf32> scale 0.5
     : tensor<?x2x1x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x1x4xf32>
  return %o : tensor<?x2x1x4xf32>
}

// What only a softmax or a loop reads (routing) is not rounded; neither are the angles that are computed from positions.
// Activations that leave the function are widened at the end.
// CHECK-LABEL: func @wide
// CHECK: %[[H:.*]] = kimi.fused_linear {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[H]] : tensor<4x8xbf16>) outs(%{{.*}} : tensor<4x8xf32>) {
// CHECK: %[[R:.*]] = kimi.fused_linear %[[H]], {{.*}} -> tensor<4x8xf32>
// CHECK: kimi.softmax %[[R]] axis 1 : tensor<4x8xf32>
// CHECK: %[[ANGLE:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4x8xf32>) {
// CHECK: math.cos
// CHECK: %[[TURNED:.*]] = linalg.generic {{.*}} ins(%[[H]], %[[ANGLE]] : tensor<4x8xbf16>, tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xbf16>)
// CHECK: kimi.fused_linear %[[TURNED]]
// CHECK: return %[[OUT]]
#id = affine_map<(t, n) -> (t, n)>
func.func @wide(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  // expected-remark @below {{reads an fp32 value}}
  %h = kimi.fused_linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  %r = kimi.fused_linear %h, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  %s = kimi.softmax %r axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x8xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    %c = math.cos %f : f32
    linalg.yield %c : f32
  } -> tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%h, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %0 = arith.mulf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %y = kimi.fused_linear %m, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %h, %s, %y : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// Ops that were not fused, as --reference has them, are narrowed alike. What is no fp32 stays as it is.
// CHECK-LABEL: func @unfused
// CHECK: kimi.embedding {{.*}} -> tensor<?x8xbf16>
// CHECK: kimi.layer_norm {{.*}} -> tensor<?x8xbf16>
// CHECK: kimi.linear {{.*}} : tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xf32> -> tensor<?x8xbf16>
// CHECK: kimi.gelu {{.*}} -> tensor<?x8xbf16>
// CHECK: kimi.linear {{.*}} : tensor<?x8xbf16>, tensor<8x8xf16> -> tensor<?x8xf16>
func.func @unfused(%ids: tensor<?xi64>) -> tensor<?x8xf16> {
  %wte = kimi.weight_ref @wte : tensor<50x8xf32>
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %w16 = kimi.weight_ref @w16 : tensor<8x8xf16>
  %b = kimi.weight_ref @b : tensor<8xf32>
  %x = kimi.embedding %ids, %wte : tensor<?xi64>, tensor<50x8xf32> -> tensor<?x8xf32>
  %n = kimi.layer_norm %x, %b eps 1.0e-5 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %h = kimi.linear %n, %w, %b : tensor<?x8xf32>, tensor<8x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %g = kimi.gelu %h : tensor<?x8xf32> -> tensor<?x8xf32>
  %y = kimi.linear %g, %w16 : tensor<?x8xf32>, tensor<8x8xf16> -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}
