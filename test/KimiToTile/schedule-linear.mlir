// RUN: kimi-opt %s --kimi-schedule-linear --canonicalize | FileCheck %s
// RUN: kimi-opt %s --kimi-schedule-linear=panel=32 --canonicalize | FileCheck %s --check-prefix=WIDE
// RUN: kimi-opt %s --kimi-schedule-linear 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: tile.kernel @linear_96x200_rms_addf_m1(
// CHECK: tile.mma {{.*}} panels : memref<1x64xf32
// CHECK: tile.kernel @linear_96x200_rms_addf_m4(
// CHECK: tile.mma {{.*}} panels : memref<4x64xf32
// CHECK: tile.kernel @linear_96x200_rms_addf(
// Rows are normalised four at a time, once for all column tiles of the block. A block that ends within the rows takes
// them twelve at a time.
// CHECK: scf.for {{.*}} step %c4
// CHECK: tile.reduce add {{.*}} : memref<4x96xf32
// CHECK: scf.for
// CHECK: scf.if
// CHECK: tile.mma {{.*}} panels : memref<48x128xf32
// CHECK: else
// CHECK: scf.for {{.*}} step %c12
// CHECK: tile.mma {{.*}} panels : memref<12x128xf32
// CHECK: tile.map
// CHECK: tile.store
// CHECK: tile.kernel @linear_3000x16(
// CHECK: scf.for
// CHECK: tile.mma
// CHECK: tile.kernel @linear_96x200_bf16_addf(
// CHECK: %[[A:.*]] = memref.cast {{.*}} to memref<48x96xf32
// CHECK: tile.load %[[A]] from {{.*}} : memref<50x96xbf16, {{.*}}>, memref<48x96xf32
// CHECK: tile.mma %[[ACC:.*]], %[[A]], {{.*}} panels : memref<48x128xf32{{.*}} memref<48x96xf32{{.*}} memref<8x96x16xbf16
// CHECK: tile.load %[[R:.*]] from {{.*}}, memref<48x128xbf16, #tile.space<shared>>
// CHECK: tile.map ins(%[[ACC]], %[[R]]
// CHECK-NOT: arith.truncf
// CHECK: tile.store %[[ACC]] to {{.*}} : memref<48x128xf32, #tile.space<fragment>>, memref<50x200xbf16
// Rows so long that fewer of them fit.
// CHECK: tile.kernel @linear_5000x16_layer(
// CHECK: tile.mma {{.*}} panels : memref<6x16xf32

// CHECK-LABEL: func.func @dynamic
// CHECK: kimi.pack_weight %arg1 panel 16 : tensor<96x200xf32> -> tensor<13x96x16xf32>
// CHECK: kimi.dispatch [@linear_96x200_rms_addf_m1, @linear_96x200_rms_addf_m4, @linear_96x200_rms_addf] guards(
// CHECK: tensor.expand_shape
// WIDE: kimi.pack_weight %arg1 panel 32 : tensor<96x200xf32> -> tensor<7x96x32xf32>
func.func @dynamic(%x: tensor<?x?x96xf32>, %w: tensor<96x200xf32>, %g: tensor<96xf32>, %r: tensor<?x?x200xf32>) -> tensor<?x?x200xf32> {
  %y = kimi.fused_linear %x, %w norm rms(%g) eps 1.0e-5 extras(%r) maps [affine_map<(b, t, n) -> (b, t, n)>]
      : (tensor<?x?x96xf32>, tensor<96x200xf32>, tensor<96xf32>, tensor<?x?x200xf32>) -> tensor<?x?x200xf32> {
  ^bb0(%acc: f32, %res: f32):
    %0 = arith.addf %acc, %res : f32
    kimi.yield %0 : f32
  }
  return %y : tensor<?x?x200xf32>
}

// A fixed number of rows needs one kernel; long rows are taken in parts.
// CHECK-LABEL: func.func @fixed
// CHECK: kimi.dispatch [@linear_3000x16] grid
func.func @fixed(%x: tensor<50x3000xf32>, %w: tensor<16x3000xf32>) -> tensor<50x16xf32> {
  %y = kimi.fused_linear %x, %w transpose : (tensor<50x3000xf32>, tensor<16x3000xf32>) -> tensor<50x16xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<50x16xf32>
}

