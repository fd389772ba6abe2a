// Linears that stay, and why.
// RUN: kimi-opt %s --kimi-fuse-linear --verify-diagnostics | FileCheck %s

kimi.weight @w : tensor<8x6xf32> from #kimi.external<"m", 0, 192>

// CHECK-LABEL: func @vector
// CHECK: kimi.linear
func.func @vector(%x: tensor<8xf32>) -> tensor<6xf32> {
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  // expected-remark @below {{not fused: its input has rank 1: reshape it to [1, K]; it runs as plain loops}}
  %0 = kimi.linear %x, %w : tensor<8xf32>, tensor<8x6xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// CHECK-LABEL: func @dynamic
// CHECK: kimi.linear
func.func @dynamic(%x: tensor<4x?xf32>) -> tensor<4x6xf32> {
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  // expected-remark @below {{not fused: the extents of its matrix, or the channels of its input, are not known at compile time; it runs as plain loops}}
  %0 = kimi.linear %x, %w : tensor<4x?xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// The norm of a linear that stays, stays.
// CHECK-LABEL: func @computed
// CHECK: kimi.rms_norm
// CHECK: kimi.linear
func.func @computed(%x: tensor<4x8xf32>, %g: tensor<8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %n = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // expected-remark @below {{not fused: its matrix is computed at run time, not a weight; it runs as plain loops}}
  %0 = kimi.linear %n, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// A matrix made of weights alone is known when they are loaded.
// CHECK-LABEL: func @derived
// CHECK: kimi.fused_linear
func.func @derived(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {
  %w = kimi.weight_ref @w : tensor<8x6xf32>
  %e = tensor.empty() : tensor<8x6xf32>
  %one = arith.constant 1.0 : f32
  %v = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%p: f32, %out: f32):
    %s = arith.addf %p, %one : f32
    linalg.yield %s : f32
  } -> tensor<8x6xf32>
  %0 = kimi.linear %x, %v : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// An MXFP4 matrix of a linear is dequantised when weights are loaded.
kimi.weight @codes : tensor<8x64xf4E2M1FN> from #kimi.external<"m", 0, 256>
kimi.weight @scales : tensor<8x2xf8E8M0FNU> from #kimi.external<"m", 256, 16>

func.func @packed_weight(%x: tensor<?x64xf32>) -> tensor<?x8xf32> {
  %w = kimi.weight_ref @codes : tensor<8x64xf4E2M1FN>
  %s = kimi.weight_ref @scales : tensor<8x2xf8E8M0FNU>
  %d = kimi.dequantize %w, %s axis 1 block 32 : tensor<8x64xf4E2M1FN>, tensor<8x2xf8E8M0FNU> -> tensor<8x64xf32>
  // expected-remark @below {{its packed weight is expanded, once, when weights are loaded: only experts are multiplied packed}}
  %0 = kimi.linear %x, %d transpose : tensor<?x64xf32>, tensor<8x64xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
