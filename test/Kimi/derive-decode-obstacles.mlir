// RUN: kimi-opt %s --split-input-file --kimi-derive-decode --verify-diagnostics | FileCheck %s

// Where tokens mix outside of mixers there is no decode entry, and a remark at the op says why.
// CHECK-NOT: @prefill
// CHECK-NOT: @decode

#id = affine_map<(b, t, c) -> (b, t, c)>
#sum = affine_map<(b, t, c) -> (b, c)>
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<?x?xi64>) -> tensor<?x8xf32> {
    %c0 = arith.constant 0 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %zero = arith.constant 0.0 : f32
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %e = tensor.empty(%B) : tensor<?x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
    // expected-remark @below {{no decode entry is derived: a reduction over the tokens}}
    %m = linalg.generic {indexing_maps = [#id, #sum], iterator_types = ["parallel", "reduction", "parallel"]}
        ins(%x : tensor<?x?x8xf32>) outs(%f : tensor<?x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<?x8xf32>
    return %m : tensor<?x8xf32>
  }
}

// -----

module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<?x?xi64>) -> tensor<?x?x8xf32> {
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    // expected-remark @below {{'kimi.softmax' works along the token axis}}
    %m = kimi.softmax %x axis 1 : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
    return %m : tensor<?x?x8xf32>
  }
}

// -----

// Attention that is not causal.
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<1x?xi64>) -> tensor<1x1x?x8xf32> {
    %c1 = arith.constant 1 : index
    %T = tensor.dim %ids, %c1 : tensor<1x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<1x?xi64>, tensor<64x8xf32> -> tensor<1x?x8xf32>
    %q = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 1, %T, 8] : tensor<1x?x8xf32> into tensor<1x1x?x8xf32>
    // expected-remark @below {{attention is not causal}}
    %a = kimi.attention %q, %q, %q scale 1.0 : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32> -> tensor<1x1x?x8xf32>
    return %a : tensor<1x1x?x8xf32>
  }
}

// -----

// The first token is read by all.
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<1x?xi64>) -> tensor<1x1x8xf32> {
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<1x?xi64>, tensor<64x8xf32> -> tensor<1x?x8xf32>
    // expected-remark @below {{a part of the tokens is taken that is not the last one}}
    %f = tensor.extract_slice %x[0, 0, 0] [1, 1, 8] [1, 1, 1] : tensor<1x?x8xf32> to tensor<1x1x8xf32>
    return %f : tensor<1x1x8xf32>
  }
}

// -----

// Neighbours are joined along the tokens.
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<1x?xi64>) -> tensor<1x?x8xf32> {
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<1x?xi64>, tensor<64x8xf32> -> tensor<1x?x8xf32>
    // expected-remark @below {{tensors are joined along the token axis}}
    %y = tensor.concat dim(1) %x, %x : (tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
    return %y : tensor<1x?x8xf32>
  }
}

// -----

// A fixed number of tokens.
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  // expected-remark @below {{the graph is made for exactly 16 tokens}}
  func.func @main(%ids: tensor<1x16xi64>) -> tensor<1x16x8xf32> {
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<1x16xi64>, tensor<64x8xf32> -> tensor<1x16x8xf32>
    return %x : tensor<1x16x8xf32>
  }
}

// -----

// No tokens at all.
module {
  // expected-remark @below {{no argument holds token ids}}
  func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %y = kimi.gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
}

// -----

module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  kimi.weight @w : tensor<3x8x8xf32> from #kimi.external<"w", 2048, 768>
  func.func @main(%ids: tensor<?x?xi64>) -> tensor<?x?x1x8xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %w = kimi.weight_ref @w : tensor<3x8x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %h = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%B, %T, 1, 8] : tensor<?x?x8xf32> into tensor<?x?x1x8xf32>
    // expected-remark @below {{no decode entry is derived: each token has a matrix of its own}}
    %m = kimi.head_linear %h, %w : tensor<?x?x1x8xf32>, tensor<3x8x8xf32> -> tensor<?x?x1x8xf32>
    return %m : tensor<?x?x1x8xf32>
  }
}
