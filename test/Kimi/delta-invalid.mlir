// Every constraint of the mixers with a state of fixed size, by its id.
// RUN: kimi-opt %s --split-input-file --verify-diagnostics

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %k: tensor<?x?x?x8xf32>) {
  // expected-error @below {{[DR1] k has type 'tensor<?x?x?x8xf32>'; expected a tensor [batch, heads, tokens, channels] of floats with static heads}}
  %o, %s = kimi.delta_rule %q, %k, %v scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %k: tensor<?x3x?x8xf32>) {
  // expected-error @below {{[DR2] k has 3 heads, which do not divide the state's 4 heads}}
  %o, %s = kimi.delta_rule %q, %k, %v scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x3x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %g: tensor<?x3x?xf32>) {
  // expected-error @below {{[DR2] decay has 3 heads, which do not divide the state's 4 heads}}
  %o, %s = kimi.delta_rule %q, %q, %v decay %g : tensor<?x3x?xf32> scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %p: tensor<?x6x?x8xf32>) {
  // expected-error @below {{[DR3] q has 6 heads and the state 4; expected one to divide the other}}
  %o, %s = kimi.delta_rule %p, %q, %v scale 1.0 : tensor<?x6x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x6x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[DR4] q, k and v have shapes [?, 4, ?, 8], [?, 4, ?, 6] and [?, 4, ?, 6]; expected one batch and number of tokens, and as many channels in q as in k}}
  %o, %s = kimi.delta_rule %q, %v, %v scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[DR5] decay has type 'tensor<?x4x?x6xf32>'; expected floats of shape [?, 4, ?] or [?, 4, ?, 8] (or with fewer heads)}}
  %o, %s = kimi.delta_rule %q, %q, %v decay %v : tensor<?x4x?x6xf32> scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[DR5] beta has type 'tensor<?x4x?x8xf32>'; expected floats of shape [?, 4, ?] (or with fewer heads)}}
  %o, %s = kimi.delta_rule %q, %q, %v beta %q : tensor<?x4x?x8xf32> scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %b: tensor<?x4x?xf32>) {
  // expected-error @below {{[DR6] has beta and write; expected beta alone, which is both}}
  %o, %s = kimi.delta_rule %q, %q, %v beta %b : tensor<?x4x?xf32> write %b : tensor<?x4x?xf32> scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %i: tensor<?x4x8x8xf32>) {
  // expected-error @below {{[DR7] initial has type 'tensor<?x4x8x8xf32>'; expected f32 of shape [?, 4, 8, 6]}}
  %o, %s = kimi.delta_rule %q, %q, %v initial %i : tensor<?x4x8x8xf32> scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[DR7] the final state has type 'tensor<?x4x8x6xbf16>'; expected f32 of shape [?, 4, 8, 6]}}
  %o, %s = kimi.delta_rule %q, %q, %v scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x6xbf16>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[DR8] gives 'tensor<?x4x?x8xf32>'; expected [?, 4, ?, 6] of 'f32' or f32}}
  %o, %s = kimi.delta_rule %q, %q, %v scale 1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x8xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>, %b: tensor<?x4x?xf32>) {
  // expected-error @below {{[DR9] normalises a rule with beta; expected linear attention, with or without decay}}
  %o, %s = kimi.delta_rule %q, %q, %v beta %b : tensor<?x4x?xf32> scale 1.0 normalize 1.0e-10 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x7xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[DR10] has scale 1.000000e+00 and the epsilon -1.000000e+00; expected finite numbers, and an epsilon of at least 0}}
  %o, %s = kimi.delta_rule %q, %q, %v scale 1.0 normalize -1.0 : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x4x8x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x?xf32>, %w: tensor<4x3xf32>) {
  // expected-error @below {{[CC1] x has type 'tensor<4x3xf32>'; expected a tensor [batch, channels, tokens] of floats}}
  %y, %n = kimi.causal_conv %w, %w activation none : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<?x4x?xf32>, tensor<?x4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x?xf32>, %w: tensor<4x3xf32>, %u: tensor<5x3xf32>) {
  // expected-error @below {{[CC2] weight has type 'tensor<5x3xf32>'; expected floats [4, K] with a static K of at least 1}}
  %y, %n = kimi.causal_conv %x, %u activation none : tensor<?x4x?xf32>, tensor<5x3xf32> -> tensor<?x4x?xf32>, tensor<?x4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x?xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{[CC3] bias has type 'tensor<3xf32>'; expected floats of shape [4]}}
  %y, %n = kimi.causal_conv %x, %w bias %b : tensor<3xf32> activation none : tensor<?x4x?xf32>, tensor<4x3xf32> -> tensor<?x4x?xf32>, tensor<?x4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x?xf32>, %w: tensor<4x3xf32>, %p: tensor<?x4x3xf32>) {
  // expected-error @below {{[CC4] past has type 'tensor<?x4x3xf32>'; expected floats of shape [?, 4, 2]}}
  %y, %n = kimi.causal_conv %x, %w past %p : tensor<?x4x3xf32> activation none : tensor<?x4x?xf32>, tensor<4x3xf32> -> tensor<?x4x?xf32>, tensor<?x4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x?xf32>, %w: tensor<4x3xf32>) {
  // expected-error @below {{[CC5] gives 'tensor<?x5x?xf32>'; expected [?, 4, ?] of 'f32' or f32}}
  %y, %n = kimi.causal_conv %x, %w activation none : tensor<?x4x?xf32>, tensor<4x3xf32> -> tensor<?x5x?xf32>, tensor<?x4x2xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x?x6xf32>, 2>, %b: index) {
  // expected-error @below {{[SR1] works on the whole of a state that grows: '!kimi.state<tensor<?x4x?x6xf32>, 2>'}}
  %0 = kimi.state_read %s sizes(%b, %b) : !kimi.state<tensor<?x4x?x6xf32>, 2> -> tensor<?x4x?x6xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x8x6xf32>, -1>, %b: index) {
  // expected-error @below {{[SR2] has a value of type 'tensor<?x4x8x5xf32>', but the state holds 'tensor<?x4x8x6xf32>'}}
  %0 = kimi.state_read %s sizes(%b) : !kimi.state<tensor<?x4x8x6xf32>, -1> -> tensor<?x4x8x5xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x8x6xf32>, -1>) {
  // expected-error @below {{[SR3] has 0 sizes, but the result has 1 dynamic dims}}
  %0 = kimi.state_read %s : !kimi.state<tensor<?x4x8x6xf32>, -1> -> tensor<?x4x8x6xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x?x6xf32>, 2>, %v: tensor<?x4x?x6xf32>) {
  // expected-error @below {{[SW1] works on the whole of a state that grows: '!kimi.state<tensor<?x4x?x6xf32>, 2>'}}
  kimi.state_write %v, %s : tensor<?x4x?x6xf32>, !kimi.state<tensor<?x4x?x6xf32>, 2>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x8x6xf32>, -1>, %v: tensor<?x4x8x5xf32>) {
  // expected-error @below {{[SW2] has a value of type 'tensor<?x4x8x5xf32>', but the state holds 'tensor<?x4x8x6xf32>'}}
  kimi.state_write %v, %s : tensor<?x4x8x5xf32>, !kimi.state<tensor<?x4x8x6xf32>, -1>
  return
}
