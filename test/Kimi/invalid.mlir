// One error for each constraint of the dialect, in the order of the ops' descriptions.
// RUN: kimi-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'kimi.weight' op [W1] has type 'tensor<?x4xf32>'; a weight has a static shape and integer or float elements}}
kimi.weight @w : tensor<?x4xf32> from #kimi.external<"f", 0, 16>

// -----

// expected-error @below {{[W2] takes 64 bytes as 'tensor<4x4xf32>', but its source holds 16}}
kimi.weight @w : tensor<4x4xf32> from #kimi.external<"f", 0, 16>

// -----

// expected-error @below {{[W2] takes more than 2^64 bytes}}
kimi.weight @w : tensor<9223372036854775807x4xf32> from #kimi.external<"f", 0, 16>

// -----

// expected-error @below {{[W3] has source "f"; expected #kimi.external<...> or an elements attribute}}
kimi.weight @w : tensor<4xf32> from "f"

// -----

// expected-error @below {{[W4] has type 'tensor<4xf32>', but its elements have type 'tensor<2xf32>'}}
kimi.weight @w : tensor<4xf32> from dense<0.0> : tensor<2xf32>

// -----

func.func @f() {
  // expected-error @below {{[R1] names 'w', which is no kimi.weight of the module}}
  %0 = kimi.weight_ref @w : tensor<4xf32>
  return
}

// -----

kimi.weight @w : tensor<4xf32> from #kimi.external<"f", 0, 16>
func.func @f() {
  // expected-error @below {{[R2] has type 'tensor<5xf32>', but weight 'w' has type 'tensor<4xf32>'}}
  %0 = kimi.weight_ref @w : tensor<5xf32>
  return
}

// -----

func.func @f(%w: tensor<4xf32>) {
  // expected-error @below {{[P1] packs a matrix, but w has rank 1}}
  %0 = kimi.pack_weight %w panel 16 : tensor<4xf32> -> tensor<1x4x16xf32>
  return
}

// -----

func.func @f(%w: tensor<4x4xf32>) {
  // expected-error @below {{[P2] has a panel of 0 lanes; expected at least 1}}
  %0 = kimi.pack_weight %w panel 0 : tensor<4x4xf32> -> tensor<1x4x0xf32>
  return
}

// -----

func.func @f(%w: tensor<4x17xf32>) {
  // expected-error @below {{[P3] gives [1, 4, 16]; expected [ceil(N/panel), K, panel] = [2, 4, 16]}}
  %0 = kimi.pack_weight %w panel 16 : tensor<4x17xf32> -> tensor<1x4x16xf32>
  return
}

// -----

func.func @f(%w: tensor<4x16xf32>) {
  // expected-error @below {{[P4] gives elements of type 'f16' from a matrix of 'f32'; packing does not convert}}
  %0 = kimi.pack_weight %w panel 16 : tensor<4x16xf32> -> tensor<1x4x16xf16>
  return
}

// -----

// expected-error @below {{[S1] state of 'tensor<?x4xf32>' grows on axis 2; expected an axis in [0, 2), or -1 for a state of fixed size}}
func.func private @f(!kimi.state<tensor<?x4xf32>, 2>)

// -----

// expected-error @below {{[S2] state of 'tensor<?x4xf32>' grows on axis 1, whose extent is static; expected '?' there}}
func.func private @f(!kimi.state<tensor<?x4xf32>, 1>)

// -----

