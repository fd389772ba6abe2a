// RUN: kimi-opt %s --kimi-schedule-moe-gpu --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-moe-gpu=arch=80 --canonicalize --cse | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-moe-gpu --verify-diagnostics -o /dev/null
// RUN: not kimi-opt %s --kimi-schedule-moe-gpu=arch=75 -o /dev/null 2>&1 | FileCheck %s --check-prefix=OLD

// OLD: error: there are no schedules for the compute capability '75'

// Indices out of range are those of the nearest expert.
// CHECK: tile.kernel @moe_count(
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: tile.kernel @moe_sum(
// CHECK: tile.kernel @moe_place(
// CHECK: scf.if

// CHECK: tile.kernel @moe_64x32_bf16_gather(
// CHECK: %[[PAIR:.*]] = memref.load %arg1
// CHECK: tile.load %{{.*}} from %arg0[%{{.*}}, %{{.*}}] dims [0, 1]

// The matrices are those of the tile's expert; a tile without one takes no step.
// CHECK: tile.kernel @moe_64x32_bf16_hidden_few(
// CHECK: %[[FOUND:.*]] = arith.index_cast
// CHECK: %[[USED:.*]] = arith.cmpi sge, %[[FOUND]], %c0
// CHECK: %[[EXPERT:.*]] = arith.maxsi %[[FOUND]], %c0
// CHECK: tile.alloc : memref<16x64xbf16, #tile.space<shared>>
// CHECK: %[[END:.*]] = arith.select %[[USED]], %c64, %c0
// CHECK: tile.pipeline %{{.*}} = %c0 to %[[END]] step %c64
// CHECK: tile.load {{.*}} from %arg2[%[[EXPERT]], %{{.*}}, %{{.*}}] dims [1, 2]
// CHECK: tile.load {{.*}} from %arg3[%[[EXPERT]], %{{.*}}, %{{.*}}] dims [1, 2]
// CHECK: math.exp
// CHECK: tile.store
// CHECK: tile.kernel @moe_64x32_bf16_hidden(
// CHECK: tile.alloc : memref<64x64xbf16, #tile.space<shared>>
// CHECK: tile.kernel @moe_64x32_bf16_output_few(
// CHECK: tile.kernel @moe_64x32_bf16_output(

// The sum over the slots, in their order.
// CHECK: tile.kernel @moe_64x32_bf16_combine(
// CHECK: scf.for %{{.*}} = %c0 to %c3
// CHECK: tile.load
// CHECK: tile.map

// What is known needs no guard: 6 pairs of 8 experts are few.
// CHECK: tile.kernel @moe_20x13_hidden_few(
// CHECK-SAME: memref<96x20xf32
// CHECK: math.tanh

// The bytes of packed experts go to registers, those of a step while the one before is computed, and from there as numbers
// to shared memory. A step is past the end here: 128 channels of 64.
// CHECK: tile.kernel @moe_64x32_mxfp4_bf16_hidden_few(
// CHECK-SAME: memref<8x32x32xi8
// CHECK-SAME: memref<8x32x2xi8
// CHECK: tile.load %[[NEXT:.*]] from %{{.*}}, %c0] dims [1, 2] : memref<8x32x32xi8
// CHECK: tile.pipeline
// CHECK: compute
// CHECK: tile.map ins(%[[NEXT]]
// CHECK: tile.load %[[NEXT]] from
// CHECK-COUNT-2: tile.dequantize
// CHECK-COUNT-2: tile.mma
// CHECK: tile.kernel @moe_64x32_mxfp4_bf16_output_few(
// CHECK-SAME: memref<8x64x16xi8

// CHECK-LABEL: func @some
// CHECK: %[[COUNTS:.*]] = kimi.dispatch [@moe_count] grid({{.*}}) ins(%arg1 : tensor<?x3xi64>)
// CHECK: %[[SUMS:.*]]:2 = kimi.dispatch [@moe_sum] grid(%c8, %c1, %c1) ins(%[[COUNTS]]
// CHECK: %[[TABLES:.*]]:3 = kimi.dispatch [@moe_place] grid({{.*}}) ins(%arg1, %[[SUMS]]#0, %[[SUMS]]#1
// CHECK: %[[XS:.*]] = kimi.dispatch [@moe_64x32_bf16_gather] grid({{.*}}) ins(%arg0, %[[TABLES]]#0
// CHECK: %[[H:.*]] = kimi.dispatch [@moe_64x32_bf16_hidden_few, @moe_64x32_bf16_hidden] guards({{.*}}) grid({{.*}}) ins(%[[XS]], %[[TABLES]]#1, %arg3, %arg4
// CHECK: %[[O:.*]] = kimi.dispatch [@moe_64x32_bf16_output_few, @moe_64x32_bf16_output] guards({{.*}}) grid({{.*}}) ins(%[[H]], %[[TABLES]]#1, %arg5
// CHECK: %[[Y:.*]] = kimi.dispatch [@moe_64x32_bf16_combine] grid(%{{.*}}, %c1, %c1) ins(%[[O]], %[[TABLES]]#2, %arg2
// CHECK: return %[[Y]]
func.func @some(%x: tensor<?x64xbf16>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>, %w1: tensor<8x32x64xbf16>, %w3: tensor<8x32x64xbf16>, %w2: tensor<8x64x32xbf16>) -> tensor<?x64xbf16> {
  %y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : tensor<8x32x64xbf16>, tensor<8x32x64xbf16>, tensor<8x64x32xbf16>) swiglu
     : tensor<?x64xbf16>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: func @known
// CHECK: kimi.dispatch [@moe_20x13_hidden_few] grid(
// CHECK: kimi.dispatch [@moe_20x13_output_few] grid(
func.func @known(%x: tensor<3x20xf32>, %i: tensor<3x2xi32>, %w: tensor<3x2xf32>, %w1: tensor<8x13x20xf32>, %w3: tensor<8x13x20xf32>, %w2: tensor<8x20x13xf32>) -> tensor<3x20xf32> {
  %y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : tensor<8x13x20xf32>, tensor<8x13x20xf32>, tensor<8x20x13xf32>) situ_glu beta 1.5
     : tensor<3x20xf32>, tensor<3x2xi32>, tensor<3x2xf32> -> tensor<3x20xf32>
  return %y : tensor<3x20xf32>
}

