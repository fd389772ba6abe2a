// RUN: kimi-opt %s --kimi-merge-linears --canonicalize --cse --verify-diagnostics | FileCheck %s

kimi.weight @q : tensor<8x8xf32> from #kimi.external<"m", 0, 256>
kimi.weight @k : tensor<8x4xf32> from #kimi.external<"m", 256, 128>
kimi.weight @v : tensor<8x4xf32> from #kimi.external<"m", 384, 128>
kimi.weight @t : tensor<4x8xf32> from #kimi.external<"m", 512, 128>
kimi.weight @h : tensor<8x4xf16> from #kimi.external<"m", 640, 64>
kimi.weight @bq : tensor<8xf32> from #kimi.external<"m", 704, 32>
kimi.weight @bk : tensor<4xf32> from #kimi.external<"m", 736, 16>

// Grouped queries, keys and values; the weights may come after the first projection.
// CHECK-LABEL: func @qkv
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x?x8xf32>
// CHECK-DAG: %[[Q:.*]] = kimi.weight_ref @q
// CHECK-DAG: %[[K:.*]] = kimi.weight_ref @k
// CHECK-DAG: %[[V:.*]] = kimi.weight_ref @v
// CHECK-DAG: %[[BQ:.*]] = kimi.weight_ref @bq
// CHECK-DAG: %[[BK:.*]] = kimi.weight_ref @bk
// CHECK-DAG: %[[W:.*]] = tensor.concat dim(1) %[[Q]], %[[K]], %[[V]]
// CHECK-DAG: %[[B:.*]] = tensor.concat dim(0) %[[BQ]], %[[BK]], %[[BK]]
// CHECK: %[[Y:.*]] = kimi.linear %[[X]], %[[W]], %[[B]] : tensor<?x?x8xf32>, tensor<8x16xf32>, tensor<16xf32> -> tensor<?x?x16xf32>
// CHECK-DAG: %[[YQ:.*]] = tensor.extract_slice %[[Y]][0, 0, 0] [%{{.*}}, %{{.*}}, 8]
// CHECK-DAG: %[[YK:.*]] = tensor.extract_slice %[[Y]][0, 0, 8] [%{{.*}}, %{{.*}}, 4]
// CHECK-DAG: %[[YV:.*]] = tensor.extract_slice %[[Y]][0, 0, 12] [%{{.*}}, %{{.*}}, 4]
// CHECK-DAG: tensor.expand_shape %[[YQ]]
// CHECK-DAG: tensor.expand_shape %[[YK]]
// CHECK-DAG: tensor.expand_shape %[[YV]]
func.func @qkv(%x: tensor<?x?x8xf32>, %b: index, %t: index) -> (tensor<?x?x2x4xf32>, tensor<?x?x1x4xf32>, tensor<?x?x1x4xf32>) {
  %wq = kimi.weight_ref @q : tensor<8x8xf32>
  %bq = kimi.weight_ref @bq : tensor<8xf32>
  // expected-remark @below {{and 2 more projections of the same input are one of 16 columns}}
  %q = kimi.linear %x, %wq, %bq : tensor<?x?x8xf32>, tensor<8x8xf32>, tensor<8xf32> -> tensor<?x?x8xf32>
  %q4 = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %t, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %wk = kimi.weight_ref @k : tensor<8x4xf32>
  %bk = kimi.weight_ref @bk : tensor<4xf32>
  %k = kimi.linear %x, %wk, %bk : tensor<?x?x8xf32>, tensor<8x4xf32>, tensor<4xf32> -> tensor<?x?x4xf32>
  %k4 = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %t, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %wv = kimi.weight_ref @v : tensor<8x4xf32>
  %v = kimi.linear %x, %wv, %bk : tensor<?x?x8xf32>, tensor<8x4xf32>, tensor<4xf32> -> tensor<?x?x4xf32>
  %v4 = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%b, %t, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  return %q4, %k4, %v4 : tensor<?x?x2x4xf32>, tensor<?x?x1x4xf32>, tensor<?x?x1x4xf32>
}

// Transposed matrices are joined along their rows, whether a flag says so or an op.
// CHECK-LABEL: func @transposed
// CHECK: %[[W:.*]] = tensor.concat dim(0) %[[T:.*]], %[[T]] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK: kimi.linear %{{.*}}, %[[W]] transpose
func.func @transposed(%x: tensor<3x8xf32>) -> (tensor<3x2x2xf32>, tensor<3x2x2xf32>) {
  %t = kimi.weight_ref @t : tensor<4x8xf32>
  %e = tensor.empty() : tensor<8x4xf32>
  %w = linalg.transpose ins(%t : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  // expected-remark @below {{and 1 more projections}}
  %0 = kimi.linear %x, %t transpose : tensor<3x8xf32>, tensor<4x8xf32> -> tensor<3x4xf32>
  %1 = kimi.linear %x, %w : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
  %2 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [3, 2, 2] : tensor<3x4xf32> into tensor<3x2x2xf32>
  %3 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [3, 2, 2] : tensor<3x4xf32> into tensor<3x2x2xf32>
  return %2, %3 : tensor<3x2x2xf32>, tensor<3x2x2xf32>
}

// Left alone: a gate whose activation is an epilogue, a result of the function, another input, another orientation,
// other elements, a matrix that is computed, a bias on one side. (Two are equal, and one.)
// CHECK-LABEL: func @left_alone
// CHECK-COUNT-7: kimi.linear
// CHECK-NOT: tensor.extract_slice
func.func @left_alone(%x: tensor<3x8xf32>, %z: tensor<3x8xf32>, %m: tensor<8x4xf32>)
    -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) {
  %k = kimi.weight_ref @k : tensor<8x4xf32>
  %v = kimi.weight_ref @v : tensor<8x4xf32>
  %t = kimi.weight_ref @t : tensor<4x8xf32>
  %h = kimi.weight_ref @h : tensor<8x4xf16>
  %b = kimi.weight_ref @bk : tensor<4xf32>
  %0 = kimi.linear %x, %k : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
  %g = kimi.gelu %0 : tensor<3x4xf32> -> tensor<3x4xf32>
  %1 = kimi.linear %x, %v : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
  %2 = kimi.linear %x, %k : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
  %3 = kimi.linear %z, %v : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
  %4 = kimi.linear %x, %t transpose : tensor<3x8xf32>, tensor<4x8xf32> -> tensor<3x4xf32>
  %5 = kimi.linear %x, %h : tensor<3x8xf32>, tensor<8x4xf16> -> tensor<3x4xf32>
  %6 = kimi.linear %x, %m : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
  %7 = kimi.linear %x, %v, %b : tensor<3x8xf32>, tensor<8x4xf32>, tensor<4xf32> -> tensor<3x4xf32>
  %r2 = call @view(%2) : (tensor<3x4xf32>) -> tensor<2x6xf32>
  %r3 = call @view(%3) : (tensor<3x4xf32>) -> tensor<2x6xf32>
  %r4 = call @view(%4) : (tensor<3x4xf32>) -> tensor<2x6xf32>
  %r5 = call @view(%5) : (tensor<3x4xf32>) -> tensor<2x6xf32>
  %r6 = call @view(%6) : (tensor<3x4xf32>) -> tensor<2x6xf32>
  %r7 = call @view(%7) : (tensor<3x4xf32>) -> tensor<2x6xf32>
  return %g, %1, %r2, %r3, %r4, %r5, %r6, %r7 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>
}
func.func private @view(tensor<3x4xf32>) -> tensor<2x6xf32>
