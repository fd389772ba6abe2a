// RUN: kimi-opt %s --onnx-raise-moe | FileCheck %s

kimi.weight @w1 : tensor<2x4x8xf32> from #kimi.external<"m", 0, 256>
kimi.weight @w3 : tensor<2x4x8xf32> from #kimi.external<"m", 256, 256>
kimi.weight @w2 : tensor<2x8x4xf32> from #kimi.external<"m", 512, 256>
kimi.weight @w13 : tensor<2x8x8xf32> from #kimi.external<"m", 768, 512>
kimi.weight @p1 : tensor<2x32x64xf4E2M1FN> from #kimi.external<"p", 0, 2048>
kimi.weight @p2 : tensor<2x64x32xf4E2M1FN> from #kimi.external<"p", 2048, 2048>
kimi.weight @s1 : tensor<2x32x2xf8E8M0FNU> from #kimi.external<"p", 4096, 128>
kimi.weight @s2 : tensor<2x64x1xf8E8M0FNU> from #kimi.external<"p", 4224, 128>
kimi.weight @g0 : tensor<4x8xf32> from #kimi.external<"e", 0, 128>
kimi.weight @u0 : tensor<4x8xf32> from #kimi.external<"e", 128, 128>
kimi.weight @d0 : tensor<8x4xf32> from #kimi.external<"e", 256, 128>
kimi.weight @g1 : tensor<4x8xf32> from #kimi.external<"e", 384, 128>
kimi.weight @u1 : tensor<4x8xf32> from #kimi.external<"e", 512, 128>
kimi.weight @d1 : tensor<8x4xf32> from #kimi.external<"e", 640, 128>

// All experts, and a mask with zeros for those that were not chosen. The weights are packed, and stay so.
// CHECK-LABEL: @masked
// CHECK: %[[I:.*]], %[[W:.*]] = kimi.router
// CHECK: kimi.moe %arg0, %[[I]], %[[W]] experts(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x32x64xf4E2M1FN>, tensor<2x32x64xf4E2M1FN>, tensor<2x64x32xf4E2M1FN>) scales(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x32x2xf8E8M0FNU>, tensor<2x32x2xf8E8M0FNU>, tensor<2x64x1xf8E8M0FNU>) situ_glu beta 4.000000e+00 linear_beta 2.500000e+01 :
// CHECK-NOT: "MatMul"
func.func @masked(%x: tensor<?x64xf32> {onnx.dims = ["n", 64]}, %l: tensor<?x2xf32> {onnx.dims = ["n", 2]}) -> tensor<?x64xf32> {
  %p1 = kimi.weight_ref @p1 : tensor<2x32x64xf4E2M1FN>
  %p2 = kimi.weight_ref @p2 : tensor<2x64x32xf4E2M1FN>
  %s1 = kimi.weight_ref @s1 : tensor<2x32x2xf8E8M0FNU>
  %s2 = kimi.weight_ref @s2 : tensor<2x64x1xf8E8M0FNU>
  %zero = onnx.constant dense<[0]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %i, %w = kimi.router %l sigmoid top 1 : tensor<?x2xf32> -> tensor<?x1xi64>, tensor<?x1xf32>
  %shape = onnx.node "Shape"(%l) {version = 15 : i64} : (tensor<?x2xf32>) -> tensor<2xi64>
  %zeros = onnx.node "ConstantOfShape"(%shape) {attrs = {value = dense<0.0> : tensor<1xf32>}, version = 9 : i64} : (tensor<2xi64>) -> tensor<?x2xf32>
  %dense = onnx.node "ScatterElements"(%zeros, %i, %w) {attrs = {axis = -1 : i64}, version = 18 : i64} : (tensor<?x2xf32>, tensor<?x1xi64>, tensor<?x1xf32>) -> tensor<?x2xf32>
  %x1 = onnx.node "Unsqueeze"(%x, %zero) {version = 13 : i64} : (tensor<?x64xf32>, tensor<1xi64>) -> tensor<1x?x64xf32>
  %d1 = onnx.node "DequantizeLinear"(%p1, %s1) {attrs = {axis = 2 : i64, block_size = 32 : i64, output_dtype = 1 : i64}, version = 25 : i64} : (tensor<2x32x64xf4E2M1FN>, tensor<2x32x2xf8E8M0FNU>) -> tensor<2x32x64xf32>
  %t1 = onnx.node "Transpose"(%d1) {attrs = {perm = array<i64: 0, 2, 1>}, version = 13 : i64} : (tensor<2x32x64xf32>) -> tensor<2x64x32xf32>
  %d2 = onnx.node "DequantizeLinear"(%p2, %s2) {attrs = {axis = 2 : i64, block_size = 32 : i64, output_dtype = 1 : i64}, version = 25 : i64} : (tensor<2x64x32xf4E2M1FN>, tensor<2x64x1xf8E8M0FNU>) -> tensor<2x64x32xf32>
  %t2 = onnx.node "Transpose"(%d2) {attrs = {perm = array<i64: 0, 2, 1>}, version = 13 : i64} : (tensor<2x64x32xf32>) -> tensor<2x32x64xf32>
  %g = onnx.node "MatMul"(%x1, %t1) {version = 13 : i64} : (tensor<1x?x64xf32>, tensor<2x64x32xf32>) -> tensor<2x?x32xf32>
  %u = onnx.node "MatMul"(%x1, %t1) {version = 13 : i64} : (tensor<1x?x64xf32>, tensor<2x64x32xf32>) -> tensor<2x?x32xf32>
  %h = kimi.situ_glu %g, %u beta 4.0 linear_beta 25.0 : tensor<2x?x32xf32>, tensor<2x?x32xf32> -> tensor<2x?x32xf32>
  %e = onnx.node "MatMul"(%h, %t2) {version = 13 : i64} : (tensor<2x?x32xf32>, tensor<2x32x64xf32>) -> tensor<2x?x64xf32>
  %dt = onnx.node "Transpose"(%dense) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<?x2xf32>) -> tensor<2x?xf32>
  %m = onnx.node "Unsqueeze"(%dt, %last) {version = 13 : i64} : (tensor<2x?xf32>, tensor<1xi64>) -> tensor<2x?x1xf32>
  %em = onnx.node "Mul"(%e, %m) {version = 14 : i64} : (tensor<2x?x64xf32>, tensor<2x?x1xf32>) -> tensor<2x?x64xf32>
  %y = onnx.node "ReduceSum"(%em, %zero) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<2x?x64xf32>, tensor<1xi64>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// By Einsum, over the stored [E, out, in].
