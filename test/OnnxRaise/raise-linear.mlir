// RUN: kimi-opt %s --onnx-raise-linear | FileCheck %s

module {
  kimi.weight @w : tensor<8x24xf32> from #kimi.external<"w", 0, 768>
  kimi.weight @b : tensor<24xf32> from #kimi.external<"w", 768, 96>
  kimi.weight @e : tensor<64x8xf32> from #kimi.external<"w", 864, 2048>

  // CHECK-LABEL: @gemm
  // CHECK-DAG: %[[W:.*]] = kimi.weight_ref @w
  // CHECK-DAG: %[[B:.*]] = kimi.weight_ref @b
  // CHECK-NEXT: kimi.linear %arg0, %[[W]], %[[B]] : tensor<?x?x8xf32>, tensor<8x24xf32>, tensor<24xf32> -> tensor<?x?x24xf32>
  // CHECK-NEXT: return
  func.func @gemm(%x: tensor<?x?x8xf32> {onnx.dims = ["batch", "seq", 8]}) -> tensor<?x?x24xf32> {
    %w = kimi.weight_ref @w : tensor<8x24xf32>
    %b = kimi.weight_ref @b : tensor<24xf32>
    %two = onnx.constant dense<[-1, 8]> : tensor<2xi64>
    %n = onnx.constant dense<24> : tensor<1xi64>
    %s0 = onnx.node "Shape"(%x) {attrs = {start = 0 : i64, end = 2 : i64}, version = 18 : i64} : (tensor<?x?x8xf32>) -> tensor<2xi64>
    %s = onnx.node "Concat"(%s0, %n) {attrs = {axis = 0 : i64}, version = 18 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<3xi64>
    %r = onnx.node "Reshape"(%x, %two) {version = 18 : i64} : (tensor<?x?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
    %g = onnx.node "Gemm"(%r, %w, %b) {attrs = {alpha = 1.0 : f32, beta = 1.0 : f32}, version = 18 : i64} : (tensor<?x8xf32>, tensor<8x24xf32>, tensor<24xf32>) -> tensor<?x24xf32>
    %y = onnx.node "Reshape"(%g, %s) {version = 18 : i64} : (tensor<?x24xf32>, tensor<3xi64>) -> tensor<?x?x24xf32>
    return %y : tensor<?x?x24xf32>
  }

  // CHECK-LABEL: @matmul_bias
  // CHECK: kimi.linear %arg0, %{{.*}}, %{{.*}} : tensor<?x?x8xf32>, tensor<8x24xf32>, tensor<24xf32>
  // CHECK-NEXT: return
  func.func @matmul_bias(%x: tensor<?x?x8xf32>) -> tensor<?x?x24xf32> {
    %w = kimi.weight_ref @w : tensor<8x24xf32>
    %b = kimi.weight_ref @b : tensor<24xf32>
    %m = onnx.node "MatMul"(%x, %w) {version = 13 : i64} : (tensor<?x?x8xf32>, tensor<8x24xf32>) -> tensor<?x?x24xf32>
    %y = onnx.node "Add"(%b, %m) {version = 13 : i64} : (tensor<24xf32>, tensor<?x?x24xf32>) -> tensor<?x?x24xf32>
    return %y : tensor<?x?x24xf32>
  }

  // CHECK-LABEL: @tied_head
  // CHECK: %[[E:.*]] = kimi.weight_ref @e
  // CHECK-NEXT: kimi.linear %arg0, %[[E]] transpose : tensor<1x1x8xf32>, tensor<64x8xf32> -> tensor<1x1x64xf32>
  func.func @tied_head(%x: tensor<1x1x8xf32>) -> tensor<1x1x64xf32> {
    %e = kimi.weight_ref @e : tensor<64x8xf32>
    %t = onnx.node "Transpose"(%e) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<64x8xf32>) -> tensor<8x64xf32>
    %y = onnx.node "MatMul"(%x, %t) {version = 13 : i64} : (tensor<1x1x8xf32>, tensor<8x64xf32>) -> tensor<1x1x64xf32>
    return %y : tensor<1x1x64xf32>
  }

  // transB of a transpose is the weight itself.
  // CHECK-LABEL: @trans_b
  // CHECK: kimi.linear %arg0, %{{.*}} transpose : tensor<?x8xf32>, tensor<64x8xf32> -> tensor<?x64xf32>
  func.func @trans_b(%x: tensor<?x8xf32>) -> tensor<?x64xf32> {
    %e = kimi.weight_ref @e : tensor<64x8xf32>
    %y = onnx.node "Gemm"(%x, %e) {attrs = {transB = 1 : i64}, version = 13 : i64} : (tensor<?x8xf32>, tensor<64x8xf32>) -> tensor<?x64xf32>
    return %y : tensor<?x64xf32>
  }

  // A product of two activations, a scaled one, and an added matrix that is no bias: stay.
  // CHECK-LABEL: @left_alone
  // CHECK: onnx.node "MatMul"
  // CHECK: onnx.node "Gemm"
  // CHECK: kimi.linear %arg0, %{{.*}} : tensor<?x8xf32>, tensor<8x24xf32> -> tensor<?x24xf32>
  // CHECK: onnx.node "Add"
  func.func @left_alone(%x: tensor<?x8xf32>, %z: tensor<8x24xf32>, %r: tensor<?x24xf32>)
      -> (tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32>) {
    %w = kimi.weight_ref @w : tensor<8x24xf32>
    %a = onnx.node "MatMul"(%x, %z) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x24xf32>) -> tensor<?x24xf32>
    %b = onnx.node "Gemm"(%x, %w) {attrs = {alpha = 2.0 : f32}, version = 13 : i64} : (tensor<?x8xf32>, tensor<8x24xf32>) -> tensor<?x24xf32>
    %m = onnx.node "MatMul"(%x, %w) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x24xf32>) -> tensor<?x24xf32>
    %c = onnx.node "Add"(%m, %r) {version = 13 : i64} : (tensor<?x24xf32>, tensor<?x24xf32>) -> tensor<?x24xf32>
    return %a, %b, %c : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32>
  }
}
