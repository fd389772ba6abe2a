// RUN: kimi-opt %s --kimi-chunk-delta-rule="chunk=32" 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-chunk-delta-rule="chunk=16" 2>/dev/null | FileCheck %s --check-prefix=C16
// RUN: kimi-opt %s --kimi-chunk-delta-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not kimi-opt %s --kimi-chunk-delta-rule="chunk=24" 2>&1 | FileCheck %s --check-prefix=CHUNK

// CHUNK: error: kimi-chunk-delta-rule: chunk is 24; expected 16, 32 or 64

// CHECK-DAG: #[[LATER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3 * 16 + d4, d6)>
// CHECK-DAG: #[[EARLIER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3 * 16 + d5, d6)>
// CHECK-DAG: #[[ANCHOR:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, (d3 floordiv 16) * 16, d4)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d5)>
// CHECK-DAG: #[[BLOCK:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3 floordiv 16, d4, d5)>

// Every step of Kimi Delta Attention, two queries a state, any number of tokens.
// CHECK-LABEL: func @kda
// CHECK: %[[CHUNKS:.*]] = arith.ceildivsi %{{.*}}, %{{.*}} : index
// The keys; beyond the last token they are 0.
// CHECK: tensor.empty(%{{.*}}, %[[CHUNKS]]) : tensor<?x2x?x32x8xf32>
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult
// CHECK: tensor.extract
// CHECK: arith.select %[[INSIDE]], %{{.*}}, %cst
// The gates, no lower than what is 0 in fp32.
// CHECK: arith.constant -1.040000e+02 : f32
// CHECK: arith.maximumf
// CHECK: %[[G:.*]] = kimi.loops ins(%{{.*}} : tensor<?x2x?x32x8xf32>) {{.*}} {kimi.name = "delta_g", kimi.step = "G"} -> tensor<?x2x?x32x8xf32>
// A within a sub-chunk: the difference of two rows of G, masked before the exponential.
// CHECK: linalg.generic {indexing_maps = [#[[LATER]], #[[EARLIER]], #[[LATER]], #[[EARLIER]], #{{.*}}], {{.*}} ins(%{{.*}}, %{{.*}}, %[[G]], %[[G]] :
// CHECK-SAME: kimi.step = "within"
// CHECK: arith.cmpi ult
// CHECK: %[[D:.*]] = arith.subf
// CHECK: %[[E:.*]] = arith.select %{{.*}}, %[[D]], %{{.*}} : f32
// CHECK: math.exp %[[E]]
// A across sub-chunks: a plain product of rows and columns measured from the anchor.
// CHECK: %[[ROWS:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #[[ANCHOR]], #{{.*}}], {{.*}} ins(%{{.*}}, %[[G]], %[[G]] :
// CHECK: %[[COLUMNS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<?x2x?x2x32x8xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[ROW]], #[[BLOCK]], #{{.*}}], {{.*}} "reduction"]} ins(%[[ROWS]], %[[COLUMNS]] :
// CHECK-SAME: kimi.step = "across"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}kimi.step = "A"
// CHECK: %[[T:.*]] = kimi.loops ins(%[[A]] : tensor<?x2x?x32x32xf32>) {{.*}} kimi.step = "T"
// CHECK: %[[U:.*]] = linalg.generic {{.*}} "reduction"]} ins(%[[T]], %{{.*}} : tensor<?x2x?x32x32xf32>, tensor<?x2x?x32x6xf32>)
// CHECK-SAME: kimi.step = "U"
// CHECK: %[[W:.*]] = linalg.generic {{.*}} "reduction"]} ins(%[[T]], %{{.*}} : tensor<?x2x?x32x32xf32>, tensor<?x2x?x32x8xf32>)
// CHECK-SAME: kimi.step = "W"
// CHECK: %[[SCAN:.*]]:3 = kimi.loops ins(%[[U]], %{{.*}}, %[[W]], %[[G]], %arg5 : {{.*}} kimi.step = "scan"} -> tensor<?x2x?x8x6xf32>, tensor<?x2x?x32x6xf32>, tensor<?x2x8x6xf32>
// P sees its own row, too; the keys' columns are shared with A.
// CHECK: arith.cmpi ule
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[COLUMNS]] :
// CHECK: %[[P:.*]] = linalg.generic {{.*}}kimi.step = "P"
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[SCAN]]#0 :
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[SCAN]]#1 :
// CHECK: return %{{.*}}, %[[SCAN]]#2
// C16-LABEL: func @kda
// C16-NOT: "across"
// C16: return
func.func @kda(%q: tensor<?x4x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x6xf32>, %g: tensor<?x2x?x8xf32>,
               %b: tensor<?x2x?xf32>, %s: tensor<?x2x8x6xf32>) -> (tensor<?x4x?x6xf32>, tensor<?x2x8x6xf32>) {
  %o, %n = kimi.delta_rule %q, %k, %v decay %g : tensor<?x2x?x8xf32> beta %b : tensor<?x2x?xf32>
      initial %s : tensor<?x2x8x6xf32> scale 0.125
     : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x6xf32> -> tensor<?x4x?x6xf32>, tensor<?x2x8x6xf32>
  return %o, %n : tensor<?x4x?x6xf32>, tensor<?x2x8x6xf32>
}

