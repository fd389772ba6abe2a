// RUN: kimi-opt %s --kimi-schedule-attn-res --canonicalize --cse 2>/dev/null | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: kimi-opt %s --kimi-schedule-attn-res="arch=90a" --canonicalize --cse 2>/dev/null | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: kimi-opt %s --kimi-schedule-attn-res="arch=80" --canonicalize --cse 2>/dev/null | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: kimi-opt %s --kimi-schedule-attn-res="arch=90" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not kimi-opt %s --kimi-schedule-attn-res="arch=75" 2>&1 | FileCheck %s --check-prefix=ARCH
// ARCH: there are no schedules for the compute capability '75'

!r = tensor<?x?x7168xbf16>

// A block holds one row of K3, sixteen elements of it a thread, eight beside each other. The second source is on its way
// before the first one's sums are taken.
// CHECK: tile.kernel @attn_res_7168_n2(%[[A:.*]]: memref<?x7168xbf16, {{.*}}>{{.*}}, %[[B:.*]]: memref<?x7168xbf16{{.*}}, %[[S:.*]]: memref<1x7168xf32
// GPU-SAME: threads = 448
// CHECK: tile.load %{{.*}} from %[[S]]
// CHECK: tile.load %[[A0:.*]] from %[[A]]{{.*}} memref<1x7168xbf16, #tile.space<fragment>>
// CHECK: tile.load %[[B0:.*]] from %[[B]]
// CHECK: arith.extf
// CHECK: tile.reduce add
// CHECK: tile.reduce add
// CHECK: math.rsqrt
// CHECK: math.exp
// CHECK: tile.store %{{.*}} to %{{.*}} : memref<1x7168xf32, #tile.space<fragment>>, memref<?x7168xbf16
// CHECK: tile.return

// Short rows: several in a block, and the last block may have fewer. Rows that are not aligned: an element a lane.
// CPU: tile.kernel @attn_res_33_n2({{.*}}
// CPU: tile.load {{.*}} memref<64x33xf32, #tile.space<fragment>>
// GPU: tile.kernel @attn_res_33_n2({{.*}} threads = 128
// GPU: tile.alloc {layout = #tile.layout<registers [2:32 at 1], lanes [32:1 at 1], warps [4:1 at 0]>} : memref<4x64xf32

// The bank is loaded once, eight sources of it; on a GPU they do not fit the registers and stand in shared memory. Two score
// vectors are multiplied with each of them.
// CHECK: tile.kernel @attn_res_bank_7168_n8_m3(
// GPU-SAME: threads = 448
// CPU-COUNT-8: tile.load {{.*}} memref<1x7168xbf16, #tile.space<fragment>>
// GPU-COUNT-8: tile.load {{.*}} memref<1x7168xbf16, #tile.space<shared>>
// CHECK-COUNT-8: tile.reduce add
// CHECK-COUNT-2: tile.load {{.*}} memref<1x7168xf32, #tile.space<fragment>>
// CHECK-COUNT-16: tile.reduce add
// CHECK: tile.store {{.*}} : memref<1x1xf32, #tile.space<fragment>>, memref<?x2xf32
// CHECK: tile.store {{.*}} : memref<1x1xf32, #tile.space<fragment>>, memref<?x2xf32
// CHECK: tile.store {{.*}} : memref<1x7168xf32, #tile.space<fragment>>, memref<?x7168xf32
// CHECK: tile.store {{.*}} : memref<1x7168xf32, #tile.space<fragment>>, memref<?x7168xf32
// CHECK: tile.load {{.*}} memref<1x7168xf32, #tile.space<fragment>>
// CHECK-COUNT-8: tile.reduce add
// CHECK-NOT: tile.load
// CHECK: tile.return

// A small bank is held in registers.
// GPU: tile.kernel @attn_res_bank_1000_n3_m1(
// GPU-COUNT-3: tile.load {{.*}} memref<2x1024xf32, #tile.space<fragment>>

// CHECK: tile.kernel @attn_res_merge_7168(
// CHECK-COUNT-2: tile.reduce add
// CHECK-NOT: tile.reduce
// CHECK: tile.return

