// RUN: kimi-opt %s --tile-expand-math | FileCheck %s
// RUN: kimi-opt %s --tile-expand-math=all=true | FileCheck %s --check-prefix=ALL

// CHECK-LABEL: func.func @expanded
// CHECK-NOT: math.{{exp|log|tanh|erf}}
// CHECK: return
func.func @expanded(%x: vector<8xf32>, %y: f32) -> (vector<8xf32>, f32, f32, f32, f32) {
  %a = math.exp %x : vector<8xf32>
  %b = math.log %y : f32
  %c = math.tanh %y : f32
  %d = math.erf %y : f32
  %e = math.expm1 %y : f32
  return %a, %b, %c, %d, %e : vector<8xf32>, f32, f32, f32, f32
}

// With `all` nothing is left that would need a library; fp32 is widened where only fp64 has the function.
// CHECK-LABEL: func.func @kept
// ALL-LABEL: func.func @kept
// ALL-NOT: math.{{exp|sin|powf}}
// ALL: arith.extf {{.*}} : f32 to f64
// ALL-NOT: math.{{exp|sin|powf}}
// ALL: arith.truncf {{.*}} : f64 to f32
// ALL: return
// CHECK: math.exp
// CHECK: math.sin
func.func @kept(%x: f64, %y: f32) -> (f64, f32) {
  %a = math.exp %x : f64
  %b = math.sin %y : f32
  return %a, %b : f64, f32
}
