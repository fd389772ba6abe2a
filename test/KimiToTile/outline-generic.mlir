// RUN: kimi-opt %s --kimi-outline-generic --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-outline-generic=task-work=1 --canonicalize --cse | FileCheck %s --check-prefix=POINT

// The fill moves into the kernel; the sum stays in registers.
// CHECK-LABEL: tile.kernel @reduce_addf
// CHECK-SAME: memref<?x96xf32, strided<[96, 1], offset: ?>>
// CHECK-SAME: memref<?xf32, strided<[1], offset: ?>>
// CHECK: tile.block_id 0
// CHECK: scf.for {{.*}} iter_args
// CHECK: memref.store
// CHECK: tile.return

// Two equal groups share a kernel.
// CHECK: tile.kernel @map_exp(
// CHECK-NOT: tile.kernel @map_exp_v2

// CHECK: tile.kernel @loops_cumsum
// CHECK: tile.kernel @append_2
// CHECK: tile.kernel @pack_16

// CHECK-LABEL: func.func @sum
// CHECK: %[[N:.*]] = tensor.dim
// CHECK: kimi.dispatch [@reduce_addf] grid({{.*}}) ins(%arg0 : tensor<?x96xf32>) dims(%[[N]])
func.func @sum(%x: tensor<?x96xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x96xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x96xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// CHECK-LABEL: func.func @twice
// CHECK-COUNT-2: kimi.dispatch [@map_exp]
func.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%y : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %z : tensor<8xf32>
}

// CHECK-LABEL: func.func @loops
// CHECK: kimi.dispatch [@loops_cumsum]
func.func @loops(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kimi.loops ins(%x : tensor<4xf32>) {kimi.name = "cumsum"} -> tensor<4xf32> {
  ^bb0(%in: memref<4xf32>, %out: memref<4xf32>):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %s = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> f32 {
      %v = memref.load %in[%i] : memref<4xf32>
      %n = arith.addf %acc, %v : f32
      memref.store %n, %out[%i] : memref<4xf32>
      scf.yield %n : f32
    }
    kimi.yield
  }
  return %y : tensor<4xf32>
}

// Key and value are appended by one launch.
// CHECK-LABEL: func.func @append
// CHECK: kimi.dispatch [@append_2]
// CHECK-SAME: states(%arg1, %arg2
// CHECK-COUNT-2: kimi.state_view
// CHECK-NOT: kimi.cache_append
func.func @append(%r: tensor<?x2x?x4xf32>, %k: !kimi.state<tensor<?x2x?x4xf32>, 2>, %v: !kimi.state<tensor<?x2x?x4xf32>, 2>)
    -> (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) {
  %past = kimi.state_length %k : !kimi.state<tensor<?x2x?x4xf32>, 2>
  %a = kimi.cache_append %k, %r at %past : !kimi.state<tensor<?x2x?x4xf32>, 2>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %b = kimi.cache_append %v, %r at %past : !kimi.state<tensor<?x2x?x4xf32>, 2>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %a, %b : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>
}

// CHECK-LABEL: func.func @pack
// CHECK: kimi.dispatch [@pack_16]
func.func @pack(%w: tensor<6x20xf32>) -> tensor<2x6x16xf32> {
  %p = kimi.pack_weight %w panel 16 : tensor<6x20xf32> -> tensor<2x6x16xf32>
  return %p : tensor<2x6x16xf32>
}

// With a point a task there are no loops but those of a reduction.
// POINT-LABEL: tile.kernel @reduce_addf
// POINT: %[[I:.*]] = tile.block_id 0
// POINT-NEXT: scf.for
// POINT-NEXT: memref.load %{{.*}}[%[[I]], %{{.*}}]
// POINT-NOT: scf.for
// POINT-LABEL: tile.kernel @map_exp
// POINT: %[[I:.*]] = tile.block_id 0
// POINT-NEXT: memref.load %{{.*}}[%[[I]]]
// POINT-NOT: scf.for
// POINT: tile.return
