// RUN: kimi-opt %s --kimi-generalize-tensor-ops --kimi-materialize-views --kimi-outline-generic --kimi-print-plan -o /dev/null | FileCheck %s

// A tensor without elements has a place, for kernels clamp what they read to its first position.
// CHECK: arena@[[EMPTY:[0-9]+]] at 0, 64 bytes
// CHECK: 0: map{{.*}} (arena@[[EMPTY]][2, 0 : {{.*}}], 'x'[2, 3 : 3, 1], out 'y'[2, 3 : 3, 1])
// CHECK: 1: copy{{.*}} (arena@[[EMPTY]][0 : 1], out 'none'[0 : 1])
func.func @main(%x: tensor<2x3xf32> {kimi.name = "x"})
    -> (tensor<2x3xf32> {kimi.name = "y"}, tensor<0xi64> {kimi.name = "none"}) {
  %e = tensor.empty() : tensor<2x0xf32>
  %y = tensor.concat dim(1) %e, %x : (tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %n = tensor.empty() : tensor<0xi64>
  return %y, %n : tensor<2x3xf32>, tensor<0xi64>
}
