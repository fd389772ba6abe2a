// RUN: kimi-opt %s --kimi-fuse-elementwise | FileCheck %s

#all = affine_map<(b, t, n) -> (b, t, n)>
#row = affine_map<(b, t, n) -> (t, n)>
#id = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>

// Two lookups, the positions and the sum are one kernel that reads the ids and the two tables.
// CHECK-LABEL: func @embeddings
// CHECK-SAME: (%[[IDS:[^:]*]]: tensor<?x?xi64>, %[[WTE:[^:]*]]: tensor<100x8xf32>, %[[WPE:[^:]*]]: tensor<32x8xf32>, %[[PAST:[^:]*]]: index)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[IDS]] : tensor<?x?xi64>)
// CHECK-DAG: arith.addi %{{.*}}, %[[PAST]]
// CHECK-DAG: tensor.extract %[[WTE]]
// CHECK-DAG: tensor.extract %[[WPE]]
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @embeddings(%ids: tensor<?x?xi64>, %wte: tensor<100x8xf32>, %wpe: tensor<32x8xf32>, %past: index)
    -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %t = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %e0 = tensor.empty(%t) : tensor<?xi64>
  %pos = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%e0 : tensor<?xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %j = arith.addi %i, %past : index
    %k = arith.index_cast %j : index to i64
    linalg.yield %k : i64
  } -> tensor<?xi64>
  %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<100x8xf32> -> tensor<?x?x8xf32>
  %p = kimi.embedding %pos, %wpe : tensor<?xi64>, tensor<32x8xf32> -> tensor<?x8xf32>
  %e = tensor.empty(%b, %t) : tensor<?x?x8xf32>
  %h = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %p : tensor<?x?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<?x?x8xf32>
  return %h : tensor<?x?x8xf32>
}

// An activation and what follows it.
// CHECK-LABEL: func @gelu
// CHECK-COUNT-1: linalg.generic
// CHECK: math.tanh
// CHECK: arith.negf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @gelu(%x: tensor<3x?xf32>, %e: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %0 = kimi.gelu %x tanh : tensor<3x?xf32> -> tensor<3x?xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<3x?xf32>) outs(%e : tensor<3x?xf32>) {
  ^bb0(%p: f32, %out: f32):
    %n = arith.negf %p : f32
    linalg.yield %n : f32
  } -> tensor<3x?xf32>
  return %1 : tensor<3x?xf32>
}

// Two users: the exponential is not computed twice. Broadcast: nor once for each column.
// CHECK-LABEL: func @expensive
// CHECK: math.exp
// CHECK-NOT: math.exp
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK: math.log
// CHECK: linalg.generic
// CHECK: return
func.func @expensive(%x: tensor<5x7xf32>, %v: tensor<5xf32>) -> (tensor<5x7xf32>, tensor<5x7xf32>) {
  %e = tensor.empty() : tensor<5x7xf32>
  %ev = tensor.empty() : tensor<5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<5x7xf32>) outs(%e : tensor<5x7xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = math.exp %p : f32
    linalg.yield %t : f32
  } -> tensor<5x7xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<5x7xf32>) outs(%e : tensor<5x7xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = arith.negf %p : f32
    linalg.yield %t : f32
  } -> tensor<5x7xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%v : tensor<5xf32>) outs(%ev : tensor<5xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = math.log %p : f32
    linalg.yield %t : f32
  } -> tensor<5xf32>
  %3 = linalg.generic {indexing_maps = [#id, #first, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %2 : tensor<5x7xf32>, tensor<5xf32>) outs(%e : tensor<5x7xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %t = arith.mulf %p, %q : f32
    linalg.yield %t : f32
  } -> tensor<5x7xf32>
  return %1, %3 : tensor<5x7xf32>, tensor<5x7xf32>
}

// A conversion of a tensor that two ops read costs no more in each of them.
// CHECK-LABEL: func @conversion
// CHECK-COUNT-2: arith.extf
// CHECK-NOT: arith.extf
// CHECK: return
func.func @conversion(%x: tensor<?x7xf16>, %e: tensor<?x7xf32>) -> (tensor<?x7xf32>, tensor<?x7xf32>) {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x7xf16>) outs(%e : tensor<?x7xf32>) {
  ^bb0(%p: f16, %out: f32):
    %t = arith.extf %p : f16 to f32
    linalg.yield %t : f32
  } -> tensor<?x7xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x7xf32>) outs(%e : tensor<?x7xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = math.tanh %p : f32
    linalg.yield %t : f32
  } -> tensor<?x7xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x7xf32>) outs(%e : tensor<?x7xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = math.exp %p : f32
    linalg.yield %t : f32
  } -> tensor<?x7xf32>
  return %1, %2 : tensor<?x7xf32>, tensor<?x7xf32>
}

