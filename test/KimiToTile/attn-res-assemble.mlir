// What ptxas makes of the kernels of attention residuals at the sizes of K3: nothing spilled, rows read and written 16 bytes a
// lane, several sums meet at one barrier.
// REQUIRES: ptxas
// RUN: kimi-opt %s --kimi-schedule-attn-res="arch=90a" --canonicalize --cse | sed '/func.func/,/^  }/d' | kimi-opt --tile-to-cuda="sm=90" \
// RUN:   | mlir-translate --mlir-to-llvmir | opt -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -S \
// RUN:   | llc -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -mattr=+ptx83 -o %t.ptx
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// RUN: %ptxas -v -arch=sm_90a %t.ptx -o %t.cubin 2>&1 | FileCheck %s --implicit-check-not=warning \
// RUN:     --implicit-check-not="{{[1-9][0-9]*}} bytes spill" --implicit-check-not="{{[1-9][0-9]*}} bytes stack"
// RUN: kimi-opt %s --kimi-schedule-attn-res="arch=80" --canonicalize --cse | sed '/func.func/,/^  }/d' | kimi-opt --tile-to-cuda="sm=80" \
// RUN:   | mlir-translate --mlir-to-llvmir | opt -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_80 -S \
// RUN:   | llc -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_80 -mattr=+ptx83 -o %t.80.ptx
// RUN: %ptxas -v -arch=sm_80 %t.80.ptx -o %t.cubin 2>&1 | FileCheck %s --implicit-check-not=warning \
// RUN:     --implicit-check-not="{{[1-9][0-9]*}} bytes spill" --implicit-check-not="{{[1-9][0-9]*}} bytes stack"

!r = tensor<?x7168xbf16>
!v = tensor<7168xf32>
!l = tensor<?x2xf32>
!a = tensor<?x7168xf32>

// PTX-LABEL: .visible .entry attn_res_7168_n9(
// PTX: .reqntid 448
// PTX: ld.global{{.*}}.v4.b32
// PTX: st.global.v4.b32
// PTX-LABEL: .visible .entry attn_res_bank_7168_n8_m8(
// PTX: ld.global{{.*}}.v4.b32
// Six sums meet at a barrier, and another one stands before their places are written again; the first for the sources.
// PTX-COUNT-28: bar.sync
// PTX-NOT: bar.sync
// PTX-LABEL: .visible .entry attn_res_merge_7168(
// PTX: ld.global{{.*}}.v4.b32
// PTX: bar
// CHECK-DAG: Compiling entry function 'attn_res_7168_n9'
// CHECK-DAG: Compiling entry function 'attn_res_bank_7168_n8_m8'
// CHECK-DAG: Compiling entry function 'attn_res_merge_7168'
func.func @layers(%b0: !r, %b1: !r, %b2: !r, %b3: !r, %b4: !r, %b5: !r, %b6: !r, %b7: !r, %p: !r, %v0: !v, %v1: !v, %v2: !v, %v3: !v, %v4: !v, %v5: !v, %v6: !v, %v7: !v) -> (!r, !r) {
  %d = kimi.attn_res(%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7, %p) score %v0 eps 1.0e-5 : (!r, !r, !r, !r, !r, !r, !r, !r, !r), !v -> !r
  %s:16 = kimi.attn_res_bank(%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7) scores(%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7) eps 1.0e-5 : (!r, !r, !r, !r, !r, !r, !r, !r), (!v, !v, !v, !v, !v, !v, !v, !v)
      -> (!l, !l, !l, !l, !l, !l, !l, !l), (!a, !a, !a, !a, !a, !a, !a, !a)
  %m = kimi.attn_res_merge %d with %s#0, %s#8 score %v0 eps 1.0e-5 : !r, !l, !a, !v -> !r
  %n = kimi.attn_res_merge %m with %s#7, %s#15 score %v7 eps 1.0e-5 : !r, !l, !a, !v -> !r
  return %m, %n : !r, !r
}
