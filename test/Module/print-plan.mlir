// RUN: kimi-opt %s --kimi-generalize-tensor-ops --kimi-materialize-views --kimi-outline-generic --kimi-print-plan -o /dev/null | FileCheck %s

// CHECK: weight 0 'w' [6, 20] F32 'w.bin' at 64, 480 bytes
// CHECK: derived 0 'w.pack_16' [2, 6, 16] F32
// CHECK: state 0 'key' [?, 2, ?, 4] F32 grows 2
// CHECK: longest sequence 128
// CHECK: entry 'decode'
// CHECK: input 'ids' [batch, seq] I64 TokenIds
// CHECK: input 'past_mask' [batch, seq + 1] I64
// CHECK: state 'key'
// CHECK: step seq tokens
// CHECK: check past_mask.dim1 == seq + 1 else 'axis 1 of input 'past_mask' must be seq + 1'
// CHECK: 0: append<{{.*}}> ('rows'[batch, 2, seq, 4 : 8*seq, 4*seq, 4, 1], out 'key'[batch, 2, $capacity, 4 :
// CHECK: 1: map_exp<{{.*}}> ('key'{{.*}}, out arena@
// CHECK: 2: map_exp<{{.*}}> (arena@{{.*}}, out 'y'
// CHECK: 3: map_exp{{.*}} ('w.pack_16'[2, 6, 16 : 96, 16, 1], out 'p'
// CHECK: entry 'init'
// CHECK: 0: pack_16<2> ('w'[6, 20 : 20, 1], out 'w.pack_16'[2, 6, 16 : 96, 16, 1])
module attributes {kimi.max_context = 128 : i64} {
kimi.weight @w : tensor<6x20xf32> from #kimi.external<"w.bin", 64, 480>
func.func @decode(%x: tensor<?x?xi64> {kimi.name = "ids", kimi.dims = ["batch", "seq"], kimi.role = "token_ids"},
                  %m: tensor<?x?xi64> {kimi.name = "past_mask", kimi.dims = ["batch", "seq + 1"]},
                  %rows: tensor<?x2x?x4xf32> {kimi.name = "rows", kimi.dims = ["batch", 2, "seq", 4]},
                  %k: !kimi.state<tensor<?x2x?x4xf32>, 2> {kimi.name = "key"})
    -> (tensor<?x2x?x4xf32> {kimi.name = "y"}, tensor<2x6x16xf32> {kimi.name = "p"})
    attributes {kimi.entry = "decode", kimi.step_dim = array<i64: 0, 1>} {
  %past = kimi.state_length %k : !kimi.state<tensor<?x2x?x4xf32>, 2>
  %a = kimi.cache_append %k, %rows at %past : !kimi.state<tensor<?x2x?x4xf32>, 2>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %w = kimi.weight_ref @w : tensor<6x20xf32>
  %p = kimi.pack_weight %w panel 16 : tensor<6x20xf32> -> tensor<2x6x16xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %d0 = tensor.dim %a, %c0 : tensor<?x2x?x4xf32>
  %d2 = tensor.dim %a, %c2 : tensor<?x2x?x4xf32>
  %e = tensor.empty(%d0, %d2) : tensor<?x2x?x4xf32>
  %s = linalg.exp ins(%a : tensor<?x2x?x4xf32>) outs(%e : tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  %s2 = linalg.exp ins(%s : tensor<?x2x?x4xf32>) outs(%e : tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  %e2 = tensor.empty() : tensor<2x6x16xf32>
  %q = linalg.exp ins(%p : tensor<2x6x16xf32>) outs(%e2 : tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %s2, %q : tensor<?x2x?x4xf32>, tensor<2x6x16xf32>
}
}
