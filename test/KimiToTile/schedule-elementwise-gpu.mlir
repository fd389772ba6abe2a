// RUN: kimi-opt %s --kimi-schedule-elementwise-gpu --canonicalize --cse 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-elementwise-gpu -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: kimi-opt %s --kimi-schedule-elementwise-gpu --kimi-outline-generic=task-work=1 --canonicalize --cse 2>/dev/null | FileCheck %s --check-prefix=REST

#id1 = affine_map<(i) -> (i)>
#id = affine_map<(i, j) -> (i, j)>
#id3 = affine_map<(i, j, k) -> (i, j, k)>
#id4 = affine_map<(b, t, h, d) -> (b, t, h, d)>

// All axes are one dim; rows of 1024 of it make bounds of vectors unnecessary. A block takes two vectors of 8 elements a
// thread, and tanh has the digits that bf16 keeps.
// CHECK: tile.kernel @map_extf_tanh_truncf(%[[X:.*]]: memref<?x1024xbf16, strided<[1024, 1], offset: ?>> {tile.align = 16 : i64}, %[[Y:.*]]: memref<?x1024xbf16, {{.*}} threads = 128
// CHECK: %[[B:.*]] = tile.block_id 0
// CHECK: %[[R:.*]] = arith.muli %[[B]], %c2
// CHECK: %[[F:.*]] = tile.alloc {layout = #tile.layout<registers [8:1 at 1, 2:1 at 0], lanes [32:8 at 1], warps [4:256 at 1]>} : memref<2x1024xbf16, #tile.space<fragment>>
// CHECK: tile.load %[[F]] from %[[X]][%[[R]], %c0] dims [0, 1]
// CHECK: tile.map ins(%[[F]] :
// CHECK: math.tanh %{{.*}} fastmath<afn> : f32
// CHECK: tile.store %{{.*}} to %[[Y]][%[[R]], %c0] dims [0, 1]
// CHECK-NEXT: tile.return

// A rate of each head, a bias of each channel: three dims. The tile extends along tokens, for all of which a thread
// reads the bias once; neighbours are four elements apart, as the stores of f32 ask for.
// CHECK: tile.kernel @map_extf_addf_mulf_exp(%{{.*}}: memref<?x96x128xbf16, {{.*}}, %{{.*}}: memref<1x96x1xf32, {{.*}}, %{{.*}}: memref<1x96x128xf32,
// CHECK: arith.remui %{{.*}}, %c96
// CHECK: memref<16x1x128xbf16, #tile.space<fragment>>
// CHECK: tile.alloc {layout = #tile.layout<registers [], lanes [32:0], warps [4:0]>} : memref<1x1x1xf32
// CHECK: tile.alloc {layout = #tile.layout<registers [4:1 at 2], lanes [32:4 at 2], warps [4:0]>} : memref<1x1x128xf32
// CHECK: tile.alloc {layout = #tile.layout<registers [4:1 at 2, 4:4 at 0], lanes [32:4 at 2], warps [4:1 at 0]>} : memref<16x1x128xf32
// CHECK-NOT: fastmath
// CHECK: tile.return

// The halves of rows stay two dims; a third of a row is a tile.
// CHECK: tile.kernel @map_mulf(%{{.*}}: memref<?x3072xbf16, strided<[6144, 1], offset: ?>> {tile.align = 16 : i64}, %{{.*}}: memref<?x3072xbf16, strided<[6144, 1], offset: ?>>
// CHECK: arith.remui %{{.*}}, %c3
// CHECK: memref<1x1024xbf16, #tile.space<fragment>>
// CHECK: tile.return

// Written with its axes exchanged: read so too, along the channels.
// CHECK: tile.kernel @map_truncf(%{{.*}}: memref<?x96x?x128xf32, strided<[?, 128, 12288, 1], offset: ?>> {{.*}}, %{{.*}}: memref<?x96x?x128xf16,
// CHECK: memref<1x1x8x128xf16, #tile.space<fragment>>
// CHECK: tile.return

// Extents of nothing: an element a lane, bounds checked. One element for all, and a constant, are values.
// CHECK: tile.kernel @map_addf_mulf(%{{.*}}: memref<351799xf32, {{.*}}, %[[S:.*]]: memref<f32, {{.*}}, %{{.*}}: memref<351799xf32,
// CHECK: memref.load %[[S]][]
// CHECK: tile.alloc {layout = #tile.layout<registers [4:128 at 0], lanes [32:1 at 0], warps [4:32 at 0]>} : memref<512xf32
// CHECK: tile.return

