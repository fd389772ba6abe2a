// One error for each constraint of kimi.mla and kimi.head_linear.
// RUN: kimi-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<4x8x16xf32>, %c: tensor<1x8x4xf32>, %w: tensor<4x64xf32>) {
  // expected-error @below {{'kimi.mla' op [ML1] has q of type 'tensor<4x8x16xf32>' and a result of type 'tensor<1x4x8x8xf32>'; expected tensors [batch, heads, tokens, channels] of floats}}
  %0 = kimi.mla %q, %c, %w scale 1.0 : tensor<4x8x16xf32>, tensor<1x8x4xf32>, tensor<4x64xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x8x16xf32>, %c: tensor<8x4xf32>, %w: tensor<4x96xf32>) {
  // expected-error @below {{[ML1] has latents of type 'tensor<8x4xf32>'; expected a tensor [batch, tokens, channels] of floats}}
  %0 = kimi.mla %q, %c, %w scale 1.0 : tensor<1x4x8x16xf32>, tensor<8x4xf32>, tensor<4x96xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x8x16xf32>, %c: tensor<1x8x4xf32>, %r: tensor<1x8x4xi32>, %w: tensor<4x96xf32>) {
  // expected-error @below {{[ML1] has latents of type 'tensor<1x8x4xi32>'}}
  %0 = kimi.mla %q, %c, %w shared %r : tensor<1x8x4xi32> scale 1.0
     : tensor<1x4x8x16xf32>, tensor<1x8x4xf32>, tensor<4x96xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x8x16xf32>, %c: tensor<1x8x4xf32>, %w: tensor<4x4x24xf32>) {
  // expected-error @below {{[ML1] has kv_b of type 'tensor<4x4x24xf32>'; expected a matrix of floats}}
  %0 = kimi.mla %q, %c, %w scale 1.0 : tensor<1x4x8x16xf32>, tensor<1x8x4xf32>, tensor<4x4x24xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x?x8x16xf32>, %c: tensor<1x8x4xf32>, %w: tensor<4x96xf32>) {
  // expected-error @below {{[ML2] has heads, channels or a matrix kv_b of unknown extents: q is 'tensor<1x?x8x16xf32>'}}
  %0 = kimi.mla %q, %c, %w scale 1.0 : tensor<1x?x8x16xf32>, tensor<1x8x4xf32>, tensor<4x96xf32> -> tensor<1x?x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x8x16xf32>, %c: tensor<1x8x5xf32>, %w: tensor<96x4xf32>) {
  // expected-error @below {{[ML3] has latents of 5 channels, but kv_b has 4 rows (it is transposed)}}
  %0 = kimi.mla %q, %c, %w transpose scale 1.0 : tensor<1x4x8x16xf32>, tensor<1x8x5xf32>, tensor<96x4xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x8x16xf32>, %c: tensor<1x8x4xf32>, %r: tensor<1x8x2xf32>, %w: tensor<4x56xf32>) {
  // expected-error @below {{[ML3] has 4 heads with 16 channels of q, of which 2 are shared, but kv_b has 56 columns; expected heads * (own channels + value channels), each at least 1}}
  %0 = kimi.mla %q, %c, %w shared %r : tensor<1x8x2xf32> scale 1.0
     : tensor<1x4x8x16xf32>, tensor<1x8x4xf32>, tensor<4x56xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %c: tensor<?x8x4xf32>, %r: tensor<?x7x2xf32>, %w: tensor<4x88xf32>) {
  // expected-error @below {{[ML4] has q 'tensor<?x4x8x16xf32>', latents 'tensor<?x8x4xf32>' and shared rows 'tensor<?x7x2xf32>', which differ in batch, rows or element type}}
  %0 = kimi.mla %q, %c, %w shared %r : tensor<?x7x2xf32> scale 1.0
     : tensor<?x4x8x16xf32>, tensor<?x8x4xf32>, tensor<4x88xf32> -> tensor<?x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %c: tensor<?x8x4xf32>, %w: tensor<4x96xf32>) {
  // expected-error @below {{[ML5] gives 'tensor<?x4x8x16xf32>'; expected [?, 4, 8, 8] of 'f32' or f32 ([batch, heads, tokens, value channels])}}
  %0 = kimi.mla %q, %c, %w scale 1.0 : tensor<?x4x8x16xf32>, tensor<?x8x4xf32>, tensor<4x96xf32> -> tensor<?x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %c: tensor<?x8x4xf32>, %w: tensor<4x96xf32>, %m: tensor<1x1x8x8xi64>) {
  // expected-error @below {{[ML6] mask has elements of type 'i64'; expected i1}}
  %0 = kimi.mla %q, %c, %w mask %m : tensor<1x1x8x8xi64> scale 1.0
     : tensor<?x4x8x16xf32>, tensor<?x8x4xf32>, tensor<4x96xf32> -> tensor<?x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %c: tensor<?x9x4xf32>, %w: tensor<4x96xf32>, %m: tensor<1x1x8x8xi1>) {
  // expected-error @below {{[ML7] mask has shape [1, 1, 8, 8]; expected [?, 4, 8, 9], where any but the last extent may be 1}}
  %0 = kimi.mla %q, %c, %w mask %m : tensor<1x1x8x8xi1> scale 1.0
     : tensor<?x4x8x16xf32>, tensor<?x9x4xf32>, tensor<4x96xf32> -> tensor<?x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %c: tensor<?x8x4xf32>, %w: tensor<4x96xf32>) {
  // expected-error @below {{[ML8] has scale 1.000000e+00 and softcap -2.000000e+00; expected finite numbers, and a softcap of at least 0 (0 is none)}}
  %0 = kimi.mla %q, %c, %w scale 1.0 {softcap = -2.0 : f32} : tensor<?x4x8x16xf32>, tensor<?x8x4xf32>, tensor<4x96xf32> -> tensor<?x4x8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8x16xf32>, %w: tensor<4x16x8xf32>) {
  // expected-error @below {{'kimi.head_linear' op [HL1] multiplies 'tensor<4x8x16xf32>' by 'tensor<4x16x8xf32>'; expected [B, H, T, K] and [H, K, N], of floats}}
  %0 = kimi.head_linear %x, %w : tensor<4x8x16xf32>, tensor<4x16x8xf32> -> tensor<4x8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8x16xf32>, %w: tensor<3x16x8xf32>) {
  // expected-error @below {{[HL2] x has 4 heads of 16 channels, but w has 3 matrices of 16 rows}}
  %0 = kimi.head_linear %x, %w : tensor<?x4x8x16xf32>, tensor<3x16x8xf32> -> tensor<?x4x8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8x16xf32>, %w: tensor<4x16x8xf32>) {
  // expected-error @below {{[HL3] gives 'tensor<?x4x8x16xf32>'; expected [?, 4, 8, 8] of floats}}
  %0 = kimi.head_linear %x, %w : tensor<?x4x8x16xf32>, tensor<4x16x8xf32> -> tensor<?x4x8x16xf32>
  return
}
