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

def OnnxRequireExtents : Pass<"onnx-require-extents", "::mlir::func::FuncOp"> {
  let summary = "Check in each call what nodes take for granted of extents";
  let description = [{
    Where two extents meet in a node, and nothing says that they are equal (they have other names, or none), a
    `kimi.require` at the entry: both sides of a contraction, operands of a broadcast, what a Concat joins. Run ahead of the
    raising passes, which replace the nodes. Extents that follow from elements of inputs are looked at by --onnx-to-kimi.

    ```mlir
    func.func @main(%x: tensor<?x?xf32> {onnx.dims = ["n", "k"]}, %y: tensor<?x8xf32> {onnx.dims = ["m", 8]}) ...
      %0 = onnx.node "MatMul"(%x, %y) {...}
    // gets
      %k = tensor.dim %x, %c1
      %m = tensor.dim %y, %c0
      kimi.require %k equal %m, "node '0': k and m must be equal"
    ```

    Numeric effect: none.
  }];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect"];
}

def OnnxToKimi : Pass<"onnx-to-kimi", "::mlir::ModuleOp"> {
  let summary = "Convert ONNX nodes to the kimi dialect and upstream tensor ops";
  let description = [{
    Every `onnx.node` becomes `kimi`, `linalg`, `tensor`, `arith` and `math` ops, by the operator table
    (docs/onnx-support.md). Shape arithmetic is solved symbolically: every distinct extent is one `index` value computed
    at the entry, no tensor op on a shape remains. An If whose condition follows from constants is replaced by its
    branch. Every node that cannot be converted is reported, all in one run.

    ```mlir
    func.func @main(%x: tensor<?x8xf32> {onnx.name = "x", onnx.dims = ["n", 8]}) -> ... {
      %0 = onnx.node "Relu"(%x) {version = 14 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
    // becomes
    func.func @main(%x: tensor<?x8xf32> {kimi.name = "x", kimi.dims = ["n", 8]}) -> ... {
      %d = tensor.dim %x, %c0 : tensor<?x8xf32>
      %e = tensor.empty(%d) : tensor<?x8xf32>
      %0 = linalg.generic {...} ins(%x) outs(%e) { arith.maximumf }
    ```

    Numeric effect: exact, but for sums in f16 and bf16, which are taken in f32.
  }];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect"];
}

#endif // KIMI_PASSES_ONNX_TO_KIMI_PASSES
