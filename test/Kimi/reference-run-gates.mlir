// The reference lowering gives the numbers of the ops' equations (computed apart, in fp64).
// DEFINE: %{lower} = --one-shot-bufferize=bufferize-function-boundaries --convert-linalg-to-loops --expand-strided-metadata --lower-affine --convert-math-to-llvm --convert-math-to-libm --convert-scf-to-cf --finalize-memref-to-llvm --convert-func-to-llvm --convert-arith-to-llvm --convert-cf-to-llvm --reconcile-unrealized-casts
// DEFINE: %{run} = mlir-runner -e main --entry-point-result=void --shared-libs=%mlir_lib/libmlir_runner_utils.so,%mlir_lib/libmlir_c_runner_utils.so
// RUN: kimi-opt %s --kimi-lower-to-reference %{lower} | %{run} | FileCheck %s
// RUN: kimi-opt %s --kimi-fuse-elementwise --kimi-lower-to-reference %{lower} | %{run} | FileCheck %s

func.func private @printMemrefF32(tensor<*xf32>)

func.func @print(%x: tensor<2x3xf32>) {
  %u = tensor.cast %x : tensor<2x3xf32> to tensor<*xf32>
  call @printMemrefF32(%u) : (tensor<*xf32>) -> ()
  return
}

func.func @main() {
  %x = arith.constant dense<[[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]]> : tensor<2x3xf32>
  %z = arith.constant dense<[[6.0, -3.0, 0.25], [1.0, -2.0, 100.0]]> : tensor<2x3xf32>
  %g = arith.constant dense<[1.0, 2.0, 0.5]> : tensor<3xf32>
  %rate = arith.constant dense<[0.5, 1.0, 2.0]> : tensor<3xf32>
  // CHECK: 2.9925{{[0-9]*}}, {{ *}}0.14227{{[0-9]*}}, {{ *}}0.28108{{[0-9]*}}
  // CHECK: {{-?0}}, {{ *}}{{-?0}}, {{ *}}{{-?0}}
  %0 = kimi.swiglu %z, %x : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  call @print(%0) : (tensor<2x3xf32>) -> ()
  // CHECK: 1.8228{{[0-9]*}}, {{ *}}0.78665{{[0-9]*}}, {{ *}}0.40701{{[0-9]*}}
  // CHECK: {{-?0}}, {{ *}}{{-?0}}, {{ *}}{{-?0}}
  %1 = kimi.situ_glu %x, %z beta 4.0 linear_beta 25.0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  call @print(%1) : (tensor<2x3xf32>) -> ()
  // A row of zeros gives zeros without an eps.
  // CHECK: 0.21821{{[0-9]*}}, {{ *}}-0.43643{{[0-9]*}}, {{ *}}0.87287{{[0-9]*}}
  // CHECK: {{-?0}}, {{ *}}{{-?0}}, {{ *}}{{-?0}}
  %2 = kimi.l2_norm %x eps 0.0 : tensor<2x3xf32> -> tensor<2x3xf32>
  call @print(%2) : (tensor<2x3xf32>) -> ()
  // CHECK: 0.2, {{ *}}-0.4, {{ *}}0.8
  // CHECK: {{-?0}}, {{ *}}{{-?0}}, {{ *}}{{-?0}}
  %3 = kimi.l2_norm %x eps 1.0 : tensor<2x3xf32> -> tensor<2x3xf32>
  call @print(%3) : (tensor<2x3xf32>) -> ()
  // CHECK: -3.5004{{[0-9]*}}, {{ *}}-0.31326{{[0-9]*}}, {{ *}}-2.2737{{[0-9]*}}
  // CHECK: -1.0634{{[0-9]*}}, {{ *}}-0.69314{{[0-9]*}}, {{ *}}-201
  %4 = kimi.kda_gate %z, %rate, %g : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  call @print(%4) : (tensor<2x3xf32>) -> ()
  // CHECK: -4.8534{{[0-9]*}}, {{ *}}-1.3447{{[0-9]*}}, {{ *}}-4.0878{{[0-9]*}}
  // CHECK: -3.6552{{[0-9]*}}, {{ *}}-2.5, {{ *}}-5
  %5 = kimi.kda_gate %z, %rate, %g bound -5.0 : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  call @print(%5) : (tensor<2x3xf32>) -> ()
  // CHECK: 0.47399{{[0-9]*}}, {{ *}}0.40959{{[0-9]*}}, {{ *}}0.055893{{[0-9]*}}
  // CHECK: {{-?0}}, {{ *}}{{-?0}}, {{ *}}{{-?0}}
  %6 = kimi.gated_rms_norm %z, %x, %g silu eps 0.5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  call @print(%6) : (tensor<2x3xf32>) -> ()
  // CHECK: 0.94799{{[0-9]*}}, {{ *}}-0.40959{{[0-9]*}}, {{ *}}0.027946{{[0-9]*}}
  // CHECK: 0.0086574{{[0-9]*}}, {{ *}}-0.034629{{[0-9]*}}, {{ *}}0.43287{{[0-9]*}}
  %7 = kimi.gated_rms_norm %z, %x, %g sigmoid eps 0.5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  call @print(%7) : (tensor<2x3xf32>) -> ()
  // CHECK: 3.1504, {{ *}}-0.31314{{[0-9]*}}, {{ *}}0.41075{{[0-9]*}}
  // CHECK: 0.53014{{[0-9]*}}, {{ *}}-1.0602{{[0-9]*}}, {{ *}}53.014{{[0-9]*}}
  %8 = kimi.attn_res(%x, %z, %0) score %g eps 0.01 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>), tensor<3xf32> -> tensor<2x3xf32>
  call @print(%8) : (tensor<2x3xf32>) -> ()
  // The same in two halves.
  // CHECK: 3.1504, {{ *}}-0.31314{{[0-9]*}}, {{ *}}0.41075{{[0-9]*}}
  // CHECK: 0.53014{{[0-9]*}}, {{ *}}-1.0602{{[0-9]*}}, {{ *}}53.014{{[0-9]*}}
  %9:4 = kimi.attn_res_bank(%x, %z) scores(%rate, %g) eps 0.01 : (tensor<2x3xf32>, tensor<2x3xf32>), (tensor<3xf32>, tensor<3xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>), (tensor<2x3xf32>, tensor<2x3xf32>)
  %10 = kimi.attn_res_merge %0 with %9#1, %9#3 score %g eps 0.01 : tensor<2x3xf32>, tensor<2x2xf32>, tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  call @print(%10) : (tensor<2x3xf32>) -> ()
  return
}