kimi.weight @w1 : tensor<8x32x64xf4E2M1FN> from #kimi.external<"w", 0, 8192>
kimi.weight @w3 : tensor<8x32x64xf4E2M1FN> from #kimi.external<"w", 8192, 8192>
kimi.weight @w2 : tensor<8x64x32xf4E2M1FN> from #kimi.external<"w", 16384, 8192>
kimi.weight @s1 : tensor<8x32x2xf8E8M0FNU> from #kimi.external<"w", 24576, 512>
kimi.weight @s3 : tensor<8x32x2xf8E8M0FNU> from #kimi.external<"w", 25088, 512>
kimi.weight @s2 : tensor<8x64x1xf8E8M0FNU> from #kimi.external<"w", 25600, 512>

// CHECK-LABEL: func @packed
// CHECK: kimi.weight_ref @w1 : tensor<8x32x32xi8>
// CHECK: kimi.dispatch [@moe_64x32_mxfp4_bf16_hidden_few, @moe_64x32_mxfp4_bf16_hidden] guards(
func.func @packed(%x: tensor<?x64xbf16>, %i: tensor<?x3xi64>, %w: tensor<?x3xf32>) -> tensor<?x64xbf16> {
  %w1 = kimi.weight_ref @w1 : tensor<8x32x64xf4E2M1FN>
  %w3 = kimi.weight_ref @w3 : tensor<8x32x64xf4E2M1FN>
  %w2 = kimi.weight_ref @w2 : tensor<8x64x32xf4E2M1FN>
  %s1 = kimi.weight_ref @s1 : tensor<8x32x2xf8E8M0FNU>
  %s3 = kimi.weight_ref @s3 : tensor<8x32x2xf8E8M0FNU>
  %s2 = kimi.weight_ref @s2 : tensor<8x64x1xf8E8M0FNU>
  %y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : tensor<8x32x64xf4E2M1FN>, tensor<8x32x64xf4E2M1FN>, tensor<8x64x32xf4E2M1FN>)
       scales(%s1, %s3, %s2 : tensor<8x32x2xf8E8M0FNU>, tensor<8x32x2xf8E8M0FNU>, tensor<8x64x1xf8E8M0FNU>) swiglu
     : tensor<?x64xbf16>, tensor<?x3xi64>, tensor<?x3xf32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: func @double
