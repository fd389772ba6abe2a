// RUN: kimi-opt %s --onnx-to-kimi --split-input-file --verify-diagnostics | FileCheck %s

// Positions are a table; the batch may be dynamic, since it is not resized.
// CHECK-LABEL: func.func @nearest
// CHECK: %[[AT:.*]] = arith.constant dense<{{\[\[}}0], [0], [0], [1], [1], [1]]> : tensor<6x1xi32>
// CHECK: tensor.extract %[[AT]]
// CHECK: tensor.extract %arg0
// CHECK-NOT: arith.mulf
func.func @nearest(%x: tensor<?x2xf32> {onnx.dims = ["n", 2]}) -> tensor<?x6xf32> {
  %s = onnx.constant dense<[1.0, 3.0]> : tensor<2xf32>
  %r = onnx.none
  %0 = onnx.node "Resize"(%x, %r, %s) {attrs = {mode = "nearest"}, version = 19 : i64} : (tensor<?x2xf32>, none, tensor<2xf32>) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}

// -----

// Elements midway between two: half of either; at the ends the ends are repeated.
// CHECK-LABEL: func.func @linear
// CHECK: arith.constant dense<{{\[\[}}0, 0], [0, 1], [0, 1], [1, 1]]> : tensor<4x2xi32>
// CHECK: arith.constant dense<{{\[\[}}2.500000e-01, 7.500000e-01], [7.500000e-01, 2.500000e-01], [2.500000e-01, 7.500000e-01], [7.500000e-01, 2.500000e-01]]> : tensor<4x2xf32>
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @linear(%x: tensor<2xf32>) -> tensor<4xf32> {
  %s = onnx.constant dense<4> : tensor<1xi64>
  %r = onnx.none
  %0 = onnx.node "Resize"(%x, %r, %r, %s) {attrs = {mode = "linear"}, version = 19 : i64} : (tensor<2xf32>, none, none, tensor<1xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Before opset 11: positions times the scale, downwards.
// CHECK-LABEL: func.func @upsample
// CHECK: arith.constant dense<{{\[\[}}0], [0], [1], [1]]> : tensor<4x1xi32>
func.func @upsample(%x: tensor<3x2xf32>) -> tensor<3x4xf32> {
  %0 = onnx.node "Upsample"(%x) {attrs = {scales = array<f32: 1.0, 2.0>}, version = 7 : i64} : (tensor<3x2xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @unknown_extent(%x: tensor<?xf32> {onnx.dims = ["n"]}) -> tensor<?xf32> {
  %s = onnx.constant dense<2.0> : tensor<1xf32>
  %r = onnx.none
  // expected-error @below {{is not supported: axis 0 must have a known extent to be resized}}
  %0 = onnx.node "Resize"(%x, %r, %s) {version = 19 : i64} : (tensor<?xf32>, none, tensor<1xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @too_large(%x: tensor<1000xf32>) -> tensor<?xf32> {
  %s = onnx.constant dense<2.0e6> : tensor<1xf32>
  %r = onnx.none
  // expected-error @below {{is not supported: axis 0 of the result, or the part that each element of it sees, is too large}}
  %0 = onnx.node "Resize"(%x, %r, %s) {version = 19 : i64} : (tensor<1000xf32>, none, tensor<1xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @unknown_mode(%x: tensor<4xf32>) -> tensor<8xf32> {
  %s = onnx.constant dense<2.0> : tensor<1xf32>
  %r = onnx.none
  // expected-error @below {{is not supported: its mode, coordinate_transformation_mode or nearest_mode is not known}}
  %0 = onnx.node "Resize"(%x, %r, %s) {attrs = {mode = "quintic"}, version = 19 : i64} : (tensor<4xf32>, none, tensor<1xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
