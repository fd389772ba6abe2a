// RUN: kimi-opt %s --kimi-sink-slices --canonicalize --cse | FileCheck %s

#row = affine_map<(b, t, n) -> (b, t)>
#all = affine_map<(b, t, n) -> (b, t, n)>
#last = affine_map<(b, t, n) -> (n)>

// The last row of a block: norm, projection, activation, residual and positions are those of that row. x is read twice,
// by equal slices.
// CHECK-LABEL: func @block
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x?x8xf32>
// CHECK-SAME: %[[P:[^:]*]]: index
// CHECK: %[[R:.*]] = tensor.extract_slice %[[X]][0, %[[P]], 0] [%{{.*}}, 1, 8]
// CHECK: %[[N:.*]] = kimi.layer_norm %[[R]], {{.*}} -> tensor<?x1x8xf32>
// CHECK: %[[H:.*]] = kimi.linear %[[N]], {{.*}} -> tensor<?x1x8xf32>
// CHECK: %[[G:.*]] = kimi.gelu %[[H]] {{.*}} -> tensor<?x1x8xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %[[R]], %{{.*}} : tensor<?x1x8xf32>, tensor<?x1x8xf32>, tensor<8xf32>)
// CHECK: arith.index_cast %[[P]] : index to i64
// CHECK-NOT: tensor.extract_slice
// CHECK: return %[[Y]]
func.func @block(%x: tensor<?x?x8xf32> {kimi.dims = ["batch", "n", 8]}, %g: tensor<8xf32>, %w: tensor<8x8xf32>, %p: index,
                 %g2: tensor<8xf32>) -> tensor<?x1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %t = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %n = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<?x?x8xf32>, tensor<8xf32> -> tensor<?x?x8xf32>
  %h = kimi.linear %n, %w : tensor<?x?x8xf32>, tensor<8x8xf32> -> tensor<?x?x8xf32>
  %a = kimi.gelu %h tanh : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %e = tensor.empty(%b, %t) : tensor<?x?x8xf32>
  %y = linalg.generic {indexing_maps = [#all, #all, #last, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %x, %g : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<8xf32>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %out: f32):
    %pos = linalg.index 1 : index
    %int = arith.index_cast %pos : index to i64
    %float = arith.sitofp %int : i64 to f32
    %0 = arith.addf %i, %j : f32
    %1 = arith.mulf %0, %k : f32
    %2 = arith.addf %1, %float : f32
    linalg.yield %2 : f32
  } -> tensor<?x?x8xf32>
  // The extent of what is sliced is known without it.
  %d = tensor.dim %y, %c0 : tensor<?x?x8xf32>
  %s = tensor.extract_slice %y[0, %p, 0] [%d, 1, 8] [1, 1, 1] : tensor<?x?x8xf32> to tensor<?x1x8xf32>
  return %s : tensor<?x1x8xf32>
}

// The last query of a causal attention, through the reshapes around it: keys and values are needed whole.
// CHECK-LABEL: func @attention
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<1x?x16xf32>
// CHECK-SAME: %[[K:[^:]*]]: tensor<1x4x?x4xf32>
// CHECK: %[[R:.*]] = tensor.extract_slice %[[Q]][0, %{{.*}}, 0] [1, 1, 16]
// CHECK: %[[H:.*]] = tensor.expand_shape %[[R]] {{.*}} into tensor<1x1x4x4xf32>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[H]] : tensor<1x1x4x4xf32>) outs(%{{.*}} : tensor<1x4x1x4xf32>)
// CHECK: %[[O:.*]] = kimi.attention %[[T]], %[[K]], %[[K]] causal {{.*}} -> tensor<1x4x1x4xf32>
// CHECK: linalg.transpose ins(%[[O]]
// CHECK: tensor.collapse_shape {{.*}} into tensor<1x1x16xf32>
func.func @attention(%q: tensor<1x?x16xf32> {kimi.dims = [1, "n", 16]}, %k: tensor<1x4x?x4xf32>) -> tensor<1x1x16xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : tensor<1x?x16xf32>
  %last = arith.subi %n, %c1 : index
  %h = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, %n, 4, 4] : tensor<1x?x16xf32> into tensor<1x?x4x4xf32>
  %e = tensor.empty(%n) : tensor<1x4x?x4xf32>
  %t = linalg.transpose ins(%h : tensor<1x?x4x4xf32>) outs(%e : tensor<1x4x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = kimi.attention %t, %k, %k causal scale 0.5
     : tensor<1x4x?x4xf32>, tensor<1x4x?x4xf32>, tensor<1x4x?x4xf32> -> tensor<1x4x?x4xf32>
  %f = tensor.empty(%n) : tensor<1x?x4x4xf32>
  %u = linalg.transpose ins(%o : tensor<1x4x?x4xf32>) outs(%f : tensor<1x?x4x4xf32>) permutation = [0, 2, 1, 3]
  %y = tensor.collapse_shape %u [[0], [1], [2, 3]] : tensor<1x?x4x4xf32> into tensor<1x?x16xf32>
  %s = tensor.extract_slice %y[0, %last, 0] [1, 1, 16] [1, 1, 1] : tensor<1x?x16xf32> to tensor<1x1x16xf32>
  return %s : tensor<1x1x16xf32>
}

