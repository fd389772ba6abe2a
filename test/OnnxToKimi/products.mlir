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

// -----

// A weight with a matrix for each head is a product a head; also where its other axes are exchanged.
// CHECK-LABEL: func.func @heads
// CHECK: %[[Y:.*]] = kimi.head_linear %{{.*}}, %{{.*}} : tensor<?x6x?x8xbf16>, tensor<6x8x16xbf16> -> tensor<?x6x?x16xbf16>
// CHECK: %[[V:.*]] = linalg.transpose ins(%{{.*}} : tensor<16x6x8xbf16>)
// CHECK: kimi.head_linear %[[Y]], %[[V]] : tensor<?x6x?x16xbf16>, tensor<6x16x8xbf16> -> tensor<?x6x?x8xbf16>
func.func @heads(%x: tensor<?x6x?x8xbf16> {onnx.dims = ["b", 6, "t", 8]}) -> tensor<?x6x?x8xbf16> {
  %k = kimi.weight_ref @k : tensor<6x8x16xbf16>
  %v = kimi.weight_ref @v : tensor<16x6x8xbf16>
  %0 = onnx.node "MatMul"(%x, %k) {version = 13 : i64} : (tensor<?x6x?x8xbf16>, tensor<6x8x16xbf16>) -> none
  %1 = onnx.node "Transpose"(%v) {attrs = {perm = array<i64: 1, 0, 2>}, version = 13 : i64} : (tensor<16x6x8xbf16>) -> none
  %2 = onnx.node "MatMul"(%0, %1) {version = 13 : i64} : (none, none) -> tensor<?x6x?x8xbf16>
  return %2 : tensor<?x6x?x8xbf16>
}
kimi.weight @k : tensor<6x8x16xbf16> from #kimi.external<"w.bin", 0, 1536>
kimi.weight @v : tensor<16x6x8xbf16> from #kimi.external<"w.bin", 1536, 1536>

// -----

// Not a product a head: a computed matrix, one head that is repeated, fp64, and a weight that is read across its rows.
// CHECK-LABEL: func.func @no_heads
// CHECK-NOT: kimi.head_linear
// CHECK: return
func.func @no_heads(%x: tensor<?x6x?x8xf32> {onnx.dims = ["b", 6, "t", 8]}, %y: tensor<6x8x8xf32>,
                    %z: tensor<?x6x?x8xf64> {onnx.dims = ["b", 6, "t", 8]}) -> (tensor<?x6x?x8xf32>, tensor<?x6x?x8xf64>) {
  %one = kimi.weight_ref @one : tensor<1x8x8xf32>
  %wide = kimi.weight_ref @wide : tensor<6x8x8xf64>
  %across = kimi.weight_ref @across : tensor<6x8x8xf32>
  %0 = onnx.node "MatMul"(%x, %y) {version = 13 : i64} : (tensor<?x6x?x8xf32>, tensor<6x8x8xf32>) -> none
  %1 = onnx.node "MatMul"(%0, %one) {version = 13 : i64} : (none, tensor<1x8x8xf32>) -> none
  %2 = onnx.node "Transpose"(%across) {attrs = {perm = array<i64: 0, 2, 1>}, version = 13 : i64} : (tensor<6x8x8xf32>) -> none
  %3 = onnx.node "MatMul"(%1, %2) {version = 13 : i64} : (none, none) -> tensor<?x6x?x8xf32>
  %4 = onnx.node "MatMul"(%z, %wide) {version = 13 : i64} : (tensor<?x6x?x8xf64>, tensor<6x8x8xf64>) -> tensor<?x6x?x8xf64>
  return %3, %4 : tensor<?x6x?x8xf32>, tensor<?x6x?x8xf64>
}
kimi.weight @one : tensor<1x8x8xf32> from #kimi.external<"w.bin", 0, 256>
kimi.weight @wide : tensor<6x8x8xf64> from #kimi.external<"w.bin", 256, 3072>
kimi.weight @across : tensor<6x8x8xf32> from #kimi.external<"w.bin", 3328, 1536>