// CHECK-LABEL: @einsum
// CHECK: kimi.moe %arg0, %{{.*}}, %{{.*}} experts(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4xf32>) swiglu
// CHECK-NOT: "Einsum"
func.func @einsum(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %l: tensor<?x2xf32> {onnx.dims = ["n", 2]}) -> tensor<?x8xf32> {
  %w1 = kimi.weight_ref @w1 : tensor<2x4x8xf32>
  %w3 = kimi.weight_ref @w3 : tensor<2x4x8xf32>
  %w2 = kimi.weight_ref @w2 : tensor<2x8x4xf32>
  %zero = onnx.constant dense<[0]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %i, %w = kimi.router %l sigmoid top 1 : tensor<?x2xf32> -> tensor<?x1xi64>, tensor<?x1xf32>
  %shape = onnx.node "Shape"(%l) {version = 15 : i64} : (tensor<?x2xf32>) -> tensor<2xi64>
  %zeros = onnx.node "ConstantOfShape"(%shape) {attrs = {value = dense<0.0> : tensor<1xf32>}, version = 9 : i64} : (tensor<2xi64>) -> tensor<?x2xf32>
  %dense = onnx.node "ScatterElements"(%zeros, %i, %w) {attrs = {axis = 1 : i64}, version = 18 : i64} : (tensor<?x2xf32>, tensor<?x1xi64>, tensor<?x1xf32>) -> tensor<?x2xf32>
  %g = onnx.node "Einsum"(%x, %w1) {attrs = {equation = "nl,eil->eni"}, version = 12 : i64} : (tensor<?x8xf32>, tensor<2x4x8xf32>) -> tensor<2x?x4xf32>
  %u = onnx.node "Einsum"(%x, %w3) {attrs = {equation = "nl,eil->eni"}, version = 12 : i64} : (tensor<?x8xf32>, tensor<2x4x8xf32>) -> tensor<2x?x4xf32>
  %h = kimi.swiglu %g, %u : tensor<2x?x4xf32>, tensor<2x?x4xf32> -> tensor<2x?x4xf32>
  %e = onnx.node "Einsum"(%h, %w2) {attrs = {equation = "eni,eli->enl"}, version = 12 : i64} : (tensor<2x?x4xf32>, tensor<2x8x4xf32>) -> tensor<2x?x8xf32>
  %dt = onnx.node "Transpose"(%dense) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<?x2xf32>) -> tensor<2x?xf32>
  %m = onnx.node "Unsqueeze"(%dt, %last) {version = 13 : i64} : (tensor<2x?xf32>, tensor<1xi64>) -> tensor<2x?x1xf32>
  %em = onnx.node "Mul"(%e, %m) {version = 14 : i64} : (tensor<2x?x8xf32>, tensor<2x?x1xf32>) -> tensor<2x?x8xf32>
  %y = onnx.node "ReduceSum"(%em, %zero) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<2x?x8xf32>, tensor<1xi64>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The mask is of ones, not of zeros: every expert counts.