// The extents behind a cast are numbers, which the types of x and y do not say: the result is spread over the numbers,
// and the cast comes last.
// CHECK-LABEL: func.func @known_rows
// CHECK: %[[Y:.*]] = kimi.dispatch {{.*}} -> tensor<1x16xf32>
// CHECK: %[[S:.*]] = tensor.expand_shape %[[Y]] {{.*}} : tensor<1x16xf32> into tensor<1x1x16xf32>
// CHECK: tensor.cast %[[S]] : tensor<1x1x16xf32> to tensor<1x?x16xf32>
func.func @known_rows(%x: tensor<1x1x64xf32>, %w: tensor<16x64xf32>) -> tensor<1x?x16xf32> {
  %c = tensor.cast %x : tensor<1x1x64xf32> to tensor<1x?x64xf32>
  %y = kimi.fused_linear %c, %w transpose : (tensor<1x?x64xf32>, tensor<16x64xf32>) -> tensor<1x?x16xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<1x?x16xf32>
}

// Narrow operands are widened by the loads and the product, the store rounds: no tile holds the sum in bf16. The residual
// is read as it is stored.
// CHECK-LABEL: func.func @narrow
// CHECK: kimi.pack_weight %arg1 panel 16 : tensor<96x200xbf16> -> tensor<13x96x16xbf16>
// CHECK: kimi.dispatch [@linear_96x200_bf16_addf] grid
func.func @narrow(%x: tensor<50x96xbf16>, %w: tensor<96x200xbf16>, %r: tensor<50x200xbf16>) -> tensor<50x200xbf16> {
  %y = kimi.fused_linear %x, %w extras(%r) maps [affine_map<(m, n) -> (m, n)>]
      : (tensor<50x96xbf16>, tensor<96x200xbf16>, tensor<50x200xbf16>) -> tensor<50x200xbf16> {
  ^bb0(%acc: f32, %res: bf16):
    %0 = arith.extf %res : bf16 to f32
    %1 = arith.addf %acc, %0 : f32
    %2 = arith.truncf %1 : f32 to bf16
    kimi.yield %2 : bf16
  }
  return %y : tensor<50x200xbf16>
}

// REMARK: remark: is computed by the reference lowering: there is no kernel for operands and results that are not f32, bf16 or f16
// CHECK-LABEL: func.func @double
// CHECK: kimi.fused_linear
func.func @double(%x: tensor<50x96xf64>, %w: tensor<96x200xf32>) -> tensor<50x200xf32> {
  %y = kimi.fused_linear %x, %w : (tensor<50x96xf64>, tensor<96x200xf32>) -> tensor<50x200xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<50x200xf32>
}

// CHECK-LABEL: func.func @long_rows
func.func @long_rows(%x: tensor<50x5000xf32>, %w: tensor<5000x16xf32>, %g: tensor<5000xf32>)
    -> tensor<50x16xf32> {
  %y = kimi.fused_linear %x, %w norm layer(%g) eps 1.0e-5 : (tensor<50x5000xf32>, tensor<5000x16xf32>, tensor<5000xf32>) -> tensor<50x16xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<50x16xf32>
}

// REMARK: remark: is computed by the reference lowering: rows of 50000 elements with 0 more operands do not fit a block
// CHECK-LABEL: func.func @too_long_rows
// CHECK: kimi.fused_linear
func.func @too_long_rows(%x: tensor<50x50000xf32>, %w: tensor<50000x16xf32>, %g: tensor<50000xf32>)
    -> tensor<50x16xf32> {
  %y = kimi.fused_linear %x, %w norm layer(%g) eps 1.0e-5 : (tensor<50x50000xf32>, tensor<50000x16xf32>, tensor<50000xf32>) -> tensor<50x16xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<50x16xf32>
}

// REMARK: remark: is computed by the reference lowering: the weight has a dynamic extent
// CHECK-LABEL: func.func @left_alone
// CHECK: kimi.fused_linear
func.func @left_alone(%x: tensor<4x?xf32>, %w: tensor<?x16xf32>) -> tensor<4x16xf32> {
  %y = kimi.fused_linear %x, %w : (tensor<4x?xf32>, tensor<?x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%acc: f32):
    kimi.yield %acc : f32
  }
  return %y : tensor<4x16xf32>
}