// Rows of 50: 64 columns of a tile, two elements a vector.
// CHECK: tile.kernel @map_addf(%{{.*}}: memref<?x50xf32, {{.*}}, %{{.*}}: memref<1x50xf32,
// CHECK: tile.alloc {{.*}} : memref<16x64xf32
// CHECK: tile.return

// Two results, one launch; a copy is no map.
// CHECK: tile.kernel @map_negf(
// CHECK: tile.load
// CHECK: tile.map
// CHECK: arith.negf
// CHECK-COUNT-2: tile.store
// CHECK: tile.return

// CHECK-LABEL: func.func @flat
// CHECK: %[[ROWS:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0, 1]] {{.*}} into tensor<?x1024xbf16>
// CHECK: %[[OUT:.*]] = kimi.dispatch [@map_extf_tanh_truncf] grid({{.*}}) ins(%[[ROWS]] : tensor<?x1024xbf16>) {{.*}} -> tensor<?x1024xbf16>
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[OUT]]
// CHECK: %[[ALL:.*]] = tensor.expand_shape %[[FLAT]] {{.*}} into tensor<?x?x7168xbf16>
// CHECK: return %[[ALL]]
func.func @flat(%x: tensor<?x?x7168xbf16>) -> tensor<?x?x7168xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x7168xbf16>
  %t = tensor.dim %x, %c1 : tensor<?x?x7168xbf16>
  %e = tensor.empty(%b, %t) : tensor<?x?x7168xbf16>
  %y = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x?x7168xbf16>) outs(%e : tensor<?x?x7168xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %0 = arith.extf %a : bf16 to f32
    %1 = math.tanh %0 : f32
    %2 = arith.truncf %1 : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<?x?x7168xbf16>
  return %y : tensor<?x?x7168xbf16>
}