// CHECK-LABEL: @masked_with_ones
// CHECK-NOT: kimi.moe
func.func @masked_with_ones(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %l: tensor<?x2xf32> {onnx.dims = ["n", 2]}) -> tensor<?x8xf32> {
  %w1 = kimi.weight_ref @w1 : tensor<2x4x8xf32>
  %w2 = kimi.weight_ref @w2 : tensor<2x8x4xf32>
  %zero = onnx.constant dense<[0]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %i, %w = kimi.router %l sigmoid top 1 : tensor<?x2xf32> -> tensor<?x1xi64>, tensor<?x1xf32>
  %shape = onnx.node "Shape"(%l) {version = 15 : i64} : (tensor<?x2xf32>) -> tensor<2xi64>
  %ones = onnx.node "ConstantOfShape"(%shape) {attrs = {value = dense<1.0> : tensor<1xf32>}, version = 9 : i64} : (tensor<2xi64>) -> tensor<?x2xf32>
  %dense = onnx.node "ScatterElements"(%ones, %i, %w) {attrs = {axis = 1 : i64}, version = 18 : i64} : (tensor<?x2xf32>, tensor<?x1xi64>, tensor<?x1xf32>) -> tensor<?x2xf32>
  %g = onnx.node "Einsum"(%x, %w1) {attrs = {equation = "nl,eil->eni"}, version = 12 : i64} : (tensor<?x8xf32>, tensor<2x4x8xf32>) -> tensor<2x?x4xf32>
  %h = kimi.swiglu %g, %g : tensor<2x?x4xf32>, tensor<2x?x4xf32> -> tensor<2x?x4xf32>
  %e = onnx.node "Einsum"(%h, %w2) {attrs = {equation = "eni,eli->enl"}, version = 12 : i64} : (tensor<2x?x4xf32>, tensor<2x8x4xf32>) -> tensor<2x?x8xf32>
  %dt = onnx.node "Transpose"(%dense) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<?x2xf32>) -> tensor<2x?xf32>
  %m = onnx.node "Unsqueeze"(%dt, %last) {version = 13 : i64} : (tensor<2x?xf32>, tensor<1xi64>) -> tensor<2x?x1xf32>
  %em = onnx.node "Mul"(%e, %m) {version = 14 : i64} : (tensor<2x?x8xf32>, tensor<2x?x1xf32>) -> tensor<2x?x8xf32>
  %y = onnx.node "ReduceSum"(%em, %zero) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<2x?x8xf32>, tensor<1xi64>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Matrices picked by the indices; gate and up are halves of one.
