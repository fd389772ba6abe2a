// RUN: kimi-opt %s --kimi-schedule-router-gpu --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-router-gpu --verify-diagnostics -o /dev/null

// A warp a token: scores in fp32, what chooses with the bias; keys and places of 896 experts lie in 1,024 columns.
// CHECK: tile.kernel @router_896_16(
// CHECK-SAME: threads = 32 : i64
// CHECK: %[[RAW:.*]] = tile.alloc : memref<1x1024xbf16, #tile.space<fragment>>
// CHECK: tile.load %[[RAW]] from %arg0{{.*}} {pad = 0xFF800000 : f32}
// CHECK: math.exp
// CHECK: tile.load {{.*}} from %arg1
// CHECK: arith.cmpf uno
// CHECK: scf.for %{{.*}} = %c0 to %c16
// CHECK: tile.reduce max
// CHECK: tile.map
// CHECK: tile.reduce max
// CHECK: tile.reduce add
// CHECK: tile.store {{.*}} to %arg2{{.*}}, memref<?x16xi64
// CHECK: tile.store {{.*}} to %arg3{{.*}}, memref<?x16xf32

// A softmax, without a bias, whose weights stay as they are: two reductions more, no sum of the weights.
// CHECK: tile.kernel @router_5_2(
// CHECK: tile.alloc : memref<1x32xf32, #tile.space<fragment>>
// CHECK: tile.reduce max
// CHECK: math.exp
// CHECK: tile.reduce add
// CHECK: scf.for
// CHECK-COUNT-3: tile.reduce
// CHECK-NOT: tile.reduce
// CHECK: tile.return

// CHECK-LABEL: func @many
// CHECK: kimi.dispatch [@router_896_16] grid(%{{.*}}, %c1, %c1) ins(%arg0, %{{.*}} : tensor<?x896xbf16>, tensor<1x896xf32>)
func.func @many(%x: tensor<?x896xbf16>, %bias: tensor<896xf32>) -> (tensor<?x16xi64>, tensor<?x16xf32>) {
  %i, %w = kimi.router %x, %bias sigmoid top 16 {normalise = 1.0e-20 : f32, scale = 2.5 : f32}
         : tensor<?x896xbf16>, tensor<896xf32> -> tensor<?x16xi64>, tensor<?x16xf32>
  return %i, %w : tensor<?x16xi64>, tensor<?x16xf32>
}

// CHECK-LABEL: func @few
// CHECK: kimi.dispatch [@router_5_2] grid(%c3, %c1, %c1)
func.func @few(%x: tensor<3x5xf32>) -> (tensor<3x2xi32>, tensor<3x2xf32>) {
  %i, %w = kimi.router %x softmax top 2 : tensor<3x5xf32> -> tensor<3x2xi32>, tensor<3x2xf32>
  return %i, %w : tensor<3x2xi32>, tensor<3x2xf32>
}

// All groups are kept: there is no choice among them.
// CHECK-LABEL: func @all_groups
// CHECK: kimi.dispatch
func.func @all_groups(%x: tensor<3x8xf32>) -> (tensor<3x2xi64>, tensor<3x2xf32>) {
  %i, %w = kimi.router %x sigmoid top 2 {groups = 4 : i64, keep_groups = 4 : i64} : tensor<3x8xf32> -> tensor<3x2xi64>, tensor<3x2xf32>
  return %i, %w : tensor<3x2xi64>, tensor<3x2xf32>
}

// CHECK-LABEL: func @groups
// CHECK: kimi.router
func.func @groups(%x: tensor<3x8xf32>) -> (tensor<3x2xi64>, tensor<3x2xf32>) {
  // expected-remark @below {{is computed by the reference lowering: it chooses among groups of experts}}
  %i, %w = kimi.router %x sigmoid top 2 {groups = 4 : i64, keep_groups = 2 : i64} : tensor<3x8xf32> -> tensor<3x2xi64>, tensor<3x2xf32>
  return %i, %w : tensor<3x2xi64>, tensor<3x2xf32>
}

// CHECK-LABEL: func @wide
// CHECK: kimi.router
func.func @wide(%x: tensor<3x1025xf32>) -> (tensor<3x2xi64>, tensor<3x2xf32>) {
  // expected-remark @below {{is computed by the reference lowering: a warp does not hold more than 1024 experts}}
  %i, %w = kimi.router %x sigmoid top 2 : tensor<3x1025xf32> -> tensor<3x2xi64>, tensor<3x2xf32>
  return %i, %w : tensor<3x2xi64>, tensor<3x2xf32>
}

// CHECK-LABEL: func @double
// CHECK: kimi.router
func.func @double(%x: tensor<3x8xf64>) -> (tensor<3x2xi64>, tensor<3x2xf32>) {
  // expected-remark @below {{is computed by the reference lowering: there is no kernel for logits that are not f32, bf16 or f16}}
  %i, %w = kimi.router %x sigmoid top 2 : tensor<3x8xf64> -> tensor<3x2xi64>, tensor<3x2xf32>
  return %i, %w : tensor<3x2xi64>, tensor<3x2xf32>
}
