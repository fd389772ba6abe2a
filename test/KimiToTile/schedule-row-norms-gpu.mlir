// RUN: kimi-opt %s --kimi-schedule-row-norms-gpu="arch=90a" --canonicalize --cse 2>/dev/null | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-row-norms-gpu="arch=80" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not kimi-opt %s --kimi-schedule-row-norms-gpu="arch=75" 2>&1 | FileCheck %s --check-prefix=ARCH
// ARCH: there are no schedules for the compute capability '75'

#id = affine_map<(i, j) -> (i, j)>
#id3 = affine_map<(i, j, k) -> (i, j, k)>

// Heads of 128 channels: 16 lanes a row, 8 elements a lane, two rows a warp and two a thread.
// CHECK: tile.kernel @l2_norm_128(%[[X:.*]]: memref<?x128xbf16, {{.*}}, %[[Y:.*]]: memref<?x128xbf16, {{.*}} threads = 128
// CHECK: %[[R:.*]] = arith.muli %{{.*}}, %c16
// CHECK: %[[T:.*]] = tile.alloc {layout = #tile.layout<registers [8:1 at 1, 2:8 at 0], lanes [16:8 at 1, 2:1 at 0], warps [4:2 at 0]>} : memref<16x128xbf16
// CHECK: tile.load %[[T]] from %[[X]][%[[R]], %c0]
// CHECK: tile.reduce add {{.*}} axis 1 : memref<16x128xf32, {{.*}}>, memref<16x1xf32
// CHECK: math.rsqrt
// CHECK-NOT: tile.load
// CHECK: tile.store %{{.*}} to %[[Y]][%[[R]], %c0]

// A block holds a row of 7168; the norm rounds to x's type before gamma.
// CHECK: tile.kernel @rms_norm_7168(
// CHECK-SAME: threads = 448
// CHECK: memref<1x7168xbf16, #tile.space<fragment>>
// CHECK: tile.reduce add
// CHECK: arith.truncf
// CHECK: arith.extf

// SiLU before the norm and what rounds its result are parts of its kernel.
// CHECK: tile.kernel @l2_norm_64(%{{.*}}: memref<?x64xbf16, {{.*}}, %{{.*}}: memref<?x64xf16,
// CHECK: math.exp
// CHECK: tile.reduce add
// CHECK: arith.truncf %{{.*}} : f32 to f16

// Heads of a part of a wider row: tokens and heads are dims of their own, and gamma has three.
// CHECK: tile.kernel @gated_rms_norm_64(%{{.*}}: memref<?x6x64xbf16, strided<[1152, 64, 1], offset: ?>> {{.*}}, %{{.*}}: memref<?x6x64xbf16, {{.*}}, %{{.*}}: memref<1x1x64xf32,
// CHECK: arith.remui %{{.*}}, %c3
// CHECK: memref<16x2x64xbf16, #tile.space<fragment>>
// CHECK: fastmath<afn>

// Columns past the channels have no part in the sums, and none in the maximum.
// CHECK: tile.kernel @layer_norm_50(
// CHECK: tile.element_index 1
// CHECK: tile.reduce add
// CHECK: tile.element_index 1
// CHECK: tile.reduce add
// CHECK: tile.kernel @softmax_33(
// CHECK: %[[MINUS:.*]] = arith.constant 0xFF800000 : f32
// CHECK: tile.reduce max
// CHECK: math.exp
// CHECK: tile.reduce add

// CHECK-LABEL: func.func @keys
// CHECK: %[[M:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0, 1, 2], [3]] : tensor<?x?x96x128xbf16> into tensor<?x128xbf16>
// CHECK: kimi.dispatch [@l2_norm_128] grid(%{{.*}}, %c1, %c1) ins(%[[M]] : tensor<?x128xbf16>)
func.func @keys(%x: tensor<?x?x96x128xbf16>) -> tensor<?x?x96x128xbf16> {
  %y = kimi.l2_norm %x eps 1.0e-6 : tensor<?x?x96x128xbf16> -> tensor<?x?x96x128xbf16>
  return %y : tensor<?x?x96x128xbf16>
}

// CHECK-LABEL: func.func @model_wide
func.func @model_wide(%x: tensor<?x7168xbf16>, %g: tensor<7168xbf16>) -> tensor<?x7168xbf16> {
  %y = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x7168xbf16>, tensor<7168xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
}

// CHECK-LABEL: func.func @around
// CHECK-NOT: linalg.generic
// CHECK: kimi.dispatch [@l2_norm_64]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @around(%x: tensor<?x64xbf16>) -> tensor<?x64xf16> {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x64xbf16>
  %e = tensor.empty(%m) : tensor<?x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x64xbf16>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.negf %0 : f32
    %2 = math.exp %1 : f32
    %3 = arith.addf %2, %one : f32
    %4 = arith.divf %0, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<?x64xf32>
  %n = kimi.l2_norm %s eps 0.0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %d = tensor.dim %n, %c0 : tensor<?x64xf32>
  %f = tensor.empty(%d) : tensor<?x64xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<?x64xf32>) outs(%f : tensor<?x64xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.truncf %a : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<?x64xf16>
  return %r : tensor<?x64xf16>
}