// CHECK-LABEL: @gathered
// CHECK: onnx.node "Slice"
// CHECK: onnx.node "Slice"
// CHECK: kimi.moe %arg0, %{{.*}}, %{{.*}} experts(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4xf32>) swiglu : tensor<5x8xf32>, tensor<5x2xi64>, tensor<5x2xf32> -> tensor<5x8xf32>
// CHECK-NOT: "GatherND"
func.func @gathered(%x: tensor<5x8xf32>, %l: tensor<5x2xf32>) -> tensor<5x8xf32> {
  %w13 = kimi.weight_ref @w13 : tensor<2x8x8xf32>
  %w2 = kimi.weight_ref @w2 : tensor<2x8x4xf32>
  %one = onnx.constant dense<[1]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %low = onnx.constant dense<0> : tensor<i64>
  %high = onnx.constant dense<1> : tensor<i64>
  %rows = onnx.constant dense<[5, 2, 8]> : tensor<3xi64>
  %flat = onnx.constant dense<[10, 8]> : tensor<2xi64>
  %i, %w = kimi.router %l softmax top 2 {normalise = 0.0 : f32} : tensor<5x2xf32> -> tensor<5x2xi64>, tensor<5x2xf32>
  %x1 = onnx.node "Unsqueeze"(%x, %one) {version = 13 : i64} : (tensor<5x8xf32>, tensor<1xi64>) -> tensor<5x1x8xf32>
  %xe = onnx.node "Expand"(%x1, %rows) {version = 13 : i64} : (tensor<5x1x8xf32>, tensor<3xi64>) -> tensor<5x2x8xf32>
  %xf = onnx.node "Reshape"(%xe, %flat) {version = 14 : i64} : (tensor<5x2x8xf32>, tensor<2xi64>) -> tensor<10x8xf32>
  %xc = onnx.node "Unsqueeze"(%xf, %last) {version = 13 : i64} : (tensor<10x8xf32>, tensor<1xi64>) -> tensor<10x8x1xf32>
  %if = onnx.node "Reshape"(%i, %last) {version = 14 : i64} : (tensor<5x2xi64>, tensor<1xi64>) -> tensor<10xi64>
  %ic = onnx.node "Clip"(%if, %low, %high) {version = 13 : i64} : (tensor<10xi64>, tensor<i64>, tensor<i64>) -> tensor<10xi64>
  %iu = onnx.node "Unsqueeze"(%ic, %last) {version = 13 : i64} : (tensor<10xi64>, tensor<1xi64>) -> tensor<10x1xi64>
  %m13 = onnx.node "GatherND"(%w13, %iu) {version = 13 : i64} : (tensor<2x8x8xf32>, tensor<10x1xi64>) -> tensor<10x8x8xf32>
  %gu = onnx.node "MatMul"(%m13, %xc) {version = 13 : i64} : (tensor<10x8x8xf32>, tensor<10x8x1xf32>) -> tensor<10x8x1xf32>
  %gus = onnx.node "Squeeze"(%gu, %last) {version = 13 : i64} : (tensor<10x8x1xf32>, tensor<1xi64>) -> tensor<10x8xf32>
  %parts:2 = onnx.node "Split"(%gus) {attrs = {axis = 1 : i64, num_outputs = 2 : i64}, version = 18 : i64} : (tensor<10x8xf32>) -> (tensor<10x4xf32>, tensor<10x4xf32>)
  %h = kimi.swiglu %parts#0, %parts#1 : tensor<10x4xf32>, tensor<10x4xf32> -> tensor<10x4xf32>
  %hc = onnx.node "Unsqueeze"(%h, %last) {version = 13 : i64} : (tensor<10x4xf32>, tensor<1xi64>) -> tensor<10x4x1xf32>
  %m2 = onnx.node "GatherND"(%w2, %iu) {version = 13 : i64} : (tensor<2x8x4xf32>, tensor<10x1xi64>) -> tensor<10x8x4xf32>
  %e = onnx.node "MatMul"(%m2, %hc) {version = 13 : i64} : (tensor<10x8x4xf32>, tensor<10x4x1xf32>) -> tensor<10x8x1xf32>
  %es = onnx.node "Squeeze"(%e, %last) {version = 13 : i64} : (tensor<10x8x1xf32>, tensor<1xi64>) -> tensor<10x8xf32>
  %wf = onnx.node "Reshape"(%w, %last) {version = 14 : i64} : (tensor<5x2xf32>, tensor<1xi64>) -> tensor<10xf32>
  %wc = onnx.node "Unsqueeze"(%wf, %last) {version = 13 : i64} : (tensor<10xf32>, tensor<1xi64>) -> tensor<10x1xf32>
  %ew = onnx.node "Mul"(%es, %wc) {version = 14 : i64} : (tensor<10x8xf32>, tensor<10x1xf32>) -> tensor<10x8xf32>
  %er = onnx.node "Reshape"(%ew, %rows) {version = 14 : i64} : (tensor<10x8xf32>, tensor<3xi64>) -> tensor<5x2x8xf32>
  %y = onnx.node "ReduceSum"(%er, %one) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<5x2x8xf32>, tensor<1xi64>) -> tensor<5x8xf32>
  return %y : tensor<5x8xf32>
}