// A mask is sliced with its queries; without causality any query may be taken.
// CHECK-LABEL: func @masked
// CHECK-DAG: %[[Q:.*]] = tensor.extract_slice %arg0[0, 0, 3, 0] [1, 4, 2, 4]
// CHECK-DAG: %[[M:.*]] = tensor.extract_slice %arg1[0, 0, 3, 0] [1, 1, 2, 9]
// CHECK: kimi.attention %[[Q]], {{.*}} mask %[[M]] : tensor<1x1x2x9xi1> {{.*}} -> tensor<1x4x2x4xf32>
func.func @masked(%q: tensor<1x4x9x4xf32>, %m: tensor<1x1x9x9xi1>) -> tensor<1x4x2x4xf32> {
  %o = kimi.attention %q, %q, %q mask %m : tensor<1x1x9x9xi1> scale 0.5
     : tensor<1x4x9x4xf32>, tensor<1x4x9x4xf32>, tensor<1x4x9x4xf32> -> tensor<1x4x9x4xf32>
  %s = tensor.extract_slice %o[0, 0, 3, 0] [1, 4, 2, 4] [1, 1, 1, 1] : tensor<1x4x9x4xf32> to tensor<1x4x2x4xf32>
  return %s : tensor<1x4x2x4xf32>
}

// Left alone: a query of a causal attention that is not the last (it would be aligned with other keys).
// CHECK-LABEL: func @first_query
// CHECK: kimi.attention {{.*}} -> tensor<1x4x9x4xf32>
func.func @first_query(%q: tensor<1x4x9x4xf32>) -> tensor<1x4x2x4xf32> {
  %o = kimi.attention %q, %q, %q causal scale 0.5
     : tensor<1x4x9x4xf32>, tensor<1x4x9x4xf32>, tensor<1x4x9x4xf32> -> tensor<1x4x9x4xf32>
  %s = tensor.extract_slice %o[0, 0, 3, 0] [1, 4, 2, 4] [1, 1, 1, 1] : tensor<1x4x9x4xf32> to tensor<1x4x2x4xf32>
  return %s : tensor<1x4x2x4xf32>
}