func.func @f(%s: !kimi.state<tensor<?x4xf32>, -1>) {
  // expected-error @below {{[L1] asks for the length of a state of fixed size}}
  %0 = kimi.state_length %s : !kimi.state<tensor<?x4xf32>, -1>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4xf32>, -1>, %r: tensor<?x4xf32>, %p: index) {
  // expected-error @below {{[C1] appends to a state of fixed size}}
  %0 = kimi.cache_append %s, %r at %p : !kimi.state<tensor<?x4xf32>, -1>, tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4xf32>, 0>, %r: tensor<?x4xf16>, %p: index) {
  // expected-error @below {{[C2] has rows of 'f16' and a result of 'f32', but the state holds 'f32'}}
  %0 = kimi.cache_append %s, %r at %p : !kimi.state<tensor<?x4xf32>, 0>, tensor<?x4xf16> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4xf32>, 0>, %r: tensor<?x5xf32>, %p: index) {
  // expected-error @below {{[C3] has rows of shape [?, 5], which differ from the state's [?, 4] on more than axis 0}}
  %0 = kimi.cache_append %s, %r at %p : !kimi.state<tensor<?x4xf32>, 0>, tensor<?x5xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4xf32>, 0>, %r: tensor<?x4xf32>, %p: index) {
  // expected-error @below {{[C4] has a result of shape [?, 4, 1], which differs from the state's [?, 4] on more than axis 0}}
  %0 = kimi.cache_append %s, %r at %p : !kimi.state<tensor<?x4xf32>, 0>, tensor<?x4xf32> -> tensor<?x4x1xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8x16xf32>, %k: tensor<1x4x8x16xf32>) {
  // expected-error @below {{[A1] q has type 'tensor<4x8x16xf32>'; expected a tensor [batch, heads, tokens, channels] of floats}}
  %0 = kimi.attention %q, %k, %k scale 1.0 : tensor<4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32> -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x10x8x16xf32>, %k: tensor<?x4x8x16xf32>) {
  // expected-error @below {{'kimi.attention' op [A2] q has 10 heads, which is not a multiple of k's 4 heads}}
  %0 = kimi.attention %q, %k, %k scale 1.0 : tensor<?x10x8x16xf32>, tensor<?x4x8x16xf32>, tensor<?x4x8x16xf32> -> tensor<?x10x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %k: tensor<?x4x8x16xf32>, %v: tensor<?x2x8x16xf32>) {
  // expected-error @below {{[A3] k has 4 heads and v has 2}}
  %0 = kimi.attention %q, %k, %v scale 1.0 : tensor<?x4x8x16xf32>, tensor<?x4x8x16xf32>, tensor<?x2x8x16xf32> -> tensor<?x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %k: tensor<?x4x8x32xf32>, %v: tensor<?x4x8x16xf32>) {
  // expected-error @below {{[A4] q has heads of 16 channels and k of 32}}
  %0 = kimi.attention %q, %k, %v scale 1.0 : tensor<?x4x8x16xf32>, tensor<?x4x8x32xf32>, tensor<?x4x8x16xf32> -> tensor<?x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %k: tensor<?x4x9x16xf32>, %v: tensor<?x4x8x16xf32>) {
  // expected-error @below {{[A5] k has 9 rows and v has 8}}
  %0 = kimi.attention %q, %k, %v scale 1.0 : tensor<?x4x8x16xf32>, tensor<?x4x9x16xf32>, tensor<?x4x8x16xf32> -> tensor<?x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<2x4x?x16xf32>) {
  // expected-error @below {{[A6] q, k and v have batches of 1, ? and 2}}
  %0 = kimi.attention %q, %k, %v scale 1.0 : tensor<1x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<2x4x?x16xf32> -> tensor<1x4x?x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x8xf32>) {
  // expected-error @below {{[A7] gives 'tensor<?x4x?x16xf32>'; expected [?, 4, ?, 8] of 'f32' or f32 ([batch, q's heads, q's tokens, v's channels])}}
  %0 = kimi.attention %q, %q, %v scale 1.0 : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x8xf32> -> tensor<?x4x?x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x?x16xf32>, %m: tensor<1x1x?x?xi64>) {
  // expected-error @below {{[A8] mask has elements of type 'i64'; expected i1 (true where a key is seen) or a float that is added to the score}}
  %0 = kimi.attention %q, %q, %q mask %m : tensor<1x1x?x?xi64> scale 1.0 : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32> -> tensor<?x4x?x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>, %m: tensor<1x2x8x8xi1>) {
  // expected-error @below {{[A9] mask has shape [1, 2, 8, 8]; expected [?, 4, 8, 8], where any but the last extent may be 1}}
  %0 = kimi.attention %q, %q, %q mask %m : tensor<1x2x8x8xi1> scale 1.0 : tensor<?x4x8x16xf32>, tensor<?x4x8x16xf32>, tensor<?x4x8x16xf32> -> tensor<?x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x8x16xf32>) {
  // expected-error @below {{[A10] has scale 1.000000e+00 and softcap -1.000000e+00; expected finite numbers, and a softcap of at least 0 (0 is none)}}
  %0 = kimi.attention %q, %q, %q scale 1.0 {softcap = -1.0 : f32} : tensor<?x4x8x16xf32>, tensor<?x4x8x16xf32>, tensor<?x4x8x16xf32> -> tensor<?x4x8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>, %g: tensor<4xf32>) {
  // expected-error @below {{'kimi.layer_norm' op [N1] x has type 'tensor<f32>'; expected floats, of rank 1 or more}}
  %0 = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<f32>, tensor<4xf32> -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{'kimi.rms_norm' op [N2] gives shape [?, 5] from x of shape [?, 4]}}
  %0 = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @below {{'kimi.gelu' op [N3] gives elements of type 'f16' from x of 'f32'}}
  %0 = kimi.gelu %x : tensor<?x4xf32> -> tensor<?x4xf16>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %g: tensor<5xf32>) {
  // expected-error @below {{'kimi.layer_norm' op [N4] gamma has type 'tensor<5xf32>'; expected [4] floats, one for each channel of x}}
  %0 = kimi.layer_norm %x, %g eps 1.0e-5 : tensor<?x4xf32>, tensor<5xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{'kimi.rms_norm' op [N5] has eps -1.000000e+00; expected a finite number of at least 0}}
  %0 = kimi.rms_norm %x, %g eps -1.0 : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @below {{'kimi.softmax' op [N6] runs along axis -1 of a tensor of rank 2}}
  %0 = kimi.softmax %x axis -1 : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8x1xf32>) {
  // expected-error @below {{'kimi.linear' op [F1] multiplies 'tensor<?x4xf32>' by 'tensor<4x8x1xf32>'; expected x: [..., K] and a matrix w, of floats}}
  %0 = kimi.linear %x, %w : tensor<?x4xf32>, tensor<4x8x1xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>) {
  // expected-error @below {{[F2] x has 4 channels, but w has 8 rows (it is transposed)}}
  %0 = kimi.linear %x, %w transpose : tensor<?x4xf32>, tensor<4x8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>) {
  // expected-error @below {{[F3] gives 'tensor<?x4xf32>'; expected [?, 8] of floats}}
  %0 = kimi.linear %x, %w : tensor<?x4xf32>, tensor<4x8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{[F4] bias has type 'tensor<4xf32>'; expected [8] floats, one for each column of w}}
  %0 = kimi.linear %x, %w, %b : tensor<?x4xf32>, tensor<4x8xf32>, tensor<4xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{'kimi.fused_linear' op [F5] has norm rms with other operands than its own}}
  %0 = kimi.fused_linear %x, %w norm rms(%g, %g) eps 1.0e-5
      : (tensor<?x4xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{[F6] reads an extra of shape [4] through affine_map<(d0, d1) -> (d1)>; expected a map from the 2 dims of the result, whose extents are [?, 8], to dims of the same extent or 0}}
  %0 = kimi.fused_linear %x, %w extras(%b) maps [affine_map<(m, n) -> (n)>]
      : (tensor<?x4xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x8xf32> {
  ^bb0(%acc: f32, %e: f32):
    kimi.yield %acc : f32
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{[F6] has 0 maps for 1 extras; expected one for each}}
  %0 = kimi.fused_linear %x, %w extras(%b) maps []
      : (tensor<?x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<?x8xf32> {
  ^bb0(%acc: f32, %e: f32):
    kimi.yield %acc : f32
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf16>, %w: tensor<4x8xf16>) {
  // expected-error @below {{[F7] has an epilogue of arguments 'f16'; expected f32 (the sum) and the element type of each of the 0 extras}}
  %0 = kimi.fused_linear %x, %w : (tensor<?x4xf16>, tensor<4x8xf16>) -> tensor<?x8xf16> {
  ^bb0(%acc: f16):
    kimi.yield %acc : f16
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>) {
  // expected-error @below {{[F8] has 'tensor.empty' in its epilogue; expected arith and math ops only}}
  %0 = kimi.fused_linear %x, %w : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%acc: f32):
    %e = tensor.empty() : tensor<4xf32>
    kimi.yield %acc : f32
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>) {
  // expected-error @below {{[F8] has an epilogue that does not end in a kimi.yield of one 'f16'}}
  %0 = kimi.fused_linear %x, %w : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf16> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{[F9] has eps -1.000000e+00; expected a finite number of at least 0}}
  %0 = kimi.fused_linear %x, %w norm rms(%g) eps -1.0
      : (tensor<?x4xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x8xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expected 'layer' or 'rms'}}
  %0 = kimi.fused_linear %x, %w norm batch(%g) eps 1.0
  return
}