// Indices that are clipped to fewer than there are experts are no longer those of the router.
// CHECK-LABEL: @clipped
// CHECK-NOT: kimi.moe
// CHECK: "GatherND"
func.func @clipped(%x: tensor<5x8xf32>, %l: tensor<5x2xf32>) -> tensor<5x8xf32> {
  %w13 = kimi.weight_ref @w13 : tensor<2x8x8xf32>
  %w2 = kimi.weight_ref @w2 : tensor<2x8x4xf32>
  %one = onnx.constant dense<[1]> : tensor<1xi64>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %low = onnx.constant dense<0> : tensor<i64>
  %high = onnx.constant dense<0> : tensor<i64>
  %rows = onnx.constant dense<[5, 2, 8]> : tensor<3xi64>
  %flat = onnx.constant dense<[10, 8]> : tensor<2xi64>
  %i, %w = kimi.router %l softmax top 2 {normalise = 0.0 : f32} : tensor<5x2xf32> -> tensor<5x2xi64>, tensor<5x2xf32>
  %x1 = onnx.node "Unsqueeze"(%x, %one) {version = 13 : i64} : (tensor<5x8xf32>, tensor<1xi64>) -> tensor<5x1x8xf32>
  %xe = onnx.node "Expand"(%x1, %rows) {version = 13 : i64} : (tensor<5x1x8xf32>, tensor<3xi64>) -> tensor<5x2x8xf32>
  %xf = onnx.node "Reshape"(%xe, %flat) {version = 14 : i64} : (tensor<5x2x8xf32>, tensor<2xi64>) -> tensor<10x8xf32>
  %xc = onnx.node "Unsqueeze"(%xf, %last) {version = 13 : i64} : (tensor<10x8xf32>, tensor<1xi64>) -> tensor<10x8x1xf32>
  %if = onnx.node "Reshape"(%i, %last) {version = 14 : i64} : (tensor<5x2xi64>, tensor<1xi64>) -> tensor<10xi64>
  %ic = onnx.node "Clip"(%if, %low, %high) {version = 13 : i64} : (tensor<10xi64>, tensor<i64>, tensor<i64>) -> tensor<10xi64>
  %iu = onnx.node "Unsqueeze"(%ic, %last) {version = 13 : i64} : (tensor<10xi64>, tensor<1xi64>) -> tensor<10x1xi64>
  %m13 = onnx.node "GatherND"(%w13, %iu) {version = 13 : i64} : (tensor<2x8x8xf32>, tensor<10x1xi64>) -> tensor<10x8x8xf32>
  %gu = onnx.node "MatMul"(%m13, %xc) {version = 13 : i64} : (tensor<10x8x8xf32>, tensor<10x8x1xf32>) -> tensor<10x8x1xf32>
  %gus = onnx.node "Squeeze"(%gu, %last) {version = 13 : i64} : (tensor<10x8x1xf32>, tensor<1xi64>) -> tensor<10x8xf32>
  %parts:2 = onnx.node "Split"(%gus) {attrs = {axis = 1 : i64, num_outputs = 2 : i64}, version = 18 : i64} : (tensor<10x8xf32>) -> (tensor<10x4xf32>, tensor<10x4xf32>)
  %h = kimi.swiglu %parts#0, %parts#1 : tensor<10x4xf32>, tensor<10x4xf32> -> tensor<10x4xf32>
  %hc = onnx.node "Unsqueeze"(%h, %last) {version = 13 : i64} : (tensor<10x4xf32>, tensor<1xi64>) -> tensor<10x4x1xf32>
  %m2 = onnx.node "GatherND"(%w2, %iu) {version = 13 : i64} : (tensor<2x8x4xf32>, tensor<10x1xi64>) -> tensor<10x8x4xf32>
  %e = onnx.node "MatMul"(%m2, %hc) {version = 13 : i64} : (tensor<10x8x4xf32>, tensor<10x4x1xf32>) -> tensor<10x8x1xf32>
  %es = onnx.node "Squeeze"(%e, %last) {version = 13 : i64} : (tensor<10x8x1xf32>, tensor<1xi64>) -> tensor<10x8xf32>
  %wf = onnx.node "Reshape"(%w, %last) {version = 14 : i64} : (tensor<5x2xf32>, tensor<1xi64>) -> tensor<10xf32>
  %wc = onnx.node "Unsqueeze"(%wf, %last) {version = 13 : i64} : (tensor<10xf32>, tensor<1xi64>) -> tensor<10x1xf32>
  %ew = onnx.node "Mul"(%es, %wc) {version = 14 : i64} : (tensor<10x8xf32>, tensor<10x1xf32>) -> tensor<10x8xf32>
  %er = onnx.node "Reshape"(%ew, %rows) {version = 14 : i64} : (tensor<10x8xf32>, tensor<3xi64>) -> tensor<5x2x8xf32>
  %y = onnx.node "ReduceSum"(%er, %one) {attrs = {keepdims = 0 : i64}, version = 13 : i64} : (tensor<5x2x8xf32>, tensor<1xi64>) -> tensor<5x8xf32>
  return %y : tensor<5x8xf32>
}

