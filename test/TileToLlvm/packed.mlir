// RUN: kimi-opt %s --tile-to-vector --canonicalize --cse | FileCheck %s

// A group of 16 bytes has one scale; each byte gives two neighbours.
// CHECK-LABEL: tile.kernel @packed
// CHECK: scf.for %[[ROW:.*]] = %c0 to %c3
// CHECK: scf.for %[[GROUP:.*]] = %c0 to %c2
// CHECK: memref.load %{{.*}} : memref<6xi8
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// CHECK: scf.for %{{.*}} = %c0 to %c16
// CHECK: memref.load %{{.*}} : memref<96xi8
// CHECK-COUNT-2: memref.store %{{.*}} : memref<192xbf16
tile.kernel @packed(%c: memref<3x32xi8>, %s: memref<3x2xi8>, %o: memref<3x64xbf16>) {
  tile.dequantize %c, %s into %o : memref<3x32xi8>, memref<3x2xi8>, memref<3x64xbf16>
  tile.return
}
