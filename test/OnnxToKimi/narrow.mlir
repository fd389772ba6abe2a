// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// Below the onnx level a float of 8 bits is an i8 of its bits; the port says that they are unsigned.
// CHECK-LABEL: func.func @to_float8
// CHECK-SAME: tensor<?xf32>
// CHECK-SAME: -> (tensor<?xi8> {kimi.unsigned})
// The exponent is no less than that of subnormal numbers, 1 - 7.
// CHECK: %[[LEAST:.*]] = arith.constant -6 : i32
// CHECK: arith.maxsi %{{.*}}, %[[LEAST]]
// CHECK: math.roundeven
// CHECK: %[[MOST:.*]] = arith.constant 126 : i32
// CHECK: arith.cmpi sle, %{{.*}}, %[[MOST]]
// CHECK: arith.trunci %{{.*}} : i32 to i8
func.func @to_float8(%x: tensor<?xf32> {onnx.dims = ["n"]}) -> tensor<?xf8E4M3FN> {
  %0 = onnx.node "Cast"(%x) {attrs = {to = 17 : i64}, version = 23 : i64} : (tensor<?xf32>) -> tensor<?xf8E4M3FN>
  return %0 : tensor<?xf8E4M3FN>
}

// -----

// CHECK-LABEL: func.func @from_float8
// CHECK-SAME: %arg0: tensor<4xi8> {kimi.unsigned}
// CHECK: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @from_float8(%x: tensor<4xf8E5M2>) -> tensor<4xf16> {
  %0 = onnx.node "Cast"(%x) {attrs = {to = 10 : i64}, version = 23 : i64} : (tensor<4xf8E5M2>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// A conversion to four bits drops the others and keeps the sign; moves do not look at elements.
// CHECK-LABEL: func.func @to_int4
// CHECK-SAME: -> tensor<3x2xi8>
// CHECK: arith.shli
// CHECK: arith.shrsi
// CHECK: linalg.transpose
func.func @to_int4(%x: tensor<2x3xi32>) -> tensor<3x2xi4> {
  %0 = onnx.node "Cast"(%x) {attrs = {to = 22 : i64}, version = 23 : i64} : (tensor<2x3xi32>) -> tensor<2x3xi4>
  %1 = onnx.node "Transpose"(%0) {version = 23 : i64} : (tensor<2x3xi4>) -> tensor<3x2xi4>
  return %1 : tensor<3x2xi4>
}

// -----

// Quantized to four bits a number goes to the ends.
// CHECK-LABEL: func.func @quantize
// CHECK: math.roundeven
// CHECK: arith.maximumf
// CHECK: %[[MOST:.*]] = arith.constant 1.500000e+01 : f32
// CHECK: arith.minimumf %{{.*}}, %[[MOST]]
// CHECK: arith.shrui
func.func @quantize(%x: tensor<8xf32>, %s: tensor<f32>) -> tensor<8xui4> {
  %0 = onnx.node "QuantizeLinear"(%x, %s) {attrs = {output_dtype = 21 : i64}, version = 23 : i64} : (tensor<8xf32>, tensor<f32>) -> tensor<8xui4>
  return %0 : tensor<8xui4>
}

// -----

// Constants are unpacked.
// CHECK-LABEL: func.func @constant
// CHECK: arith.constant dense<[-8, 7]> : tensor<2xi8>
// CHECK: arith.constant dense<[56, -72]> : tensor<2xi8>
func.func @constant(%s: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = onnx.constant dense<[-8, 7]> : tensor<2xi4>
  %1 = onnx.node "DequantizeLinear"(%0, %s) {version = 23 : i64} : (tensor<2xi4>, tensor<f32>) -> tensor<2xf32>
  %2 = onnx.constant dense<[1.0, -1.0]> : tensor<2xf8E4M3FN>
  %3 = onnx.node "DequantizeLinear"(%2, %s) {version = 23 : i64} : (tensor<2xf8E4M3FN>, tensor<f32>) -> tensor<2xf32>
  return %1, %3 : tensor<2xf32>, tensor<2xf32>
}
