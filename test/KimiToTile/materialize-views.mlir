// RUN: kimi-opt %s --kimi-materialize-views | FileCheck %s

// Rows of a transposed matrix are not one run of memory: copied before the reshape, written straight to the result.
// CHECK-LABEL: func.func @reshape_of_transpose
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[T]]
// CHECK: tensor.collapse_shape %[[COPY]]
// CHECK-NOT: linalg.generic
func.func @reshape_of_transpose(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %f = tensor.collapse_shape %t [[0, 1]] : tensor<8x4xf32> into tensor<32xf32>
  return %f : tensor<32xf32>
}

// An input and a value returned twice need copies of their own.
// CHECK-LABEL: func.func @results
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func @results(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  return %x, %y, %y : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
