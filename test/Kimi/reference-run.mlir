// The reference lowering gives the numbers of the ops' equations (computed apart, in fp64), before and after fusion.
// DEFINE: %{lower} = --one-shot-bufferize=bufferize-function-boundaries --convert-linalg-to-loops --expand-strided-metadata --lower-affine --convert-math-to-llvm --convert-math-to-libm --convert-scf-to-cf --finalize-memref-to-llvm --convert-func-to-llvm --convert-arith-to-llvm --convert-cf-to-llvm --reconcile-unrealized-casts
// DEFINE: %{run} = mlir-runner -e main --entry-point-result=void --shared-libs=%mlir_lib/libmlir_runner_utils.so,%mlir_lib/libmlir_c_runner_utils.so
// RUN: kimi-opt %s --kimi-lower-to-reference %{lower} | %{run} | FileCheck %s
// RUN: kimi-opt %s --kimi-fuse-elementwise --kimi-fuse-linear --kimi-lower-to-reference %{lower} | %{run} | FileCheck %s

func.func private @printMemrefF32(tensor<*xf32>)

// Two query heads on one key head; the first query sees the last key only by the mask, and that not by causality.
// CHECK: 0, {{.*}}0
// CHECK: 1.86102, {{.*}}18.6102
// CHECK: 0, {{.*}}0
// CHECK: 2.51831, {{.*}}25.1831
func.func @attention(%q: tensor<?x2x?x2xf32>, %k: tensor<?x1x?x2xf32>, %v: tensor<?x1x?x2xf32>, %m: tensor<1x1x?x?xi1>) {
  %0 = kimi.attention %q, %k, %v mask %m : tensor<1x1x?x?xi1> causal scale 0.5 {softcap = 5.0 : f32}
     : tensor<?x2x?x2xf32>, tensor<?x1x?x2xf32>, tensor<?x1x?x2xf32> -> tensor<?x2x?x2xf32>
  %u = tensor.cast %0 : tensor<?x2x?x2xf32> to tensor<*xf32>
  call @printMemrefF32(%u) : (tensor<*xf32>) -> ()
  return
}

// Norm, projection, bias, activation, residual.
// CHECK: Unranked Memref
// CHECK: 0.8378{{[0-9]+}}, {{ *}}1.94371, {{ *}}-0.7261{{[0-9]+}}
// CHECK: 0.419172, {{ *}}1.41802, {{ *}}8.53775
// Transposed matrix, rms norm.
// CHECK: -0.09920{{[0-9]+}}, {{ *}}-1.0846
// CHECK: -0.24006, {{ *}}1.96849
func.func @block(%x: tensor<?x4xf32>, %r: tensor<?x3xf32>) {
  %c0 = arith.constant 0 : index
  %w = arith.constant dense<[[0.5, -1.0, 0.25], [1.0, 0.5, -0.5], [-0.25, 2.0, 1.0], [0.75, 0.1, 0.3]]> : tensor<4x3xf32>
  %bias = arith.constant dense<[0.1, -0.2, 0.3]> : tensor<3xf32>
  %g = arith.constant dense<[1.0, 2.0, 0.5, 1.5]> : tensor<4xf32>
  %beta = arith.constant dense<[0.0, 0.1, -0.1, 0.2]> : tensor<4xf32>
  %n = kimi.layer_norm %x, %g, %beta eps 0.01 : tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<?x4xf32>
  %h = kimi.linear %n, %w, %bias : tensor<?x4xf32>, tensor<4x3xf32>, tensor<3xf32> -> tensor<?x3xf32>
  %a = kimi.gelu %h tanh : tensor<?x3xf32> -> tensor<?x3xf32>
  %m = tensor.dim %r, %c0 : tensor<?x3xf32>
  %e = tensor.empty(%m) : tensor<?x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
                                        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%r, %a : tensor<?x3xf32>, tensor<?x3xf32>) outs(%e : tensor<?x3xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x3xf32>
  %u = tensor.cast %y : tensor<?x3xf32> to tensor<*xf32>
  call @printMemrefF32(%u) : (tensor<*xf32>) -> ()

  %wt = arith.constant dense<[[0.5, 1.0, -0.25, 0.75], [-1.0, 0.5, 2.0, 0.1]]> : tensor<2x4xf32>
  %rms = kimi.rms_norm %x, %g eps 0.01 : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x4xf32>
  %z = kimi.linear %rms, %wt transpose : tensor<?x4xf32>, tensor<2x4xf32> -> tensor<?x2xf32>
  %zu = tensor.cast %z : tensor<?x2xf32> to tensor<*xf32>
  call @printMemrefF32(%zu) : (tensor<*xf32>) -> ()
  return
}