// -----

func.func @f(%ids: tensor<?xf32>, %t: tensor<4x8xf32>) {
  // expected-error @below {{[E1] ids have type 'tensor<?xf32>'; expected signless integers or index}}
  %0 = kimi.embedding %ids, %t : tensor<?xf32>, tensor<4x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%ids: tensor<?xi64>, %t: tensor<4xf32>) {
  // expected-error @below {{[E2] table has type 'tensor<4xf32>'; expected [rows, channels]}}
  %0 = kimi.embedding %ids, %t : tensor<?xi64>, tensor<4xf32> -> tensor<?xf32>
  return
}

// -----

func.func @f(%ids: tensor<?xi64>, %t: tensor<4x8xf32>) {
  // expected-error @below {{[E3] gives 'tensor<?x4xf32>'; expected [?, 8] of 'f32'}}
  %0 = kimi.embedding %ids, %t : tensor<?xi64>, tensor<4x8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?xf32>, %n: index) {
  // expected-error @below {{[K1] has a body of 1 arguments; expected 3: one for each input, result and scalar, and the row}}
  %0 = kimi.loops ins(%x : tensor<?xf32>) dims(%n) rows(%n) -> tensor<?xf32> {
  ^bb0(%a: memref<?xf32>):
    kimi.yield
  }
  return
}

