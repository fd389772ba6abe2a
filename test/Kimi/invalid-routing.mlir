// One error for each constraint of gates, routing, depth and packed weights.
// RUN: kimi-opt %s --split-input-file --verify-diagnostics

func.func @f(%a: tensor<?x8xi32>) {
  // expected-error @below {{[G1] gate has type 'tensor<?x8xi32>'; expected floats}}
  %0 = kimi.swiglu %a, %a : tensor<?x8xi32>, tensor<?x8xi32> -> tensor<?x8xi32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error @below {{[G1] x has type 'tensor<f32>'; expected floats, of rank 1 or more}}
  %0 = kimi.l2_norm %a eps 0.0 : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>) {
  // expected-error @below {{[G2] gives shape [?, 4] from x of shape [?, 8]}}
  %0 = kimi.l2_norm %a eps 0.0 : tensor<?x8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>) {
  // expected-error @below {{[G3] gives elements of type 'f16' from x of 'f32'}}
  %0 = kimi.l2_norm %a eps 0.0 : tensor<?x8xf32> -> tensor<?x8xf16>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x8xf16>) {
  // expected-error @below {{[G4] up has type 'tensor<?x8xf16>'; expected that of the first operand}}
  %0 = kimi.swiglu %a, %b : tensor<?x8xf32>, tensor<?x8xf16> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{[G5] gamma has type 'tensor<4xf32>'; expected [8] floats}}
  %0 = kimi.gated_rms_norm %a, %a, %b sigmoid eps 0.0 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<4xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>) {
  // expected-error @below {{[G6] has eps -1.0}}
  %0 = kimi.l2_norm %a eps -1.0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>) {
  // expected-error @below {{[G7] has beta 0.0}}
  %0 = kimi.situ_glu %a, %a beta 0.0 : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>) {
  // expected-error @below {{[G7] has linear_beta -1.0}}
  %0 = kimi.situ_glu %a, %a beta 4.0 linear_beta -1.0 : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x3x8xf32>, %r: tensor<3xf32>, %d: tensor<3x4xf32>) {
  // expected-error @below {{[G8] dt_bias has type 'tensor<3x4xf32>'; expected [heads, channels] or [heads] of floats}}
  %0 = kimi.kda_gate %a, %r, %d : tensor<?x3x8xf32>, tensor<3xf32>, tensor<3x4xf32> -> tensor<?x3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x3x8xf32>, %r: tensor<4xf32>, %d: tensor<3x8xf32>) {
  // expected-error @below {{[G9] rate has type 'tensor<4xf32>'; expected [3] floats, one for each head}}
  %0 = kimi.kda_gate %a, %r, %d : tensor<?x3x8xf32>, tensor<4xf32>, tensor<3x8xf32> -> tensor<?x3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x3x8xf32>, %r: tensor<3xf32>, %d: tensor<3x8xf32>) {
  // expected-error @below {{[G10] has bound 5.0}}
  %0 = kimi.kda_gate %a, %r, %d bound 5.0 : tensor<?x3x8xf32>, tensor<3xf32>, tensor<3x8xf32> -> tensor<?x3x8xf32>
  return
}

// -----

func.func @f(%l: tensor<?x?xf32>) {
  // expected-error @below {{[Q1] reads 'tensor<?x?xf32>'; expected logits [tokens, experts] of floats}}
  %0:2 = kimi.router %l sigmoid top 2 : tensor<?x?xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>, %b: tensor<7xf32>) {
  // expected-error @below {{[Q2] bias has type 'tensor<7xf32>'; expected [8] floats}}
  %0:2 = kimi.router %l, %b sigmoid top 2 : tensor<?x8xf32>, tensor<7xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q3] chooses 9 of 8 experts}}
  %0:2 = kimi.router %l sigmoid top 9 : tensor<?x8xf32> -> tensor<?x9xi64>, tensor<?x9xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q4] keeps 1 of 3 groups of 8 experts}}
  %0:2 = kimi.router %l sigmoid top 2 {groups = 3 : i64} : tensor<?x8xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q5] values a group of 1 experts by its best 2}}
  %0:2 = kimi.router %l sigmoid top 2 {groups = 8 : i64, keep_groups = 4 : i64} : tensor<?x8xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q6] chooses 3 experts from groups that hold 2}}
  %0:2 = kimi.router %l sigmoid top 3 {groups = 4 : i64} : tensor<?x8xf32> -> tensor<?x3xi64>, tensor<?x3xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q7] normalise and scale are finite numbers}}
  %0:2 = kimi.router %l sigmoid top 2 {normalise = -1.0 : f32} : tensor<?x8xf32> -> tensor<?x2xi64>, tensor<?x2xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q8] gives indices 'tensor<?x2xi8>'; expected [?, 2] of i64 or i32}}
  %0:2 = kimi.router %l sigmoid top 2 : tensor<?x8xf32> -> tensor<?x2xi8>, tensor<?x2xf32>
  return
}

// -----