// Along the first axis, and its logarithm along the last; then the exact GELU.
// CHECK: 0.622459, {{ *}}0.851953, {{ *}}1.6701{{[0-9]*}}e-05
// CHECK: 0.377541, {{ *}}0.148047, {{ *}}0.999983
// CHECK: -1.31818, {{ *}}-0.318175, {{ *}}-5.31818
// CHECK: -7.50098, {{ *}}-7.75098, {{ *}}-0.00098{{[0-9]+}}
// CHECK: 0.841345, {{ *}}1.9545, {{ *}}-0.00404{{[0-9]+}}
// CHECK: 0.345731, {{ *}}0.149677, {{ *}}8
func.func @activations(%x: tensor<?x3xf32>) {
  %0 = kimi.softmax %x axis 0 : tensor<?x3xf32> -> tensor<?x3xf32>
  %u0 = tensor.cast %0 : tensor<?x3xf32> to tensor<*xf32>
  call @printMemrefF32(%u0) : (tensor<*xf32>) -> ()
  %1 = kimi.softmax %x axis 1 log : tensor<?x3xf32> -> tensor<?x3xf32>
  %u1 = tensor.cast %1 : tensor<?x3xf32> to tensor<*xf32>
  call @printMemrefF32(%u1) : (tensor<*xf32>) -> ()
  %2 = kimi.gelu %x : tensor<?x3xf32> -> tensor<?x3xf32>
  %u2 = tensor.cast %2 : tensor<?x3xf32> to tensor<*xf32>
  call @printMemrefF32(%u2) : (tensor<*xf32>) -> ()
  return
}

// -1 is the last row; -9 and 9 are outside and read the nearest row.
// CHECK: 3, {{ *}}4
// CHECK: 5, {{ *}}6
// CHECK: 1, {{ *}}2
// CHECK: 5, {{ *}}6
func.func @embedding(%ids: tensor<?xi64>) {
  %t = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %0 = kimi.embedding %ids, %t : tensor<?xi64>, tensor<3x2xf32> -> tensor<?x2xf32>
  %u = tensor.cast %0 : tensor<?x2xf32> to tensor<*xf32>
  call @printMemrefF32(%u) : (tensor<*xf32>) -> ()
  return
}

func.func @main() {
  %q = arith.constant dense<[[[[1.0, 2.0], [0.5, -1.0]], [[3.0, 0.25], [-1.0, 1.0]]]]> : tensor<1x2x2x2xf32>
  %k = arith.constant dense<[[[[1.0, 1.0], [2.0, -1.0], [0.5, 3.0]]]]> : tensor<1x1x3x2xf32>
  %v = arith.constant dense<[[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]]]> : tensor<1x1x3x2xf32>
  %m = arith.constant dense<[[[[false, false, true], [true, true, true]]]]> : tensor<1x1x2x3xi1>
  %qd = tensor.cast %q : tensor<1x2x2x2xf32> to tensor<?x2x?x2xf32>
  %kd = tensor.cast %k : tensor<1x1x3x2xf32> to tensor<?x1x?x2xf32>
  %vd = tensor.cast %v : tensor<1x1x3x2xf32> to tensor<?x1x?x2xf32>
  %md = tensor.cast %m : tensor<1x1x2x3xi1> to tensor<1x1x?x?xi1>
  call @attention(%qd, %kd, %vd, %md)
      : (tensor<?x2x?x2xf32>, tensor<?x1x?x2xf32>, tensor<?x1x?x2xf32>, tensor<1x1x?x?xi1>) -> ()
  %x = arith.constant dense<[[1.0, -2.0, 0.5, 3.0], [0.25, 0.5, 4.0, -1.0]]> : tensor<2x4xf32>
  %r = arith.constant dense<[[1.0, 2.0, -3.0], [0.5, 0.25, 8.0]]> : tensor<2x3xf32>
  %xd = tensor.cast %x : tensor<2x4xf32> to tensor<?x4xf32>
  %rd = tensor.cast %r : tensor<2x3xf32> to tensor<?x3xf32>
  call @block(%xd, %rd) : (tensor<?x4xf32>, tensor<?x3xf32>) -> ()
  call @activations(%rd) : (tensor<?x3xf32>) -> ()
  %ids = arith.constant dense<[1, -1, -9, 9]> : tensor<4xi64>
  %idsd = tensor.cast %ids : tensor<4xi64> to tensor<?xi64>
  call @embedding(%idsd) : (tensor<?xi64>) -> ()
  return
}