// -----

func.func @f(%x: tensor<?xf32>, %n: index) {
  // expected-error @below {{[K2] has body argument 1 of type 'memref<?xf16>'; expected a memref of 'tensor<?xf32>'}}
  %0 = kimi.loops ins(%x : tensor<?xf32>) dims(%n) -> tensor<?xf32> {
  ^bb0(%a: memref<?xf32>, %b: memref<?xf16>):
    kimi.yield
  }
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[K3] has body argument 1 of type 'i64'; expected index}}
  %0 = kimi.loops scalars(%n) dims(%n) -> tensor<?xf32> {
  ^bb0(%b: memref<?xf32>, %i: i64):
    kimi.yield
  }
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[K4] has a body that does not end in a kimi.yield without values}}
  %0 = kimi.loops scalars(%n) dims(%n) -> tensor<?xf32> {
  ^bb0(%b: memref<?xf32>, %i: index):
    kimi.yield %i : index
  }
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[K5] dims lists 0 extents, but the results have 1 dynamic dims}}
  %0 = kimi.loops -> tensor<?xf32> {
  ^bb0(%b: memref<?xf32>):
    kimi.yield
  }
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[RQ1] has no message; say which extents must be equal}}
  kimi.require %n equal %n, ""
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[D1] names no kernel}}
  %0 = kimi.dispatch [] grid(%n, %n, %n) -> tensor<4xf32>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[D2] has 0 guards for 2 kernels; expected one fewer than kernels}}
  %0 = kimi.dispatch [@a, @b] grid(%n, %n, %n, %n, %n, %n) -> tensor<4xf32>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[D3] has 2 grid extents for 1 kernels; expected three for each}}
  %0 = kimi.dispatch [@a] grid(%n, %n) -> tensor<4xf32>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[D4] dims lists 1 extents, but the results have 0 dynamic dims}}
  %0 = kimi.dispatch [@a] grid(%n, %n, %n) dims(%n) -> tensor<4xf32>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{[D5] names 'a', which is no kernel of the module}}
  %0 = kimi.dispatch [@a] grid(%n, %n, %n) -> tensor<4xf32>
  return
}

// -----

func.func private @a(index)
func.func @f(%n: index) {
  // expected-error @below {{[D6] passes 2 arguments (inputs, states, results, scalars) to kernel 'a' of 1}}
  %0 = kimi.dispatch [@a] grid(%n, %n, %n) scalars(%n) -> tensor<4xf32>
  return
}

// -----

func.func @f(%l: tensor<2x5xi32>) {
  // expected-error @below {{[T1] reads 'tensor<2x5xi32>'; expected logits [..., V] of floats}}
  %0 = kimi.greedy_token %l : tensor<2x5xi32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%l: tensor<2x?xf32>) {
  // expected-error @below {{[T2] chooses among ? tokens; expected a fixed number from 1 to 16777216}}
  %0 = kimi.greedy_token %l : tensor<2x?xf32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%l: tensor<2x5xf32>) {
  // expected-error @below {{[T3] gives 'tensor<2xi8>'; expected [2] of i64 or i32}}
  %0 = kimi.greedy_token %l : tensor<2x5xf32> -> tensor<2xi8>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x?x64xf32>, 2>, %n: index) {
  // expected-error @below {{[V1] gives 'tensor<?x4x?x32xf32>', which is no view of a state of 'tensor<?x4x?x64xf32>'}}
  %0 = kimi.state_view %s sizes(%n, %n) : !kimi.state<tensor<?x4x?x64xf32>, 2> -> tensor<?x4x?x32xf32>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x?x64xf32>, 2>, %n: index) {
  // expected-error @below {{[V1] gives 'tensor<?x4x?x64xf16>', which is no view of a state of 'tensor<?x4x?x64xf32>'}}
  %0 = kimi.state_view %s sizes(%n, %n) : !kimi.state<tensor<?x4x?x64xf32>, 2> -> tensor<?x4x?x64xf16>
  return
}

// -----

func.func @f(%s: !kimi.state<tensor<?x4x?x64xf32>, 2>, %n: index) {
  // expected-error @below {{[V2] has 1 sizes, but the result has 2 dynamic dims}}
  %0 = kimi.state_view %s sizes(%n) : !kimi.state<tensor<?x4x?x64xf32>, 2> -> tensor<?x4x?x64xf32>
  return
}

// -----

func.func @f(%x: f32) -> f32 {
  // expected-error @below {{'kimi.yield' op expects parent op to be one of 'kimi.fused_linear, kimi.loops'}}
  kimi.yield %x : f32
}
