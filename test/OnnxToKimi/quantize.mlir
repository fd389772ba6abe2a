// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// Rounded to even, moved by the zero point, at the ends of uint8 where it does not fit.
// CHECK-LABEL: func.func @quantize
// CHECK: arith.divf
// CHECK: math.roundeven
// CHECK: arith.addf
// CHECK: arith.fptoui
// CHECK: } -> tensor<?x6xi8>
func.func @quantize(%x: tensor<?x6xf32> {onnx.dims = ["n", 6]}, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<?x6xui8> {
  %0 = onnx.node "QuantizeLinear"(%x, %s, %z) {version = 13 : i64} : (tensor<?x6xf32>, tensor<f32>, tensor<ui8>) -> tensor<?x6xui8>
  return %0 : tensor<?x6xui8>
}

// -----

// One scale for each position of an axis; without a zero point none is subtracted.
// CHECK: #[[ALONG:.*]] = affine_map<(d0, d1, d2) -> (0, d1, 0)>
// CHECK-LABEL: func.func @along
// CHECK: linalg.generic {{.*}}#[[ALONG]]
// CHECK-NOT: arith.subi
// CHECK: arith.sitofp
// CHECK: arith.mulf
func.func @along(%x: tensor<2x3x4xi8>, %s: tensor<3xf32>) -> tensor<2x3x4xf32> {
  %0 = onnx.node "DequantizeLinear"(%x, %s) {attrs = {axis = 1 : i64}, version = 13 : i64} : (tensor<2x3x4xi8>, tensor<3xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// One scale for each block of 3; the last block is shorter.
// CHECK-LABEL: func.func @blocks
// CHECK-DAG: %[[BLOCK:.*]] = arith.constant 3 : index
// CHECK: arith.divui %{{.*}}, %[[BLOCK]]
// CHECK: tensor.extract %arg1
func.func @blocks(%x: tensor<2x8xi8>, %s: tensor<2x3xf32>) -> tensor<2x8xf32> {
  %0 = onnx.node "DequantizeLinear"(%x, %s) {attrs = {axis = 1 : i64, block_size = 3 : i64}, version = 21 : i64} : (tensor<2x8xi8>, tensor<2x3xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// CHECK-LABEL: func.func @dynamic
// CHECK: arith.minimumf
// CHECK: arith.maximumf
// CHECK: arith.cmpf oeq
func.func @dynamic(%x: tensor<?xf32> {onnx.dims = ["n"]}) -> (tensor<?xui8>, tensor<f32>, tensor<ui8>) {
  %0:3 = onnx.node "DynamicQuantizeLinear"(%x) {version = 11 : i64} : (tensor<?xf32>) -> (tensor<?xui8>, tensor<f32>, tensor<ui8>)
  return %0#0, %0#1, %0#2 : tensor<?xui8>, tensor<f32>, tensor<ui8>
}

// -----

// Sums in 32 bits; a zero point for each row of the left.
// CHECK-LABEL: func.func @product
// CHECK: arith.extui
// CHECK: arith.subi
// CHECK: arith.muli %{{.*}} : i32
// CHECK: arith.addi
func.func @product(%a: tensor<4x3xui8>, %b: tensor<3x2xi8>, %z: tensor<4xui8>) -> tensor<4x2xi32> {
  %0 = onnx.node "MatMulInteger"(%a, %b, %z) {version = 10 : i64} : (tensor<4x3xui8>, tensor<3x2xi8>, tensor<4xui8>) -> tensor<4x2xi32>
  return %0 : tensor<4x2xi32>
}

// -----

// The same bits as another type; a truth value takes a byte.
// CHECK-LABEL: func.func @bits
// CHECK: arith.bitcast %{{.*}} : f32 to i32
// CHECK: arith.extui %{{.*}} : i1 to i8
func.func @bits(%x: tensor<4xf32>, %y: tensor<4xi1>) -> (tensor<4xui32>, tensor<4xui8>) {
  %0 = onnx.node "BitCast"(%x) {attrs = {to = 12 : i64}, version = 26 : i64} : (tensor<4xf32>) -> tensor<4xui32>
  %1 = onnx.node "BitCast"(%y) {attrs = {to = 2 : i64}, version = 26 : i64} : (tensor<4xi1>) -> tensor<4xui8>
  return %0, %1 : tensor<4xui32>, tensor<4xui8>
}

// -----

// Scores beside the attention that gives the result: two query heads read one key head.
// CHECK-LABEL: func.func @scores
// CHECK: arith.divui %{{.*}}, %c2
// CHECK: arith.mulf
// CHECK: kimi.softmax %{{.*}} axis 3
// CHECK: arith.cmpf uno
// CHECK: kimi.attention
func.func @scores(%q: tensor<1x4x?x8xf32> {onnx.dims = [1, 4, "t", 8]}, %k: tensor<1x2x?x8xf32> {onnx.dims = [1, 2, "t", 8]},
                  %v: tensor<1x2x?x8xf32> {onnx.dims = [1, 2, "t", 8]}) -> (tensor<1x4x?x8xf32>, tensor<1x4x?x?xf32>) {
  %0:4 = onnx.node "Attention"(%q, %k, %v) {attrs = {is_causal = 1 : i64, qk_matmul_output_mode = 3 : i64}, version = 24 : i64}
     : (tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) -> (tensor<1x4x?x8xf32>, none, none, tensor<1x4x?x?xf32>)
  return %0#0, %0#3 : tensor<1x4x?x8xf32>, tensor<1x4x?x?xf32>
}

// -----

// A constant that holds nothing.
// CHECK-LABEL: func.func @nothing
// CHECK: tensor.empty() : tensor<2x0xf32>
func.func @nothing() -> tensor<2x0xf32> {
  %0 = onnx.constant dense<> : tensor<2x0xf32>
  %1 = onnx.node "Abs"(%0) {version = 13 : i64} : (tensor<2x0xf32>) -> tensor<2x0xf32>
  return %1 : tensor<2x0xf32>
}