// CHECK-LABEL: func.func @part
func.func @part(%x: tensor<?x18x64xbf16>, %gate: tensor<?x6x64xbf16>, %g: tensor<64xf32>) -> tensor<?x6x64xbf16> {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x18x64xbf16>
  %p = tensor.extract_slice %x[0, 6, 0] [%t, 6, 64] [1, 1, 1] : tensor<?x18x64xbf16> to tensor<?x6x64xbf16>
  %y = kimi.gated_rms_norm %p, %gate, %g silu eps 1.0e-5 : tensor<?x6x64xbf16>, tensor<?x6x64xbf16>, tensor<64xf32> -> tensor<?x6x64xbf16>
  return %y : tensor<?x6x64xbf16>
}

// A gate that is a reshape of memory with gaps: the kernel reads what --kimi-materialize-views will copy.
// CHECK-LABEL: func.func @gaps
// CHECK: kimi.dispatch [@gated_rms_norm_64] {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x6x64xbf16>, tensor<?x6x64xbf16>, tensor<1x1x64xf32>)
func.func @gaps(%x: tensor<?x18x64xbf16>, %gate: tensor<32x6x?x2xbf16>, %g: tensor<64xf32>) -> tensor<?x6x64xbf16> {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x18x64xbf16>
  %p = tensor.extract_slice %x[0, 6, 0] [%t, 6, 64] [1, 1, 1] : tensor<?x18x64xbf16> to tensor<?x6x64xbf16>
  %e = tensor.empty(%t) : tensor<?x6x32x2xbf16>
  %turned = linalg.transpose ins(%gate : tensor<32x6x?x2xbf16>) outs(%e : tensor<?x6x32x2xbf16>) permutation = [2, 1, 0, 3]
  %flat = tensor.collapse_shape %turned [[0], [1], [2, 3]] : tensor<?x6x32x2xbf16> into tensor<?x6x64xbf16>
  %y = kimi.gated_rms_norm %p, %flat, %g silu eps 1.0e-5 : tensor<?x6x64xbf16>, tensor<?x6x64xbf16>, tensor<64xf32> -> tensor<?x6x64xbf16>
  return %y : tensor<?x6x64xbf16>
}

// CHECK-LABEL: func.func @odd
func.func @odd(%x: tensor<3x50xf32>, %g: tensor<50xf32>, %b: tensor<50xf32>, %s: tensor<2x3x33xf32>) -> (tensor<3x50xf32>, tensor<2x3x33xf32>) {
  %y = kimi.layer_norm %x, %g, %b eps 1.0e-5 : tensor<3x50xf32>, tensor<50xf32>, tensor<50xf32> -> tensor<3x50xf32>
  %z = kimi.softmax %s axis 2 log : tensor<2x3x33xf32> -> tensor<2x3x33xf32>
  return %y, %z : tensor<3x50xf32>, tensor<2x3x33xf32>
}

// CHECK-LABEL: func.func @left
// CHECK-COUNT-2: kimi.softmax
// CHECK: kimi.l2_norm
// CHECK: kimi.l2_norm
// REMARK: remark: is computed by the reference lowering: it runs along an axis that is not the last
// REMARK: remark: is computed by the reference lowering: rows of 163840 channels do not fit a block
// REMARK: remark: is computed by the reference lowering: the number of channels is not known, or 0
// REMARK: remark: is computed by the reference lowering: there is no kernel for operands that are not f32, bf16 or f16
func.func @left(%x: tensor<2x3x33xf32>, %v: tensor<?x163840xf32>, %u: tensor<4x?xf32>, %d: tensor<4x8xf64>)
    -> (tensor<2x3x33xf32>, tensor<?x163840xf32>, tensor<4x?xf32>, tensor<4x8xf64>) {
  %0 = kimi.softmax %x axis 1 : tensor<2x3x33xf32> -> tensor<2x3x33xf32>
  %1 = kimi.softmax %v axis 1 : tensor<?x163840xf32> -> tensor<?x163840xf32>
  %2 = kimi.l2_norm %u eps 1.0e-6 : tensor<4x?xf32> -> tensor<4x?xf32>
  %3 = kimi.l2_norm %d eps 1.0e-6 : tensor<4x8xf64> -> tensor<4x8xf64>
  return %0, %1, %2, %3 : tensor<2x3x33xf32>, tensor<?x163840xf32>, tensor<4x?xf32>, tensor<4x8xf64>
}