// CHECK-LABEL: func @layers
// CHECK: kimi.dispatch [@attn_res_7168_n2] grid(%{{.*}}, %c1, %c1)
// CHECK: kimi.dispatch [@attn_res_7168_n2] grid(%{{.*}}, %c1, %c1)
// CHECK: %[[R:.*]]:6 = kimi.dispatch [@attn_res_bank_7168_n8_m3] grid(%{{.*}}, %c1, %c1)
// CHECK: kimi.dispatch [@attn_res_merge_7168] grid(%{{.*}}, %c1, %c1) ins({{.*}}%[[R]]#3, %[[R]]#0,
// CHECK: kimi.dispatch [@attn_res_merge_7168] grid(%{{.*}}, %c1, %c1) ins({{.*}}%[[R]]#4, %[[R]]#1,
func.func @layers(%a: !r, %b: !r, %s: tensor<7168xf32>, %t: tensor<7168xf32>) -> !r {
  %0 = kimi.attn_res(%a, %b) score %s eps 1.0e-5 : (!r, !r), tensor<7168xf32> -> !r
  %1 = kimi.attn_res(%b, %0) score %t eps 1.0e-5 : (!r, !r), tensor<7168xf32> -> !r
  %2:6 = kimi.attn_res_bank(%a, %b, %a, %b, %a, %b, %0, %1) scores(%s, %t, %s) eps 1.0e-5 : (!r, !r, !r, !r, !r, !r, !r, !r), (tensor<7168xf32>, tensor<7168xf32>, tensor<7168xf32>)
      -> (tensor<?x?x2xf32>, tensor<?x?x2xf32>, tensor<?x?x2xf32>), (tensor<?x?x7168xf32>, tensor<?x?x7168xf32>, tensor<?x?x7168xf32>)
  %3 = kimi.attn_res_merge %1 with %2#0, %2#3 score %s eps 1.0e-5 : !r, tensor<?x?x2xf32>, tensor<?x?x7168xf32>, tensor<7168xf32> -> !r
  %4 = kimi.attn_res_merge %3 with %2#1, %2#4 score %t eps 1.0e-5 : !r, tensor<?x?x2xf32>, tensor<?x?x7168xf32>, tensor<7168xf32> -> !r
  return %4 : !r
}

// CHECK-LABEL: func @short
// CPU: kimi.dispatch [@attn_res_33_n2] grid(%c1, %c1, %c1)
// GPU: kimi.dispatch [@attn_res_33_n2] grid(%c2, %c1, %c1)
func.func @short(%a: tensor<7x33xf32>, %b: tensor<7x33xf32>, %s: tensor<33xf32>) -> tensor<7x33xf32> {
  %0 = kimi.attn_res(%a, %b) score %s eps 1.0e-5 : (tensor<7x33xf32>, tensor<7x33xf32>), tensor<33xf32> -> tensor<7x33xf32>
  return %0 : tensor<7x33xf32>
}

// CHECK-LABEL: func @small
func.func @small(%a: tensor<?x1000xf32>, %s: tensor<1000xf32>) -> (tensor<?x2xf32>, tensor<?x1000xf32>) {
  %0:2 = kimi.attn_res_bank(%a, %a, %a) scores(%s) eps 1.0e-5 : (tensor<?x1000xf32>, tensor<?x1000xf32>, tensor<?x1000xf32>), (tensor<1000xf32>)
      -> (tensor<?x2xf32>), (tensor<?x1000xf32>)
  return %0#0, %0#1 : tensor<?x2xf32>, tensor<?x1000xf32>
}

// CHECK-LABEL: func @left
// CHECK: kimi.attn_res(
// CHECK: kimi.attn_res(
// CHECK: kimi.attn_res(
// CHECK: kimi.attn_res(
func.func @left(%a: tensor<?x?xf32>, %s: tensor<?xf32>, %b: tensor<?x0xf32>, %t: tensor<0xf32>, %c: tensor<4x1048576xf32>, %u: tensor<1048576xf32>,
                %d: tensor<?x8xf64>, %v: tensor<8xf32>) -> (tensor<?x?xf32>, tensor<?x0xf32>, tensor<4x1048576xf32>, tensor<?x8xf64>) {
  // REMARK: remark: is computed by the reference lowering: the number of channels is not known
  %0 = kimi.attn_res(%a) score %s eps 0.0 : (tensor<?x?xf32>), tensor<?xf32> -> tensor<?x?xf32>
  // REMARK: remark: is computed by the reference lowering: rows of 0 channels do not fit a block
  %1 = kimi.attn_res(%b) score %t eps 0.0 : (tensor<?x0xf32>), tensor<0xf32> -> tensor<?x0xf32>
  // REMARK: remark: is computed by the reference lowering: rows of 1048576 channels do not fit a block, 2 at a time
  %2 = kimi.attn_res(%c) score %u eps 0.0 : (tensor<4x1048576xf32>), tensor<1048576xf32> -> tensor<4x1048576xf32>
  // REMARK: remark: is computed by the reference lowering: there is no kernel for operands that are not f32, bf16 or f16
  %3 = kimi.attn_res(%d) score %v eps 0.0 : (tensor<?x8xf64>), tensor<8xf32> -> tensor<?x8xf64>
  return %0, %1, %2, %3 : tensor<?x?xf32>, tensor<?x0xf32>, tensor<4x1048576xf32>, tensor<?x8xf64>
}
