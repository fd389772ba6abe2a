// RUN: kimi-opt %s --kimi-share-attn-res-bank --split-input-file --verify-diagnostics | FileCheck %s
// RUN: kimi-opt %s --kimi-share-attn-res-bank=queries=3 --split-input-file 2>/dev/null | FileCheck %s --check-prefix=THREE
// RUN: not kimi-opt %s --kimi-share-attn-res-bank=queries=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: kimi-share-attn-res-bank: queries is 0; expected at least 1

// Four mixes of three sources in fp32: (4 - 1) * 3 * 4 > 2 * 4 * 4. The score of a later one, known when weights are
// loaded, moves up; the rows of any number of tokens.
kimi.weight @s : tensor<8xf32> from #kimi.external<"m", 0, 32>

// CHECK-LABEL: func @block
// CHECK-SAME: %[[X:.*]]: tensor<?x?x8xf32>, %[[B:.*]]: tensor<?x?x8xf32>, %[[C:.*]]: tensor<?x?x8xf32>, %[[P:.*]]: tensor<?x?x8xf32>, %[[S:.*]]: tensor<8xf32>, %[[T:.*]]: tensor<8xf32>
// CHECK: %[[W:.*]] = kimi.weight_ref @s
// CHECK: %[[Z:.*]] = arith.mulf %[[W]], %[[W]]
// CHECK: %[[L:.*]]:4, %[[A:.*]]:4 = kimi.attn_res_bank(%[[X]], %[[B]], %[[C]]) scores(%[[S]], %[[T]], %[[Z]], %[[S]]) eps 9.99999974E-6 :
// CHECK-SAME: (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>), (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x?x2xf32>, {{.*}}), (tensor<?x?x8xf32>, {{.*}})
// CHECK: %[[H0:.*]] = kimi.attn_res_merge %[[P]] with %[[L]]#0, %[[A]]#0 score %[[S]] eps
// CHECK: %[[P1:.*]] = kimi.gelu %[[H0]]
// CHECK: %[[H1:.*]] = kimi.attn_res_merge %[[P1]] with %[[L]]#1, %[[A]]#1 score %[[T]] eps
// CHECK: %[[H2:.*]] = kimi.attn_res_merge %[[H1]] with %[[L]]#2, %[[A]]#2 score %[[Z]] eps
// CHECK: %[[H3:.*]] = kimi.attn_res_merge %[[H2]] with %[[L]]#3, %[[A]]#3 score %[[S]] eps
// CHECK-NOT: kimi.attn_res(
// CHECK: return %[[H3]]

// Of three at most, four are two and two: each part reads the bank, which does not pay.
// THREE-LABEL: func @block
// THREE-COUNT-4: kimi.attn_res(
func.func @block(%a: tensor<?x?x8xf32>, %b: tensor<?x?x8xf32>, %c: tensor<?x?x8xf32>, %p: tensor<?x?x8xf32>, %s: tensor<8xf32>,
                 %t: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %h0 = kimi.attn_res(%a, %b, %c, %p) score %s eps 1.0e-5 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>), tensor<8xf32> -> tensor<?x?x8xf32>
  %p1 = kimi.gelu %h0 : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %h1 = kimi.attn_res(%a, %b, %c, %p1) score %t eps 1.0e-5 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>), tensor<8xf32> -> tensor<?x?x8xf32>
  %w = kimi.weight_ref @s : tensor<8xf32>
  %z = arith.mulf %w, %w : tensor<8xf32>
  %h2 = kimi.attn_res(%a, %b, %c, %h1) score %z eps 1.0e-5 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>), tensor<8xf32> -> tensor<?x?x8xf32>
  %h3 = kimi.attn_res(%a, %b, %c, %h2) score %s eps 1.0e-5 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>), tensor<8xf32> -> tensor<?x?x8xf32>
  return %h3 : tensor<?x?x8xf32>
}

// -----