// A decay a head is a mask on the product of keys; 70 tokens are three chunks.
// CHECK-LABEL: func @gdn
// CHECK: kimi.step = "G"} -> tensor<1x2x3x32xf32>
// CHECK-NOT: "within"
// CHECK: kimi.step = "A"
// CHECK: kimi.step = "P"
// CHECK: return
func.func @gdn(%q: tensor<1x2x70x8xbf16>, %g: tensor<1x2x70xf32>, %b: tensor<1x2x70xf32>) -> tensor<1x2x70x8xbf16> {
  %o, %n = kimi.delta_rule %q, %q, %q decay %g : tensor<1x2x70xf32> beta %b : tensor<1x2x70xf32> scale 0.125
     : tensor<1x2x70x8xbf16>, tensor<1x2x70x8xbf16>, tensor<1x2x70x8xbf16> -> tensor<1x2x70x8xbf16>, tensor<1x2x8x8xf32>
  return %o : tensor<1x2x70x8xbf16>
}

// Without decay there is no G and no exponential.
// CHECK-LABEL: func @deltanet
// CHECK-NOT: math.exp
// CHECK: kimi.step = "A"
// CHECK: kimi.step = "T"
// CHECK-NOT: math.exp
// CHECK: return
func.func @deltanet(%q: tensor<1x2x70x8xf32>, %b: tensor<1x2x70xf32>) -> tensor<1x2x70x8xf32> {
  %o, %n = kimi.delta_rule %q, %q, %q beta %b : tensor<1x2x70xf32> scale 0.125
     : tensor<1x2x70x8xf32>, tensor<1x2x70x8xf32>, tensor<1x2x70x8xf32> -> tensor<1x2x70x8xf32>, tensor<1x2x8x8xf32>
  return %o : tensor<1x2x70x8xf32>
}

// Without erase A is 0: no inverse, no W.
// CHECK-LABEL: func @linear
// CHECK-NOT: kimi.step = "{{[ATW]}}"
// CHECK: kimi.step = "scan"
// CHECK: kimi.step = "P"
// CHECK: return
func.func @linear(%q: tensor<1x2x70x8xf32>) -> tensor<1x2x70x8xf32> {
  %o, %n = kimi.delta_rule %q, %q, %q scale 0.125
     : tensor<1x2x70x8xf32>, tensor<1x2x70x8xf32>, tensor<1x2x70x8xf32> -> tensor<1x2x70x8xf32>, tensor<1x2x8x8xf32>
  return %o : tensor<1x2x70x8xf32>
}

// REMARK: remark: stays a recurrence: it has one token
// REMARK: remark: stays a recurrence: there is no chunkwise form of the sum of the keys
// CHECK-LABEL: func @left_alone
// CHECK-COUNT-2: kimi.delta_rule
func.func @left_alone(%q: tensor<1x2x1x8xf32>, %p: tensor<1x2x70x8xf32>) -> (tensor<1x2x1x8xf32>, tensor<1x2x70x8xf32>) {
  %o, %n = kimi.delta_rule %q, %q, %q scale 0.125
     : tensor<1x2x1x8xf32>, tensor<1x2x1x8xf32>, tensor<1x2x1x8xf32> -> tensor<1x2x1x8xf32>, tensor<1x2x8x8xf32>
  %r, %z = kimi.delta_rule %p, %p, %p scale 0.125 normalize 1.0e-6
     : tensor<1x2x70x8xf32>, tensor<1x2x70x8xf32>, tensor<1x2x70x8xf32> -> tensor<1x2x70x8xf32>, tensor<1x2x8x9xf32>
  return %o, %r : tensor<1x2x1x8xf32>, tensor<1x2x70x8xf32>
}
