// MXFP4 weights stay packed: DequantizeLinear becomes kimi.dequantize of the weight.
// RUN: kimi-opt %s --split-input-file --onnx-to-kimi --verify-diagnostics | FileCheck %s

kimi.weight @w : tensor<8x32x64xf4E2M1FN> from #kimi.external<"m", 0, 8192>
kimi.weight @s : tensor<8x32x2xf8E8M0FNU> from #kimi.external<"m", 8192, 512>

// CHECK: kimi.weight @w : tensor<8x32x64xf4E2M1FN> from #kimi.external<"m", 0, 8192>
// CHECK-LABEL: func @blocks
// CHECK: %[[W:.*]] = kimi.weight_ref @w
// CHECK: %[[S:.*]] = kimi.weight_ref @s
// CHECK: kimi.dequantize %[[W]], %[[S]] axis 2 block 32 : tensor<8x32x64xf4E2M1FN>, tensor<8x32x2xf8E8M0FNU> -> tensor<8x32x64xbf16>
// The type of the result is fp32 where nobody names one and the scale could not hold it.
// CHECK: kimi.dequantize %[[W]], %[[S]] axis 2 block 32 : {{.*}} -> tensor<8x32x64xf32>
func.func @blocks() -> (tensor<8x32x64xbf16>, tensor<8x32x64xf32>) {
  %w = kimi.weight_ref @w : tensor<8x32x64xf4E2M1FN>
  %s = kimi.weight_ref @s : tensor<8x32x2xf8E8M0FNU>
  %a = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = 2 : i64, block_size = 32 : i64, output_dtype = 16 : i64}, version = 25 : i64}
     : (tensor<8x32x64xf4E2M1FN>, tensor<8x32x2xf8E8M0FNU>) -> tensor<8x32x64xbf16>
  %b = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = -1 : i64, block_size = 32 : i64}, version = 24 : i64}
     : (tensor<8x32x64xf4E2M1FN>, tensor<8x32x2xf8E8M0FNU>) -> tensor<8x32x64xf32>
  return %a, %b : tensor<8x32x64xbf16>, tensor<8x32x64xf32>
}

// -----

// Scales of another type give the result theirs.
kimi.weight @w : tensor<6x64xf4E2M1FN> from #kimi.external<"m", 0, 192>

// CHECK-LABEL: func @half_scales
// CHECK: kimi.dequantize %{{.*}}, %{{.*}} axis 1 block 16 : tensor<6x64xf4E2M1FN>, tensor<6x4xf16> -> tensor<6x64xf16>
func.func @half_scales(%s: tensor<6x4xf16>) -> tensor<6x64xf16> {
  %w = kimi.weight_ref @w : tensor<6x64xf4E2M1FN>
  %a = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = 1 : i64, block_size = 16 : i64}, version = 23 : i64}
     : (tensor<6x64xf4E2M1FN>, tensor<6x4xf16>) -> tensor<6x64xf16>
  return %a : tensor<6x64xf16>
}

// -----

kimi.weight @w : tensor<6x64xi4> from #kimi.external<"m", 0, 192>

func.func @weight_of_integers(%s: tensor<6x2xf32>) -> tensor<6x64xf32> {
  %w = kimi.weight_ref @w : tensor<6x64xi4>
  // expected-error @below {{is not supported: a large initializer can be of 8-bit or wider integers, or of float4e2m1}}
  %a = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = 1 : i64, block_size = 32 : i64}, version = 23 : i64}
     : (tensor<6x64xi4>, tensor<6x2xf32>) -> tensor<6x64xf32>
  return %a : tensor<6x64xf32>
}

// -----

kimi.weight @w : tensor<6x64xf4E2M1FN> from #kimi.external<"m", 0, 192>

func.func @blocks_of_another_size(%s: tensor<6x2xf32>) -> tensor<6x64xf32> {
  %w = kimi.weight_ref @w : tensor<6x64xf4E2M1FN>
  // expected-error @below {{x and its scale must have known extents along the axis, x block_size times as many}}
  %a = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = 1 : i64, block_size = 16 : i64}, version = 23 : i64}
     : (tensor<6x64xf4E2M1FN>, tensor<6x2xf32>) -> tensor<6x64xf32>
  return %a : tensor<6x64xf32>
}

// -----

kimi.weight @w : tensor<64x3xf4E2M1FN> from #kimi.external<"m", 0, 96>

func.func @odd_rows(%s: tensor<2x3xf32>) -> tensor<64x3xf32> {
  %w = kimi.weight_ref @w : tensor<64x3xf4E2M1FN>
  // expected-error @below {{the last extent of x must be even: rows of it begin at a byte}}
  %a = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = 0 : i64, block_size = 32 : i64}, version = 23 : i64}
     : (tensor<64x3xf4E2M1FN>, tensor<2x3xf32>) -> tensor<64x3xf32>
  return %a : tensor<64x3xf32>
}

// -----

func.func @short_scale(%w: tensor<6x64xi8>, %s: tensor<5xf32>) -> tensor<6x64xf32> {
  // expected-error @below {{is not supported: the extents of its scale and of x along axis 0 differ: 5 and 6}}
  %a = onnx.node "DequantizeLinear"(%w, %s) {attrs = {axis = 0 : i64}, version = 23 : i64} : (tensor<6x64xi8>, tensor<5xf32>) -> tensor<6x64xf32>
  return %a : tensor<6x64xf32>
}
