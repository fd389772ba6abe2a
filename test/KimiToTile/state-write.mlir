// RUN: kimi-opt %s --split-input-file --kimi-outline-generic=task-work=1 | FileCheck %s

// A state that is written from itself in another order is copied first: the tasks of the write run in any order.

// CHECK-LABEL: func.func @exchanged
// CHECK: %[[OLD:.*]] = kimi.state_view %arg0
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[OLD]]
// CHECK: %[[COPY:.*]] = kimi.dispatch {{.*}} ins(%[[T]]
// CHECK: kimi.dispatch [@state_write] {{.*}} ins(%[[COPY]]
func.func @exchanged(%state: !kimi.state<tensor<1x8x8xf32>, -1>) {
  %old = kimi.state_read %state : !kimi.state<tensor<1x8x8xf32>, -1> -> tensor<1x8x8xf32>
  %e = tensor.empty() : tensor<1x8x8xf32>
  %t = linalg.transpose ins(%old : tensor<1x8x8xf32>) outs(%e : tensor<1x8x8xf32>) permutation = [0, 2, 1]
  kimi.state_write %t, %state : tensor<1x8x8xf32>, !kimi.state<tensor<1x8x8xf32>, -1>
  return
}

// -----

// What lies elsewhere, in another state or in the same place needs no copy.

// CHECK-LABEL: func.func @elsewhere
// CHECK: %[[OLD:.*]] = kimi.state_view %arg0
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[OLD]]
// CHECK-NOT: ins(%[[OLD]]
// CHECK: kimi.dispatch [@state_write] {{.*}} ins(%[[T]]
// CHECK: kimi.dispatch [@state_write_v2] {{.*}} ins(%[[OLD]]
func.func @elsewhere(%state: !kimi.state<tensor<1x8x8xf32>, -1>, %other: !kimi.state<tensor<1x8x8xf32>, -1>) {
  %old = kimi.state_read %state : !kimi.state<tensor<1x8x8xf32>, -1> -> tensor<1x8x8xf32>
  %e = tensor.empty() : tensor<1x8x8xf32>
  %t = linalg.transpose ins(%old : tensor<1x8x8xf32>) outs(%e : tensor<1x8x8xf32>) permutation = [0, 2, 1]
  kimi.state_write %t, %other : tensor<1x8x8xf32>, !kimi.state<tensor<1x8x8xf32>, -1>
  kimi.state_write %old, %state : tensor<1x8x8xf32>, !kimi.state<tensor<1x8x8xf32>, -1>
  return
}
