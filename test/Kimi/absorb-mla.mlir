// One token (decode) is absorbed, many or an unknown number are expanded; either form can be asked for.
// RUN: kimi-opt %s --kimi-absorb-mla --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-absorb-mla=form=expanded --canonicalize --cse | FileCheck %s --check-prefix=EXPANDED
// RUN: kimi-opt %s --kimi-absorb-mla=form=absorbed --canonicalize --cse | FileCheck %s --check-prefix=ABSORBED
// RUN: kimi-opt %s --kimi-absorb-mla --verify-diagnostics -o /dev/null
// RUN: not kimi-opt %s --kimi-absorb-mla=form=folded 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: kimi-absorb-mla: there is no form 'folded'; forms: auto, absorbed, expanded
// EXPANDED-NOT: kimi.head_linear
// ABSORBED-NOT: kimi.linear

kimi.weight @kv_b : tensor<64x384xf32> from #kimi.external<"w", 0, 98304>
kimi.weight @kv_b_t : tensor<384x64xf32> from #kimi.external<"w", 0, 98304>
kimi.weight @k3 : tensor<512x24576xbf16> from #kimi.external<"w", 0, 25165824>

// The rows of the cache are the keys, their first 64 channels the values, of one head for all six; the key half of kv_b
// is turned to be read along its rows, the value half lies right.
// CHECK-LABEL: func @decode
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<?x6x1x48xf32>, %[[ROWS:[^:]*]]: tensor<?x?x80xf32>
// CHECK: %[[W:.*]] = kimi.weight_ref @kv_b :
// CHECK: %[[H:.*]] = tensor.expand_shape %[[W]] {{\[\[}}0], [1, 2]] {{.*}} : tensor<64x384xf32> into tensor<64x6x64xf32>
// CHECK: %[[K0:.*]] = tensor.extract_slice %[[H]][0, 0, 0] [64, 6, 32] [1, 1, 1]
// CHECK: %[[UK:.*]] = linalg.generic {{.*}} ins(%[[K0]] : tensor<64x6x32xf32>) outs(%{{.*}} : tensor<6x32x64xf32>)
// CHECK: %[[V0:.*]] = tensor.extract_slice %[[H]][0, 0, 32] [64, 6, 32] [1, 1, 1]
// CHECK: %[[UV:.*]] = linalg.transpose ins(%[[V0]] : tensor<64x6x32xf32>) {{.*}} permutation = [1, 0, 2]
// CHECK: %[[QN:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 0] [%{{.*}}, 6, 1, 32]
// CHECK: %[[L:.*]] = kimi.head_linear %[[QN]], %[[UK]] : tensor<?x6x1x32xf32>, tensor<6x32x64xf32> -> tensor<?x6x1x64xf32>
// CHECK: %[[QP:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 32] [%{{.*}}, 6, 1, 16]
// CHECK: %[[A:.*]] = tensor.concat dim(3) %[[L]], %[[QP]]
// CHECK: %[[K:.*]] = tensor.expand_shape %[[ROWS]] {{\[\[}}0], [1, 2], [3]] {{.*}} into tensor<?x1x?x80xf32>
// CHECK: %[[V:.*]] = tensor.extract_slice %[[K]][0, 0, 0, 0] [%{{.*}}, 1, %{{.*}}, 64] [1, 1, 1, 1]
// CHECK: %[[M:.*]] = kimi.attention %[[A]], %[[K]], %[[V]] causal scale 2.500000e-01 {softcap = 5.000000e+00 : f32} : tensor<?x6x1x80xf32>, tensor<?x1x?x80xf32>, tensor<?x1x?x64xf32> -> tensor<?x6x1x64xf32>
// CHECK: %[[O:.*]] = kimi.head_linear %[[M]], %[[UV]] : tensor<?x6x1x64xf32>, tensor<6x64x32xf32> -> tensor<?x6x1x32xf32>
// CHECK: return %[[O]]

