// What writes a state is neither merged nor dropped; what does not is.
// RUN: kimi-opt %s --cse --canonicalize | FileCheck %s

// CHECK-LABEL: func @append
// CHECK-COUNT-2: kimi.cache_append
// CHECK-NOT: kimi.gelu
// CHECK: return
func.func @append(%s: !kimi.state<tensor<?x4x?x8xf32>, 2>, %rows: tensor<?x4x?x8xf32>, %past: index) {
  %0 = kimi.cache_append %s, %rows at %past
     : !kimi.state<tensor<?x4x?x8xf32>, 2>, tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  %1 = kimi.cache_append %s, %rows at %past
     : !kimi.state<tensor<?x4x?x8xf32>, 2>, tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  %2 = kimi.gelu %0 : tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  return
}
