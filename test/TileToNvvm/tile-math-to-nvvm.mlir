// RUN: kimi-opt %s --tile-math-to-nvvm | FileCheck %s

// CHECK-LABEL: func.func @unit
// CHECK-SAME: (%[[X:.*]]: f32)
func.func @unit(%x: f32) -> (f32, f32, f32, f32, f32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.f32"(%[[X]])
  %a = math.exp2 %x : f32
  // The reduced argument is taken from x itself, so that infinities and NaN arrive; n from x within bounds.
  // CHECK: %[[LOW:.*]] = llvm.intr.maxnum(%[[X]]
  // CHECK: llvm.intr.minnum(%[[LOW]]
  // CHECK: %[[R:.*]] = math.fma %[[X]], %{{.*}}, %{{.*}} : f32
  // CHECK: %[[REST:.*]] = math.fma %[[X]], %{{.*}}, %[[R]] : f32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.f32"(%[[REST]])
  %b = math.exp %x : f32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.f32"
  // CHECK: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
  %c = math.tanh %x : f32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.div.approx.f"
  %d = math.erf %x : f32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"(%[[X]])
  %e = math.rsqrt %x : f32
  return %a, %b, %c, %d, %e : f32, f32, f32, f32, f32
}

// CHECK-LABEL: func.func @approximate
// CHECK: %[[P:.*]] = arith.mulf
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[P]])
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%{{.*}})
// CHECK-NEXT: llvm.inline_asm {{.*}}"tanh.approx.f32 $0, $1;", "=f,f"
// CHECK-NEXT: return
func.func @approximate(%x: f32) -> (f32, f32, f32) {
  %a = math.exp %x fastmath<afn> : f32
  %b = math.exp2 %x fastmath<afn> : f32
  %c = math.tanh %x fastmath<afn> : f32
  return %a, %b, %c : f32, f32, f32
}

// Other types and functions are not its own.
// CHECK-LABEL: func.func @kept
// CHECK: math.exp %{{.*}} : f64
// CHECK: math.exp2 %{{.*}} : vector<2xf32>
// CHECK: math.log
func.func @kept(%x: f64, %y: vector<2xf32>, %z: f32) -> (f64, vector<2xf32>, f32) {
  %a = math.exp %x : f64
  %b = math.exp2 %y : vector<2xf32>
  %c = math.log %z : f32
  return %a, %b, %c : f64, vector<2xf32>, f32
}
