//===- Passes.td - passes of passes/OnnxToKimi
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNX_TO_KIMI_PASSES
#define KIMI_PASSES_ONNX_TO_KIMI_PASSES

include "mlir/Pass/PassBase.td"

def OnnxInferShapes : Pass<"onnx-infer-shapes", "::mlir::func::FuncOp"> {
  let summary = "Infer the shape of every value of an ONNX graph, symbolic in the named dims";
  let description = [{
    Gives every result of an `onnx.node` the tensor type that follows from the arguments (what the file says of
    intermediate values is not trusted), and with `remarks` says the symbolic shape and the host content of each.

    ```mlir
    func.func @main(%x: tensor<?x8xf32> {onnx.dims = ["n", 8]}) ...
      %0 = onnx.node "Reshape"(%x, %minus1) {...} : (...) -> tensor<*xf32>     // before
      %0 = onnx.node "Reshape"(%x, %minus1) {...} : (...) -> tensor<?xf32>     // after; remark: [8*n]
    ```

    Numeric effect: none.
  }];
  let options = [Option<"remarks", "remarks", "bool", "false", "Say what is known of each result">];
}

#endif // KIMI_PASSES_ONNX_TO_KIMI_PASSES