// The same, expanded: keys and values are made of the rows of the cache.
// EXPANDED-LABEL: func @decode
// EXPANDED-SAME: (%[[Q:[^:]*]]: tensor<?x6x1x48xf32>, %[[ROWS:[^:]*]]: tensor<?x?x80xf32>
// EXPANDED-DAG: %[[C:.*]] = tensor.extract_slice %[[ROWS]][0, 0, 0] [%{{.*}}, %{{.*}}, 64]
// EXPANDED-DAG: %[[R:.*]] = tensor.extract_slice %[[ROWS]][0, 0, 64] [%{{.*}}, %{{.*}}, 16]
// EXPANDED: %[[KV:.*]] = kimi.linear %[[C]], %{{.*}} -> tensor<?x?x384xf32>
// EXPANDED: %[[H:.*]] = tensor.expand_shape %[[KV]] {{.*}} into tensor<?x?x6x64xf32>
// EXPANDED: %[[KN:.*]] = tensor.extract_slice %[[H]][0, 0, 0, 0] [%{{.*}}, %{{.*}}, 6, 32]
// EXPANDED: %[[VN:.*]] = tensor.extract_slice %[[H]][0, 0, 0, 32] [%{{.*}}, %{{.*}}, 6, 32]
// EXPANDED: %[[RH:.*]] = linalg.generic {{.*}} ins(%[[R]] : tensor<?x?x16xf32>) outs(%{{.*}} : tensor<?x?x6x16xf32>)
// EXPANDED: %[[KT:.*]] = tensor.concat dim(3) %[[KN]], %[[RH]]
// EXPANDED: %[[K:.*]] = linalg.transpose ins(%[[KT]] {{.*}} permutation = [0, 2, 1, 3]
// EXPANDED: %[[V:.*]] = linalg.transpose ins(%[[VN]] {{.*}} permutation = [0, 2, 1, 3]
// EXPANDED: kimi.attention %[[Q]], %[[K]], %[[V]] causal scale 2.500000e-01 {softcap = 5.000000e+00 : f32}
func.func @decode(%q: tensor<?x6x1x48xf32>, %rows: tensor<?x?x80xf32>) -> tensor<?x6x1x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %B = tensor.dim %rows, %c0 : tensor<?x?x80xf32>
  %S = tensor.dim %rows, %c1 : tensor<?x?x80xf32>
  %w = kimi.weight_ref @kv_b : tensor<64x384xf32>
  %c = tensor.extract_slice %rows[0, 0, 0] [%B, %S, 64] [1, 1, 1] : tensor<?x?x80xf32> to tensor<?x?x64xf32>
  %r = tensor.extract_slice %rows[0, 0, 64] [%B, %S, 16] [1, 1, 1] : tensor<?x?x80xf32> to tensor<?x?x16xf32>
  // expected-remark @below {{latent attention is computed absorbed (1 query and any number of latents); the latents of a token are 80 numbers, its keys and values would be 480}}
  %o = kimi.mla %q, %c, %w shared %r : tensor<?x?x16xf32> causal scale 0.25 {softcap = 5.0 : f32}
     : tensor<?x6x1x48xf32>, tensor<?x?x64xf32>, tensor<64x384xf32> -> tensor<?x6x1x32xf32>
  return %o : tensor<?x6x1x32xf32>
}

// How many queries there are is not known. Absorbed, rows that lie apart are joined.
// CHECK-LABEL: func @prefill
// CHECK-NOT: kimi.head_linear
// CHECK: kimi.attention {{.*}} mask %{{.*}} : tensor<1x1x?x?xi1>
// ABSORBED-LABEL: func @prefill
// ABSORBED: tensor.concat dim(2) %{{.*}}, %{{.*}} : (tensor<?x?x64xf32>, tensor<?x?x16xf32>) -> tensor<?x?x80xf32>
// ABSORBED: kimi.attention {{.*}} mask %{{.*}} : tensor<1x1x?x?xi1> {{.*}} -> tensor<?x6x?x64xf32>
func.func @prefill(%q: tensor<?x6x?x48xf32>, %c: tensor<?x?x64xf32>, %r: tensor<?x?x16xf32>, %m: tensor<1x1x?x?xi1>) -> tensor<?x6x?x32xf32> {
  %w = kimi.weight_ref @kv_b : tensor<64x384xf32>
  // expected-remark @below {{latent attention is computed expanded (there may be many queries: keys and values of every latent are made once for all of them)}}
  %o = kimi.mla %q, %c, %w shared %r : tensor<?x?x16xf32> mask %m : tensor<1x1x?x?xi1> scale 0.25
     : tensor<?x6x?x48xf32>, tensor<?x?x64xf32>, tensor<64x384xf32> -> tensor<?x6x?x32xf32>
  return %o : tensor<?x6x?x32xf32>
}