// Left alone: what is needed whole as well, other slices, columns of a projection, the axis of a softmax, steps, and a
// part of a merged axis.
// CHECK-LABEL: func @left_alone
// CHECK: kimi.linear {{.*}} -> tensor<6x8xf32>
// CHECK: kimi.gelu {{.*}} -> tensor<6x8xf32>
// CHECK: kimi.gelu {{.*}} -> tensor<6x8xf32>
// CHECK: kimi.softmax {{.*}} -> tensor<6x8xf32>
// CHECK: kimi.gelu {{.*}} -> tensor<6x8xf32>
// CHECK: tensor.collapse_shape {{.*}} into tensor<48xf32>
func.func @left_alone(%x: tensor<6x8xf32>, %w: tensor<8x8xf32>)
    -> (tensor<6x4xf32>, tensor<6x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<2x8xf32>, tensor<6x4xf32>, tensor<3x8xf32>, tensor<2xf32>) {
  %h = kimi.linear %x, %w : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %0 = tensor.extract_slice %h[0, 4] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  %a = kimi.gelu %x : tensor<6x8xf32> -> tensor<6x8xf32>
  %1 = tensor.extract_slice %a[5, 0] [1, 8] [1, 1] : tensor<6x8xf32> to tensor<1x8xf32>
  %c = kimi.gelu %x tanh : tensor<6x8xf32> -> tensor<6x8xf32>
  %2 = tensor.extract_slice %c[5, 0] [1, 8] [1, 1] : tensor<6x8xf32> to tensor<1x8xf32>
  %3 = tensor.extract_slice %c[4, 0] [2, 8] [1, 1] : tensor<6x8xf32> to tensor<2x8xf32>
  %d = kimi.softmax %x axis 1 : tensor<6x8xf32> -> tensor<6x8xf32>
  %4 = tensor.extract_slice %d[0, 4] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  %f = kimi.gelu %0 : tensor<6x4xf32> -> tensor<6x4xf32>
  %p = tensor.pad %f low[0, 0] high[0, 4] {
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    tensor.yield %z : f32
  } : tensor<6x4xf32> to tensor<6x8xf32>
  %k = kimi.gelu %p : tensor<6x8xf32> -> tensor<6x8xf32>
  %5 = tensor.extract_slice %k[0, 0] [3, 8] [2, 1] : tensor<6x8xf32> to tensor<3x8xf32>
  %m = tensor.collapse_shape %p [[0, 1]] : tensor<6x8xf32> into tensor<48xf32>
  %6 = tensor.extract_slice %m[3] [2] [1] : tensor<48xf32> to tensor<2xf32>
  return %0, %a, %1, %2, %3, %4, %5, %6 : tensor<6x4xf32>, tensor<6x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<2x8xf32>, tensor<6x4xf32>, tensor<3x8xf32>, tensor<2xf32>
}

// A product a head: of the last token, whose heads have their matrices all. A head alone, or some columns, stay as they are.
// CHECK-LABEL: func @heads
// CHECK: %[[R:.*]] = tensor.extract_slice %arg0[0, 0, %arg2, 0] [%{{.*}}, 3, 1, 8]
// CHECK: %[[L:.*]] = kimi.head_linear %[[R]], %arg1 : tensor<?x3x1x8xf32>, tensor<3x8x16xf32> -> tensor<?x3x1x16xf32>
// CHECK: %[[Y:.*]] = kimi.head_linear %arg0, %arg1 : tensor<?x3x?x8xf32>
// CHECK: %[[H:.*]] = tensor.extract_slice %[[Y]][0, 1, 0, 0]
// CHECK: %[[C:.*]] = tensor.extract_slice %[[Y]][0, 0, 0, 4]
// CHECK: return %[[L]], %[[H]], %[[C]]
func.func @heads(%x: tensor<?x3x?x8xf32> {kimi.dims = ["batch", 3, "n", 8]}, %w: tensor<3x8x16xf32>, %p: index)
    -> (tensor<?x3x1x16xf32>, tensor<?x1x?x16xf32>, tensor<?x3x?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %x, %c0 : tensor<?x3x?x8xf32>
  %t = tensor.dim %x, %c2 : tensor<?x3x?x8xf32>
  %k = kimi.head_linear %x, %w : tensor<?x3x?x8xf32>, tensor<3x8x16xf32> -> tensor<?x3x?x16xf32>
  %l = tensor.extract_slice %k[0, 0, %p, 0] [%b, 3, 1, 16] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x1x16xf32>
  %y = kimi.head_linear %x, %w : tensor<?x3x?x8xf32>, tensor<3x8x16xf32> -> tensor<?x3x?x16xf32>
  %h = tensor.extract_slice %y[0, 1, 0, 0] [%b, 1, %t, 16] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x1x?x16xf32>
  %c = tensor.extract_slice %y[0, 0, 0, 4] [%b, 3, %t, 4] [1, 1, 1, 1] : tensor<?x3x?x16xf32> to tensor<?x3x?x4xf32>
  return %l, %h, %c : tensor<?x3x1x16xf32>, tensor<?x1x?x16xf32>, tensor<?x3x?x4xf32>
}