// Narrow sources and wide sums: five sources pay for eight mixes, and both halves of sixteen are the same.
// CHECK-LABEL: func @narrow
// CHECK: kimi.attn_res_bank(%{{[^)]*}}) scores(%{{[^)]*}}) {{.*}}tensor<?x8xbf16>), (tensor<8xf32>, {{.*}} -> (tensor<?x2xf32>, {{.*}}), (tensor<?x8xf32>, {{.*}})
// CHECK-COUNT-4: kimi.attn_res_merge {{.*}} : tensor<?x8xbf16>, tensor<?x2xf32>, tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xbf16>
// CHECK: kimi.attn_res_merge {{.*}} -> tensor<?x8xf32>
// CHECK-NOT: kimi.attn_res
func.func @narrow(%a: tensor<?x8xbf16>, %b: tensor<?x8xbf16>, %s: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = kimi.attn_res(%a, %b, %a, %b, %a, %b, %a, %b, %a) score %s eps 0.0 : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
  %1 = kimi.attn_res(%a, %b, %a, %b, %a, %b, %a, %b, %0) score %s eps 0.0 : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
  %2 = kimi.attn_res(%a, %b, %a, %b, %a, %b, %a, %b, %1) score %s eps 0.0 : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
  %3 = kimi.attn_res(%a, %b, %a, %b, %a, %b, %a, %b, %2) score %s eps 0.0 : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xbf16>
  %4 = kimi.attn_res(%a, %b, %a, %b, %a, %b, %a, %b, %3) score %s eps 0.0 : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>), tensor<8xf32> -> tensor<?x8xf32>
  return %4 : tensor<?x8xf32>
}

// -----

// A bank that nothing else mixes, one source alone, banks in another order or with another eps.
// CHECK-LABEL: func @apart
// CHECK-COUNT-4: kimi.attn_res(
// CHECK-NOT: kimi.attn_res_
func.func @apart(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>, %p: tensor<?x8xf32>, %s: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-remark @below {{does not share its bank: nothing else mixes it}}
  %0 = kimi.attn_res(%a, %b, %p) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  // expected-remark @below {{does not share its bank: nothing else mixes it}}
  %1 = kimi.attn_res(%b, %a, %p) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  // expected-remark @below {{does not share its bank: nothing else mixes it}}
  %2 = kimi.attn_res(%a, %b, %p) score %s eps 1.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %3 = kimi.attn_res(%p) score %s eps 0.0 : (tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  return %0, %1, %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// A small bank, however often it is mixed.
// CHECK-LABEL: func @small
// CHECK-COUNT-3: kimi.attn_res(
// CHECK-NOT: kimi.attn_res_
func.func @small(%a: tensor<?x8xf32>, %p: tensor<?x8xf32>, %s: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark @below {{does not share its bank: 3 mixes of 1 sources each read less than their sums would be to write and read}}
  %0 = kimi.attn_res(%a, %p) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %1 = kimi.attn_res(%a, %0) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %2 = kimi.attn_res(%a, %1) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// -----

// One token: less is saved than a launch is worth.
// CHECK-LABEL: func @one_token
// CHECK-COUNT-4: kimi.attn_res(
// CHECK-NOT: kimi.attn_res_
func.func @one_token(%a: tensor<1x8xf32>, %b: tensor<1x8xf32>, %c: tensor<1x8xf32>, %p: tensor<1x8xf32>, %s: tensor<8xf32>) -> tensor<1x8xf32> {
  // expected-remark @below {{does not share its bank: it would save 32 bytes, less than a launch is worth}}
  %0 = kimi.attn_res(%a, %b, %c, %p) score %s eps 0.0 : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>), tensor<8xf32> -> tensor<1x8xf32>
  %1 = kimi.attn_res(%a, %b, %c, %0) score %s eps 0.0 : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>), tensor<8xf32> -> tensor<1x8xf32>
  %2 = kimi.attn_res(%a, %b, %c, %1) score %s eps 0.0 : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>), tensor<8xf32> -> tensor<1x8xf32>
  %3 = kimi.attn_res(%a, %b, %c, %2) score %s eps 0.0 : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>), tensor<8xf32> -> tensor<1x8xf32>
  return %3 : tensor<1x8xf32>
}

// -----

// A score vector that is computed from the first mix: the others share.
// CHECK-LABEL: func @late
// CHECK: kimi.attn_res_bank({{.*}}) scores(%[[S:[a-z0-9]*]], %[[S]], %[[S]], %[[S]]) eps
// CHECK-COUNT-2: kimi.attn_res_merge
// CHECK: kimi.attn_res(
// CHECK-COUNT-2: kimi.attn_res_merge
func.func @late(%a: tensor<?x8xf32>, %p: tensor<?x8xf32>, %s: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = kimi.attn_res(%a, %a, %a, %p) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %1 = kimi.attn_res(%a, %a, %a, %0) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %v = tensor.extract_slice %0[0, 0] [1, 8] [1, 1] : tensor<?x8xf32> to tensor<8xf32>
  // expected-remark @below {{does not share its bank: its score vector is computed after the first use of the bank}}
  %2 = kimi.attn_res(%a, %a, %a, %1) score %v eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %3 = kimi.attn_res(%a, %a, %a, %2) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  %4 = kimi.attn_res(%a, %a, %a, %3) score %s eps 0.0 : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>), tensor<8xf32> -> tensor<?x8xf32>
  return %4 : tensor<?x8xf32>
}