// CHECK-LABEL: func.func @gate
// CHECK: kimi.dispatch [@map_extf_addf_mulf_exp] {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x96x128xbf16>, tensor<1x96x1xf32>, tensor<1x96x128xf32>)
func.func @gate(%z: tensor<?x?x96x128xbf16>, %rate: tensor<96xf32>, %dt: tensor<96x128xf32>) -> tensor<?x?x96x128xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %z, %c0 : tensor<?x?x96x128xbf16>
  %t = tensor.dim %z, %c1 : tensor<?x?x96x128xbf16>
  %e = tensor.empty(%b, %t) : tensor<?x?x96x128xf32>
  %y = linalg.generic {indexing_maps = [#id4, affine_map<(b, t, h, d) -> (h)>, affine_map<(b, t, h, d) -> (h, d)>, #id4],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%z, %rate, %dt : tensor<?x?x96x128xbf16>, tensor<96xf32>, tensor<96x128xf32>) outs(%e : tensor<?x?x96x128xf32>) {
  ^bb0(%a: bf16, %r: f32, %d: f32, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.addf %0, %d : f32
    %2 = arith.mulf %r, %1 : f32
    %3 = math.exp %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?x96x128xf32>
  return %y : tensor<?x?x96x128xf32>
}

// CHECK-LABEL: func.func @halves
func.func @halves(%x: tensor<?x6144xbf16>) -> tensor<?x3072xbf16> {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x6144xbf16>
  %g = tensor.extract_slice %x[0, 0] [%t, 3072] [1, 1] : tensor<?x6144xbf16> to tensor<?x3072xbf16>
  %u = tensor.extract_slice %x[0, 3072] [%t, 3072] [1, 1] : tensor<?x6144xbf16> to tensor<?x3072xbf16>
  %e = tensor.empty(%t) : tensor<?x3072xbf16>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%g, %u : tensor<?x3072xbf16>, tensor<?x3072xbf16>) outs(%e : tensor<?x3072xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %0 = arith.mulf %a, %b : bf16
    linalg.yield %0 : bf16
  } -> tensor<?x3072xbf16>
  return %y : tensor<?x3072xbf16>
}

// CHECK-LABEL: func.func @exchanged
func.func @exchanged(%x: tensor<?x?x96x128xf32>) -> tensor<?x96x?x128xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x96x128xf32>
  %t = tensor.dim %x, %c1 : tensor<?x?x96x128xf32>
  %e = tensor.empty(%b, %t) : tensor<?x96x?x128xf16>
  %y = linalg.generic {indexing_maps = [#id4, affine_map<(b, t, h, d) -> (b, h, t, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x?x96x128xf32>) outs(%e : tensor<?x96x?x128xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.truncf %a : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<?x96x?x128xf16>
  return %y : tensor<?x96x?x128xf16>
}

// CHECK-LABEL: func.func @odd
// CHECK: ins(%{{.*}}, %{{.*}} : tensor<351799xf32>, tensor<f32>)
func.func @odd(%x: tensor<7x1x50257xf32>, %s: tensor<1x1x1xf32>) -> tensor<7x1x50257xf32> {
  %k = arith.constant dense<3.0> : tensor<50257xf32>
  %e = tensor.empty() : tensor<7x1x50257xf32>
  %y = linalg.generic {indexing_maps = [#id3, affine_map<(i, j, k) -> (0, j, 0)>, affine_map<(i, j, k) -> (k)>, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %s, %k : tensor<7x1x50257xf32>, tensor<1x1x1xf32>, tensor<50257xf32>) outs(%e : tensor<7x1x50257xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    %1 = arith.mulf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<7x1x50257xf32>
  return %y : tensor<7x1x50257xf32>
}

// CHECK-LABEL: func.func @rows_of_50
func.func @rows_of_50(%x: tensor<?x50xf32>, %bias: tensor<50xf32>) -> tensor<?x50xf32> {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x50xf32>
  %e = tensor.empty(%t) : tensor<?x50xf32>
  %y = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (j)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %bias : tensor<?x50xf32>, tensor<50xf32>) outs(%e : tensor<?x50xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x50xf32>
  return %y : tensor<?x50xf32>
}

// CHECK-LABEL: func.func @two
// CHECK: %{{.*}}:2 = kimi.dispatch [@map_negf]
func.func @two(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %y:2 = linalg.generic {indexing_maps = [#id1, #id1, #id1], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e, %e : tensor<64xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32, %p: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0, %a : f32, f32
  } -> (tensor<64xf32>, tensor<64xf32>)
  return %y#0, %y#1 : tensor<64xf32>, tensor<64xf32>
}

// What is left alone, and why; the pass that follows takes it.
// CHECK-LABEL: func.func @left
// CHECK-NOT: kimi.dispatch
// REMARK: remark: is computed by a thread for each element of its result: its body has a 'linalg.index'
// REMARK: remark: is computed by a thread for each element of its result: it reduces
// REMARK: remark: is computed by a thread for each element of its result: operand 0 does not hold f32, bf16 or f16
// REMARK: remark: is computed by a thread for each element of its result: operand 0 has gaps along the innermost axis of the result
// REMARK: remark: is computed by a thread for each element of its result: operand 0 is not read along its axes
// REMARK: remark: is computed by a thread for each element of its result: it has one element
// REMARK: remark: is computed by a thread for each element of its result: it has no elements
// REST-LABEL: func.func @left
// REST-COUNT-7: kimi.dispatch
func.func @left(%x: tensor<8x16xf32>, %square: tensor<8x8xf32>, %n: tensor<8x16xi64>, %one: tensor<1x1xf32>, %none: tensor<0x4xf32>)
    -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8x16xi64>, tensor<16x8xf32>, tensor<8xf32>, tensor<1x1xf32>, tensor<0x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %gather = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<8x16xf32>) {
  ^bb0(%o: f32):
    %0 = linalg.index 0 : index
    %1 = linalg.index 1 : index
    %2 = arith.divui %1, %0 : index
    %3 = tensor.extract %x[%0, %2] : tensor<8x16xf32>
    linalg.yield %3 : f32
  } -> tensor<8x16xf32>
  %f = tensor.empty() : tensor<8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<8xf32>) -> tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x16xf32>) outs(%init : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %g = tensor.empty() : tensor<8x16xi64>
  %whole = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%n : tensor<8x16xi64>) outs(%g : tensor<8x16xi64>) {
  ^bb0(%a: i64, %o: i64):
    %0 = arith.addi %a, %a : i64
    linalg.yield %0 : i64
  } -> tensor<8x16xi64>
  %h = tensor.empty() : tensor<16x8xf32>
  %turned = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x16xf32>) outs(%h : tensor<16x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<16x8xf32>
  %diagonal = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, #id1], iterator_types = ["parallel"]}
      ins(%square : tensor<8x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %i = tensor.empty() : tensor<1x1xf32>
  %single = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%one : tensor<1x1xf32>) outs(%i : tensor<1x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1x1xf32>
  %j = tensor.empty() : tensor<0x4xf32>
  %empty = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%none : tensor<0x4xf32>) outs(%j : tensor<0x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<0x4xf32>
  return %gather, %sum, %whole, %turned, %diagonal, %single, %empty
      : tensor<8x16xf32>, tensor<8xf32>, tensor<8x16xi64>, tensor<16x8xf32>, tensor<8xf32>, tensor<1x1xf32>, tensor<0x4xf32>
}