// A transposed matrix: the value half is turned, the key half lies right. No shared part.
// CHECK-LABEL: func @transposed
// CHECK: %[[H:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0, 1], [2]] {{.*}} : tensor<384x64xf32> into tensor<6x64x64xf32>
// CHECK: %[[UK:.*]] = tensor.extract_slice %[[H]][0, 0, 0] [6, 32, 64]
// CHECK: %[[V0:.*]] = tensor.extract_slice %[[H]][0, 32, 0] [6, 32, 64]
// CHECK: %[[UV:.*]] = linalg.generic {{.*}} ins(%[[V0]] : tensor<6x32x64xf32>) outs(%{{.*}} : tensor<6x64x32xf32>)
// CHECK: kimi.head_linear %{{.*}}, %[[UK]]
// CHECK-NOT: tensor.concat
// CHECK: kimi.head_linear %{{.*}}, %[[UV]]
func.func @transposed(%q: tensor<?x6x1x32xf32>, %c: tensor<?x?x64xf32>) -> tensor<?x6x1x32xf32> {
  %w = kimi.weight_ref @kv_b_t : tensor<384x64xf32>
  // expected-remark @below {{absorbed}}
  %o = kimi.mla %q, %c, %w transpose scale 0.25 : tensor<?x6x1x32xf32>, tensor<?x?x64xf32>, tensor<384x64xf32> -> tensor<?x6x1x32xf32>
  return %o : tensor<?x6x1x32xf32>
}

// K3: 512 (128 + 128) / (2 * 512 - 128 - 128) = 170.7 queries.
// CHECK-LABEL: func @k3_170
// CHECK: kimi.head_linear
// CHECK: kimi.attention {{.*}} : tensor<1x96x170x576xbf16>, tensor<1x1x?x576xbf16>, tensor<1x1x?x512xbf16> -> tensor<1x96x170x512xbf16>
func.func @k3_170(%q: tensor<1x96x170x192xbf16>, %c: tensor<1x?x512xbf16>, %r: tensor<1x?x64xbf16>) -> tensor<1x96x170x128xbf16> {
  %w = kimi.weight_ref @k3 : tensor<512x24576xbf16>
  // expected-remark @below {{absorbed (170 queries and any number of latents); the latents of a token are 576 numbers, its keys and values would be 30720}}
  %o = kimi.mla %q, %c, %w shared %r : tensor<1x?x64xbf16> scale 0.0721687824
     : tensor<1x96x170x192xbf16>, tensor<1x?x512xbf16>, tensor<512x24576xbf16> -> tensor<1x96x170x128xbf16>
  return %o : tensor<1x96x170x128xbf16>
}

// CHECK-LABEL: func @k3_171
// CHECK: kimi.attention {{.*}} : tensor<1x96x171x192xbf16>, tensor<1x96x?x192xbf16>, tensor<1x96x?x128xbf16>
func.func @k3_171(%q: tensor<1x96x171x192xbf16>, %c: tensor<1x?x512xbf16>, %r: tensor<1x?x64xbf16>) -> tensor<1x96x171x128xbf16> {
  %w = kimi.weight_ref @k3 : tensor<512x24576xbf16>
  // expected-remark @below {{expanded (171 queries and any number of latents)}}
  %o = kimi.mla %q, %c, %w shared %r : tensor<1x?x64xbf16> scale 0.0721687824
     : tensor<1x96x171x192xbf16>, tensor<1x?x512xbf16>, tensor<512x24576xbf16> -> tensor<1x96x171x128xbf16>
  return %o : tensor<1x96x171x128xbf16>
}

// As many latents as queries: making keys and values is no more work than absorbing, and attention is less.
// CHECK-LABEL: func @whole
// CHECK: kimi.linear
func.func @whole(%q: tensor<1x96x17x192xbf16>, %c: tensor<1x17x512xbf16>, %r: tensor<1x17x64xbf16>) -> tensor<1x96x17x128xbf16> {
  %w = kimi.weight_ref @k3 : tensor<512x24576xbf16>
  // expected-remark @below {{expanded (17 queries and 17 latents)}}
  %o = kimi.mla %q, %c, %w shared %r : tensor<1x17x64xbf16> causal scale 0.0721687824
     : tensor<1x96x17x192xbf16>, tensor<1x17x512xbf16>, tensor<512x24576xbf16> -> tensor<1x96x17x128xbf16>
  return %o : tensor<1x96x17x128xbf16>
}