// A product for every expert, each with its own matrices: stacked, and only the chosen ones are computed.
// CHECK-LABEL: @unrolled
// CHECK: %[[W1:.*]] = onnx.node "Concat"(%{{.*}}, %{{.*}}) {attrs = {axis = 0 : i64}
// CHECK: kimi.moe %arg0, %{{.*}}, %{{.*}} experts(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4xf32>) swiglu
// CHECK-NOT: "MatMul"
func.func @unrolled(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %l: tensor<?x2xf32> {onnx.dims = ["n", 2]}) -> tensor<?x8xf32> {
  %gw0 = kimi.weight_ref @g0 : tensor<4x8xf32>
  %tg0 = onnx.node "Transpose"(%gw0) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %uw0 = kimi.weight_ref @u0 : tensor<4x8xf32>
  %tu0 = onnx.node "Transpose"(%uw0) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw0 = kimi.weight_ref @d0 : tensor<8x4xf32>
  %td0 = onnx.node "Transpose"(%dw0) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %gw1 = kimi.weight_ref @g1 : tensor<4x8xf32>
  %tg1 = onnx.node "Transpose"(%gw1) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %uw1 = kimi.weight_ref @u1 : tensor<4x8xf32>
  %tu1 = onnx.node "Transpose"(%uw1) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw1 = kimi.weight_ref @d1 : tensor<8x4xf32>
  %td1 = onnx.node "Transpose"(%dw1) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %i, %w = kimi.router %l sigmoid top 1 : tensor<?x2xf32> -> tensor<?x1xi64>, tensor<?x1xf32>
  %g0 = onnx.node "MatMul"(%x, %tg0) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %u0 = onnx.node "MatMul"(%x, %tu0) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %h0 = kimi.swiglu %g0, %u0 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  %e0 = onnx.node "MatMul"(%h0, %td0) {version = 13 : i64} : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %n0 = onnx.constant dense<0> : tensor<i64>
  %q0 = onnx.node "Equal"(%i, %n0) {version = 13 : i64} : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi1>
  %c0 = onnx.node "CastLike"(%q0, %w) {version = 15 : i64} : (tensor<?x1xi1>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %m0 = onnx.node "Mul"(%w, %c0) {version = 14 : i64} : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %r0 = onnx.node "ReduceSum"(%m0, %last) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x1xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %t0 = onnx.node "Mul"(%e0, %r0) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %g1 = onnx.node "MatMul"(%x, %tg1) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %u1 = onnx.node "MatMul"(%x, %tu1) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %h1 = kimi.swiglu %g1, %u1 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  %e1 = onnx.node "MatMul"(%h1, %td1) {version = 13 : i64} : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %n1 = onnx.constant dense<1> : tensor<i64>
  %q1 = onnx.node "Equal"(%i, %n1) {version = 13 : i64} : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi1>
  %c1 = onnx.node "CastLike"(%q1, %w) {version = 15 : i64} : (tensor<?x1xi1>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %m1 = onnx.node "Mul"(%w, %c1) {version = 14 : i64} : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %r1 = onnx.node "ReduceSum"(%m1, %last) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x1xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %t1 = onnx.node "Mul"(%e1, %r1) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Add"(%t0, %t1) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// One expert twice, the other never.
// CHECK-LABEL: @one_twice
// CHECK-NOT: kimi.moe
func.func @one_twice(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}, %l: tensor<?x2xf32> {onnx.dims = ["n", 2]}) -> tensor<?x8xf32> {
  %gw0 = kimi.weight_ref @g0 : tensor<4x8xf32>
  %tg0 = onnx.node "Transpose"(%gw0) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %uw0 = kimi.weight_ref @u0 : tensor<4x8xf32>
  %tu0 = onnx.node "Transpose"(%uw0) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw0 = kimi.weight_ref @d0 : tensor<8x4xf32>
  %td0 = onnx.node "Transpose"(%dw0) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %gw1 = kimi.weight_ref @g1 : tensor<4x8xf32>
  %tg1 = onnx.node "Transpose"(%gw1) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %uw1 = kimi.weight_ref @u1 : tensor<4x8xf32>
  %tu1 = onnx.node "Transpose"(%uw1) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw1 = kimi.weight_ref @d1 : tensor<8x4xf32>
  %td1 = onnx.node "Transpose"(%dw1) {attrs = {perm = array<i64: 1, 0>}, version = 13 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %last = onnx.constant dense<[-1]> : tensor<1xi64>
  %i, %w = kimi.router %l sigmoid top 1 : tensor<?x2xf32> -> tensor<?x1xi64>, tensor<?x1xf32>
  %g0 = onnx.node "MatMul"(%x, %tg0) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %u0 = onnx.node "MatMul"(%x, %tu0) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %h0 = kimi.swiglu %g0, %u0 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  %e0 = onnx.node "MatMul"(%h0, %td0) {version = 13 : i64} : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %n0 = onnx.constant dense<0> : tensor<i64>
  %q0 = onnx.node "Equal"(%i, %n0) {version = 13 : i64} : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi1>
  %c0 = onnx.node "CastLike"(%q0, %w) {version = 15 : i64} : (tensor<?x1xi1>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %m0 = onnx.node "Mul"(%w, %c0) {version = 14 : i64} : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %r0 = onnx.node "ReduceSum"(%m0, %last) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x1xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %t0 = onnx.node "Mul"(%e0, %r0) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %g1 = onnx.node "MatMul"(%x, %tg0) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %u1 = onnx.node "MatMul"(%x, %tu0) {version = 13 : i64} : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %h1 = kimi.swiglu %g1, %u1 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  %e1 = onnx.node "MatMul"(%h1, %td0) {version = 13 : i64} : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %n1 = onnx.constant dense<0> : tensor<i64>
  %q1 = onnx.node "Equal"(%i, %n1) {version = 13 : i64} : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi1>
  %c1 = onnx.node "CastLike"(%q1, %w) {version = 15 : i64} : (tensor<?x1xi1>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %m1 = onnx.node "Mul"(%w, %c1) {version = 14 : i64} : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %r1 = onnx.node "ReduceSum"(%m1, %last) {attrs = {keepdims = 1 : i64}, version = 13 : i64} : (tensor<?x1xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %t1 = onnx.node "Mul"(%e1, %r1) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = onnx.node "Add"(%t0, %t1) {version = 14 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
