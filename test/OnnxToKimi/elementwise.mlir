// RUN: kimi-opt %s --onnx-to-kimi --split-input-file | FileCheck %s

// CHECK-DAG: #[[$ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$ROW:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG: #[[$ONE:.*]] = affine_map<(d0, d1, d2) -> (0, d1, d2)>
// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: kimi.dims = ["b", "s", 8]
// CHECK-SAME: kimi.name = "x"
// CHECK: linalg.generic {indexing_maps = [#[[$ID]], #[[$ROW]], #[[$ID]]]
// CHECK: arith.addf
// CHECK: linalg.generic {indexing_maps = [#[[$ID]], #[[$ONE]], #[[$ID]]]
// CHECK: arith.mulf
func.func @broadcast(%x: tensor<?x?x8xf32> {onnx.name = "x", onnx.dims = ["b", "s", 8]},
                     %row: tensor<8xf32>, %one: tensor<1x?x8xf32> {onnx.dims = [1, "s", 8]}) -> tensor<?x?x8xf32> {
  %0 = onnx.node "Add"(%x, %row) {version = 14 : i64} : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<*xf32>
  %1 = onnx.node "Mul"(%0, %one) {version = 14 : i64} : (tensor<*xf32>, tensor<1x?x8xf32>) -> tensor<?x?x8xf32>
  return %1 : tensor<?x?x8xf32>
}

// -----

// Extents that may or may not be equal are decided when it runs, by where they are read.
// CHECK-LABEL: func.func @undecided
// CHECK: %[[N:.*]] = tensor.dim %arg0
// CHECK: %[[LAST:.*]] = arith.addi %[[N]]
// CHECK: linalg.generic
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[AT:.*]] = arith.minsi %[[I]], %{{.*}}
// CHECK: tensor.extract %arg0[%[[AT]]]
func.func @undecided(%a: tensor<?xf32> {onnx.dims = ["n"]}, %b: tensor<?xf32> {onnx.dims = ["m"]}) -> tensor<?xf32> {
  %0 = onnx.node "Add"(%a, %b) {version = 14 : i64} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// Constants are scalars of the body; x ** 3 is two products.
// CHECK-LABEL: func.func @constants
// CHECK-NOT: math.powf
// CHECK: arith.mulf
// CHECK: arith.mulf
func.func @constants(%x: tensor<?xf32> {onnx.dims = ["n"]}) -> tensor<?xf32> {
  %three = onnx.constant dense<3.0> : tensor<f32>
  %0 = onnx.node "Pow"(%x, %three) {version = 15 : i64} : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// f16 is computed in f32; unsigned integers are signless within, and the port remembers.
// CHECK-LABEL: func.func @types
// CHECK-SAME: %arg1: tensor<?xi8> {{{.*}}kimi.unsigned}
// CHECK: arith.extf
// CHECK: math.exp {{.*}} : f32
// CHECK: arith.truncf
// CHECK: arith.cmpi ult
func.func @types(%x: tensor<?xf16> {onnx.dims = ["n"]}, %u: tensor<?xui8> {onnx.dims = ["n"]}) -> (tensor<?xf16>, tensor<?xi1>) {
  %0 = onnx.node "Exp"(%x) {version = 13 : i64} : (tensor<?xf16>) -> tensor<?xf16>
  %1 = onnx.node "Less"(%u, %u) {version = 13 : i64} : (tensor<?xui8>, tensor<?xui8>) -> tensor<?xi1>
  return %0, %1 : tensor<?xf16>, tensor<?xi1>
}
