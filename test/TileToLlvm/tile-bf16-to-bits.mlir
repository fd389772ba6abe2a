// RUN: kimi-opt %s --tile-bf16-to-bits | FileCheck %s

// CHECK-LABEL: func.func @move(%{{.*}}: memref<?xi16>, %{{.*}}: i16, %{{.*}}: index)
// CHECK: arith.constant 16256 : i16
// CHECK-NOT: bf16
func.func @move(%x: memref<?xbf16>, %bits: i16, %i: index) {
  %one = arith.constant 1.0 : bf16
  %v = arith.bitcast %bits : i16 to bf16
  memref.store %v, %x[%i] : memref<?xbf16>
  memref.store %one, %x[%i] : memref<?xbf16>
  return
}