// A reshape between two elementwise ops makes way; it stays a view.
// CHECK-LABEL: func @reshape
// CHECK-COUNT-1: linalg.generic
// CHECK: math.exp
// CHECK: arith.negf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @reshape(%x: tensor<?x12xf32>) -> tensor<?x3x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x12xf32>
  %e = tensor.empty(%n) : tensor<?x12xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x12xf32>) outs(%e : tensor<?x12xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = math.exp %p : f32
    linalg.yield %t : f32
  } -> tensor<?x12xf32>
  %v = tensor.expand_shape %0 [[0], [1, 2]] output_shape [%n, 3, 4] : tensor<?x12xf32> into tensor<?x3x4xf32>
  %e3 = tensor.empty(%n) : tensor<?x3x4xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v : tensor<?x3x4xf32>) outs(%e3 : tensor<?x3x4xf32>) {
  ^bb0(%p: f32, %out: f32):
    %t = arith.negf %p : f32
    linalg.yield %t : f32
  } -> tensor<?x3x4xf32>
  return %1 : tensor<?x3x4xf32>
}

// Views stay views, mixers and projections stay whole, and what writes stays where it is, used or not.
// CHECK-LABEL: func @left_alone
// CHECK: kimi.cache_append
// CHECK: kimi.layer_norm
// CHECK: kimi.linear
// CHECK: linalg.transpose
// CHECK: tensor.extract_slice
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @left_alone(%s: !kimi.state<tensor<?x4x?x8xf32>, 2>, %rows: tensor<?x4x?x8xf32>, %past: index,
                      %x: tensor<6x8xf32>, %g: tensor<8xf32>, %w: tensor<8x6xf32>, %e: tensor<6x6xf32>)
    -> tensor<2x6xf32> {
  %a = kimi.cache_append %s, %rows at %past
     : !kimi.state<tensor<?x4x?x8xf32>, 2>, tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  %n = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<6x8xf32>, tensor<8xf32> -> tensor<6x8xf32>
  %y = kimi.linear %n, %w : tensor<6x8xf32>, tensor<8x6xf32> -> tensor<6x6xf32>
  %t = linalg.transpose ins(%y : tensor<6x6xf32>) outs(%e : tensor<6x6xf32>) permutation = [1, 0]
  %z = tensor.extract_slice %t[2, 0] [2, 6] [1, 1] : tensor<6x6xf32> to tensor<2x6xf32>
  return %z : tensor<2x6xf32>
}

// Transpositions and reshapes that cancel, and a slice of everything, leave nothing.
// CHECK-LABEL: func @identity
// CHECK-SAME: (%[[X:.*]]: tensor<6x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @identity(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %e0 = tensor.empty() : tensor<8x6xf32>
  %e1 = tensor.empty() : tensor<6x8xf32>
  %0 = linalg.transpose ins(%x : tensor<6x8xf32>) outs(%e0 : tensor<8x6xf32>) permutation = [1, 0]
  %1 = linalg.transpose ins(%0 : tensor<8x6xf32>) outs(%e1 : tensor<6x8xf32>) permutation = [1, 0]
  %2 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [6, 2, 4] : tensor<6x8xf32> into tensor<6x2x4xf32>
  %3 = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<6x2x4xf32> into tensor<6x8xf32>
  %4 = tensor.extract_slice %3[0, 0] [6, 8] [1, 1] : tensor<6x8xf32> to tensor<6x8xf32>
  return %4 : tensor<6x8xf32>
}

// The same where the extent is known only as that of a value it was made from; a shorter slice stays.
// CHECK-LABEL: func @dynamic_identity
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x8xf32>
// CHECK: %[[N:.*]] = kimi.layer_norm %[[X]]
// CHECK: %[[S:.*]] = tensor.extract_slice %[[N]]
// CHECK: return %[[N]], %[[S]]
func.func @dynamic_identity(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %m: index) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  %n = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %0 = tensor.extract_slice %n[0, 0] [%d, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %1 = tensor.extract_slice %n[0, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}
