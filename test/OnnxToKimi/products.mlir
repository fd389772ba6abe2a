// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// A weight on the right is a linear layer, transposed or not, with its bias.
// CHECK-LABEL: func.func @linear
// CHECK: %[[W:.*]] = kimi.weight_ref @w
// CHECK: %[[B:.*]] = kimi.weight_ref @b
// CHECK: kimi.linear %{{.*}}, %[[W]], %[[B]]
// CHECK-NOT: linalg.transpose
// CHECK: kimi.linear %{{.*}}, %[[W]] transpose
func.func @linear(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %w = kimi.weight_ref @w : tensor<8x8xf32>
  %b = kimi.weight_ref @b : tensor<8xf32>
  %0 = onnx.node "Gemm"(%x, %w, %b) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> none
  %1 = onnx.node "Transpose"(%w) {version = 13 : i64} : (tensor<8x8xf32>) -> none
  %2 = onnx.node "MatMul"(%0, %1) {version = 13 : i64} : (none, none) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
kimi.weight @w : tensor<8x8xf32> from #kimi.external<"w.bin", 0, 256>
kimi.weight @b : tensor<8xf32> from #kimi.external<"w.bin", 256, 32>

// -----

// f16 is summed in f32; the batch extent 1 is broadcast by the map.
// CHECK: affine_map<(d0, d1, d2, d3) -> (0, d3, d2)>
// CHECK-LABEL: func.func @batched
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: arith.extf
// CHECK: arith.addf {{.*}} : f32
// CHECK: arith.truncf
func.func @batched(%a: tensor<?x3x?xf16> {onnx.dims = ["b", 3, "k"]}, %b: tensor<1x?x5xf16> {onnx.dims = [1, "k", 5]}) -> tensor<?x3x5xf16> {
  %0 = onnx.node "MatMul"(%a, %b) {version = 13 : i64} : (tensor<?x3x?xf16>, tensor<1x?x5xf16>) -> tensor<?x3x5xf16>
  return %0 : tensor<?x3x5xf16>
}

// -----

// CHECK: affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-LABEL: func.func @einsum
// CHECK: linalg.generic
func.func @einsum(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = onnx.node "Einsum"(%a, %b) {attrs = {equation = "...ij, ...jk -> ...ik"}, version = 12 : i64} : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
