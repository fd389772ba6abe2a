// RUN: kimi-opt %s --kimi-derive-decode | FileCheck %s

// A key-padding mask beside the token ids covers the past as well: its extent is read from the argument.

#id = affine_map<(b, t) -> (b, t)>

// CHECK-LABEL: func.func @prefill
// CHECK-SAME: %arg1: tensor<?x?xi64> {kimi.dims = ["batch", "past + seq"], kimi.name = "attention_mask"
// CHECK: %[[S:.*]] = tensor.dim %arg1
// CHECK: tensor.empty(%{{.*}}, %[[S]]) : tensor<?x?xi1>
// CHECK: output_shape [%{{.*}}, 1, 1, %[[S]]]
// CHECK: kimi.attention {{.*}} mask
// CHECK-LABEL: func.func @decode
// CHECK: %[[S:.*]] = tensor.dim %arg1
// CHECK: output_shape [%{{.*}}, 1, %c1{{.*}}, 8]
// CHECK: tensor.empty(%{{.*}}, %[[S]]) : tensor<?x?xi1>
// CHECK: output_shape [%{{.*}}, 1, 1, %[[S]]]
module {
  kimi.weight @wte : tensor<64x8xf32> from #kimi.external<"w", 0, 2048>
  func.func @main(%ids: tensor<?x?xi64> {kimi.name = "input_ids", kimi.dims = ["batch", "seq"]},
                  %mask: tensor<?x?xi64> {kimi.name = "attention_mask", kimi.dims = ["batch", "seq"]}) -> tensor<?x?x64xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant 0 : i64
    %B = tensor.dim %ids, %c0 : tensor<?x?xi64>
    %T = tensor.dim %ids, %c1 : tensor<?x?xi64>
    %wte = kimi.weight_ref @wte : tensor<64x8xf32>
    %x = kimi.embedding %ids, %wte : tensor<?x?xi64>, tensor<64x8xf32> -> tensor<?x?x8xf32>
    %q = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [%B, 1, %T, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
    %e = tensor.empty(%B, %T) : tensor<?x?xi1>
    %m0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%mask : tensor<?x?xi64>) outs(%e : tensor<?x?xi1>) {
    ^bb0(%a: i64, %o: i1):
      %s = arith.cmpi ne, %a, %z : i64
      linalg.yield %s : i1
    } -> tensor<?x?xi1>
    %m = tensor.expand_shape %m0 [[0], [1, 2, 3]] output_shape [%B, 1, 1, %T] : tensor<?x?xi1> into tensor<?x1x1x?xi1>
    %a = kimi.attention %q, %q, %q mask %m : tensor<?x1x1x?xi1> causal scale 0.5
      : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
    %a1 = tensor.collapse_shape %a [[0, 1], [2], [3]] : tensor<?x1x?x8xf32> into tensor<?x?x8xf32>
    %y = kimi.linear %a1, %wte transpose : tensor<?x?x8xf32>, tensor<64x8xf32> -> tensor<?x?x64xf32>
    return %y : tensor<?x?x64xf32>
  }
}