func.func @f(%l: tensor<?x8xf32>) {
  // expected-error @below {{[Q9] gives weights 'tensor<?x3xf32>'; expected [?, 2] of f32}}
  %0:2 = kimi.router %l sigmoid top 2 : tensor<?x8xf32> -> tensor<?x2xi64>, tensor<?x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M1] x has type 'tensor<?x?x64xf32>'; expected [tokens, channels] of floats}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) swiglu : tensor<?x?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xf32>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M2] indices have type 'tensor<?x3xf32>'}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) swiglu : tensor<?x64xf32>, tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x2xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M3] weights have type 'tensor<?x2xf32>'; expected [?, 3] floats}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) swiglu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x2xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x32x64xf32>) {
  // expected-error @below {{[M4] has expert matrices}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>) swiglu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf4E2M1FN>, %b: tensor<4x32x64xf4E2M1FN>, %d: tensor<4x64x32xf4E2M1FN>) {
  // expected-error @below {{[M5] has expert matrices of 'f4E2M1FN', 'f4E2M1FN', 'f4E2M1FN' without scales}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf4E2M1FN>, tensor<4x32x64xf4E2M1FN>, tensor<4x64x32xf4E2M1FN>) swiglu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf4E2M1FN>, %b: tensor<4x32x64xf4E2M1FN>, %d: tensor<4x64x32xf4E2M1FN>, %s: tensor<4x32x1xf8E8M0FNU>, %t: tensor<4x64x1xf8E8M0FNU>) {
  // expected-error @below {{[M6] has scales 'tensor<4x32x1xf8E8M0FNU>' for 'tensor<4x32x64xf4E2M1FN>'; expected one f8E8M0FNU for each 32}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf4E2M1FN>, tensor<4x32x64xf4E2M1FN>, tensor<4x64x32xf4E2M1FN>) scales(%s, %s, %t : tensor<4x32x1xf8E8M0FNU>, tensor<4x32x1xf8E8M0FNU>, tensor<4x64x1xf8E8M0FNU>) swiglu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M7] has activation situ_glu without beta}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) situ_glu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M7] has activation swiglu with beta or linear_beta}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) swiglu beta 4.0 : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M7] has beta or linear_beta 0.0}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) situ_glu beta 0.0 : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %a: tensor<4x32x64xf32>, %b: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>) {
  // expected-error @below {{[M8] gives 'tensor<?x32xf32>'; expected [?, 64] of 'f32'}}
  %0 = kimi.moe %x, %i, %w experts(%a, %b, %d : tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) swiglu : tensor<?x64xf32>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x32xf32>
  return
}

// -----

func.func @f(%s: tensor<8xf32>) {
  // expected-error @below {{[X1] has no source}}
  %0 = "kimi.attn_res"(%s) <{eps = 0.0 : f32}> : (tensor<8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xi32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X1] mixes 'tensor<?x8xi32>'; expected sources [..., channels] of floats}}
  %0 = kimi.attn_res(%a) score %s eps 0.0 : (tensor<?x8xi32>), tensor<8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x4xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X2] source 1 has type 'tensor<?x4xf32>', but the first has 'tensor<?x8xf32>'}}
  %0 = kimi.attn_res(%a, %b) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x4xf32>), tensor<8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{[X3] score has type 'tensor<4xf32>'; expected [8] floats}}
  %0 = kimi.attn_res(%a) score %s eps 0.0 : (tensor<?x8xf32>), tensor<4xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X4] gives shape [?, 4] from sources of shape [?, 8]}}
  %0 = kimi.attn_res(%a) score %s eps 0.0 : (tensor<?x8xf32>), tensor<8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X5] gives elements of type 'f16' from sources of 'f32'}}
  %0 = kimi.attn_res(%a) score %s eps 0.0 : (tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf16>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X6] has eps -1.0}}
  %0 = kimi.attn_res(%a) score %s eps -1.0 : (tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<6x64xi8>, %s: tensor<6x2xf8E8M0FNU>) {
  // expected-error @below {{[U1] has elements of type 'i8' and scales of type 'f8E8M0FNU'; expected f4E2M1FN and floats}}
  %0 = kimi.dequantize %x, %s axis 1 block 32 : tensor<6x64xi8>, tensor<6x2xf8E8M0FNU> -> tensor<6x64xf32>
  return
}

// -----

func.func @f(%x: tensor<6x64xf4E2M1FN>, %s: tensor<6x2xf8E8M0FNU>) {
  // expected-error @below {{[U2] has blocks along axis 2 of a tensor of rank 2}}
  %0 = kimi.dequantize %x, %s axis 2 block 32 : tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU> -> tensor<6x64xf32>
  return
}

// -----

func.func @f(%x: tensor<6x64xf4E2M1FN>, %s: tensor<6x2xf8E8M0FNU>) {
  // expected-error @below {{[U3] has blocks of 24 along an axis of extent 64}}
  %0 = kimi.dequantize %x, %s axis 1 block 24 : tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU> -> tensor<6x64xf32>
  return
}

// -----

func.func @f(%x: tensor<6x64xf4E2M1FN>, %s: tensor<6x2xf8E8M0FNU>) {
  // expected-error @below {{[U4] has scales of shape [6, 2]; expected [6, 4]}}
  %0 = kimi.dequantize %x, %s axis 1 block 16 : tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU> -> tensor<6x64xf32>
  return
}

