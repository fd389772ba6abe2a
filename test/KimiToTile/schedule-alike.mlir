// RUN: kimi-opt %s --kimi-schedule-linear-gpu --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-linear --canonicalize --cse | FileCheck %s --check-prefix=CPU
// RUN: kimi-opt %s --kimi-outline-generic --canonicalize --cse | FileCheck %s --check-prefix=LOOPS

// Ops that are alike get copies of the first one's launch, each with operands and results of its own. Not alike: an
// operand that lies otherwise, another epilogue, a constant in place of a tensor.

// CHECK-LABEL: func.func @layers
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x64xf32>, %[[V:[a-z0-9]+]]: tensor<64x64xf32>, %[[W:[a-z0-9]+]]: tensor<64x64xf32>, %[[WIDE:[a-z0-9]+]]: tensor<16x128xf32>
// CHECK: %[[Y:.*]] = kimi.dispatch [@linear_64x64_tanh] {{.*}} ins(%[[X]], %[[V]] :
// CHECK: %[[Z:.*]] = kimi.dispatch [@linear_64x64_tanh] {{.*}} ins(%[[Y]], %[[W]] :
// CHECK: %[[S:.*]] = tensor.extract_slice %[[WIDE]]
// CHECK: %[[A:.*]] = kimi.dispatch [@linear_64x64_tanh_v2] {{.*}} ins(%[[S]], %[[W]] :
// CHECK: %[[B:.*]] = kimi.dispatch [@linear_64x64_exp] {{.*}} ins(%[[Z]], %[[V]] :
// CHECK: %[[C:.*]] = kimi.dispatch [@linear_64x64_tanh] {{.*}} ins(%[[B]], %[[W]] :
// CHECK: return %[[A]], %[[C]]

// CPU-LABEL: func.func @layers
// CPU: %[[P:.*]] = kimi.pack_weight %arg1
// CPU: %[[Y:.*]] = kimi.dispatch [@linear_64x64_tanh] {{.*}} ins(%arg0, %[[P]] :
// CPU: %[[Q:.*]] = kimi.pack_weight %arg2
// CPU: kimi.dispatch [@linear_64x64_tanh] {{.*}} ins(%[[Y]], %[[Q]] :
func.func @layers(%x: tensor<16x64xf32>, %v: tensor<64x64xf32>, %w: tensor<64x64xf32>, %wide: tensor<16x128xf32>) -> (tensor<16x64xf32>, tensor<16x64xf32>) {
  %y = kimi.fused_linear %x, %v transpose : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%acc: f32):
    %0 = math.tanh %acc : f32
    kimi.yield %0 : f32
  }
  %z = kimi.fused_linear %y, %w transpose : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%acc: f32):
    %0 = math.tanh %acc : f32
    kimi.yield %0 : f32
  }
  %s = tensor.extract_slice %wide[0, 64] [16, 64] [1, 1] : tensor<16x128xf32> to tensor<16x64xf32>
  %a = kimi.fused_linear %s, %w transpose : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%acc: f32):
    %0 = math.tanh %acc : f32
    kimi.yield %0 : f32
  }
  %b = kimi.fused_linear %z, %v transpose : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%acc: f32):
    %0 = math.exp %acc : f32
    kimi.yield %0 : f32
  }
  %c = kimi.fused_linear %b, %w transpose : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%acc: f32):
    %0 = math.tanh %acc : f32
    kimi.yield %0 : f32
  }
  return %a, %c : tensor<16x64xf32>, tensor<16x64xf32>
}

#row = affine_map<(d0) -> (d0)>

// LOOPS-LABEL: func.func @loops
// LOOPS: %[[A:.*]] = kimi.dispatch [@map_addf] {{.*}} ins(%arg0, %arg1 :
// LOOPS: %[[B:.*]] = kimi.dispatch [@map_addf] {{.*}} ins(%[[A]], %arg0 :
// LOOPS: %[[C:.*]] = kimi.dispatch [@map_addf_v2] {{.*}} ins(%[[B]] :
// LOOPS: %[[D:.*]] = kimi.dispatch [@map_addf_v3] {{.*}} ins(%[[C]] :
// LOOPS: return %[[D]]
func.func @loops(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %twos = linalg.fill ins(%two : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %a = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.addf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %b = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%a, %x : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.addf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %c = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%b, %ones : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.addf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %d = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%c, %twos : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.addf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  return %d : tensor<?xf32>
}
