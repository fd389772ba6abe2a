// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// A causal convolution in two groups: as many positions as before, zero beyond the ends, the bias once a sum is whole.
// CHECK: #[[BIAS:.*]] = affine_map<(d0, d1, d2) -> (0, d1, 0)>
// CHECK-LABEL: func.func @conv
// CHECK: %[[T:.*]] = tensor.dim %arg0, %c2
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: arith.cmpi slt, %{{.*}}, %[[T]]
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg1
// CHECK: arith.mulf
// CHECK: arith.select
// CHECK: arith.addf
// CHECK: } -> tensor<?x6x?xf32>
// CHECK: linalg.generic {{.*}}#[[BIAS]]
func.func @conv(%x: tensor<?x4x?xf32> {onnx.dims = ["n", 4, "t"]}, %w: tensor<6x2x3xf32>, %b: tensor<6xf32>)
    -> tensor<?x6x?xf32> {
  %0 = onnx.node "Conv"(%x, %w, %b) {attrs = {group = 2 : i64, pads = array<i64: 2, 0>}, version = 22 : i64}
     : (tensor<?x4x?xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<?x6x?xf32>
  return %0 : tensor<?x6x?xf32>
}

// -----

// The result of a transposed one reads where a position is reached: stride 2 makes ten of five.
// CHECK-LABEL: func.func @conv_transpose
// CHECK: arith.divsi
// CHECK: } -> tensor<1x3x10xf32>
func.func @conv_transpose(%x: tensor<1x2x5xf32>, %w: tensor<2x3x2xf32>) -> tensor<1x3x10xf32> {
  %0 = onnx.node "ConvTranspose"(%x, %w) {attrs = {strides = array<i64: 2>}, version = 22 : i64}
     : (tensor<1x2x5xf32>, tensor<2x3x2xf32>) -> tensor<1x3x10xf32>
  return %0 : tensor<1x3x10xf32>
}

// -----

// 8-bit elements less their zero points, summed in 32 bits.
// CHECK-LABEL: func.func @conv_integer
// CHECK: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.subi
// CHECK: arith.muli %{{.*}} : i32
// CHECK: } -> tensor<1x1x3xi32>
func.func @conv_integer(%x: tensor<1x1x4xui8>, %w: tensor<1x1x2xui8>, %z: tensor<ui8>) -> tensor<1x1x3xi32> {
  %0 = onnx.node "ConvInteger"(%x, %w, %z) {version = 10 : i64}
     : (tensor<1x1x4xui8>, tensor<1x1x2xui8>, tensor<ui8>) -> tensor<1x1x3xi32>
  return %0 : tensor<1x1x3xi32>
}

// -----

// CHECK-LABEL: func.func @max_pool
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: arith.ceildivsi
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: arith.maximumf
func.func @max_pool(%x: tensor<1x4x?xf32> {onnx.dims = [1, 4, "t"]}) -> tensor<1x4x?xf32> {
  %0 = onnx.node "MaxPool"(%x) {attrs = {kernel_shape = array<i64: 2>, strides = array<i64: 2>, ceil_mode = 1 : i64},
     version = 22 : i64} : (tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  return %0 : tensor<1x4x?xf32>
}

// -----

// The whole axis; the sum of each channel over how many there are.
// CHECK-LABEL: func.func @global_average_pool
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: -> tensor<2x4x1xf32>
func.func @global_average_pool(%x: tensor<2x4x9xf32>) -> tensor<2x4x1xf32> {
  %0 = onnx.node "GlobalAveragePool"(%x) {version = 22 : i64} : (tensor<2x4x9xf32>) -> tensor<2x4x1xf32>
  return %0 : tensor<2x4x1xf32>
}