// -----

func.func @f(%x: tensor<6x64xf4E2M1FN>, %s: tensor<6x2xf8E8M0FNU>) {
  // expected-error @below {{[U5] gives 'tensor<6x32xf32>'; expected [6, 64] of floats of 16 bits or more}}
  %0 = kimi.dequantize %x, %s axis 1 block 32 : tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU> -> tensor<6x32xf32>
  return
}

// -----

kimi.weight @w : tensor<6x64xf4E2M1FN> from #kimi.external<"m", 0, 192>

func.func @f() {
  // expected-error @below {{[R2] has type 'tensor<6x64xi8>', but weight 'w' has type 'tensor<6x64xf4E2M1FN>'}}
  %0 = kimi.weight_ref @w : tensor<6x64xi8>
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>) {
  // expected-error @below {{[X7] has 1 sources and 0 scores; expected at least one of each}}
  "kimi.attn_res_bank"(%a) <{eps = 0.0 : f32, operandSegmentSizes = array<i32: 1, 0>}> : (tensor<?x8xf32>) -> ()
  return
}

// -----

func.func @f(%a: tensor<?x8xi32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X7] mixes 'tensor<?x8xi32>'; expected sources [..., channels] of floats}}
  %0:2 = kimi.attn_res_bank(%a) scores(%s) eps 0.0 : (tensor<?x8xi32>), (tensor<8xf32>) -> (tensor<?x2xf32>), (tensor<?x8xf32>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x8xf16>, %s: tensor<8xf32>) {
  // expected-error @below {{[X7] source 1 has type 'tensor<?x8xf16>', but the first has 'tensor<?x8xf32>'}}
  %0:2 = kimi.attn_res_bank(%a, %b) scores(%s) eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf16>), (tensor<8xf32>) -> (tensor<?x2xf32>), (tensor<?x8xf32>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{[X8] score has type 'tensor<4xf32>'; expected [8] floats}}
  %0:2 = kimi.attn_res_bank(%a) scores(%s) eps 0.0 : (tensor<?x8xf32>), (tensor<4xf32>) -> (tensor<?x2xf32>), (tensor<?x8xf32>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X9] statistics have type 'tensor<?x3xf32>'; expected [?, 2] of f32, the maximum and the sum of each row}}
  %0:2 = kimi.attn_res_bank(%a) scores(%s) eps 0.0 : (tensor<?x8xf32>), (tensor<8xf32>) -> (tensor<?x3xf32>), (tensor<?x8xf32>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X10] gives a sum of shape [?, 4] from sources of shape [?, 8]}}
  %0:2 = kimi.attn_res_bank(%a) scores(%s) eps 0.0 : (tensor<?x8xf32>), (tensor<8xf32>) -> (tensor<?x2xf32>), (tensor<?x4xf32>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X11] gives sums of elements of type 'bf16' from sources of 'f32'}}
  %0:2 = kimi.attn_res_bank(%a) scores(%s) eps 0.0 : (tensor<?x8xf32>), (tensor<8xf32>) -> (tensor<?x2xf32>), (tensor<?x8xbf16>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X12] gives statistics and sums for 2 scores, but has 1}}
  %0:4 = kimi.attn_res_bank(%a) scores(%s) eps 0.0 : (tensor<?x8xf32>), (tensor<8xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>), (tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X6] has eps -1.0}}
  %0:2 = kimi.attn_res_bank(%a) scores(%s) eps -1.0 : (tensor<?x8xf32>), (tensor<8xf32>) -> (tensor<?x2xf32>), (tensor<?x8xf32>)
  return
}

// -----

func.func @f(%p: tensor<?x8xi32>, %l: tensor<?x2xf32>, %a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X13] mixes 'tensor<?x8xi32>'; expected rows [..., channels] of floats}}
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 0.0 : tensor<?x8xi32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%p: tensor<?x8xf32>, %l: tensor<?x2xf32>, %a: tensor<?x8xf32>, %s: tensor<8xi32>) {
  // expected-error @below {{[X14] score has type 'tensor<8xi32>'; expected [8] floats}}
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 0.0 : tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xi32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%p: tensor<?x8xf32>, %l: tensor<?x2xbf16>, %a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X15] statistics have type 'tensor<?x2xbf16>'; expected [?, 2] of f32}}
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 0.0 : tensor<?x8xf32>, tensor<?x2xbf16>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%p: tensor<?x8xf32>, %l: tensor<?x2xf32>, %a: tensor<?x4xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X16] has a sum of type 'tensor<?x4xf32>' for rows of 'tensor<?x8xf32>'}}
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 0.0 : tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x4xf32>, tensor<8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%p: tensor<?x8xf32>, %l: tensor<?x2xf32>, %a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X4] gives shape [?, 4] from sources of shape [?, 8]}}
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 0.0 : tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%p: tensor<?x8xf32>, %l: tensor<?x2xf32>, %a: tensor<?x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{[X5] gives elements of type 'f16' from sources of 'f32'}}
  %0 = kimi.attn_res_merge %p with %l, %a score %s eps 0.0 : tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf16>
  return
}