// CHECK: kimi.moe
func.func @double(%x: tensor<3x20xf64>, %i: tensor<3x2xi32>, %w: tensor<3x2xf32>, %w1: tensor<8x13x20xf32>, %w3: tensor<8x13x20xf32>, %w2: tensor<8x20x13xf32>) -> tensor<3x20xf64> {
  // expected-remark @below {{is computed by the reference lowering: there is no kernel for tensors that are not f32, bf16 or f16}}
  %y = kimi.moe %x, %i, %w experts(%w1, %w3, %w2 : tensor<8x13x20xf32>, tensor<8x13x20xf32>, tensor<8x20x13xf32>) swiglu
     : tensor<3x20xf64>, tensor<3x2xi32>, tensor<3x2xf32> -> tensor<3x20xf64>
  return %y : tensor<3x20xf64>
}

// CHECK-LABEL: func @argument
// CHECK: kimi.moe
func.func @argument(%x: tensor<3x64xbf16>, %i: tensor<3x2xi32>, %w: tensor<3x2xf32>, %w1: tensor<8x32x64xf4E2M1FN>, %w2: tensor<8x64x32xf4E2M1FN>, %s1: tensor<8x32x2xf8E8M0FNU>, %s2: tensor<8x64x1xf8E8M0FNU>) -> tensor<3x64xbf16> {
  // expected-remark @below {{is computed by the reference lowering: its packed experts are no weights of the module}}
  %y = kimi.moe %x, %i, %w experts(%w1, %w1, %w2 : tensor<8x32x64xf4E2M1FN>, tensor<8x32x64xf4E2M1FN>, tensor<8x64x32xf4E2M1FN>)
       scales(%s1, %s1, %s2 : tensor<8x32x2xf8E8M0FNU>, tensor<8x32x2xf8E8M0FNU>, tensor<8x64x1xf8E8M0FNU>) swiglu
     : tensor<3x64xbf16>, tensor<3x2xi32>, tensor<3x2xf32> -> tensor<3x64xbf16>
  return %y : tensor<3x64xbf16>
}

// CHECK-LABEL: func @scales
// CHECK: kimi.moe
func.func @scales(%x: tensor<3x64xbf16>, %i: tensor<3x2xi32>, %w: tensor<3x2xf32>, %s1: tensor<8x32x2xf8E8M0FNU>, %s2: tensor<8x64x1xf8E8M0FNU>) -> tensor<3x64xbf16> {
  %w1 = kimi.weight_ref @w1 : tensor<8x32x64xf4E2M1FN>
  %w2 = kimi.weight_ref @w2 : tensor<8x64x32xf4E2M1FN>
  // expected-remark @below {{is computed by the reference lowering: its packed experts are no weights of the module}}
  %y = kimi.moe %x, %i, %w experts(%w1, %w1, %w2 : tensor<8x32x64xf4E2M1FN>, tensor<8x32x64xf4E2M1FN>, tensor<8x64x32xf4E2M1FN>)
       scales(%s1, %s1, %s2 : tensor<8x32x2xf8E8M0FNU>, tensor<8x32x2xf8E8M0FNU>, tensor<8x64x1xf8E8M0FNU>) swiglu
     : tensor<3x64xbf16>, tensor<3x2xi32>, tensor<3x2xf32> -> tensor<3x64xbf16>
  return %y : tensor<3x64xbf16>
}
